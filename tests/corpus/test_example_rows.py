from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from PIL import Image
from sklearn.datasets import load_digits

EXAMPLES = Path(__file__).parents[2] / "examples"
ORDERS = EXAMPLES / "orders"


def test_the_committed_rows_are_what_the_generator_makes() -> None:
    command = [sys.executable, "-B", str(ORDERS / "make_orders.py")]
    made = subprocess.run(command, capture_output=True, check=True, env={"PYTHONIOENCODING": "utf-8"})
    assert made.stdout == (ORDERS / "orders.jsonl").read_bytes()


def test_product_and_city_stand_in_the_email_as_the_order_has_them() -> None:
    rows = [json.loads(line) for line in (ORDERS / "orders.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 600
    assert len({row["customer"] for row in rows}) >= 120
    for row in rows:
        assert row["order"]["product"] in row["email"]
        assert row["order"]["city"] in row["email"]


def test_the_committed_tickets_are_what_their_generator_makes() -> None:
    command = [sys.executable, "-B", str(EXAMPLES / "tickets" / "make_tickets.py")]
    made = subprocess.run(command, capture_output=True, check=True, env={"PYTHONIOENCODING": "utf-8"})
    assert made.stdout == (EXAMPLES / "tickets" / "tickets.jsonl").read_bytes()


def test_tickets_are_of_nine_queues_the_largest_ten_times_the_smallest() -> None:
    rows = [json.loads(line) for line in (EXAMPLES / "tickets" / "tickets.jsonl").read_text("utf-8").splitlines()]
    queues = Counter(row["queue"] for row in rows)
    assert len(queues) == 9
    assert 8 < max(queues.values()) / min(queues.values()) < 20
    assert len({row["text"] for row in rows}) > 0.99 * len(rows)
    # Hard ones: a second problem, of another queue than the ticket's own.
    assert sum("one more thing, less urgent" in row["text"].lower() for row in rows) > 60


def test_the_committed_digits_are_the_images_of_scikit_learn_that_the_base_did_not_learn() -> None:
    sys.path.insert(0, str(EXAMPLES / "digits"))
    try:
        from make_digits import halves, picture
    finally:
        sys.path.pop(0)
    aslant, upright = halves(seed=5)
    assert not set(aslant) & set(upright)
    digits = load_digits()
    rows = pq.read_table(EXAMPLES / "digits" / "digits.parquet").to_pylist()
    assert [row["id"] for row in rows] == [f"d{place:04d}" for place in upright]
    assert [row["digit"] for row in rows] == [int(digits.target[place]) for place in upright]
    for row, place in list(zip(rows, upright, strict=True))[::50]:
        kept = Image.open(BytesIO(row["image"]["bytes"]))
        assert np.array_equal(np.asarray(kept), np.asarray(picture(digits.images[place])))

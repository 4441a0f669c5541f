from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ORDERS = Path(__file__).parents[2] / "examples" / "orders"


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

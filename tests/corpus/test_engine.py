"""The same search on this machine and on a Ray cluster."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

WORDS = [f"word{k}" for k in range(500)]
SEARCH = """
import json, random, sys
from testigo.corpus.searching import Limits, alike
order = random.Random(7)
rows = [" ".join(order.choices([f"word{k}" for k in range(500)], k=60)) for _ in range(300)]
rows += [row.replace(row.split()[30], "otherwise", 1) for row in rows[:40]]
found = alike(rows, Limits(), engine=sys.argv[1])
pairs = sorted([*pair, likeness.kind, likeness.similarity] for pair, likeness in found.items())
import daft
runner = daft.runners.get_or_infer_runner_type()
print(json.dumps({"pairs": pairs, "runner": runner, "torch": "torch" in sys.modules}))
"""


def search(engine: str) -> dict[str, object]:
    environment = {**os.environ, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    done = subprocess.run(
        [sys.executable, "-c", SEARCH, engine], capture_output=True, text=True, check=True, env=environment
    )
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_ray_cluster_finds_what_this_machine_finds() -> None:
    here, there = search("local"), search("ray")
    assert here["pairs"] == there["pairs"]
    assert len(here["pairs"]) == 40  # type: ignore[arg-type]
    assert (here["runner"], there["runner"]) == ("native", "ray")
    assert here["torch"] is False


def test_nothing_reports_its_use() -> None:
    code = "import os; from testigo.corpus.engine import band_keys; band_keys(['a b c d e f'], 5, 7, 'local'); "
    code += (
        "print(os.environ['DO_NOT_TRACK'], os.environ['DAFT_ANALYTICS_ENABLED'], os.environ['RAY_USAGE_STATS_ENABLED'])"
    )
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("DO_NOT", "DAFT", "RAY"))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=plain)
    assert done.stdout.split() == ["1", "0", "0"]


def test_keys_come_in_the_order_of_the_texts() -> None:
    from testigo.corpus.engine import band_keys

    order = random.Random(0)
    texts = [" ".join(order.choices(WORDS, k=20)) for _ in range(50)]
    together = band_keys(texts, 5, 7, "local")
    alone = band_keys(texts[31:32], 5, 7, "local")
    assert together.column_names == ["place", *(f"key{k}" for k in range(18))]
    assert together.slice(31, 1).to_pylist()[0] | {"place": 0} == alone.to_pylist()[0]

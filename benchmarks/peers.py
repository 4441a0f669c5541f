"""Processes that wait for a word: contestants of a benchmark take turns, so that a noisy machine is as noisy for all.

A contestant is a script that reads one word a line from its standard input and answers each with one line of JSON. Only
the one that was asked works; the others sleep.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: How contestants run: offline, without a word to anybody, threads that wait as they do in Testigo's workers.
ENVIRONMENT = {
    "GOMP_SPINCOUNT": "10000",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


class Contestant:
    """One process of a script, with the words that say who it is."""

    def __init__(self, script: str, *words: str, threads: int = 2) -> None:
        self.name = " ".join(words)
        source = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
        environment = os.environ | ENVIRONMENT | {"PYTHONPATH": source, "OMP_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(
            [sys.executable, script, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if not os.environ.get("BENCH_LOUD") else None,
            text=True,
            env=environment,
        )

    def ask(self, word: str) -> dict[str, Any]:
        """One answer; a contestant that died says why."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(word + "\n")
            self._process.stdin.flush()
            for line in self._process.stdout:
                if line.startswith("{"):
                    return json.loads(line)
        except BrokenPipeError:
            pass
        _, said = self._process.communicate()
        raise RuntimeError(f"{self.name} died: {(said or '')[-2000:]}")

    def end(self) -> None:
        """No more words: it leaves by itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


def answer(**values: Any) -> None:
    """A contestant's line."""
    print(json.dumps(values), flush=True)


def peak_resident_bytes() -> int:
    """The most main memory that this process ever held, as the kernel counts it."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def middle_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """The median, and the median distance from it."""
    middle = statistics.median(values)
    return middle, statistics.median(abs(value - middle) for value in values)


def split_file(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """The words of a command without `--json FILE`, and that file."""
    if "--json" not in words:
        return list(words), None
    at = list(words).index("--json")
    return [*words[:at], *words[at + 2 :]], Path(words[at + 1])


def keep(found: dict[str, Any], file: Path | None) -> None:
    """What was measured, as JSON, with what the machine did beside it."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found | {"load": os.getloadavg()[1]}, indent=1))

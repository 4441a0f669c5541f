"""A pilot's bench on a tiny model in this process, and its verdict."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import piloted
import pytest

if TYPE_CHECKING:
    from tiny import Tiny

    from testigo.pilot.bench import Bench
    from testigo.rules import Verdict

MakeBench = Callable[..., "Bench"]
RunPilot = Callable[..., "Verdict"]


@pytest.fixture
def bench(tiny: Tiny, tmp_path: Path) -> MakeBench:
    """A campaign's bench, before any phase."""
    from testigo.pilot import worker
    from testigo.training.prepare import prepare

    def make(changes: Mapping[str, Any] | None = None, after_loading: Callable[[Any], object] | None = None) -> Bench:
        spec = tiny.spec(changes)
        prepared = prepare(spec)
        if after_loading:
            after_loading(prepared.model)
        return worker._bench(spec, prepared, tmp_path / "pilot")

    return make


@pytest.fixture
def found() -> Callable[..., dict[str, Any]]:
    """The findings over some evidence that stop or warn, by code."""
    from testigo.pilot.verdict import judge_evidence

    def judge(bench: Bench, *evidence: object) -> dict[str, Any]:
        verdict = judge_evidence(evidence, bench.settings)
        return {finding.code: finding for finding in verdict.findings if finding.severity != "note"}

    return judge


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a pilot would start as processes is called instead, so that it takes a second."""
    piloted.in_this_process(monkeypatch)


@pytest.fixture
def pilot(tiny: Tiny, tmp_path: Path, one_process: None) -> RunPilot:
    """A whole pilot in this process."""

    def run(changes: Mapping[str, Any] | None = None) -> Verdict:
        return piloted.pilot(tiny, tmp_path / "pilot", changes)

    return run


@pytest.fixture
def phases(tmp_path: Path) -> Callable[[], dict[str, dict[str, Any]]]:
    """The phase table of the pilot that ran, by phase."""

    def read() -> dict[str, dict[str, Any]]:
        document = json.loads((tmp_path / "pilot" / "phases.json").read_text(encoding="utf-8"))
        return {row["phase"]: row for row in document["phases"]}

    return read

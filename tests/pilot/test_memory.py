"""The pilot holds its measured memory against what sizing predicts for the same inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testigo.errors import ModelError
from testigo.gates.predicted import measured_in
from testigo.pilot import memory

if TYPE_CHECKING:
    from testigo.rules import Verdict


def test_a_pilot_keeps_predicted_and_measured_of_its_worst_cases(pilot: Callable[..., Verdict], tmp_path: Path) -> None:
    pilot()
    found = measured_in(tmp_path, only="pilot")
    assert found is not None
    assert [phase.phase for phase in found.phases] == ["backward", "validation"]
    assert all(phase.predicted_bytes > 0 for phase in found.phases)
    assert found.counter == "resident"
    assert found.to_json()["ratio"] == round(found.phases[0].ratio, 3) or found.to_json()["ratio"] == round(
        found.phases[1].ratio, 3
    )


def test_a_base_that_cannot_be_followed_does_not_end_the_pilot(
    pilot: Callable[..., Verdict], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise ModelError(expected="values", found="it looks at values", where="here", action="measure")

    monkeypatch.setattr(memory, "rehearse", refuse)
    pilot()
    found = measured_in(tmp_path, only="pilot")
    assert found is not None
    assert found.phases == ()
    assert found.why_not == "it looks at values"

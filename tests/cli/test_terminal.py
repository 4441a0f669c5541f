"""Progress in a plain log: nothing for short steps but their end, a line a minute for long ones."""

from __future__ import annotations

import pytest

from testigo.cli import terminal
from testigo.cli.terminal import Terminal


def test_a_short_step_tells_its_end_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Terminal() as shown:
        for done in (0, 4, 12, 12):
            shown.progress("evaluate baseline", done, 12)
    assert capsys.readouterr().err == "evaluate baseline: 12/12 (0 s)\n"


def test_a_long_step_tells_a_line_now_and_then_with_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 100_000, 20))
    monkeypatch.setattr(terminal.time, "monotonic", lambda: float(next(clock)))
    with Terminal() as shown:
        for done in range(1, 11):
            shown.progress("train control", done, 10, "loss 1.000")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) < 10
    assert all(line.startswith("train control: ") and "loss 1.000" in line for line in lines)
    assert "left" in lines[0]
    assert lines[-1].startswith("train control: 10/10, loss 1.000 (")


def test_two_steps_are_told_apart_and_said_words_stay(capsys: pytest.CaptureFixture[str]) -> None:
    with Terminal() as shown:
        shown.progress("train a", 3, 3)
        shown.say("run a: completed (3 updates)")
        shown.progress("train b", 3, 3)
    words = [line.split(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert words == ["train a", "run a", "train b"]

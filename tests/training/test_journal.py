"""What a run writes, and what a resume takes back."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testigo.disk import read_lines
from testigo.rules import Finding
from testigo.training.journal import Journal


def written(folder: Path, n: int = 5) -> Journal:
    journal = Journal(folder)
    for update in range(1, n + 1):
        journal.step({"update": update, "loss": update / 3, "rows": ["ä\u2028", "b\x85"]})
        journal.step({"update": update, "validation_loss": 1.0})
        journal.finding(Finding("T104", "loss-spike", "warn", "training", "seen", "do"), update)
    return journal


def test_lines_come_back_as_they_were_whatever_signs_are_in_them(tmp_path: Path) -> None:
    lines = written(tmp_path).steps()
    assert [line["update"] for line in lines] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert lines[0] == {"update": 1, "loss": 1 / 3, "rows": ["ä\u2028", "b\x85"]}


def test_a_loss_that_is_no_number_is_kept_as_the_word(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.step({"update": 1, "loss": math.nan, "row_losses": {"a": math.inf, "b": 0.5}})
    text = (tmp_path / "steps.jsonl").read_text()
    line = json.loads(text, parse_constant=pytest.fail)
    assert math.isnan(float(line["loss"]))
    assert float(line["row_losses"]["a"]) == math.inf
    assert line["row_losses"]["b"] == 0.5


def test_what_was_after_the_checkpoint_goes_aside_and_is_not_lost(tmp_path: Path) -> None:
    journal = written(tmp_path)
    assert len(journal.cut_after(3, attempt=2)) == 4 + 2
    assert {line["update"] for line in journal.steps()} == {1, 2, 3}
    aside = read_lines(tmp_path / "steps.attempt-2.jsonl")
    assert [line["update"] for line in aside] == [4, 4, 5, 5]
    assert [line["update"] for line in read_lines(tmp_path / "findings.attempt-2.jsonl")] == [4, 5]
    assert journal.cut_after(3, attempt=3) == []
    assert not (tmp_path / "steps.attempt-3.jsonl").exists()


@given(share=st.floats(0, 1))
def test_a_file_cut_anywhere_by_a_kill_gives_its_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, share: float
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    journal = written(folder, 2)
    path = folder / "steps.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[: round(share * len(content))])
    n_whole = content[: round(share * len(content))].count(b"\n")
    assert n_whole <= len(journal.steps()) <= n_whole + 1
    journal.cut_after(2, attempt=1)
    journal.step({"update": 3, "loss": 1.0})
    assert journal.steps()[-1] == {"update": 3, "loss": 1.0}

"""What a report tells over time: generations at the checkpoints, planned and real seconds, memory by phase."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testigo.dossier import read_record
from testigo.dossier.generations import generations_from, points_from
from testigo.dossier.memory import memory_picture
from testigo.dossier.record import PlannedTime, Record
from testigo.dossier.report import html
from testigo.dossier.times import after_the_pilot, times_picture


def samples(folder: Path, updates: list[int]) -> None:
    lines = [
        {
            "update": update,
            "row": row,
            "output": f"{row} at {update} <b>",
            "target": f"{row} at 9",
            "scores": {"exact_match": float(update >= 2 and row == "o1"), "macro_f1": None},
        }
        for update in updates
        for row in ("o1", "o2")
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines) + '{"update": 3, "ro'
    (folder / "samples.jsonl").write_text(text, encoding="utf-8")


def test_the_first_the_last_and_some_between_are_told_of_each_prompt(tmp_path: Path) -> None:
    samples(tmp_path, list(range(21)))
    one, other = generations_from(tmp_path, "exact_match")
    assert (one.row, other.row, one.target) == ("o1", "o2", "o1 at 9")
    assert [output.update for output in one.outputs] == [0, 4, 8, 12, 16, 20]
    assert [output.score for output in one.outputs] == [0, 1, 1, 1, 1, 1]


def test_the_score_of_the_fixed_prompts_is_their_mean_and_a_resumed_run_counts_once(tmp_path: Path) -> None:
    samples(tmp_path, [0, 2, 2, 4])
    assert [(point.update, point.score) for point in points_from(tmp_path, "exact_match")] == [
        (0, 0),
        (2, 0.5),
        (4, 0.5),
    ]
    assert points_from(tmp_path, "macro_f1") == ()
    assert points_from(tmp_path / "none", "exact_match") == ()


def test_a_report_shows_them_and_escapes_what_the_model_wrote(story: Any) -> None:
    record = read_record(story.workspace.dossier)
    assert record.comparison is not None
    samples(story.workspace.run(record.comparison.run), [0, 5, 10])
    again = read_record(story.write())
    assert [output.update for output in again.generations[0].outputs] == [0, 5, 10]
    page = html(again)
    assert "Generations over the checkpoints" in page
    assert "Fixed prompts" in page
    assert "at 10 <b>" not in page


@pytest.fixture
def record(told: Any) -> Record:
    return read_record(told.workspace.dossier)


def test_planned_and_real_time_stand_beside_each_other(record: Record) -> None:
    done = {time.piece: time.real_seconds for time in record.times if time.real_seconds is not None}
    assert "control, seed 0" in done
    assert "evaluation: control, seed 0" in done
    picture = times_picture(record.times)
    assert picture is not None
    assert len(picture.rows) == len(done)
    assert "Time: planned and real" in html(record)
    assert after_the_pilot([PlannedTime("pilot", 1, 2), PlannedTime("a", 3, 4), PlannedTime("b", 5, None)]) == (3, 4)
    assert times_picture([PlannedTime("a", 1, None)]) is None


def test_memory_is_drawn_by_phase_and_on_a_gpu_allocated_and_reserved_stand_apart(record: Record) -> None:
    assert record.gates is not None
    picture = memory_picture(record.gates.phases)
    assert picture is not None
    assert picture.head == ("Phase", "Resident memory, peak")
    gib = 1 << 30
    on_gpu = [replace(p, allocated_peak_bytes=3 * gib, reserved_peak_bytes=4 * gib) for p in record.gates.phases]
    picture = memory_picture(on_gpu)
    assert picture is not None
    assert picture.rows[0][1:] == ("3.00 GiB", "4.00 GiB")
    assert memory_picture([replace(p, resident_peak_bytes=None) for p in record.gates.phases]) is None


def test_a_head_that_was_never_trained_is_among_the_limits(record: Record) -> None:
    assert "class head that was ever trained" not in html(record)
    first = replace(record.predictions[0], settings={"head": "new, as seed 0 draws it"})
    assert first.of == "baseline"
    page = html(replace(record, predictions=(first, *record.predictions[1:])))
    assert "The base came without a class head that was ever trained" in page

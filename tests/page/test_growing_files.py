"""Files that grow, are cut and are replaced while they are read; curves that keep their peaks."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from testigo.disk import write_atomically
from testigo.page.curves import pinned
from testigo.page.one_run import plain
from testigo.page.reading import Growing, tail_of
from testigo.page.standing import Found
from testigo.page.steps import Steps
from testigo.page.thinning import thinned
from testigo.rules import Finding


def line(update: int, **more: Any) -> str:
    return json.dumps({"update": update, "loss": float(update), "seconds": 1.0, **more}) + "\n"


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=8))
@settings(max_examples=60)
def test_a_file_that_grows_by_pieces_gives_each_whole_line_once(
    tmp_path_factory: Any, content: bytes, cuts: list[int]
) -> None:
    path = tmp_path_factory.mktemp("growing") / "file"
    file, found = Growing(path), []
    places = sorted({min(cut, len(content)) for cut in cuts} | {0, len(content)})
    for start, stop in itertools.pairwise(places):
        with path.open("ab") as out:
            out.write(content[start:stop])
        anew, lines = file.new()
        assert not anew
        found += lines
    assert [text for _, text in found] == content.split(b"\n")[:-1]
    assert all(content[at : at + len(text)] == text for at, text in found)


def test_a_step_is_there_as_soon_as_its_line_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    steps = Steps(path)
    steps.refresh()
    assert steps.last_update == 0
    path.write_text(line(1) + line(2)[:-9])
    steps.refresh()
    assert steps.updates == [1]
    path.write_text(line(1) + line(2) + '{"update": 2, "validation_loss": 0.5, "seconds": 3.0}\n')
    steps.refresh()
    assert (steps.updates, steps.best_validation, steps.seconds) == ([1, 2], steps.validations[0], 5.0)


def test_a_resume_that_cuts_the_file_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text("".join(map(line, range(1, 21))))
    steps = Steps(path)
    steps.refresh()
    write_atomically(path, "".join(map(line, range(1, 11))))
    with path.open("a") as file:
        file.writelines(line(update, loss=0.25) for update in range(11, 31))
    steps.refresh()
    assert steps.updates == list(range(1, 31))
    assert steps.columns["loss"][9:12] == [10.0, 0.25, 0.25]
    assert steps.line(11) == json.loads(line(11, loss=0.25))
    assert steps.line(31) is None
    path.unlink()
    steps.refresh()
    assert (steps.updates, steps.validations) == ([], [])


def test_an_update_that_was_done_again_counts_once_and_as_it_was_last(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text(line(1) + line(2) + line(3) + line(2, loss=9.0))
    steps = Steps(path)
    steps.refresh()
    assert (steps.updates, steps.columns["loss"]) == ([1, 2], [1.0, 9.0])


def test_lines_that_are_no_steps_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_bytes(b"\n[]\nnull\n\xff\xfe\n{}\n" + line(1, loss="NaN", seconds=True).encode())
    steps = Steps(path)
    steps.refresh()
    assert (steps.updates, steps.columns["loss"], steps.columns["seconds"]) == ([1], [None], [None])


@given(st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=1, max_size=3000), st.integers(20, 200))
@settings(max_examples=60)
def test_a_thinned_curve_keeps_its_peaks_its_gaps_and_its_ends(values: list[float | None], most: int) -> None:
    updates = list(range(1, len(values) + 1))
    few, kept = thinned(updates, values, most)
    assert len(few) <= 1.5 * most + 6
    assert (few[0], few[-1]) == (1, len(values))
    assert [values[update - 1] for update in few] == kept
    known, left = [v for v in values if v is not None], [v for v in kept if v is not None]
    if known:
        assert (min(left), max(left)) == (min(known), max(known))
    assert (None in kept) == (None in values)


def test_a_single_spike_in_a_long_curve_is_still_drawn() -> None:
    values: list[float | None] = [math.sin(i / 50) for i in range(100_000)]
    values[77_777] = 40.0
    updates, kept = thinned(range(1, 100_001), values)
    assert 77_778 in updates
    assert max(value for value in kept if value is not None) == 40.0


def test_findings_are_pinned_where_they_were_made_and_the_gravest_names_a_shared_place() -> None:
    def found(code: str, severity: Any, update: int | None) -> Found:
        return Found(Finding(code, "name", severity, "watch", "", ""), "run", update, False)

    specification = {"layer": [{"mark": "line"}]}
    made = pinned(specification, [(5, found("T101", "stop", 5)), (5, found("T106", "warn", 5))])
    pins = made["layer"][1]["data"]["values"]
    assert [(pin["update"], pin["code"]) for pin in pins] == [(5, "T101")]
    assert specification == {"layer": [{"mark": "line"}]}
    assert pinned(specification, []) is specification


def test_the_end_of_a_log_begins_with_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("first line\nsecond line\nthird\n")
    assert tail_of(path, 15) == "third\n"
    assert tail_of(path, 1000) == path.read_text()
    assert tail_of(tmp_path / "none", 10) == ""


def test_a_log_loses_its_terminal_codes_and_keeps_the_last_state_of_a_line() -> None:
    assert plain("a\x1b[1;31mb\x1b[0m\x07\n 1%\r 50%\r100%\r\nend\n") == "ab\n100%\nend"

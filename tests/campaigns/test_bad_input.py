"""What a user may get wrong: each is told in four parts with its place, exit code 2, and nothing that was is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testigo.ledger import kinds

if TYPE_CHECKING:
    from whole import Place

Mutation = Callable[["Place"], None]


def _rows(place: Place) -> list[str]:
    return (place.folder / "orders.jsonl").read_text(encoding="utf-8").splitlines()


def _write(place: Place, rows: list[str]) -> None:
    (place.folder / "orders.jsonl").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def _edited(place: Place, number: int, **fields: Any) -> None:
    rows = _rows(place)
    rows[number - 1] = json.dumps({**json.loads(rows[number - 1]), **fields})
    _write(place, rows)


def _unknown_key(place: Place) -> None:
    place.change({"training.learning_rat": 1e-3})


def _missing_file(place: Place) -> None:
    (place.folder / "orders.jsonl").unlink()


def _empty_file(place: Place) -> None:
    _write(place, [])


def _broken_json(place: Place) -> None:
    rows = _rows(place)
    _write(place, [*rows[:16], rows[16][:-5], *rows[17:]])


def _duplicate_ids(place: Place) -> None:
    _edited(place, 20, id="r03")


def _missing_field(place: Place) -> None:
    _edited(place, 9, order=None)


def _violated_schema(place: Place) -> None:
    schema = {"type": "object", "properties": {"thing": {"type": "string"}}, "required": ["thing"]}
    (place.folder / "order.schema.json").write_text(json.dumps(schema))
    _write(place, [json.dumps({**json.loads(row), "order": {"thing": "pens"}}) for row in _rows(place)])
    _edited(place, 31, order={"thing": 5})
    place.change({"task.kind": "extraction", "task.schema": "order.schema.json"})


def _long_row(place: Place) -> None:
    _edited(place, 12, email="please " * 300)


def _no_base(place: Place) -> None:
    place.change({"model.base": "path:nowhere"})


def _no_weights(place: Place) -> None:
    (place.folder / "llama" / "model.safetensors").unlink()


def _unknown_target(place: Place) -> None:
    place.change({"model.adapter.targets": ["q_prj"]})


CASES: dict[str, tuple[Mutation, str, str]] = {
    "an unknown key": (_unknown_key, "learning_rat", "campaign.yaml:"),
    "a missing file": (_missing_file, "no such file", "orders.jsonl"),
    "an empty file": (_empty_file, '"found": "none"', "orders.jsonl"),
    "broken JSON in line 17": (_broken_json, "", "orders.jsonl:17"),
    "duplicate ids": (_duplicate_ids, "r03", "orders.jsonl:20"),
    "a missing field": (_missing_field, "order", "orders.jsonl:9"),
    "a target against the schema": (_violated_schema, "5", "orders.jsonl:31"),
    "a row longer than the maximum": (_long_row, "r11", "encoding"),
    "a base that is not there": (_no_base, "no such folder", "nowhere"),
    "a base without weights": (_no_weights, "no weights", "llama"),
}


@pytest.fixture
def fresh(tmp_path: Path) -> Place:
    import whole

    return whole.make(tmp_path / "fresh")


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize("name", CASES)
def test_it_is_told_with_its_place_before_anything_starts(
    fresh: Place, name: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate, found, where = CASES[name]
    mutate(fresh)
    monkeypatch.setattr(subprocess, "Popen", _no_process)
    answer = fresh.testigo(command, "--json")
    assert answer.code == 2, answer
    assert "Traceback" not in answer.err
    text = json.dumps(answer.problem, ensure_ascii=False)
    assert found in text
    assert where in text


@pytest.mark.parametrize("name", CASES)
def test_nothing_that_was_done_is_lost_by_it(place: Place, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = place.events()
    CASES[name][0](place)
    monkeypatch.setattr(subprocess, "Popen", _no_process)
    assert place.testigo("run", "--json").code == 2
    assert place.events(kinds.COMPARED) == tuple(event for event in before if event.kind == kinds.COMPARED)
    assert place.events()[: len(before)] == before
    assert place.testigo("ledger verify", "--json").document["ok"] is True


def test_without_json_the_four_parts_are_prose_on_standard_error(fresh: Place) -> None:
    _broken_json(fresh)
    answer = fresh.testigo("check")
    assert (answer.code, answer.out) == (2, "")
    assert [line.split(":")[0].strip() for line in answer.err.splitlines()][-3:] == ["expected", "found", "do"]


def test_a_workspace_of_another_campaign_is_refused(place: Place) -> None:
    before = place.events()
    place.change({"campaign": "another"})
    refused = place.testigo("run", "--json")
    assert refused.code == 2
    assert "`tiny`" in refused.problem["found"]
    assert place.events() == before


def test_a_folder_of_other_files_is_no_workspace(fresh: Place) -> None:
    fresh.workspace.mkdir()
    (fresh.workspace / "thesis.tex").write_text("years of work")
    refused = fresh.testigo("run", "--json")
    assert (refused.code, refused.problem["found"]) == (2, "a folder with other files")
    assert [path.name for path in fresh.workspace.iterdir()] == ["thesis.tex"]


def test_a_second_run_at_the_same_time_is_told_and_changes_nothing(place: Place) -> None:
    before = place.events()
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(place.workspace / "lock")], stdout=subprocess.PIPE, stdin=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        refused = place.testigo("run", "--json")
    finally:
        holder.communicate(b"")
    assert refused.code == 2
    assert "testigo status" in refused.problem["action"]
    assert place.events() == before
    assert place.testigo("run", "--json").code == 0, "and the next one runs"


_HOLD = """
import fcntl, sys
with open(sys.argv[1], "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


def _no_process(*arguments: Any, **options: Any) -> None:
    raise AssertionError(f"a process was started: {arguments}")

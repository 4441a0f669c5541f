"""Encoded rows on disk come back as they were, and are made anew when anything changes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tiny import made_row

from testigo.encoding import EncodedRow, StoredRows, lengths_of, stored
from testigo.training import prepare

if TYPE_CHECKING:
    from tiny import Tiny

ROWS = (
    made_row("a", (1, 2, 3), (4, 5)),
    EncodedRow("über-2", "mehr", (1, 2, 70000, 4, 5, 6), 2, ((2, 3), (5, 6))),
    EncodedRow("", "", (7,), 0),
)


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    rows = stored(tmp_path, ["key"], lambda: ROWS)
    assert tuple(rows) == ROWS
    assert rows[-1] == ROWS[-1]
    assert rows[1:] == ROWS[1:]
    assert lengths_of(rows).tolist() == [5, 6, 1] == lengths_of(ROWS).tolist()
    with pytest.raises(IndexError):
        rows[3]


def test_rows_are_made_once_for_a_key(tmp_path: Path) -> None:
    made: list[int] = []

    def make() -> tuple[EncodedRow, ...]:
        made.append(1)
        return ROWS

    for key in (["one", 1], ["one", 1], ["one", 2]):
        assert tuple(stored(tmp_path, key, make)) == ROWS
    assert len(made) == 2
    assert len(list(tmp_path.iterdir())) == 2  # nothing half-made is left


def test_what_cannot_be_encoded_leaves_nothing(tmp_path: Path) -> None:
    def refuse() -> Any:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        stored(tmp_path, ["key"], refuse)
    assert list(tmp_path.iterdir()) == []


def test_a_session_reads_its_rows_from_disk_and_they_follow_the_settings(tiny: Tiny, tmp_path: Path) -> None:
    first, second = tiny.session(tmp_path / "1"), tiny.session(tmp_path / "2")
    assert isinstance(first.rows, StoredRows)
    assert first.rows.folder == second.rows.folder
    other = tiny.session(tmp_path / "3", {"task.system": "Say something else."})
    assert other.rows.folder != first.rows.folder
    assert other.rows[0].ids != first.rows[0].ids


def test_rows_whose_ids_would_differ_get_a_store_of_their_own(tiny: Tiny, tmp_path: Path, monkeypatch: Any) -> None:
    first = tiny.session(tmp_path / "1")
    encode = prepare.Encoder.encode
    monkeypatch.setattr(
        prepare.Encoder, "encode", lambda self, row: EncodedRow(row.id, row.category, (*encode(self, row).ids, 9), 3)
    )
    assert tiny.session(tmp_path / "2").rows[0].ids[-1] == 9
    assert first.rows[0].ids[-1] != 9

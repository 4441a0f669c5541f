"""Rows of unknown origin: nothing in them is run, unpacked, or chooses which other files are read."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from testigo.campaign import load, new_campaign
from testigo.corpus.checking import check_rows
from testigo.corpus.cleaning import clean
from testigo.corpus.reading import Reading, read_into
from testigo.errors import CampaignError, DataError


class Planted:
    """Writes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


def read(folder: Path, source: str, image_field: str | None = None) -> Reading:
    reading = Reading()
    read_into(reading, source, folder, "source", image_field)
    return reading


@pytest.mark.parametrize("name", ["rows.pkl", "rows.pickle", "rows.pt", "rows.bin", "rows.ckpt", "rows.npz"])
def test_a_pickle_is_refused_with_the_reason_and_not_run(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(pickle.dumps(Planted(tmp_path / "ran")))
    with pytest.raises(DataError, match="it can run code when it is read"):
        read(tmp_path, name)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["rows.zip", "rows.tar.gz", "rows.jsonl.gz", "rows.7z"])
def test_an_archive_is_refused_with_the_reason(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04")
    with pytest.raises(DataError, match="unpack it where you can see"):
        read(tmp_path, name)


def test_a_campaign_that_names_a_pickle_or_an_archive_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = new_campaign(tmp_path)
    for name, words in (("rows.pkl", "can run code"), ("rows.zip", "unpack it")):
        (tmp_path / name).write_bytes(b"x")
        text = "\n".join(f"  source: {name}" if line.startswith("  source:") else line
                         for line in path.read_text().splitlines())  # fmt: skip
        (tmp_path / "other.yaml").write_text(text)
        with pytest.raises(CampaignError, match=words):
            load(tmp_path / "other.yaml")


def test_a_pickled_column_is_refused_by_row_and_never_loaded(tmp_path: Path) -> None:
    column = [pickle.dumps(Planted(tmp_path / "ran")), b"plain"]
    pq.write_table(pa.table({"id": ["a", "b"], "text": column, "answer": ["x", "y"]}), tmp_path / "rows.parquet")
    rows = clean(read(tmp_path, "rows.parquet").rows, (), ("text", "answer")).rows
    options: dict[str, Any] = {"id_field": "id", "group_field": None, "category_field": None, "keys": {}}
    _, problems = check_rows(rows, needed=("text", "answer"), check=lambda row: [], **options)
    assert len(problems) == 2
    assert all("bytes" in problem.found and problem.where and problem.action for problem in problems)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "name", ["../secret.png", "pictures/../../secret.png", "/etc/hostname", "pictures\\..\\..\\secret.png", ".."]
)
def test_the_image_of_a_row_lies_below_the_rows(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "secret.png").write_bytes(b"secret")
    lines = [{"id": "a", "image": name}, {"id": "b", "image": {"bytes": None, "path": name}}]
    (folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    reading = read(folder, "rows.jsonl", "image")
    assert reading.rows == []
    assert [problem.found.endswith("which lies elsewhere") for problem in reading.problems] == [True, True]
    described = tmp_path / "described"
    described.mkdir()
    (described / "one.png").write_bytes(b"x")
    (described / "metadata.jsonl").write_text(json.dumps({"file_name": name, "label": "x"}) + "\n")
    assert read(described, ".").rows == []


def test_a_pipe_or_a_device_in_the_place_of_an_image_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "one.png")
    (tmp_path / "rows.jsonl").write_text(json.dumps({"id": "a", "image": "one.png"}) + "\n")
    (problem,) = read(tmp_path, "rows.jsonl", "image").problems
    assert "no plain file" in problem.found

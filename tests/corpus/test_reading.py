from __future__ import annotations

import datetime
import decimal
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testigo.corpus.hub import read_hub, rows_of
from testigo.corpus.reading import Reading, read_into
from testigo.errors import DataError


def read(path: Path) -> Reading:
    reading = Reading()
    read_into(reading, path.name, path.parent, "source")
    return reading


def found_in(reading: Reading) -> list[tuple[str, str]]:
    return [(problem.where, problem.found) for problem in reading.problems]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte-order mark"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_jsonl_and_csv_read_the_same_with_any_byte_order_mark_and_line_end(
    tmp_path: Path, mark: bytes, end: bytes
) -> None:
    (tmp_path / "a.jsonl").write_bytes(
        mark + end.join([b'{"id": "1", "t": "\xc3\xb1"}', b'{"id": "2", "t": "b"}', b""])
    )
    (tmp_path / "a.csv").write_bytes(mark + end.join([b"id,t", b"1,\xc3\xb1", b"2,b", b""]))
    expected = [{"id": "1", "t": "ñ"}, {"id": "2", "t": "b"}]
    for name in ("a.jsonl", "a.csv"):
        reading = read(tmp_path / name)
        assert [row.fields for row in reading.rows] == expected
        assert reading.problems == []
        assert [(source["file"], source["rows"]) for source in reading.sources] == [(name, 2)]


def test_a_line_separator_inside_a_text_does_not_end_the_row(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"t": "one\u2028two\u0085three"}\n', encoding="utf-8")
    assert read(tmp_path / "a.jsonl").rows[0].fields == {"t": "one\u2028two\u0085three"}


def test_a_csv_cell_may_hold_line_ends_and_lines_are_counted_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,t\n1,"two\nlines"\n2,x,y\n')
    reading = read(tmp_path / "a.csv")
    assert reading.rows[0].fields == {"id": "1", "t": "two\nlines"}
    assert found_in(reading) == [("a.csv:4", "3")]


def test_a_csv_cell_may_be_a_whole_document(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"id,t\n1,{'x' * 200_000}\n")
    assert len(read(tmp_path / "a.csv").rows[0].fields["t"]) == 200_000


def test_parquet_rows_become_plain_values(tmp_path: Path) -> None:
    day = datetime.date(2026, 5, 1)
    table = {
        "id": [1, 2],
        "day": [day, None],
        "price": [decimal.Decimal("1.50"), None],
        "x": [float("nan"), 0.5],
        "order": [{"n": [1]}, {"n": []}],
    }
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    one, two = (row.fields for row in read(tmp_path / "a.parquet").rows)
    assert one == {"id": 1, "day": "2026-05-01", "price": "1.50", "x": None, "order": {"n": [1]}}
    assert two == {"id": 2, "day": None, "price": None, "x": 0.5, "order": {"n": []}}


def test_a_folder_is_read_file_by_file_and_others_are_named(tmp_path: Path) -> None:
    (tmp_path / "rows" / "deep").mkdir(parents=True)
    (tmp_path / "rows" / "b.jsonl").write_text('{"id": "2"}\n')
    (tmp_path / "rows" / "deep" / "a.csv").write_text("id\n3\n")
    (tmp_path / "rows" / "README.txt").write_text("no rows")
    reading = read(tmp_path / "rows")
    assert [(row.fields["id"], row.where) for row in reading.rows] == [
        ("2", "rows/b.jsonl:1"),
        ("3", "rows/deep/a.csv:2"),
    ]
    assert reading.ignored == ["README.txt"]


def test_every_bad_line_is_told_with_its_number_and_the_rest_is_read(tmp_path: Path) -> None:
    lines = [json.dumps({"id": n}).encode() for n in range(1, 31)]
    lines[16] = b'{"id": 17,'
    lines[19] = b"[20]"
    lines[21] = b'{"id": "\xff"}'
    lines[23] = b'{"id": 24, "id": 24}'
    lines[25] = b'{"id": NaN}'
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    reading = read(tmp_path / "a.jsonl")
    assert len(reading.rows) == 25
    found = dict(found_in(reading))
    assert found.keys() == {"a.jsonl:17", "a.jsonl:20", "a.jsonl:22", "a.jsonl:24", "a.jsonl:26"}
    assert found["a.jsonl:17"].startswith("broken JSON: ")
    assert found["a.jsonl:22"].startswith("the byte 0xff")
    assert "'id' stands twice" in found["a.jsonl:24"]


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        (b"id,id\n1,2\n", "a.csv:1", "'id' twice"),
        (b"id,\n1,2\n", "a.csv:1", "without a name"),
        (b'id,t\n1,"open\n', "a.csv:2", "unexpected end"),
        (b"id,t\n1,a\n2,\xe9\n", "a.csv:3", "0xe9"),
    ],
)
def test_a_broken_table_is_told_with_its_line(tmp_path: Path, text: bytes, where: str, words: str) -> None:
    (tmp_path / "a.csv").write_bytes(text)
    ((place, found),) = found_in(read(tmp_path / "a.csv"))
    assert place == where
    assert words in found


def test_a_broken_parquet_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 not really PAR1")
    assert [problem.expected for problem in read(tmp_path / "a.parquet").problems] == ["a Parquet file"]


def test_a_missing_file_is_told_with_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("{}")
    with pytest.raises(DataError, match=r"did you mean rows\.jsonl\?"):
        read(tmp_path / "row.jsonl")


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_told(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content if name != "rows.csv" or content != b"\n \n" else b"id,t\n")
    with pytest.raises(DataError, match="expected: at least one row"):
        read(tmp_path / name)


def test_a_folder_without_rows_and_an_unknown_ending_are_told(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "notes.txt").write_text("x")
    with pytest.raises(DataError, match="at least one row"):
        read(tmp_path / "rows")
    with pytest.raises(DataError, match=r"'\.txt'"):
        read(tmp_path / "rows" / "notes.txt")


def run(code: str, cwd: Path, **options: Any) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False, **options)
    return done.stdout + done.stderr


CATCH = """
from pathlib import Path
from testigo.corpus.reading import Reading, read_into
from testigo.errors import DataError
try:
    read_into(Reading(), {source!r}, Path('.'), 'source')
except DataError as error:
    print(error)
"""

# Whoever may read everything steps down first, when all that is needed is imported.
STEP_DOWN = """
import os
import testigo.corpus.reading
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
"""


def test_a_file_without_read_permission_is_told() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = Path(folder) / "rows.jsonl"
        path.write_text('{"id": 1}\n')
        path.chmod(0)
        said = run(STEP_DOWN + CATCH.format(source="rows.jsonl"), Path(folder))
    assert said.splitlines()[0] == "rows.jsonl"
    assert "found:    Permission denied" in said


REVISION = "0123456789abcdef0123456789abcdef01234567"


def test_a_hub_data_set_that_cannot_be_reached_is_a_message_of_four_parts(tmp_path: Path) -> None:
    source = f"hub:owner/rows@{REVISION}"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    said = run(CATCH.format(source=source), tmp_path, env=environment)
    assert said.splitlines()[0] == source
    assert "  expected: a data set that can be fetched, or is already in the local cache\n" in said
    assert "  do:       check name, revision and network" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "address", ["hub:owner/rows", "hub:owner/rows@main", f"hub:/etc@{REVISION}", f"hub:../x@{REVISION}0"]
)
def test_a_hub_address_without_an_exact_revision_is_refused(address: str) -> None:
    with pytest.raises(DataError, match="40 hex digits"):
        read_hub(address)


def test_a_local_folder_never_stands_in_for_a_hub_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "owner" / "rows").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="local folder of the same name"):
        read_hub(f"hub:owner/rows@{REVISION}")


def test_of_several_hub_splits_train_is_meant() -> None:
    rows = [{"id": 1}]
    assert rows_of({"test": [], "train": rows}, "hub:x") == rows
    assert rows_of({"all": rows}, "hub:x") == rows
    with pytest.raises(DataError, match="a, b"):
        rows_of({"a": rows, "b": rows}, "hub:x")


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode), st.sampled_from(["jsonl", "csv", "parquet"]))
def test_any_bytes_are_rows_or_a_told_problem(content: bytes, ending: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"rows.{ending}"
        path.write_bytes(content)
        try:
            reading = read(path)
        except DataError:
            return
        assert reading.rows or reading.problems


def test_importing_the_room_loads_no_heavy_library(tmp_path: Path) -> None:
    heavy = "{'torch', 'transformers', 'datasets', 'pyarrow', 'scipy', 'pandas'}"
    said = run(f"import testigo.corpus, testigo.tasks, sys; print({heavy} & set(sys.modules))", tmp_path)
    assert said == "set()\n"


def test_a_row_of_a_table_that_holds_no_utf_8_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    words = pa.array([b"sound", b"\xb2\xff", b"sound too"]).view(pa.string())
    pq.write_table(pa.table({"id": ["a", "b", "c"], "text": words}), tmp_path / "rows.parquet")
    reading = Reading()
    read_into(reading, "rows.parquet", tmp_path, "source")
    assert [row.fields["id"] for row in reading.rows] == ["a", "c"]
    (problem,) = reading.problems
    assert problem.where == "rows.parquet row 2"
    assert "0xb2" in problem.found


def test_a_workspace_in_the_folder_that_is_read_is_passed_over(tmp_path: Path) -> None:
    for name in ("rows", "orders.testigo/corpus/3f2a/train", "mine/more"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / f"{name}.jsonl").write_text(json.dumps({"id": name}) + "\n")
    (tmp_path / "data" / "orders.testigo" / "workspace.json").write_text('{"campaign": "orders", "format": 1}')
    (tmp_path / "data" / "mine" / "workspace.json").write_text('{"window": 3}')
    reading = read(tmp_path / "data")
    assert [row.fields["id"] for row in reading.rows] == ["mine/more", "rows"]
    assert reading.ignored == ["mine/workspace.json"]

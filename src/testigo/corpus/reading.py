"""Reading rows from JSONL, CSV and Parquet files, from folders of them, of images, and from a hub data set.

Nothing is skipped: what cannot be read becomes a `Problem` with file and line, and reading goes on to find the rest.
"""

from __future__ import annotations

import base64
import csv
import datetime
import difflib
import io
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from testigo.campaign.files import unread_because
from testigo.corpus.hub import read_hub
from testigo.corpus.image_folder import Found, files_under, image_of, is_image_folder, read_image_folder
from testigo.corpus.row import Part, RawRow, digest_of
from testigo.corpus.strict_json import StrictJsonError, parse_strict
from testigo.corpus.text import BYTE_ORDER_MARK, is_wide, not_utf8, wide_encoding
from testigo.disk import file_sha256
from testigo.errors import DataError, Problem

ENDINGS = (".jsonl", ".ndjson", ".csv", ".parquet")
_LONGEST_CELL = 2**31 - 1  # characters; the library's own limit, 131,072, is shorter than many documents


@dataclass
class Reading:
    """What was read so far: rows, problems, one record for each source, and files of a folder that hold no rows."""

    rows: list[RawRow] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    sources: list[dict[str, Any]] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


def read_into(reading: Reading, source: str, folder: Path, part: Part, image_field: str | None = None) -> None:
    """Read one source: a file, a folder (its files in the order of their names, subfolders too), `hub:NAME@REVISION`.

    Parameters
    ----------
    image_field
        The field that holds an image in every row: its paths become the form in which rows hold images.

    Raises
    ------
    DataError
        When the source is missing, cannot be opened, has an unknown ending or holds no row at all. Bad rows do not
        raise; they are added to `reading.problems`.
    """
    before = len(reading.rows), len(reading.problems)
    if source.startswith("hub:"):
        rows = [_plain(row) for row in read_hub(source)]
        reading.rows += [RawRow(row, f"{source} row {number}", part) for number, row in enumerate(rows, 1)]
        reading.sources.append({"file": source, "sha256": digest_of(rows), "rows": len(rows), "part": part})
    elif (folder / source).is_dir() and is_image_folder(folder / source, ENDINGS):
        _read_images(reading, folder / source, source, part)
    else:
        for path in _files(folder / source, source, reading):
            _read_file(reading, path, _name(path, folder), part, image_field)
    if before == (len(reading.rows), len(reading.problems)):
        raise DataError(
            expected="at least one row", found="none", where=source, action="give a file with rows in `data.source`"
        )


def _files(path: Path, source: str, reading: Reading) -> list[Path]:
    if path.is_dir():
        files = files_under(path)
        reading.ignored += [p.relative_to(path).as_posix() for p in files if p.suffix.lower() not in ENDINGS]
        return [p for p in files if p.suffix.lower() in ENDINGS]
    if not path.exists():
        beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, beside, n=1)
        raise DataError(
            expected="a file or folder of rows",
            found="nothing there" + (f"; did you mean {near[0]}?" if near else ""),
            where=source,
            action="correct the path; it is read from the campaign file's folder",
        )
    if path.suffix.lower() not in ENDINGS:
        raise DataError(
            expected=f"a file that ends in {', '.join(ENDINGS)}, or a folder of such files or of images",
            found=f"'{path.suffix}'{unread_because(path.name)}" if path.suffix else "no ending",
            where=source,
            action="convert the file, or give it the ending of its format",
        )
    return [path]


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)


def _read_images(reading: Reading, path: Path, source: str, part: Part) -> None:
    n_before = len(reading.rows)
    try:
        for found in read_image_folder(path, source.rstrip("/"), _read_table, reading.ignored):
            if isinstance(found, Problem):
                reading.problems.append(found)
            else:
                reading.rows.append(RawRow(found[0], found[1], part, path))
    except OSError as error:
        raise _unreadable(error, str(error.filename or source)) from None
    own = [row.fields for row in reading.rows[n_before:]]
    reading.sources.append({"file": source, "sha256": digest_of(own), "rows": len(own), "part": part})


def _read_table(path: Path, name: str) -> Iterator[Found]:
    return (_read_csv if path.suffix.lower() == ".csv" else _read_jsonl)(path, name, Counter())


def _read_file(reading: Reading, path: Path, name: str, part: Part, image_field: str | None = None) -> None:
    read = {".csv": _read_csv, ".parquet": _read_parquet}.get(path.suffix.lower(), _read_jsonl)
    n_before, seen = len(reading.rows), Counter[str]()
    try:
        for found in read(path, name, seen):
            if isinstance(found, Problem):
                reading.problems.append(found)
                continue
            fields, where = found
            if image_field in fields:
                image = image_of(fields[image_field], path.parent, where)
                if isinstance(image, Problem):
                    reading.problems.append(image)
                    continue
                fields = {**fields, image_field: image}
            reading.rows.append(RawRow(fields, where, part, path.parent))
        sha256 = file_sha256(path)
    except OSError as error:
        raise _unreadable(error, name) from None
    source = {"file": name, "sha256": sha256, "rows": len(reading.rows) - n_before, "part": part}
    taken_away = {kind: n for kind, n in seen.items() if n}
    reading.sources.append({**source, **({"converted": taken_away} if taken_away else {})})


def _unreadable(error: OSError, name: str) -> DataError:
    return DataError(
        expected="a file that can be read",
        found=error.strerror or type(error).__name__,
        where=name,
        action="give read permission, or copy the file",
    )


def _read_jsonl(path: Path, name: str, seen: Counter[str]) -> Iterator[Found]:
    guesses: dict[str, str | None] = {}
    with path.open("rb") as file:
        offset = 0
        for number, line in enumerate(file, 1):  # bytes break at \n only, never at U+2028 inside a text
            where, start = f"{name}:{number}", offset
            offset += len(line)
            seen["CRLF"] += line.endswith(b"\r\n")
            if number == 1:
                if encoding := wide_encoding(line):
                    yield is_wide(name, encoding)
                    return
                seen["byte-order mark"] += line.startswith(BYTE_ORDER_MARK)
                start += len(line) - len(line := line.removeprefix(BYTE_ORDER_MARK))
            if line.strip():
                yield _row_of_json(line, where, name, start, guesses)


def _row_of_json(line: bytes, where: str, name: str, start: int, guesses: dict[str, str | None]) -> Found:
    try:
        value = parse_strict(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        return not_utf8(where, name, line, error.start, start + error.start, guesses)
    except StrictJsonError as error:
        if b"\r" in line.rstrip():
            return Problem("one JSON object on each line", "lines that end in CR alone", where, "save with LF or CRLF")
        return Problem("one JSON object on each line", f"broken JSON: {error}", where, "mend the line")
    if isinstance(value, dict):
        return value, where
    return Problem("one JSON object on each line", f"a {type(value).__name__}", where, "mend the line")


def _read_csv(path: Path, name: str, seen: Counter[str]) -> Iterator[Found]:
    content = path.read_bytes()
    if encoding := wide_encoding(content[:4]):
        yield is_wide(name, encoding)
        return
    seen["byte-order mark"] += content.startswith(BYTE_ORDER_MARK)
    seen["CRLF"] += content.count(b"\r\n")
    try:
        text = content.removeprefix(BYTE_ORDER_MARK).decode("utf-8")
    except UnicodeDecodeError as error:
        at = error.start + len(content) - len(error.object)
        yield not_utf8(f"{name}:{content.count(bytes([10]), 0, at) + 1}", name, content, at, at, {})
        return
    csv.field_size_limit(_LONGEST_CELL)
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] | None = None
    try:
        for cells in lines:
            where = f"{name}:{lines.line_num}"
            if not cells:
                continue
            if header is None:
                header = cells
                twice = sorted({column for column in header if header.count(column) > 1})
                if twice or "" in header:
                    found = f"the column {twice[0]!r} twice" if twice else "a column without a name"
                    yield Problem("a header with one name for each column", found, where, "name the columns")
                    return
            elif len(cells) != len(header):
                yield Problem(f"{len(header)} cells, as in the header", f"{len(cells)}", where, "mend the line")
            else:
                yield dict(zip(header, cells, strict=True)), where
    except csv.Error as error:
        yield Problem("comma-separated values", str(error), f"{name}:{lines.line_num}", "mend the line and its quotes")


def _read_parquet(path: Path, name: str, seen: Counter[str]) -> Iterator[Found]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches():
                for row in _values_of(batch):
                    number += 1
                    where = f"{name} row {number}"
                    if isinstance(row, ValueError | OverflowError):
                        found = f"{type(row).__name__}: {row}"[:160]
                        yield Problem(
                            "text in UTF-8, and numbers and dates that are some", found, where, "mend the row"
                        )
                    else:
                        yield _plain(row), where
    except (pa.ArrowException, ValueError, OverflowError, MemoryError) as error:
        found = (str(error) or type(error).__name__).splitlines()[0][:160]
        yield Problem("a Parquet file", found, name, "write the file again")


def _values_of(batch: Any) -> Iterator[Any]:
    """The rows of a record batch; in the place of one that holds what Python cannot, the error over it."""
    try:
        yield from batch.to_pylist()
    except (ValueError, OverflowError):
        for at in range(batch.num_rows):
            try:
                yield from batch.slice(at, 1).to_pylist()
            except (ValueError, OverflowError) as error:
                yield error


def _plain(value: Any) -> Any:
    """The JSON form of a table's value: dates as ISO text, decimals as text, NaN (a table's missing number) as null.

    The bytes of a table's image, `{"bytes": …, "path": …}`, become base64.
    """
    if isinstance(value, dict):
        if value.keys() == {"bytes", "path"} and isinstance(value["bytes"], bytes):
            return {"bytes": base64.b64encode(value["bytes"]).decode("ascii"), "path": value["path"]}
        return {str(key): _plain(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(child) for child in value]
    if isinstance(value, (datetime.date, datetime.time)):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def texts(value: Any) -> Iterable[str]:
    """Every text in a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, child in value.items():
            yield key
            yield from texts(child)
    elif isinstance(value, list):
        for child in value:
            yield from texts(child)

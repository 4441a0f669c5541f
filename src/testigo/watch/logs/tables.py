"""Steps as JSON Lines, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testigo.errors import DataError, Problem
from testigo.watch.logs.log import Log, log_of
from testigo.watch.logs.trainer_state import is_trainer_state, read_trainer_state

_MOST = 10


def read_json_lines(path: Path, text: str) -> Log:
    """One JSON object a line; a last line that was cut in two is left out.

    Raises
    ------
    DataError
        With every line that is no JSON object.
    """
    lines, problems = [], []
    texts = text.split("\n")
    for number, one in enumerate(texts, 1):
        if not one.strip():
            continue
        try:
            line = json.loads(one)
            if not isinstance(line, dict):
                raise ValueError(f"{type(line).__name__}, not an object")
            lines.append(line)
        except (ValueError, RecursionError) as error:
            if number < len(texts) or not lines:
                problems.append(
                    Problem("one JSON object", f"{error}: {one[:60]!r}", f"{path}, line {number}", "mend the line")
                )
    if problems:
        raise DataError(problems=problems[:_MOST])
    return log_of("JSON Lines", path, lines)


def read_json(path: Path, text: str) -> Log:
    """A Trainer's state, a list of steps, or an object of columns.

    Raises
    ------
    DataError
        When it is none of them.
    """
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.lstrip()[:1] == "{" and "\n{" in text:
            return read_json_lines(path, text)
        raise _not_a_log(path, f"no JSON: {error}") from error
    if is_trainer_state(document):
        return read_trainer_state(path, document)
    if isinstance(document, list) and document and all(isinstance(line, Mapping) for line in document):
        return log_of("a JSON list of steps", path, document)
    if isinstance(document, Mapping) and document:
        columns = {name: values for name, values in document.items() if isinstance(values, list)}
        if columns:
            length = max(map(len, columns.values()))
            lines = [{name: values[at] for name, values in columns.items() if at < len(values)} for at in range(length)]
            return log_of("a JSON object of columns", path, lines)
        return log_of("JSON Lines", path, [document])
    raise _not_a_log(path, f"a JSON {type(document).__name__}")


def read_csv(path: Path, text: str) -> Log:
    """A table with a line of names, separated by commas, semicolons or tabs.

    Raises
    ------
    DataError
        When it has no lines, or lines with more cells than names; all at once.
    """
    first = text.partition("\n")[0]
    separator = max(",;\t", key=first.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
    lines: list[dict[str, Any]] = []
    problems = []
    try:
        for line in reader:
            if None in line:
                n = len(line) - 1 + len(line[None] or ())
                problems.append(
                    Problem(
                        expected=f"{len(reader.fieldnames or ())} cells",
                        found=str(n),
                        where=f"{path}, line {reader.line_num}",
                        action="quote cells that hold the separator",
                    )
                )
            else:
                lines.append(dict(line))
    except csv.Error as error:
        raise _not_a_log(path, f"no table: {error}") from error
    if problems:
        raise DataError(problems=problems[:_MOST])
    if not lines:
        raise _not_a_log(path, "no line below the names")
    return log_of("CSV", path, lines, above=1)


def _not_a_log(path: Path, found: str) -> DataError:
    return DataError(
        expected="the steps of a run: a trainer_state.json, a list of objects, JSON Lines, or a CSV with names",
        found=found,
        where=str(path),
        action="name another file, or export the log in one of these forms",
    )

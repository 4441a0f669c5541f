"""Checking all rows, and telling everything that is wrong at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from testigo.corpus.cleaning import is_empty
from testigo.corpus.images import is_image
from testigo.corpus.reading import texts
from testigo.corpus.row import PlacedRow, RawRow, Row, digest_of
from testigo.errors import Problem

LONGEST_TEXT = 40_000_000
"""Characters of a field: ten million tokens, the longest context that an open model claims (Llama 4 Scout, 2025), of
four characters each. A longer text is a file that lost its line ends, or a book shelf; it would only cost time."""


def check_rows(
    rows: Iterable[RawRow],
    *,
    id_field: str,
    group_field: str | None,
    category_field: str | None,
    needed: tuple[str, ...],
    check: Callable[[Row], list[str]],
) -> tuple[list[PlacedRow], list[Problem]]:
    """Each good row, and each problem of the others.

    Parameters
    ----------
    needed
        The task's input and target: present and not empty.
    check
        What the task has to say about a row, in words.
    """
    good: list[PlacedRow] = []
    problems: list[Problem] = []
    first_place: dict[str, str] = {}
    for raw in rows:
        own = [*_missing(raw, id_field, (group_field, category_field), needed), *_unusable(raw)]
        if own:
            problems += own
            continue
        row = Row(
            id=str(raw.fields[id_field]),
            group=str(raw.fields[group_field or id_field]),
            category="" if category_field is None else str(raw.fields[category_field]),
            fields=raw.fields,
            digest=digest_of(raw.fields),
        )
        if row.id in first_place:
            found = f"the id '{row.id}' a second time; first at {first_place[row.id]}"
            problems.append(
                Problem(f"ids in '{id_field}' that are unique", found, raw.where, "give the row its own id")
            )
            continue
        first_place[row.id] = raw.where
        where = f"{raw.where}, row '{row.id}'"
        problems += [Problem("a row that the task can use", fault, where, "correct the row") for fault in check(row)]
        good.append(PlacedRow(row, raw.where, raw.part, raw.root))
    return good, problems


def _missing(
    raw: RawRow, id_field: str, names: tuple[str | None, str | None], needed: tuple[str, ...]
) -> Iterable[Problem]:
    for name in dict.fromkeys(field for field in (id_field, *names, *needed) if field is not None):
        if name not in raw.fields:
            has = ", ".join(list(raw.fields)[:8]) or "no field"
            yield Problem(f"the field '{name}'", f"only {has}", raw.where, "add the field, or correct the campaign")
            continue
        value = raw.fields[name]
        if is_empty(value):
            action = "fill it" if name not in needed else "fill it, or add drop-empty to `data.clean`"
            yield Problem(f"a value in '{name}'", "it is empty", raw.where, action)
        elif name not in needed and not _names(value):
            found = f"a {type(value).__name__}"
            yield Problem(f"text or a whole number in '{name}'", found, raw.where, "give it as text")


def _names(value: Any) -> bool:
    return isinstance(value, (str, int)) and not (isinstance(value, bool))


def _unusable(raw: RawRow) -> Iterable[Problem]:
    """What no model reads: endless texts; what no file can hold: half characters, bytes or pictures of a table."""
    for name, value in raw.fields.items():
        n = 0 if is_image(value) else sum(map(len, texts(value)))
        if n > LONGEST_TEXT:
            found = f"{n:,} characters in '{name}'"
            yield Problem(f"at most {LONGEST_TEXT:,} characters in a field", found, raw.where, "split or drop the row")
    try:
        for text in texts(raw.fields):
            text.encode("utf-8")
        digest_of(raw.fields)
    except UnicodeEncodeError:
        found = "half of a surrogate pair, which is no character"
        yield Problem("text that can be written as UTF-8", found, raw.where, "mend the text")
    except (TypeError, ValueError) as error:
        yield Problem("text, numbers, objects and lists", str(error)[:160], raw.where, "remove the column")

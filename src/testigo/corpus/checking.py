"""Checking all rows, and telling everything that is wrong at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from testigo.corpus.cleaning import is_empty
from testigo.corpus.images import is_image
from testigo.corpus.reading import texts
from testigo.corpus.row import Part, PlacedRow, RawRow, Row, digest_of
from testigo.errors import Problem

if TYPE_CHECKING:
    from testigo.campaign.sections import Data, GuardTask, Task

LONGEST_TEXT = 40_000_000
"""Characters of a field: ten million tokens, the longest context that an open model claims (Llama 4 Scout, 2025), of
four characters each. A longer text is a file that lost its line ends, or a book shelf; it would only cost time."""
_FIELDS_TOLD = 8


def check_rows(
    rows: Iterable[RawRow],
    *,
    id_field: str,
    group_field: str | None,
    category_field: str | None,
    needed: tuple[str, ...],
    check: Callable[[Row], list[str]],
    keys: Mapping[str, str],
) -> tuple[list[PlacedRow], list[Problem]]:
    """Each good row, and each problem of the others; a field that no row has is one problem of its key.

    Parameters
    ----------
    needed
        The task's input and target: present and not empty.
    check
        What the task has to say about a row, in words.
    keys
        Each field's key in the campaign, such as `data.id`, which a wrong name is mended in.
    """
    rows = list(rows)
    wanted = tuple(dict.fromkeys(name for name in (id_field, group_field, category_field, *needed) if name is not None))
    absent, problems = _absent(rows, wanted, keys)
    good: list[PlacedRow] = []
    first_place: dict[str, str] = {}
    for raw in rows:
        there = tuple(name for name in wanted if name not in absent[raw.part])
        own = [*_missing(raw, there, needed), *_unusable(raw)]
        problems += own
        if own or absent[raw.part]:
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


def keys_of(rows: Data | GuardTask, task: Task, *, under: str = "") -> dict[str, str]:
    """Each field that the campaign names, with the key that names it; `under` is where a guard stands."""
    section = under or "data."
    named = [
        (rows.id, f"{section}id"),
        (rows.group, f"{section}group"),
        (task.input, f"{under}task.input"),
        (task.target, f"{under}task.target"),
        (task.category, f"{under}task.category"),
    ]
    return {name: key for name, key in reversed(named) if name is not None}


def _absent(
    rows: Sequence[RawRow], wanted: tuple[str, ...], keys: Mapping[str, str]
) -> tuple[dict[Part, frozenset[str]], list[Problem]]:
    """The fields that no row of a part has, and one problem for each: the key is wrong, or the whole file is."""
    absent: dict[Part, frozenset[str]] = {}
    problems = []
    for part in dict.fromkeys(raw.part for raw in rows):
        own = [raw for raw in rows if raw.part == part]
        names = dict.fromkeys(name for raw in own for name in raw.fields)
        absent[part] = frozenset(wanted) - names.keys() if len(own) > 1 else frozenset()
        has = ", ".join(list(names)[:_FIELDS_TOLD]) or "no field"
        more = f" and {len(names) - _FIELDS_TOLD} more" if len(names) > _FIELDS_TOLD else ""
        for name in (one for one in wanted if one in absent[part]):
            key = keys.get(name, "the campaign")
            problems.append(
                Problem(
                    f"the field '{name}' (`{key}`)",
                    f"none of {len(own):,} rows has it; they have {has}{more}",
                    f"{own[0].where}, the first of them",
                    f"name the right field in `{key}`, or add '{name}' to the rows",
                )
            )
    return absent, problems


def _missing(raw: RawRow, wanted: tuple[str, ...], needed: tuple[str, ...]) -> Iterable[Problem]:
    for name in wanted:
        if name not in raw.fields:
            has = ", ".join(list(raw.fields)[:_FIELDS_TOLD]) or "no field"
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

"""What changed between two corpora: rows, rules and splits; the sealed rows by their digests alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from testigo.corpus.storage import FILES, Corpus, read_index

_SETTINGS = {
    "id": "data.id",
    "group": "data.group",
    "category": "task.category",
    "input": "task.input",
    "target": "task.target",
    "clean": "data.clean",
    "duplicates": "data.duplicates",
    "shares": "data.split",
    "seed": "data.split.seed",
    "cuts": "data.split.cuts",
    "time": "data.split.time",
}
"""Key of the manifest's split rule -> the setting of the campaign that it comes from."""
SEALED = "(sealed: its fields are not told)"


@dataclass(frozen=True)
class CorpusDiff:
    """What a new corpus has that an old one had not, and the other way about.

    Attributes
    ----------
    added, removed
        Split -> ids of rows that only the new, or only the old corpus has. A row that only the old one has may have
        been left out: `left_out` says why.
    changed
        Row id -> the fields that differ; of a row that is sealed in either corpus no field is named.
    moved
        (row id, old split, new split) of rows that both have.
    left_out
        Id of a removed row -> why the new corpus leaves it out, where it says so.
    rules
        Setting -> (old value, new value).
    same_rows
        Split -> whether its rows are the same, byte for byte: results on a split compare where it is.
    """

    old: str
    new: str
    added: dict[str, tuple[str, ...]]
    removed: dict[str, tuple[str, ...]]
    changed: dict[str, tuple[str, ...]]
    moved: tuple[tuple[str, str, str], ...]
    left_out: dict[str, str]
    rules: dict[str, tuple[Any, Any]]
    same_rows: dict[str, bool]

    @property
    def is_empty(self) -> bool:
        """Whether the two are the same corpus."""
        return self.old == self.new

    def to_json(self) -> dict[str, Any]:
        """All fields as a JSON object."""
        return asdict(self)


def compare_corpora(old: Corpus, new: Corpus) -> CorpusDiff:
    """What changed from the old corpus to the new one.

    Raises
    ------
    DataError
        When a file of either is missing or was changed.
    """
    before, after = read_index(old), read_index(new)
    both = [row for row in before if row in after]
    dropped = {str(drop["row"]): str(drop["reason"]) for drop in new.manifest.get("dropped", ()) if "row" in drop}
    removed = {row: split for row, (split, _) in before.items() if row not in after}
    return CorpusDiff(
        old=old.fingerprint,
        new=new.fingerprint,
        added=_by_split({row: split for row, (split, _) in after.items() if row not in before}),
        removed=_by_split(removed),
        changed=dict(_changed(old, new, [row for row in both if before[row][1] != after[row][1]], before, after)),
        moved=tuple((row, before[row][0], after[row][0]) for row in both if before[row][0] != after[row][0]),
        left_out={row: dropped[row] for row in removed if row in dropped},
        rules=dict(_rules(old.manifest.get("split_rule", {}), new.manifest.get("split_rule", {}))),
        same_rows={name: _rows_digest(old, name) == _rows_digest(new, name) for name in FILES},
    )


def _by_split(rows: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(sorted(row for row, split in rows.items() if split == name)) for name in FILES}


def _rows_digest(corpus: Corpus, split: str) -> str:
    return str(corpus.manifest["splits"][split]["rows_sha256"])


def _changed(
    old: Corpus,
    new: Corpus,
    rows: list[str],
    before: Mapping[str, tuple[str, str]],
    after: Mapping[str, tuple[str, str]],
) -> Iterator[tuple[str, tuple[str, ...]]]:
    if not rows:
        return
    fields_of_old, fields_of_new = _open_fields(old), _open_fields(new)
    for row in rows:
        if "test" in (before[row][0], after[row][0]):
            yield row, (SEALED,)
            continue
        one, other = fields_of_old[row], fields_of_new[row]
        names = [name for name in {**one, **other} if one.get(name, ...) != other.get(name, ...)]
        yield row, tuple(names)


def _open_fields(corpus: Corpus) -> dict[str, dict[str, Any]]:
    return {row.id: row.fields for split in ("train", "validation") for row in corpus.rows(split)}


def _rules(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for key, setting in _SETTINGS.items():
        yield from _values(setting, old.get(key), new.get(key))


def _values(setting: str, old: Any, new: Any) -> Iterator[tuple[str, tuple[Any, Any]]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in {**old, **new}:
            yield from _values(f"{setting}.{key}", old.get(key), new.get(key))
    elif old != new:
        yield setting, (old, new)

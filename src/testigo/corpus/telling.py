"""What the manifest tells of duplicates: counts, ids, and pairs side by side; never a text that a test row holds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from testigo.corpus.leaks import FIELDS, Leak
from testigo.corpus.pairs import KINDS, Found, Pair
from testigo.corpus.row import PlacedRow, Row
from testigo.corpus.searching import text_of

if TYPE_CHECKING:
    import pyarrow as pa

    from testigo.campaign import Campaign

PAIRS_TOLD = 1000
"""Pairs of a kind that the manifest names; `duplicates.parquet` holds all."""
PAIRS_SHOWN = 20
"""Pairs of a kind that it shows side by side."""
EXCERPT = 240
"""Characters of a text that is shown."""
EVALUATION = ("validation", "test")


def told_duplicates(
    found: Found,
    splits: Mapping[str, Sequence[Row]],
    placed: Sequence[PlacedRow],
    campaign: Campaign,
    leaks: Sequence[Leak] = (),
) -> dict[str, Any]:
    """For each kind its policy, counts and first pairs; what left training; and the unclean evaluation rows."""
    wanted = campaign.data.duplicates
    split_of = {row.id: name for name, rows in splits.items() for row in rows}
    file_of = {one.row.id: one.part for one in placed}
    told: dict[str, Any] = {}
    for kind in KINDS:
        pairs = found.of(kind)
        told[kind] = {
            "policy": getattr(wanted, FIELDS[kind]) if kind in FIELDS else "report",
            "count": len(pairs),
            "parts": dict(sorted(Counter(pair.part for pair in pairs).items())),
            "pairs": [_listed(pair) for pair in pairs[:PAIRS_TOLD]],
            "between_files": [
                [pair.one, pair.other] for pair in pairs[:PAIRS_TOLD] if file_of[pair.one] != file_of[pair.other]
            ],
        }
    told["near"]["similarity"], told["overlap"]["coverage"] = wanted.near, wanted.overlap
    told["left_training"] = _left_training(found, leaks, split_of, file_of)
    told["across"] = _across(found, split_of)
    told["unclean"] = _unclean(found, split_of)
    told["shown"] = _side_by_side(found, split_of, placed, campaign)
    return told


def pairs_table(found: Found, splits: Mapping[str, Sequence[Row]]) -> pa.Table:
    """Every pair by id, with its kind, part, similarity and the splits of its rows; "" for a row that was left out."""
    import pyarrow as pa

    split_of = {row.id: name for name, rows in splits.items() for row in rows}
    columns: dict[str, list[Any]] = {
        "kind": [pair.kind for pair in found.pairs],
        "part": [pair.part for pair in found.pairs],
        "one": [pair.one for pair in found.pairs],
        "other": [pair.other for pair in found.pairs],
        "one_split": [split_of.get(pair.one, "") for pair in found.pairs],
        "other_split": [split_of.get(pair.other, "") for pair in found.pairs],
    }
    texts = {name: pa.array(values, pa.large_string()) for name, values in columns.items()}
    return pa.table({**texts, "similarity": pa.array([pair.similarity for pair in found.pairs], pa.float64())})


def _listed(pair: Pair) -> list[Any]:
    ids: list[Any] = [pair.one, pair.other]
    return ids if pair.kind in ("exact", "conflicts") else [*ids, pair.similarity]


def _left_training(
    found: Found, leaks: Sequence[Leak], split_of: Mapping[str, str], file_of: Mapping[str, str]
) -> list[list[str]]:
    """[row that left training, evaluation row that it repeats, kind]: what a given evaluation file has in common."""
    copies = [
        [pair.other, pair.one, pair.kind]
        for pair in found.of("exact")
        if pair.other not in split_of and split_of.get(pair.one) in EVALUATION and file_of[pair.one] in EVALUATION
    ]
    return copies + [[leak.training, leak.other, leak.kind] for leak in leaks]


def _across(found: Found, split_of: Mapping[str, str]) -> list[list[Any]]:
    """[row, its split, row, its split, kind, part]: pairs that still stand in two splits, at most `PAIRS_TOLD`."""
    across: list[list[Any]] = []
    for pair in found.pairs:
        splits = (split_of.get(pair.one), split_of.get(pair.other))
        if None not in splits and splits[0] != splits[1] and len(across) < PAIRS_TOLD:
            across.append([pair.one, splits[0], pair.other, splits[1], pair.kind, pair.part])
    return across


def _unclean(found: Found, split_of: Mapping[str, str]) -> dict[str, list[str]]:
    """Split -> ids of evaluation rows that have something in training, after all policies."""
    unclean: dict[str, set[str]] = defaultdict(set)
    for pair in found.pairs:
        for one, other in ((pair.one, pair.other), (pair.other, pair.one)):
            if split_of.get(one) == "train" and split_of.get(other) in EVALUATION:
                unclean[split_of[other]].add(other)
    return {name: sorted(unclean[name]) for name in EVALUATION}


def _side_by_side(
    found: Found, split_of: Mapping[str, str], placed: Sequence[PlacedRow], campaign: Campaign
) -> list[dict[str, Any]]:
    """Pairs with their texts. Of a pair with a test row neither text is shown: its other row says the same."""
    task = campaign.task
    rows = {one.row.id: one for one in placed}
    shown = []
    for kind in KINDS:
        for pair in found.of(kind)[:PAIRS_SHOWN]:
            splits = [split_of.get(row, "") for row in (pair.one, pair.other)]
            is_sealed = "test" in splits or any(rows[row].part == "test" for row in (pair.one, pair.other))
            field = task.target if pair.part == "answer" else task.input
            texts = [
                None if is_sealed else text_of(rows[row].row.fields[field])[:EXCERPT] for row in (pair.one, pair.other)
            ]
            shown.append(
                {
                    "kind": pair.kind,
                    "part": pair.part,
                    "similarity": pair.similarity,
                    "rows": [pair.one, pair.other],
                    "splits": splits,
                    "texts": texts,
                }
            )
    return shown

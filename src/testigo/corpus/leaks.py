"""What happens to duplicates: copies before the split, leaks into training after it, and what the manifest tells."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from testigo.corpus.duplicates import find_copies
from testigo.corpus.pairs import KINDS, Found, Kind, Pair
from testigo.corpus.row import PlacedRow, Row
from testigo.errors import DataError, Problem

if TYPE_CHECKING:
    from testigo.campaign import Campaign

PAIRS_TOLD = 1000
"""Pairs of a kind that the manifest names; `duplicates.parquet` holds all."""
_FIELD: dict[Kind, str] = {
    "exact": "exact",
    "near": "near_policy",
    "contained": "contained",
    "overlap": "overlap_policy",
    "conflicts": "conflicts",
}
_WORDS: dict[Kind, str] = {
    "exact": "copy",
    "near": "near copy",
    "contained": "copy with words added",
    "overlap": "text in common",
    "conflicts": "the same input with another target",
}


@dataclass(frozen=True)
class WithoutCopies:
    """The rows that stay, the exact pairs (kept, copy) that were found, and a line for each row that was left out."""

    kept: list[PlacedRow]
    exact: tuple[Pair, ...]
    dropped: list[dict[str, str]]


@dataclass(frozen=True)
class Settled:
    """The splits after the policies, and a line for each row that left training."""

    splits: dict[str, list[Row]]
    dropped: list[dict[str, str]]


def drop_copies(placed: Sequence[PlacedRow], campaign: Campaign) -> WithoutCopies:
    """What `duplicates.exact` says, over all files at once, before anything is split.

    Raises
    ------
    DataError
        For all copies at once, where the campaign refuses them.
    """
    policy = campaign.data.duplicates.exact
    copies = find_copies(placed, campaign.task.input, campaign.task.target).exact
    if policy == "refuse" and copies:
        raise DataError(
            problems=[
                Problem(
                    "rows that are no copies of each other",
                    f"a copy of row '{placed[kept].row.id}' at {placed[kept].where}",
                    f"{placed[copy].where}, row '{placed[copy].row.id}'",
                    "remove the row, or set `data.duplicates.exact: drop`",
                )
                for kept, copy in copies
            ]
        )
    exact = tuple(Pair("exact", placed[kept].row.id, placed[copy].row.id, "both", 1.0) for kept, copy in copies)
    if policy != "drop":
        return WithoutCopies(list(placed), exact, [])
    original = {copy: kept for kept, copy in copies}
    dropped = [
        {"where": placed[copy].where, "reason": f"copy of row '{placed[kept].row.id}'", "row": placed[copy].row.id}
        for copy, kept in sorted(original.items())
    ]
    return WithoutCopies([one for place, one in enumerate(placed) if place not in original], exact, dropped)


def settle_leaks(
    splits: Mapping[str, Sequence[Row]], found: Found, kept: Sequence[PlacedRow], campaign: Campaign
) -> Settled:
    """What the policies say of pairs of a training row and an evaluation row, and of conflicts.

    Raises
    ------
    DataError
        For all such pairs at once, where the campaign refuses them.
    """
    split_of = {row.id: name for name, rows in splits.items() for row in rows}
    where = {one.row.id: one.where for one in kept}
    reasons: dict[str, str] = {}
    problems = []
    for pair in found.pairs:
        policy = _policy(pair, campaign)
        for training, other in _leaking(pair, split_of):
            if policy == "refuse":
                problems.append(_refused(pair, where, training, other, split_of[other]))
            elif policy == "drop":
                reasons.setdefault(training, f"{_WORDS[pair.kind]}: row '{other}' of {split_of[other]}")
    if problems:
        raise DataError(problems=problems)
    dropped = [{"where": where[row], "reason": reason, "row": row} for row, reason in sorted(reasons.items())]
    left = {name: [row for row in rows if row.id not in reasons] for name, rows in splits.items()}
    return Settled(left, dropped)


def told_duplicates(
    found: Found, splits: Mapping[str, Sequence[Row]], placed: Sequence[PlacedRow], campaign: Campaign
) -> dict[str, Any]:
    """What the manifest says: for each kind its policy, counts and first pairs; and the unclean evaluation rows."""
    wanted = campaign.data.duplicates
    split_of = {row.id: name for name, rows in splits.items() for row in rows}
    file_of = {one.row.id: one.part for one in placed}
    told: dict[str, Any] = {}
    for kind in KINDS:
        pairs = found.of(kind)
        told[kind] = {
            "policy": getattr(wanted, _FIELD[kind]) if kind in _FIELD else "report",
            "count": len(pairs),
            "parts": dict(sorted(Counter(pair.part for pair in pairs).items())),
            "pairs": [_listed(pair) for pair in pairs[:PAIRS_TOLD]],
            "between_files": [
                [pair.one, pair.other] for pair in pairs[:PAIRS_TOLD] if file_of[pair.one] != file_of[pair.other]
            ],
        }
    told["near"]["similarity"], told["overlap"]["coverage"] = wanted.near, wanted.overlap
    told["unclean"] = _unclean(found, split_of)
    return told


def _listed(pair: Pair) -> list[Any]:
    ids: list[Any] = [pair.one, pair.other]
    return ids if pair.kind in ("exact", "conflicts") else [*ids, pair.similarity]


def _unclean(found: Found, split_of: Mapping[str, str]) -> dict[str, list[str]]:
    """Split -> ids of evaluation rows that have something in training, after all policies."""
    unclean: dict[str, set[str]] = defaultdict(set)
    for pair in found.pairs:
        for one, other in ((pair.one, pair.other), (pair.other, pair.one)):
            if split_of.get(one) == "train" and split_of.get(other) not in (None, "train"):
                unclean[split_of[other]].add(other)
    return {name: sorted(unclean[name]) for name in ("validation", "test")}


def _policy(pair: Pair, campaign: Campaign) -> str:
    if pair.kind not in _FIELD or pair.part == "answer":
        return "report"  # another question with the same answer is no leak
    policy: str = getattr(campaign.data.duplicates, _FIELD[pair.kind])
    return policy


def _leaking(pair: Pair, split_of: Mapping[str, str]) -> list[tuple[str, str]]:
    """(training row, other row) where the pair's policy has something to say."""
    ends = ((pair.one, pair.other), (pair.other, pair.one))
    if pair.kind == "conflicts":  # a conflict within training harms as well; both rows are to blame
        return [(one, other) for one, other in ends if split_of[one] == "train"]
    return [(one, other) for one, other in ends if split_of[one] == "train" and split_of[other] != "train"]


def _refused(pair: Pair, where: Mapping[str, str], training: str, other: str, split: str) -> Problem:
    return Problem(
        "training rows that are no duplicates of evaluation rows" if split != "train" else "one target for an input",
        f"{_WORDS[pair.kind]}: row '{other}' of {split} at {where[other]}, similarity {pair.similarity:.2f}",
        f"{where[training]}, row '{training}'",
        f"remove the row, or set `data.duplicates.{_FIELD[pair.kind]}: drop`",
    )

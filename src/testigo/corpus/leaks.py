"""What happens to duplicates: copies before the split, leaks into training after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from testigo.corpus.duplicates import find_copies
from testigo.corpus.pairs import Found, Kind, Pair
from testigo.corpus.row import PlacedRow, Row
from testigo.errors import DataError, Problem
from testigo.gates.duplicates import in_words

if TYPE_CHECKING:
    from testigo.campaign import Campaign

FIELDS: dict[Kind, str] = {
    "exact": "exact",
    "near": "near_policy",
    "contained": "contained",
    "overlap": "overlap_policy",
    "conflicts": "conflicts",
}
_REASONS: dict[Kind, str] = {
    "exact": "copy of evaluation row {}",
    "near": "near copy of evaluation row {}",
    "contained": "evaluation row {} with words added or left out",
    "overlap": "overlapping with evaluation row {}",
    "conflicts": "another target than row {} with the same input",
}


@dataclass(frozen=True)
class WithoutCopies:
    """The rows that stay, the exact pairs (kept, copy) that were found, and a line for each row that was left out."""

    kept: list[PlacedRow]
    exact: tuple[Pair, ...]
    dropped: list[dict[str, str]]


@dataclass(frozen=True)
class Leak:
    """A training row that says what another row says, by id, and what it was called."""

    training: str
    other: str
    kind: Kind


@dataclass(frozen=True)
class Settled:
    """The splits after the policies, a line for each row that left training, and the pairs for which it left."""

    splits: dict[str, list[Row]]
    dropped: list[dict[str, str]]
    leaks: tuple[Leak, ...]


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
    leaks: dict[str, Leak] = {}
    problems = []
    for pair in found.pairs:
        policy = _policy(pair, campaign)
        for training, other in _leaking(pair, split_of):
            if policy == "refuse":
                problems.append(_refused(pair, where, training, other, split_of[other]))
            elif policy == "drop":
                leaks.setdefault(training, Leak(training, other, pair.kind))
    if problems:
        raise DataError(problems=problems)
    dropped = [
        {
            "where": where[row],
            "reason": _REASONS[leak.kind].format(f"'{leak.other}'"),
            "row": row,
        }
        for row, leak in sorted(leaks.items())
    ]
    left = {name: [row for row in rows if row.id not in leaks] for name, rows in splits.items()}
    across = tuple(leak for _, leak in sorted(leaks.items()) if split_of[leak.other] != "train")
    return Settled(left, dropped, across)


def _policy(pair: Pair, campaign: Campaign) -> str:
    if pair.kind not in FIELDS or pair.part == "answer":
        return "report"  # another question with the same answer is no leak
    policy: str = getattr(campaign.data.duplicates, FIELDS[pair.kind])
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
        f"alike ({in_words(pair.kind)}): row '{other}' of {split} at {where[other]}, similarity {pair.similarity:.2f}",
        f"{where[training]}, row '{training}'",
        f"remove the row, or set `data.duplicates.{FIELDS[pair.kind]}: drop`",
    )

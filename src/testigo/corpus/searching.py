"""The search for duplicates, told in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from testigo.corpus.duplicates import find_copies
from testigo.corpus.pairs import Found, Pair
from testigo.corpus.row import PlacedRow, canonical_json

if TYPE_CHECKING:
    from testigo.campaign import Campaign


def find_duplicates(placed: Sequence[PlacedRow], campaign: Campaign) -> Found:
    """All pairs of rows that say the same, or nearly: over all files, and within each.

    Exact copies are searched for too; where the campaign drops them, there are none left in `placed`.
    """
    task, wanted = campaign.task, campaign.data.duplicates
    ids = [one.row.id for one in placed]
    copies = find_copies(placed, task.input, task.target)
    pairs = [Pair("exact", ids[one], ids[other], "both", 1.0) for one, other in copies.exact]
    pairs += [Pair("conflicts", ids[one], ids[other], "prompt", 1.0) for one, other in copies.conflicts]
    told = {frozenset((pair.one, pair.other)) for pair in pairs}
    if wanted.near is not None:
        from testigo.corpus.near import near_pairs

        prompts = [_text(one.row.fields[task.input]) for one in placed]
        for one, other, similarity in near_pairs(prompts, wanted.near):
            if frozenset((ids[one], ids[other])) not in told:
                pairs.append(Pair("near", ids[one], ids[other], "prompt", similarity))
    return Found().and_also(pairs)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value)

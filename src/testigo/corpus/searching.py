"""The search for duplicates, told in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from testigo.corpus.contained import contained
from testigo.corpus.duplicates import find_copies, normalised
from testigo.corpus.evidence import Evidence
from testigo.corpus.images import is_image
from testigo.corpus.near import near_texts
from testigo.corpus.overlap import overlaps
from testigo.corpus.pairs import Alike, Found, Kind, Pair
from testigo.corpus.pictures import alike_pictures
from testigo.corpus.row import PlacedRow
from testigo.corpus.texts import Texts

if TYPE_CHECKING:
    from testigo.campaign import Campaign

FEW_WORDS = 5  # answers with fewer words are labels, names or numbers: that two rows have one in common says nothing
MEMBERS = 1000  # pairs of rows that are told of two texts, each of which many rows say


@dataclass(frozen=True)
class Limits:
    """From when on texts are alike; None does not look."""

    near: float | None = 0.8
    """The least Jaccard similarity."""
    overlap: float | None = 0.5
    """The least share of 8-grams in common."""


@dataclass(frozen=True)
class Likeness:
    """How two places, the lower first, are alike; `is_turned`: it is the higher one that is contained or covered."""

    kind: Kind
    similarity: float
    is_turned: bool = False


Likenesses = dict[tuple[int, int], Likeness]


def find_duplicates(placed: Sequence[PlacedRow], campaign: Campaign) -> Found:
    """All pairs of rows that say the same, or nearly: over all files, and within each.

    Each pair is told once, by the first of the kinds that holds for it. Exact copies are searched for too; where the
    campaign drops them, there are none left in `placed`.
    """
    task, wanted = campaign.task, campaign.data.duplicates
    ids = [one.row.id for one in placed]
    copies = find_copies(placed, task.input, task.target)
    pairs = [Pair("exact", ids[one], ids[other], "both", 1.0) for one, other in copies.exact]
    pairs += [Pair("conflicts", ids[one], ids[other], "prompt", 1.0) for one, other in copies.conflicts]
    told = {frozenset((pair.one, pair.other)) for pair in pairs}
    prompts = [text_of(one.row.fields[task.input]) for one in placed]
    answers = [text_of(one.row.fields[task.target]) for one in placed]
    limits = Limits(wanted.near, wanted.overlap)
    by_prompt = alike(prompts, limits, beside=answers, engine=campaign.data.engine)
    long = [answer if len(answer.split()) >= FEW_WORDS else "" for answer in answers]
    by_answer = alike(long, limits, engine=campaign.data.engine)
    plain = [normalised(answer) for answer in answers]
    for (one, other), likeness in by_prompt.items():
        is_both = plain[one] == plain[other] or (one, other) in by_answer
        pairs.append(_pair(ids[one], ids[other], "both" if is_both else "prompt", likeness))
        told.add(frozenset((ids[one], ids[other])))
    for (one, other), likeness in by_answer.items():
        if frozenset((ids[one], ids[other])) not in told:
            pairs.append(_pair(ids[one], ids[other], "answer", likeness))
    if wanted.near is not None:
        pairs += _pictures(placed, task.input, told)
    return Found().and_also(pairs)


def _pictures(placed: Sequence[PlacedRow], field: str, told: set[frozenset[str]]) -> Iterator[Pair]:
    """Pairs of rows whose images look the same, also where class or file differ."""
    rows = [one for one in placed if is_image(one.row.fields[field])]
    for (a, b), similarity in alike_pictures([(one.row.fields[field], one.root) for one in rows]).items():
        one, other = rows[a].row.id, rows[b].row.id
        if frozenset((one, other)) not in told:
            yield Pair("near", one, other, "prompt", similarity)


def alike(values: Sequence[str], limits: Limits, *, beside: Sequence[str] = (), engine: str = "local") -> Likenesses:
    """Pairs of rows (the lower place first) with different texts that are alike, beyond what chance explains.

    Parameters
    ----------
    values
        What each row says.
    beside
        What it says besides: its answer, where the values are prompts.
    """
    plain = [normalised(value) for value in beside]
    texts = Texts.of(values, plain)
    evidence = Evidence(texts)
    found: Likenesses = {}
    if limits.near is not None:
        for (one, other), similarity in near_texts(texts, limits.near, engine).items():
            if evidence.is_more_than_chance(one, other):
                found[one, other] = Likeness("near", similarity)
    for shorter, longer in contained(texts):
        has_same_answer = plain and {plain[row] for row in texts.rows[shorter]} & {plain[r] for r in texts.rows[longer]}
        if (evidence.is_told_apart if has_same_answer else evidence.is_more_than_chance)(shorter, longer):
            places = (min(shorter, longer), max(shorter, longer))
            found.setdefault(places, Likeness("contained", 1.0, shorter > longer))
    if limits.overlap is not None:
        for both in overlaps(texts, limits.overlap, found):
            if evidence.is_more_than_chance(both.one, both.other, both.words):
                kind: Kind = "overlap" if both.coverage >= limits.overlap else "passage"
                found[both.one, both.other] = Likeness(kind, round(both.coverage, 6), both.is_of_other)
    return dict(_by_rows(found, texts))


def text_of(value: Any) -> str:
    """The words of a field's value: of an object or a list those inside, keys left out; of an image none."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "" if is_image(value) else " ".join(text_of(child) for child in value.values())
    if isinstance(value, list):
        return " ".join(text_of(child) for child in value)
    return "" if value is None else str(value)


def _by_rows(found: Likenesses, texts: Texts) -> Iterator[tuple[tuple[int, int], Likeness]]:
    """The same for the rows that say these texts."""
    for (one, other), likeness in found.items():
        for a, b in islice(product(texts.rows[one], texts.rows[other]), MEMBERS):
            turned = likeness.is_turned != (a > b)
            yield (min(a, b), max(a, b)), Likeness(likeness.kind, likeness.similarity, turned)


def _pair(one: str, other: str, part: Alike, likeness: Likeness) -> Pair:
    ends = (other, one) if likeness.is_turned else (one, other)
    return Pair(likeness.kind, *ends, part, likeness.similarity)

"""Samples that a person confirms once before the first run, held in the ledger; and what they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from testigo.conductor.grounds import Grounds
from testigo.inspection.choosing import each_category
from testigo.inspection.confirming import Confirmation, How, answers, digest_of_shown
from testigo.inspection.material import Material, encoding_identity, gather
from testigo.inspection.page import AT_MOST_ROWS
from testigo.inspection.seeing import see_row
from testigo.inspection.seen import SeenRow
from testigo.ledger import Event, kinds


def material(grounds: Grounds) -> Material:
    """The rows that are not sealed, and their encoder; no weights are loaded."""
    return gather(grounds.campaign, grounds.corpus, grounds.base)


def identity(grounds: Grounds) -> str:
    """Of the encoding: rows, base, task and encoding settings. A confirmation holds for one."""
    return encoding_identity(grounds.campaign, corpus=grounds.corpus.fingerprint, base=grounds.base.digest)


def folder(grounds: Grounds) -> Path:
    """Where losses under the base and pages of this encoding are kept."""
    return grounds.workspace.root / "inspection" / identity(grounds)[:16]


def to_confirm(made_of: Material) -> tuple[SeenRow, ...]:
    """One row of every category, after the exact preprocessing."""
    return tuple(see_row(made_of, one) for one in each_category(made_of)[:AT_MOST_ROWS])


def standing(grounds: Grounds) -> dict[str, object] | None:
    """The last answer for this encoding, as the ledger keeps it; None when nobody was asked."""
    return last_answer(
        grounds.ledger.events(kind=kinds.SAMPLES_CONFIRMED),
        corpus=grounds.corpus.fingerprint,
        encoding=identity(grounds),
    )


def last_answer(events: Iterable[Event], *, corpus: str, encoding: str) -> dict[str, object] | None:
    """The last answer for an encoding among the events of a ledger."""
    known = [
        event.body
        for event in events
        if event.kind == kinds.SAMPLES_CONFIRMED and answers(event.body, corpus=corpus, encoding=encoding)
    ]
    return dict(known[-1]) if known else None


def in_words(grounds: Grounds) -> str:
    """Who confirmed the samples of this encoding, for a reader."""
    body = standing(grounds)
    if body is None:
        return "not yet"
    if body.get("looked"):
        return f"by {body.get('by') or 'a person'}"
    return "nobody looked: " + (
        "there was no terminal to ask on" if body.get("how") == "no terminal" else "--yes answered"
    )


def record(grounds: Grounds, *, how: How, by: str = "", shown: Sequence[SeenRow] = ()) -> None:
    """Write the answer into the ledger, unless the last one for this encoding says the same."""
    answer = Confirmation(
        corpus=grounds.corpus.fingerprint,
        encoding=identity(grounds),
        by=by,
        how=how,
        rows=tuple(row.id for row in shown),
        shown=digest_of_shown(shown) if shown else "",
    )
    grounds.record(kinds.SAMPLES_CONFIRMED, answer.to_body(), about=("encoding",))

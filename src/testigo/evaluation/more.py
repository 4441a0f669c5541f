"""What an evaluation answers besides its split: the base a second time and with examples, and guard tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testigo.campaign import Campaign
from testigo.corpus import Corpus, Row
from testigo.corpus.guard_rows import guard_rows
from testigo.disk import write_atomically
from testigo.encoding import AnyEncoder, Encoder
from testigo.errors import DataError
from testigo.evaluation.predict import lines, predict
from testigo.evaluation.prediction import guard_name
from testigo.evaluation.prompted import choose_examples, with_examples
from testigo.model.encoder import encoder_of
from testigo.tasks import task_for

if TYPE_CHECKING:
    from testigo.model.load import Loaded

Tell = Callable[[int, int], object]
"""Hears how many rows are answered, of how many."""


def answer_twice(
    model: Any, encoder: AnyEncoder, rows: Sequence[Row], n: int, settings: Campaign, out: Path, tell: Tell
) -> None:
    """So many rows again, in other batches and another order: on a GPU the sums of another batch round differently."""
    sample = sorted(rows, key=lambda row: hashlib.sha256(row.id.encode()).digest())[:n]
    evaluation = settings.evaluation
    predictions = predict(
        model,
        encoder,
        sample,
        max_new_tokens=evaluation.max_new_tokens,
        batch_size=evaluation.batch_size // 2 + 1 if evaluation.batch_size > 1 else 2,
        on_batch=lambda n_done: tell(n_done, len(sample)),
    )
    write_atomically(out, lines(predictions))


def answer_prompted(
    model: Any, encoder: Encoder, rows: Sequence[Row], n: int, settings: Campaign, corpus: Corpus, out: Path, tell: Tell
) -> None:
    """All rows with so many examples from the training rows in front, drawn by the campaign's first seed."""
    examples = choose_examples(corpus.rows("train"), n, settings.seeds[0])
    predictions = predict(
        model,
        encoder,
        rows,
        max_new_tokens=settings.evaluation.max_new_tokens,
        batch_size=max(1, settings.evaluation.batch_size // 2),  # the prompts are longer
        prompt_ids=with_examples(encoder, examples),
        on_batch=lambda n_done: tell(n_done, len(rows)),
    )
    write_atomically(out, lines(predictions))


def answer_guard(model: Any, loaded: Loaded, name: str, settings: Campaign, out: Path, tell: Tell) -> None:
    """A guard task's rows.

    Raises
    ------
    DataError
        When the rows are not those that were asked for.
    """
    guard = next(one for one in settings.guards if one.name == name)
    own = settings.on_guard(guard)
    task = task_for(own)
    rows, digest = guard_rows(settings, guard, lambda row: task.problems(row.fields))
    if out.name != guard_name(name, digest):
        raise DataError(
            expected=f"the rows of the guard {name} as they were read at the start",
            found="other rows",
            where=guard.source,
            action="run the same command again",
        )
    predictions = predict(
        model,
        encoder_of(own, loaded),
        rows,
        max_new_tokens=guard.max_new_tokens,
        batch_size=settings.evaluation.batch_size,
        on_batch=lambda n_done: tell(n_done, len(rows)),
    )
    write_atomically(out, lines(predictions))

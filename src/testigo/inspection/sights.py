"""From a campaign's material to what a page shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from testigo.encoding import ClassEncoder, ImageEncoder, microbatches
from testigo.inspection import choosing, strange
from testigo.inspection.choosing import Chosen
from testigo.inspection.lengths import Lengths, measure
from testigo.inspection.material import SPLITS, Material
from testigo.inspection.page import AT_MOST_IMAGES, AT_MOST_ROWS, Fact, Kind, Sight
from testigo.inspection.seeing import see_batch, see_pack, see_row
from testigo.inspection.seen import SeenPack, SeenRow
from testigo.inspection.wording import POLICIES
from testigo.tasks import is_answered_by_head
from testigo.training.order import Order
from testigo.training.start import Reporter

N_LONGEST, N_STRANGEST, N_RAW = 2, 5, 10


def sight(
    material: Material,
    samples: Sequence[Chosen],
    *,
    folder: Path,
    are_chosen: bool = False,
    raw_seed: int = 0,
    confirmed: str = "",
    reporter: Reporter,
) -> Sight:
    """Everything that a page shows; `samples` are the rows that stand first, `folder` is that of the encoding."""
    campaign, seed = material.campaign, material.campaign.seeds[0]
    most = AT_MOST_IMAGES if kind_of(material) == "image" else AT_MOST_ROWS
    has_lengths = not isinstance(material.encoder, ImageEncoder)
    lengths = measured(material, reporter) if has_lengths else None
    splits = SPLITS if has_lengths else ()
    longest = [one for split in splits for one in choosing.longest(material, split, material.rows(split), N_LONGEST)]
    known = {split: strange.kept(folder, split, material.rows(split)) for split in SPLITS}
    losses = {row_id: own for one in known.values() for row_id, own in one.tokens.items()}
    strangest = [
        one
        for split in SPLITS
        for one in choosing.strangest(split, material.rows(split), known[split].rows, N_STRANGEST)
    ]

    def seen(rows: Sequence[Chosen]) -> tuple[SeenRow, ...]:
        return tuple(see_row(material, one, losses.get(one.row.id, ())) for one in rows)

    return Sight(
        campaign=campaign.name,
        facts=facts(material),
        samples=seen(samples[:most]),
        are_chosen=are_chosen,
        n_left_out=max(len(samples) - most, 0),
        longest=seen(longest),
        strangest=seen(strangest),
        strangest_note="; ".join(
            f"{split}: measured on {len(one.tokens)} of {one.of} rows" for split, one in known.items() if one.tokens
        ),
        kind=kind_of(material),
        microbatch=first_microbatch(material, seed),
        seed=seed,
        lengths=lengths,
        raw=choosing.random_rows(material.rows("train"), N_RAW, raw_seed),
        raw_seed=raw_seed,
        confirmed=confirmed,
    )


def kind_of(material: Material) -> Kind:
    """What counts in the loss, and of what: tokens of a text, the class of a text, or the class of an image."""
    if isinstance(material.encoder, ImageEncoder):
        return "image"
    return "class" if isinstance(material.encoder, ClassEncoder) else "text"


def measured(material: Material, reporter: Reporter) -> Lengths:
    """All lengths, with progress."""
    return measure(material, progress_over(material, reporter))


def progress_over(material: Material, reporter: Reporter, n_rows: int | None = None) -> Callable[[], None]:
    """What is called once a row while these, or all, rows are encoded."""
    of, done = n_rows or sum(len(material.rows(split)) for split in SPLITS), 0

    def on_row() -> None:
        nonlocal done
        done += 1
        if done % 200 == 0 or done == of:
            reporter.progress("encode", done, of)

    return on_row


def first_microbatch(material: Material, seed: int) -> SeenPack | None:
    """The rows that training of this seed lays out first; None where no row is kept."""
    training, rows = material.campaign.training, material.rows("train")
    encoded = [material.encoded(row) for row in rows]
    kept = [row for row in encoded if row.n_tokens <= material.encoder.maximum_length]
    if not kept or isinstance(material.encoder, ImageEncoder):
        return None
    order = Order.planned(
        n_rows=len(kept),
        microbatch=training.microbatch,
        accumulation=training.accumulation,
        replicas=material.campaign.machine.processes,
        seed=seed,
        updates=training.updates,
        epochs=training.epochs,
    )
    lengths = [row.n_tokens for row in kept]
    first = microbatches(order.rows_of(1), lengths, training.microbatch)[0]
    rows_of_it = [kept[place] for place in first]
    if isinstance(material.encoder, ClassEncoder):
        return see_batch(material.encoder, material.encoder.lay_out(rows_of_it))
    return see_pack(material, material.laid_out(rows_of_it))


def facts(material: Material) -> tuple[Fact, ...]:
    """What the page's head tells."""
    campaign, corpus = material.campaign, material.corpus
    counts = ", ".join(f"{n:,} {split}" for split, n in corpus.counts.items())
    if is_answered_by_head(campaign):
        return (
            Fact("Task", f"{campaign.task.kind}, from {campaign.task.input} to {campaign.task.target}"),
            Fact("Rows", f"{counts} (sealed)"),
            Fact("Corpus", corpus.fingerprint[:16]),
            Fact("Base", f"{campaign.model.base}, digest {material.base.digest[:16]}"),
            Fact("Classes", f"{len(material.encoder.task.labels)}: {', '.join(material.encoder.task.labels)}"),
        )
    frame = material.encoder.frame
    end = " ".join(f"{frame.text_of([one])} (id {one})" for one in frame.turn_end_ids)
    return (
        Fact("Task", f"{campaign.task.kind}, from {campaign.task.input} to {campaign.task.target}"),
        Fact("Rows", f"{counts} (sealed)"),
        Fact("Corpus", corpus.fingerprint[:16]),
        Fact("Base", f"{campaign.model.base}, digest {material.base.digest[:16]}"),
        Fact("Template", "the tokenizer's chat template" if frame.has_template else "none: plain text"),
        Fact("A turn ends with", end),
        Fact("Layout", campaign.encoding.layout),
        Fact(
            "Maximum length",
            f"{material.encoder.maximum_length:,} tokens; longer rows: {POLICIES[material.encoder.longer]}",
        ),
    )

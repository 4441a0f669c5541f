"""The lengths of a campaign's own rows: read, split and tokenised as for training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from testigo.campaign import Campaign
from testigo.corpus import build
from testigo.encoding import ImageEncoder
from testigo.model.encoder import encoder_for
from testigo.sizing.architecture import source_of
from testigo.sizing.lengths import RowLengths
from testigo.tasks import is_answered_by_head, labels_of, task_for


def read_lengths(campaign: Campaign, folder_for: Callable[[str], Path]) -> RowLengths:
    """Row lengths of the training and the validation split, by the base's own tokenizer.

    Parameters
    ----------
    folder_for
        Fingerprint -> where that corpus lies or is to be written.

    Raises
    ------
    DataError, EncodingError
        As `testigo check` would tell.
    ModelError
        When tokenizer or configuration cannot be read.
    """
    task = task_for(campaign)
    corpus = build(campaign, folder_for, lambda row: task.problems(row.fields))
    source = source_of(campaign)
    labels = labels_of(campaign, corpus)
    encoder: Any = encoder_for(
        campaign, source.reader(campaign), source.configuration(), labels=labels, images=corpus.folder
    )
    if labels and is_answered_by_head(campaign):
        both = {split: encoder.encode_all(corpus.rows(split))[0] for split in ("train", "validation")}
        pixels = None
        if isinstance(encoder, ImageEncoder):
            pixels = tuple(encoder.lay_out(both["train"][:1]).inputs["pixel_values"].shape[1:])
        return RowLengths.of_classes(both["train"], both["validation"], n_classes=len(labels), pixels=pixels)
    train, validation = (encoder.encode_all(corpus.rows(split))[0] for split in ("train", "validation"))
    return RowLengths.of(train, validation)

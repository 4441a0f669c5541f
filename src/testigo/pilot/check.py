"""The data gate alone: rows and exact tensors, by tokenizer and configuration, without loading weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from testigo.campaign import Campaign
from testigo.corpus import Corpus, Row
from testigo.encoding import AnyRow, Encoder, Lengths
from testigo.gates import DataEvidence, Evidence, ValidationEvidence
from testigo.gates.duplicates import duplicates_from, near_across
from testigo.gates.splits import splits_from
from testigo.model.base import BaseFiles
from testigo.model.encoder import encoder_for
from testigo.model.load import load_config, load_processor, load_tokenizer, pad_id_of
from testigo.model.prepare import head_of
from testigo.pilot import classes, data
from testigo.pilot.balance import balance
from testigo.pilot.startable import refuse_unstartable
from testigo.pilot.verdict import judge_evidence
from testigo.rules import Verdict
from testigo.tasks import labels_of

SPLITS = ("train", "validation")
_OF_CLASSES = ("F131", "F133", "F135", "F136", "F137", "F138", "F139")


@dataclass(frozen=True)
class Checked:
    """The verdict over the data gate, and what the rows look like in tokens.

    `encoder` is that of the campaign's kind, and `rows` are its rows: see `testigo.encoding`.
    """

    verdict: Verdict
    encoder: Any
    rows: dict[str, tuple[Any, ...]]
    raw: dict[str, tuple[Row, ...]]
    lengths: dict[str, dict[str, Any]]


def check(campaign: Campaign, corpus: Corpus, base: BaseFiles) -> Checked:
    """Encode every row and judge the tensors.

    Raises
    ------
    EncodingError
        When rows are too long and the campaign does not say what to do with them.
    ModelError
        When tokenizer or configuration cannot be read, or what is declared cannot be trained.
    MissingExtra
        When a library that the base's form needs is not installed.
    """
    refuse_unstartable(campaign, corpus, base)
    config = load_config(base)
    head = head_of(campaign, labels_of(campaign, corpus))
    new_head = head is not None and head.is_new(config)
    reader = (
        load_processor(base.folder, trusted=base.is_trusted)
        if head is not None and head.reads == "image"
        else load_tokenizer(base)
    )
    encoder = encoder_for(campaign, reader, config, labels=head.labels if head else (), images=corpus.folder)
    raw = {split: corpus.rows(split) for split in SPLITS}
    encoded: dict[str, tuple[Any, ...]] = {}
    lengths = {}
    for split, rows in raw.items():
        encoded[split], lengths[split] = encoder.encode_all(rows)
        kept = {row.id for row in encoded[split]}
        raw[split] = tuple(row for row in rows if row.id in kept)
    evidence: list[Evidence]
    if isinstance(encoder, Encoder):
        evidence = _of_texts(campaign, encoder, encoded, raw, lengths, int(config.get_text_config().vocab_size))
    else:
        seen = classes.Seen(encoder, encoded, raw, lengths, config, new_head)
        evidence = [classes.data(seen), classes.agreement(seen)]
    manifest = corpus.manifest
    near = near_across(manifest)
    evidence = [replace(one, near_copies=near) if isinstance(one, DataEvidence) else one for one in evidence]
    evidence += [splits_from(manifest), duplicates_from(manifest), *balance(campaign, raw)]
    verdict = judge_evidence(evidence, campaign, phases=("data",), also=("V109", *_OF_CLASSES))
    summaries = {split: _summary(rows, lengths[split]) for split, rows in encoded.items()}
    return Checked(verdict, encoder, encoded, raw, summaries)


def _of_texts(
    campaign: Campaign,
    encoder: Encoder,
    encoded: dict[str, tuple[Any, ...]],
    raw: dict[str, tuple[Row, ...]],
    lengths: dict[str, Lengths],
    vocabulary_size: int,
) -> list[Evidence]:
    tensors = data.Tensors(
        encoder=encoder,
        rows=encoded,
        raw=raw,
        lengths=lengths,
        vocabulary_size=vocabulary_size,
        layout=campaign.encoding.layout,
        pad_id=pad_id_of(encoder.frame.tokenizer),
    )
    # Whether answers fit into an output is known before anything is generated.
    outputs = ValidationEvidence(
        max_new_tokens=campaign.evaluation.max_new_tokens,
        target_longest_tokens=max(row.n_answer for rows in encoded.values() for row in rows),
    )
    return [data.collect(tensors), outputs]


def _summary(rows: tuple[AnyRow, ...], lengths: Lengths) -> dict[str, Any]:
    """Lengths of a split [tokens]: median, 95th percentile, the longest with its row; rows left out or cut."""
    every = np.array([row.n_tokens for row in rows])
    answers = np.array([row.n_answer for row in rows])
    longest = rows[int(every.argmax())]
    return {
        "rows": len(rows),
        "tokens": int(every.sum()),
        "median": float(np.median(every)),
        "p95": float(np.percentile(every, 95)),
        "longest": int(every.max()),
        "longest_row": longest.id,
        "supervised_tokens": sum(row.n_supervised for row in rows),
        "longest_answer": int(answers.max()),
        "dropped": len(lengths.dropped),
        "input_truncated": len(lengths.truncated_input),
    }

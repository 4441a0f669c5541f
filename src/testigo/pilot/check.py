"""The data gate alone: rows and exact tensors, by tokenizer and configuration, without loading weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from testigo.campaign import Campaign
from testigo.corpus import Corpus, Row
from testigo.encoding import EncodedRow, Encoder, Lengths
from testigo.gates import ValidationEvidence
from testigo.gates.splits import splits_from
from testigo.model.base import BaseFiles
from testigo.model.encoder import encoder_for
from testigo.model.load import load_config, load_tokenizer
from testigo.pilot import data
from testigo.pilot.verdict import judge_evidence
from testigo.rules import Verdict

SPLITS = ("train", "validation")


@dataclass(frozen=True)
class Checked:
    """The verdict over the data gate, and what the rows look like in tokens."""

    verdict: Verdict
    encoder: Encoder
    rows: dict[str, tuple[EncodedRow, ...]]
    raw: dict[str, tuple[Row, ...]]
    lengths: dict[str, dict[str, Any]]


def check(campaign: Campaign, corpus: Corpus, base: BaseFiles) -> Checked:
    """Encode every row and judge the tensors.

    Raises
    ------
    EncodingError
        When rows are too long and the campaign does not say what to do with them.
    ModelError
        When tokenizer or configuration cannot be read.
    """
    tokenizer, config = load_tokenizer(base), load_config(base).get_text_config()
    encoder = encoder_for(campaign, tokenizer, config)
    raw = {split: corpus.rows(split) for split in SPLITS}
    encoded, lengths = {}, {}
    for split, rows in raw.items():
        encoded[split], lengths[split] = encoder.encode_all(rows)
        kept = {row.id for row in encoded[split]}
        raw[split] = tuple(row for row in rows if row.id in kept)
    pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id or 0
    tensors = data.Tensors(
        encoder=encoder,
        rows=encoded,
        raw=raw,
        lengths=lengths,
        vocabulary_size=int(config.vocab_size),
        layout=campaign.encoding.layout,
        pad_id=int(pad_id),
    )
    # Whether answers fit into an output is known before anything is generated.
    outputs = ValidationEvidence(
        max_new_tokens=campaign.evaluation.max_new_tokens,
        target_longest_tokens=max(row.n_answer for rows in encoded.values() for row in rows),
    )
    verdict = judge_evidence(
        [data.collect(tensors), splits_from(corpus.manifest), outputs], campaign, phases=("data",), also=("V109",)
    )
    summaries = {split: _summary(rows, lengths[split]) for split, rows in encoded.items()}
    return Checked(verdict, encoder, encoded, raw, summaries)


def _summary(rows: tuple[EncodedRow, ...], lengths: Lengths) -> dict[str, Any]:
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

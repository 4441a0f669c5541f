"""What is looked at: the rows that are not sealed, and the encoder that makes tensors of them, without weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from testigo.campaign import Campaign
from testigo.campaign.campaign import digest
from testigo.corpus import Corpus, Row
from testigo.encoding import EncodedRow, Pack, lay_out
from testigo.errors import DataError
from testigo.model.base import BaseFiles
from testigo.model.encoder import encoder_for
from testigo.model.load import load_config, load_processor, load_tokenizer, pad_id_of
from testigo.tasks import labels_of

# So many encoded rows stay in memory; of more the rest are made anew each time they are looked at.
_KEPT_ROWS = 50_000
SPLITS = ("train", "validation")
"""The splits that may be looked at: the test rows are sealed."""


@dataclass
class Material:
    """A campaign's rows and the way they become tensors; rows are read and encoded when they are first asked for.

    `encoder` is that of the campaign's kind: of texts, or of texts or images before a class head.
    """

    campaign: Campaign
    corpus: Corpus
    encoder: Any
    pad_id: int
    base: BaseFiles
    _encoded: dict[str, Any] = field(default_factory=dict)
    _rows: dict[str, tuple[Row, ...]] = field(default_factory=dict)

    def rows(self, split: str) -> tuple[Row, ...]:
        """The rows of a split as they were read and cleaned.

        Raises
        ------
        DataError
            For the sealed test rows, and for an unknown split.
        """
        if split not in SPLITS:
            raise DataError(
                expected="train or validation",
                found=f"'{split}'" + (", which is sealed" if split == "test" else ""),
                where="--split",
                action="name one of the two",
            )
        if split not in self._rows:
            self._rows[split] = self.corpus.rows(split)
        return self._rows[split]

    def encoded(self, row: Row) -> Any:
        """A row as training would see it, too long or not."""
        known = self._encoded.get(row.id)
        if known is None:
            known = self.encoder.encode(row)
            if len(self._encoded) < _KEPT_ROWS:
                self._encoded[row.id] = known
        return known

    def laid_out(self, rows: Sequence[EncodedRow]) -> Pack:
        """Rows as the tensors of one microbatch, in the campaign's layout."""
        return lay_out(rows, self.campaign.encoding.layout, pad_id=self.pad_id)


def gather(campaign: Campaign, corpus: Corpus, base: BaseFiles) -> Material:
    """The material of a campaign: its tokenizer and configuration are read, its weights are not.

    Raises
    ------
    ModelError
        When tokenizer or configuration cannot be read.
    """
    configuration = load_config(base)
    labels = labels_of(campaign, corpus)
    if campaign.task.kind == "image-classification":
        reader: Any = load_processor(base.folder, trusted=base.is_trusted)
        pad_id = 0
    else:
        reader = load_tokenizer(base)
        pad_id = pad_id_of(reader)
    encoder = encoder_for(campaign, reader, configuration, labels=labels, images=corpus.folder)
    return Material(campaign, corpus, encoder, pad_id, base)


def encoding_identity(campaign: Campaign, *, corpus: str, base: str) -> str:
    """A digest of all that decides how rows become tensors: rows, base with its tokenizer, task and encoding.

    It is known without reading the tokenizer, so that a run that goes on need not load it to ask nothing.
    """
    own: dict[str, Any] = campaign.canonical()
    decides: dict[str, Any] = {name: own[name] for name in ("task", "encoding")}
    return digest({**decides, "reserve": campaign.evaluation.max_new_tokens, "corpus": corpus, "base": base})

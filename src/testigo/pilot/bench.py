"""What the phases work on: the campaign's own session, the longest rows, and a small sample for proofs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import nn

from testigo.campaign import Campaign
from testigo.corpus import Row
from testigo.encoding import AnyEncoder, EncodedRow, Encoder, ImageEncoder, Lengths, Pack, pack, pad
from testigo.model.device import free_cache
from testigo.model.load import Loaded
from testigo.model.quantised import bits_of
from testigo.pilot.classes import Seen
from testigo.pilot.data import Tensors
from testigo.training.loop import Session
from testigo.training.prepare import Prepared

N_SAMPLE = 4


@dataclass
class Bench:
    """Shared by all phases.

    The proofs of equality run on a few short rows, since they hold for any rows; memory and seconds are measured on
    the longest ones.
    """

    prepared: Prepared
    session: Session
    lengths: dict[str, Lengths]
    run: set[str] = field(default_factory=set)
    checkpoint_bytes: int | None = None

    @property
    def settings(self) -> Campaign:
        """The campaign."""
        return self.prepared.settings

    @property
    def model(self) -> Any:
        """The base with its adapter."""
        return self.prepared.model

    @property
    def loaded(self) -> Loaded:
        """The base as it was loaded."""
        return self.prepared.loaded

    @property
    def encoder(self) -> AnyEncoder:
        """Rows to tensors."""
        return self.prepared.encoder

    @property
    def has_head(self) -> bool:
        """Whether a class head answers, and no text is written."""
        return not isinstance(self.encoder, Encoder)

    @property
    def text_encoder(self) -> Encoder:
        """Rows to ids, where a text is written."""
        assert isinstance(self.encoder, Encoder)
        return self.encoder

    @property
    def vocabulary_size(self) -> int:
        """Rows of the input embedding."""
        return int(self.model.get_input_embeddings().weight.shape[0])

    @cached_property
    def worst(self) -> tuple[Any, ...]:
        """The longest training rows, as many as a microbatch holds."""
        ordered = sorted(self.session.rows, key=lambda row: (-row.n_tokens, row.id))
        return tuple(ordered[: self.settings.training.microbatch])

    @cached_property
    def worst_validation(self) -> tuple[Any, ...]:
        """The longest validation rows, as many as an evaluation batch holds."""
        ordered = sorted(self.session.validation_rows, key=lambda row: (-row.n_tokens, row.id))
        return tuple(ordered[: self.settings.evaluation.batch_size])

    @cached_property
    def sample(self) -> tuple[Any, ...]:
        """A few short training rows of different lengths for the proofs of equality."""
        ordered = sorted(self.session.rows, key=lambda row: (row.n_tokens, row.id))
        if self.has_head:
            return _of_each_class(ordered)
        quarter = ordered[: max(len(ordered) // 4, N_SAMPLE)]
        step = max(len(quarter) // N_SAMPLE, 1)
        return tuple(quarter[::step][:N_SAMPLE])

    def tensors(self) -> Tensors:
        """What the data gate looks at."""
        rows: dict[str, Sequence[Any]] = {"train": self.session.rows, "validation": self.session.validation_rows}
        return Tensors(
            encoder=self.text_encoder,
            rows=rows,
            raw={split: self.raw(split, own) for split, own in rows.items()},
            lengths=self.lengths,
            vocabulary_size=self.vocabulary_size,
            layout=self.settings.encoding.layout,
            pad_id=self.prepared.pad_id,
            embedding=self.model.get_input_embeddings().weight,
            embedding_is_trained=self.model.get_input_embeddings().weight.requires_grad,
        )

    def classes(self) -> Seen:
        """What the data gate looks at where a class head answers."""
        rows: dict[str, Sequence[Any]] = {"train": self.session.rows, "validation": self.session.validation_rows}
        assert not isinstance(self.encoder, Encoder)
        raw = {split: self.raw(split, own) for split, own in rows.items()}
        return Seen(self.encoder, rows, raw, self.lengths, self.loaded.model.config, self.loaded.new_head)

    def described(self, rows: Sequence[Any]) -> str:
        """Rows of a worst case, for the table of phases."""
        if isinstance(self.encoder, ImageEncoder):
            return f"{len(rows)} images"
        return f"{len(rows)} longest rows (up to {max(row.n_tokens for row in rows)} tokens)"

    def raw(self, split: str, encoded: Sequence[Any]) -> tuple[Row, ...]:
        """The rows that encoded ones were made of."""
        return self.prepared.rows(split, tuple(row.id for row in encoded))

    def packed(self, rows: Sequence[EncodedRow]) -> Pack:
        """Rows in one pack, on the device."""
        return pack(rows).to(self.session.device)

    def padded(self, rows: Sequence[EncodedRow]) -> Pack:
        """Rows in one padded batch, on the device."""
        return pad(rows, pad_id=self.prepared.pad_id).to(self.session.device)

    @cached_property
    def initial(self) -> dict[str, torch.Tensor]:
        """The trained weights as the seed made them."""
        return {name: p.detach().to("cpu", copy=True) for name, p in self.session.parameters.items()}

    @contextmanager
    def off_device(self) -> Iterator[None]:
        """Give an accelerator's memory to another process. The optimizer's state and gradients are gone after it.

        A base in few bits stays: its scales would not come along.
        """
        device = self.session.device
        if device.type == "cpu":
            yield
            return
        self.session.optimizer.state.clear()
        self.session.optimizer.zero_grad(set_to_none=True)
        stays = bits_of(self.model) is not None
        if not stays:
            self.model.to("cpu")
        free_cache()
        try:
            yield
        finally:
            if not stays:
                self.model.to(device)

    def back_to_start(self) -> None:
        """Trained weights and optimizer as they were before the first update."""
        with torch.no_grad():
            for name, parameter in self.session.parameters.items():
                parameter.copy_(self.initial[name])
        self.session.optimizer.state.clear()
        self.session.optimizer.zero_grad(set_to_none=True)
        self.session.progress.update = 0


def _of_each_class(ordered: Sequence[Any]) -> tuple[Any, ...]:
    """The first rows of different classes, then others, so that learning them by heart says something."""
    first = {row.label: row for row in reversed(ordered)}
    chosen = sorted(first.values(), key=lambda row: (row.n_tokens, row.id))[:N_SAMPLE]
    known = {row.id for row in chosen}
    return tuple([*chosen, *(row for row in ordered if row.id not in known)][:N_SAMPLE])


def gradients(parameters: dict[str, nn.Parameter]) -> dict[str, torch.Tensor]:
    """Copies of the gradients that there are, by name, in the main memory: a device has no room for several."""
    return {name: p.grad.detach().to("cpu", copy=True) for name, p in parameters.items() if p.grad is not None}


def relative_error(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    """Size of the difference of two gradients over the size of the second."""
    difference = sum(float((a[name] - b[name]).double().square().sum()) for name in b)
    size = sum(float(b[name].double().square().sum()) for name in b)
    return (difference / size) ** 0.5 if size else 0.0 if difference == 0 else float("inf")

"""From a frozen spec to a session in memory: base, adapter, encoded rows, order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testigo.campaign import Campaign
from testigo.corpus import Corpus, Row, open_corpus
from testigo.encoding import AnyEncoder, Batch, Encoder, lay_out
from testigo.model.activations import checkpoint_activations
from testigo.model.adapter import trained_parameters
from testigo.model.device import device
from testigo.model.encoder import encoder_of
from testigo.model.load import Loaded, pad_id_of
from testigo.model.prepare import load_exactly
from testigo.model.sharding import shard
from testigo.tasks import labels_of
from testigo.training.loop import Session
from testigo.training.order import Order
from testigo.training.replicas import ALONE, Replicas
from testigo.training.samples import Samples, fixed_prompts
from testigo.training.spec import RunSpec


@dataclass(frozen=True)
class Prepared:
    """A base with its adapter, and the way rows become tensors."""

    settings: Campaign
    loaded: Loaded
    model: Any
    encoder: AnyEncoder
    corpus: Corpus

    @property
    def pad_id(self) -> int:
        """Any id will do, since padding is known by its place; the tokenizer's own where it has one."""
        return 0 if self.loaded.tokenizer is None else pad_id_of(self.loaded.tokenizer)

    def lay_out(self, rows: Sequence[Any]) -> Batch:
        """Rows as one microbatch: in the campaign's layout, or as its class head reads them."""
        if isinstance(self.encoder, Encoder):
            return lay_out(rows, self.settings.encoding.layout, pad_id=self.pad_id)
        return self.encoder.lay_out(rows)

    def rows(self, split: str, only: tuple[str, ...] | None = None) -> tuple[Row, ...]:
        """The rows of a split in its own order, or those named in theirs."""
        rows = self.corpus.rows(split)
        if only is None:
            return rows
        by_id = {row.id: row for row in rows}
        return tuple(by_id[row_id] for row_id in only)


def prepare(
    spec: RunSpec, replicas: Replicas = ALONE, before_device: Callable[[Any], object] | None = None
) -> Prepared:
    """Load what a spec names; among several processes with `strategy: fsdp`, each keeps its share of the weights.

    Parameters
    ----------
    before_device
        Sees the model before its weights go to the device.

    Raises
    ------
    ModelError
        When the base on disk is not the one of the spec.
    """
    settings = spec.settings()
    corpus = open_corpus(Path(spec.corpus))
    labels = labels_of(settings, corpus)
    loaded, model = load_exactly(settings, spec.base_digest, seed=spec.seed, adapted=True, labels=labels)
    if settings.training.activation_checkpointing:
        checkpoint_activations(model)
    if before_device is not None:
        before_device(model)
    if replicas.n > 1 and settings.machine.strategy == "fsdp":
        shard(model, trained_parameters(model).values())
    else:
        model.to(device())
    return Prepared(settings, loaded, model, encoder_of(settings, loaded, corpus.folder), corpus)


def session(spec: RunSpec, prepared: Prepared, folder: Path, replicas: Replicas = ALONE) -> Session:
    """A session at its very start."""
    settings, training = prepared.settings, prepared.settings.training
    rows, _ = prepared.encoder.encode_all(prepared.rows("train", spec.rows))
    validation, _ = prepared.encoder.encode_all(prepared.rows("validation", spec.validation_rows))
    order = Order.planned(
        n_rows=len(rows),
        microbatch=training.microbatch,
        accumulation=training.accumulation,
        replicas=settings.machine.processes,
        seed=spec.seed,
        updates=training.updates,
        epochs=training.epochs,
    )
    # A part of the rows is what the pilot trains on: it has its own look at outputs.
    chosen = () if spec.rows is not None else fixed_prompts(prepared.rows("validation"), settings.evaluation.samples)
    # One process takes them; where weights are sharded, all do.
    sharded = replicas.n > 1 and settings.machine.strategy == "fsdp"
    takes = chosen and (replicas.is_first or sharded)
    samples = Samples(chosen, prepared.encoder, settings, folder, device(), replicas if sharded else ALONE)
    return Session(
        settings=settings,
        seed=spec.seed,
        model=prepared.model,
        rows=rows,
        validation_rows=validation,
        order=order,
        lay=prepared.lay_out,
        device=device(),
        folder=folder,
        samples=samples if takes else None,
        replicas=replicas,
        run_id=spec.run_id,
    )

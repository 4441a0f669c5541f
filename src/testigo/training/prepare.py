"""From a frozen spec to a session in memory: base, adapter, encoded rows, order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from testigo.campaign import Campaign
from testigo.corpus import Corpus, Row, open_corpus
from testigo.encoding import AnyEncoder, Batch, Encoder, lay_out, stored
from testigo.model.activations import checkpoint_activations
from testigo.model.adapter import trained_parameters
from testigo.model.device import device
from testigo.model.encoder import encoder_of
from testigo.model.load import Loaded, pad_id_of
from testigo.model.prepare import load_exactly
from testigo.model.quantised import on_device
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

    def encoded(self, split: str, only: tuple[str, ...] | None = None) -> Sequence[Any]:
        """The rows of a split as the model sees them; whole splits are encoded once for all runs, and kept on disk."""
        encoder, rows = self.encoder, self.rows(split, only)
        if only is not None or not isinstance(encoder, Encoder) or not rows:
            return encoder.encode_all(rows)[0]
        what = self.settings.model_dump(mode="json", include={"task", "encoding"})
        # Two rows encoded anew stand for what no setting names, such as the text of a schema's file.
        probes = [encoder.encode(row).ids for row in (rows[0], rows[-1])]
        digests = hashlib.sha256("".join(row.digest for row in rows).encode()).hexdigest()
        key = [split, digests, encoder.fingerprint(), what, probes, version("transformers")]
        return stored(self.corpus.folder / "encoded", key, lambda: encoder.encode_all(rows)[0])

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
        on_device(model)
    return Prepared(settings, loaded, model, encoder_of(settings, loaded, corpus.folder), corpus)


def bare_session(settings: Campaign, digest: str, rows: Sequence[Any], *, seed: int, folder: Path) -> Session:
    """A session over rows that are encoded already, without a corpus: for measurements."""
    loaded, model = load_exactly(settings, digest, seed=seed, adapted=True)
    if settings.training.activation_checkpointing:
        checkpoint_activations(model)
    training = settings.training
    order = Order.planned(
        n_rows=len(rows),
        microbatch=training.microbatch,
        accumulation=training.accumulation,
        replicas=1,
        seed=seed,
        updates=training.updates,
        epochs=training.epochs,
    )

    def lay(some: Sequence[Any]) -> Batch:
        return lay_out(some, settings.encoding.layout, pad_id=pad_id_of(loaded.tokenizer))

    return Session(
        settings=settings,
        seed=seed,
        model=model,
        rows=rows,
        validation_rows=(),
        order=order,
        lay=lay,
        device=device(),
        folder=folder,
    )


def session(spec: RunSpec, prepared: Prepared, folder: Path, replicas: Replicas = ALONE) -> Session:
    """A session at its very start."""
    settings, training = prepared.settings, prepared.settings.training
    rows = prepared.encoded("train", spec.rows)
    validation = prepared.encoded("validation", spec.validation_rows)
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

"""Forward: the logits are finite, packed equals alone equals padded, and the loss is what another path says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.nn.functional import cross_entropy, log_softmax

from testigo.encoding import EncodedRow
from testigo.gates.forward import ForwardEvidence
from testigo.model.code import running_code
from testigo.model.digest import weights_sha256
from testigo.model.losses import supervised_logits
from testigo.model.quantised import all_weights
from testigo.pilot.bench import Bench
from testigo.pilot.numbers import output_dtypes
from testigo.training.loss import evaluating
from testigo.training.optimizer import autocast


def collect(bench: Bench, *, weights_before: str) -> ForwardEvidence:
    """Forward passes on a small sample, in evaluation mode, without gradients."""
    rows, model = bench.sample, bench.model
    with evaluating(model), autocast(bench.settings.model.precision, bench.session.device):
        packed = bench.packed(rows)
        with output_dtypes(model) as dtypes:
            together = supervised_logits(model, packed)  # (S, vocabulary)
        again = supervised_logits(model, packed)
        alone = torch.cat([supervised_logits(model, bench.packed([row])) for row in rows])
        padded = supervised_logits(model, bench.padded(rows))
        base = _base_logits(model, bench, rows)
        change = _neighbour_change(bench, rows)
    with evaluating(model):  # outside of autocast: the other path computes in fp32
        exact = torch.cat([supervised_logits(model, bench.packed([row])) for row in rows])
    targets = packed.targets
    size = float(alone.abs().max())
    return ForwardEvidence(
        rows=packed.row_ids,
        precision=bench.settings.model.precision,
        loss=float(cross_entropy(together, targets)),
        loss_fp32=-float(log_softmax(exact.double(), -1)[torch.arange(len(targets)), targets].mean()),
        logits_finite=bool(torch.isfinite(together).all()),
        base_row_loss=float(cross_entropy(base, targets)),
        vocabulary_size=together.shape[1],
        packed_vs_alone=float((together - alone).abs().max()) / size,
        padded_vs_alone=float((padded - alone).abs().max()) / size,
        perturbed_neighbour=change,
        shuffled_label_loss=float(cross_entropy(together, targets[_shuffled(len(targets))])),
        shifted_label_loss=_shifted(alone, packed.owner, targets),
        evaluation_twice=abs(float(cross_entropy(together, targets)) - float(cross_entropy(again, targets))),
        zero_loss=float(cross_entropy(together, targets)) == 0.0,
        weights_intact=weights_sha256(all_weights(model)) == weights_before,
        output_dtypes=dict(dtypes),
        own_code=running_code(model, bench.loaded.tokenizer, bench.loaded.processor),
    )


def _base_logits(model: Any, bench: Bench, rows: Sequence[EncodedRow]) -> torch.Tensor:
    """(S, vocabulary) of the base without its adapter, each row alone."""
    if not hasattr(model, "disable_adapter"):
        return torch.cat([supervised_logits(model, bench.packed([row])) for row in rows])
    with model.disable_adapter():
        return torch.cat([supervised_logits(model, bench.packed([row])) for row in rows])


def _neighbour_change(bench: Bench, rows: Sequence[EncodedRow]) -> float | None:
    """Largest change of the last row's logits when every own token of its neighbours is replaced."""
    if len(rows) < 2:
        return None
    packed = bench.packed(rows)
    own = packed.segment[0] == len(rows)
    seen = packed.attention_mask[0, 0, own].any(0)  # (T,) what the last row sees
    ids = torch.where(seen, packed.input_ids, (packed.input_ids + 1) % bench.vocabulary_size)
    mine = packed.owner == len(rows) - 1
    before = supervised_logits(bench.model, packed)[mine]
    after = supervised_logits(bench.model, replace(packed, input_ids=ids))[mine]
    return float((before - after).abs().max())


def _shuffled(n: int) -> torch.Tensor:
    return torch.randperm(n, generator=torch.Generator().manual_seed(0))


def _shifted(logits: torch.Tensor, owner: torch.Tensor, targets: torch.Tensor) -> float | None:
    """The lower loss with labels moved one place to either side within each row."""
    inside = owner[1:] == owner[:-1]
    if not bool(inside.any()):
        return None
    right = cross_entropy(logits[:-1][inside], targets[1:][inside])
    left = cross_entropy(logits[1:][inside], targets[:-1][inside])
    return float(torch.minimum(left, right))

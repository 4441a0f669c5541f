"""Forward: the loss is what another path says, labels are shifted once, evaluation repeats, padding is inert."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from testigo.attach.bench import Bench
from testigo.attach.rows import IGNORED, SeenRow, places_in_batch
from testigo.gates.forward import ForwardEvidence
from testigo.model.bare import bare
from testigo.model.code import running_code
from testigo.pilot.numbers import output_dtypes

#: Two losses are the same when they differ by no more than this, relative to the larger of one nat and the loss.
SAME = 1e-4
#: Evaluations that differ by more than this are not repeated ones [nats].
REPEATED = 1e-6
#: Fewer labels than this say nothing when they are shuffled, nor do answers of fewer labels than four on average.
ENOUGH_LABELS, ENOUGH_PER_ROW = 32, 4


def collect(bench: Bench) -> ForwardEvidence:
    """Forward passes on a small sample, in evaluation mode, without gradients."""
    rows = bench.sample
    batch = bench.train.together(rows)
    loss, again = bench.evaluated(batch), bench.evaluated(batch)
    apart = abs(loss - again) if math.isfinite(loss) and math.isfinite(again) else None
    bench.is_repeatable = apart is None or apart <= REPEATED * max(1.0, abs(loss))
    with output_dtypes(bench.model) as dtypes:
        logits, labels = bench.logits(batch), batch.get("labels")
    paths = () if logits is None or not isinstance(labels, torch.Tensor) else _paths(logits, labels.cpu())
    recomputed = _recomputed(bench, loss, paths)
    if logits is not None and bench.is_cross_entropy:
        bench.n_outputs = logits.shape[-1]
    return ForwardEvidence(
        rows=tuple(row.id for row in rows),
        precision=bench.precision,
        loss=loss,
        loss_fp32=recomputed if bench.is_repeatable else None,
        logits_finite=None if logits is None else bool(torch.isfinite(logits).all()),
        vocabulary_size=bench.n_outputs,
        padded_vs_alone=_padded(bench, batch, rows, logits) if bench.is_repeatable else None,
        perturbed_neighbour=_neighbour(bench, batch, logits) if bench.is_repeatable else None,
        shuffled_label_loss=_shuffled(logits, labels, rows) if bench.loss_shift == 1 else None,
        evaluation_twice=apart,
        zero_loss=loss == 0.0,
        output_dtypes=None if logits is None else dict(dtypes),
        own_code=running_code(bench.model, bench.trainer.processing_class),
    )


@dataclass(frozen=True)
class _Path:
    """One way to compute the mean cross-entropy of the labels."""

    shift: int
    """Places that the labels are moved by to meet their prediction."""
    value: float
    """Nats per label."""


def _paths(logits: torch.Tensor, labels: torch.Tensor) -> tuple[_Path, ...]:
    """Every path that a Trainer's loss may take, the exact ones first.

    For models whose class does not say that they shift labels (GPT-2), the Trainer divides by all labels, though the
    first of each row is never predicted: the loss is a little too small, by the same factor for every row length.
    """
    if labels.is_floating_point() or logits.dim() != labels.dim() + 1 or logits.shape[:-1] != labels.shape:
        return ()
    paths = [_Path(0, _mean(logits, labels))]
    if labels.dim() == 2 and labels.shape[1] > 1:
        moved = _mean(logits[:, :-1], labels[:, 1:])
        counted, every = int((labels[:, 1:] != IGNORED).sum()), int((labels != IGNORED).sum())
        paths += [_Path(1, moved), _Path(1, moved * counted / max(every, 1))]
    return tuple(path for path in paths if math.isfinite(path.value))


def _mean(logits: torch.Tensor, labels: torch.Tensor) -> float:
    flat = labels.reshape(-1)
    if not bool((flat != IGNORED).any()) or int(flat.max()) >= logits.shape[-1]:
        return float("nan")
    return float(cross_entropy(logits.reshape(-1, logits.shape[-1]), flat, ignore_index=IGNORED))


def _recomputed(bench: Bench, loss: float, paths: Sequence[_Path]) -> float | None:
    """The path that gives the Trainer's loss, else the one that should; None where the loss may be any function."""
    expected = 1 if _shifts(bench) else 0
    width = SAME * max(1.0, abs(loss)) * (1 if bench.precision == "fp32" else 300)
    near = sorted((p for p in paths if abs(p.value - loss) <= width), key=lambda p: (p.shift != expected, abs(p.value)))
    should = next((path for path in paths if path.shift == expected), None)
    if near:
        bench.loss_shift, bench.is_cross_entropy = near[0].shift, True
        return near[0].value
    if not math.isfinite(loss):
        bench.loss_shift = expected
        return None
    if _is_plain(bench) and should is not None:
        bench.loss_shift, bench.is_cross_entropy = expected, True
        return should.value
    return None


def _shifts(bench: Bench) -> bool:
    """Whether a model of transformers moves labels itself: a causal one, by its class."""
    name = type(bare(bench.trainer.model)).__name__
    return bool(getattr(bench.trainer, "_loss_shifts_labels", False)) or name.endswith(("ForCausalLM", "LMHeadModel"))


def _is_plain(bench: Bench) -> bool:
    """Whether the loss is the library's own mean cross-entropy, which nobody changed on purpose."""
    trainer = bench.trainer
    model = bare(trainer.model)
    text = getattr(model, "config", None)
    return (
        trainer.compute_loss_func is None
        and trainer.label_smoother is None
        and getattr(bench.args, "loss_type", "nll") == "nll"
        and type(trainer).compute_loss.__module__.split(".")[0] in ("transformers", "trl")
        and type(model).__module__.startswith("transformers.")
        and not getattr(text, "output_router_logits", False)
        and getattr(text, "problem_type", None) in (None, "single_label_classification")
    )


def _padded(
    bench: Bench, batch: Mapping[str, Any], rows: Sequence[SeenRow], logits: torch.Tensor | None
) -> float | None:
    """Largest difference of a row's logits in the batch and alone, over the largest logit."""
    if logits is None or len(rows) < 2 or len(logits) != len(rows):
        return None
    places = places_in_batch(batch, rows)
    if places is None:
        return None
    worst, size = 0.0, 0.0
    for number, row in enumerate(rows):
        alone_batch = bench.train.together([row])
        alone, own = bench.logits(alone_batch), places_in_batch(alone_batch, [row])
        if alone is None or own is None or alone.dim() != logits.dim():
            return None
        by_token = logits.dim() == 3
        there = logits[number][places[number]] if by_token else logits[number]
        here = alone[0][own[0]] if by_token else alone[0]
        if there.shape != here.shape:
            return None
        worst, size = max(worst, float((there - here).abs().max())), max(size, float(here.abs().max()))
    return worst / size if size else None


def _neighbour(bench: Bench, batch: Mapping[str, Any], logits: torch.Tensor | None) -> float | None:
    """Largest change of the last row's logits in a flattened batch when its neighbours' tokens are replaced."""
    positions, ids = batch.get("position_ids"), batch.get("input_ids")
    if logits is None or not isinstance(positions, torch.Tensor) or not isinstance(ids, torch.Tensor):
        return None
    if ids.shape != positions.shape or len(ids) != 1:
        return None
    starts = [t for t, position in enumerate(positions[0].tolist()) if position == 0]
    if len(starts) < 2:
        return None
    last = starts[-1]
    other = ids.clone()
    other[0, :last] = (other[0, :last] + 1) % logits.shape[-1]
    changed = bench.logits({**batch, "input_ids": other})
    return None if changed is None else float((changed[0, last:] - logits[0, last:]).abs().max())


def _shuffled(logits: torch.Tensor | None, labels: Any, rows: Sequence[SeenRow]) -> float | None:
    if logits is None or labels is None or logits.dim() != 3:
        return None
    flat = labels[:, 1:].reshape(-1).cpu()
    kept = flat != IGNORED
    chosen = flat[kept]
    if len(chosen) < max(ENOUGH_LABELS, ENOUGH_PER_ROW * len(rows)):
        return None
    order = torch.randperm(len(chosen), generator=torch.Generator().manual_seed(0))
    return float(cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1])[kept], chosen[order]))

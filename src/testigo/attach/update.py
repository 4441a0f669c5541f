"""Update: the optimizer holds what is trained; two updates move all of it and nothing else."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, TypeAlias

import torch

from testigo.attach.bench import Bench, planned_updates
from testigo.gates.overfit import OverfitEvidence
from testigo.gates.update import UpdateEvidence
from testigo.pilot.movement import due, in_half_precision, rounded_away

N_UPDATES = 2
OVERFIT_ROWS, OVERFIT_UPDATES = 2, 60
#: One of these suits an adapter, a small model from nothing, and a large trained one.
OVERFIT_RATES = (1e-3, 5e-3, 2e-4)
#: The loss is learned well enough to stop when it is below this share of the first.
OVERFIT_SHARE = 0.6
OVERFIT_SECONDS = 10.0
Measured: TypeAlias = Callable[[str], AbstractContextManager[None]]
"""Measures a phase, by its name; an error inside goes on."""


def collect(bench: Bench, loader: Any, measured: Measured) -> UpdateEvidence:
    """Two updates with the Trainer's own optimizer and clipping, at the peak of the schedule, each measured apart.

    The peak is used because warm-up begins at zero, which moves nothing and is no fault.
    """
    trainer, own = bench.trainer, {id(p): n for n, p in bench.trainer.model.named_parameters()}
    held = [p for group in trainer.optimizer.param_groups for p in group["params"]]
    in_optimizer = tuple(own[id(p)] for p in held if id(p) in own)
    evidence = UpdateEvidence(
        trained=tuple(bench.trained),
        in_optimizer=in_optimizer,
        foreign_in_optimizer=sum(id(p) not in own for p in held),
        duplicates_in_optimizer=len(held) - len({id(p) for p in held}),
        schedule_length=_schedule_length(trainer.lr_scheduler),
        planned_updates=planned_updates(trainer, loader),
    )
    if not bench.trained:
        return evidence
    rates, skipped = [], 0
    moved_first: tuple[str, ...] = ()
    due_first: tuple[str, ...] | None = None
    before: float | None = None
    after: float | None = None
    nonzero: dict[str, torch.Tensor] = {}
    batch = bench.train.together(bench.sample)
    for number in range(N_UPDATES):
        rates.append(_to_peak(trainer.optimizer))
        for p in bench.trained.values():
            p.grad = None
        with measured(f"update-{number + 1}"):
            bench.step([batch], training=True)
            before = _norm(bench)
            _clip(bench)
            after = _norm(bench)
            nonzero = {n: p.grad != 0 for n, p in in_half_precision(bench.trained).items() if p.grad is not None}
            if number == 0 and not bench.args.fp16:  # whose scaler may still be in the gradient
                due_first = due(bench.trained, _rates(bench))
            trainer.optimizer.step()
        skipped += bool(trainer.accelerator.optimizer_step_was_skipped)
        if number == 0:
            moved_first = bench.changed()
    frozen = [(n, p) for n, p in trainer.model.named_parameters() if n not in bench.trained]
    copies = {n: bench.kept.copies[id(p)] for n, p in bench.trained.items()}
    known = all(bench.kept.has(p) for _, p in frozen)
    return replace(
        evidence,
        moved_first=moved_first,
        due_first=due_first,
        moved=bench.changed(),
        frozen_changed=tuple(n for n, p in frozen if bench.kept.changed(p)) if known else None,
        learning_rate_applied=tuple(rates),
        updates_expected=N_UPDATES,
        skipped=skipped,
        clip=bench.args.max_grad_norm or None,
        gradient_norm_before_clip=before,
        gradient_norm_after_clip=after,
        half_precision=len(in_half_precision(bench.trained)),
        rounded_away=rounded_away(bench.trained, copies, nonzero),
    )


def _clip(bench: Bench) -> None:
    """As the Trainer's loop does it, by its own method."""
    if not bench.args.max_grad_norm or bench.args.max_grad_norm <= 0:
        return
    own = getattr(bench.trainer, "_clip_grad_norm", None)
    if own is not None:
        own(bench.model)
    else:
        bench.trainer.accelerator.clip_grad_norm_(bench.model.parameters(), bench.args.max_grad_norm)


def _norm(bench: Bench) -> float | None:
    """Norm of all gradients together; None in half precision, whose rounding hides a clipping that is a little off."""
    gradients = [p.grad for p in bench.model.parameters() if p.grad is not None]
    if any(gradient.dtype != torch.float32 for gradient in gradients):
        return None
    return float(torch.nn.utils.get_total_norm(gradients))


def _rates(bench: Bench) -> dict[str, float]:
    """The learning rate of each parameter's own group."""
    groups = bench.trainer.optimizer.param_groups
    by_id = {id(p): float(group["lr"]) for group in groups for p in group["params"]}
    return {name: by_id.get(id(p), 0.0) for name, p in bench.trained.items()}


def overfit(bench: Bench) -> OverfitEvidence | None:
    """Learn two short rows by heart, to control the mechanics. It proves nothing about quality.

    An adapter on a base that knows nothing can hardly change its output, so it is not asked to.
    """
    if not bench.trained or not bench.is_cross_entropy or not bench.is_repeatable:
        return None
    batch = bench.train.together(bench.sample[:OVERFIT_ROWS])
    first = bench.evaluated(batch)
    size = bench.n_outputs
    everything = len(bench.trained) == sum(1 for _ in bench.trainer.model.parameters())
    if not math.isfinite(first) or first < 0.05 or not (everything or (size and first < 0.5 * math.log(size))):
        return None
    deadline, losses = time.monotonic() + OVERFIT_SECONDS, [first]
    for rate in OVERFIT_RATES:
        bench.back_to_start()
        losses = _by_heart(bench, batch, first, rate, deadline)
        if losses[-1] < OVERFIT_SHARE * first:
            break
    if time.monotonic() > deadline and not losses[-1] < OVERFIT_SHARE * first:
        return None
    return OverfitEvidence(
        rows=min(OVERFIT_ROWS, len(bench.sample)),
        updates=len(losses) - 1,
        first_loss=first,
        last_loss=losses[-1],
        finite=all(map(math.isfinite, losses)),
    )


def _by_heart(bench: Bench, batch: dict[str, Any], first: float, rate: float, deadline: float) -> list[float]:
    """Losses until the batch is learned, the loss is not finite, or updates or time are used up."""
    learner = torch.optim.AdamW(list(bench.trained.values()), lr=rate, weight_decay=0.0)
    losses = [first]
    for _ in range(OVERFIT_UPDATES):
        learner.zero_grad(set_to_none=True)
        losses.append(bench.step([batch], training=False))
        if losses[-1] < OVERFIT_SHARE * first or not math.isfinite(losses[-1]) or time.monotonic() > deadline:
            break
        torch.nn.utils.clip_grad_norm_(bench.trained.values(), 1.0)
        learner.step()
    learner.zero_grad(set_to_none=True)
    return losses


def _to_peak(optimizer: Any) -> float:
    """Set each group's learning rate to the height of its schedule; the highest of them."""
    for group in optimizer.param_groups:
        group["lr"] = group.get("initial_lr", group["lr"])
    return max((float(group["lr"]) for group in optimizer.param_groups), default=0.0)


def _schedule_length(scheduler: Any) -> int | None:
    """Updates that a schedule of transformers was built for, which it keeps as an argument of its function."""
    for function in getattr(scheduler, "lr_lambdas", ()):
        length = getattr(function, "keywords", {}).get("num_training_steps")
        if length is not None:
            return int(length)
    return None

"""Evidence about updates of the parameters, and the rules over it (codes U)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from testigo.gates.measured import names, need
from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule


@dataclass(frozen=True, kw_only=True)
class UpdateEvidence:
    """What the first two updates changed. `None` means that it was not measured."""

    trained: tuple[str, ...] | None = None
    """Names of the parameters that ask for a gradient."""
    in_optimizer: tuple[str, ...] | None = None
    """Names of the model's parameters that the optimizer holds."""
    foreign_in_optimizer: int | None = None
    """Parameters in the optimizer that are not the model's."""
    duplicates_in_optimizer: int | None = None
    """Parameters that the optimizer holds more than once."""
    moved_first: tuple[str, ...] | None = None
    """Names of the parameters that the first update changed."""
    due_first: tuple[str, ...] | None = None
    """Names of the parameters whose gradient at the first update, times the learning rate, is above their spacing."""
    moved: tuple[str, ...] | None = None
    """Names of the parameters that two updates changed."""
    frozen_changed: tuple[str, ...] | None = None
    """Names of parameters and buffers that should stay and are not the same bit for bit."""
    learning_rate_expected: tuple[float, ...] | None = None
    """Learning rate of each update by the campaign's schedule."""
    learning_rate_applied: tuple[float, ...] | None = None
    """Learning rate that the optimizer really used in each update."""
    updates_expected: int | None = None
    """Updates that the pilot asked for."""
    updates_counted: int | None = None
    """Updates that really happened."""
    schedule_length: int | None = None
    """Updates that the learning-rate schedule was built for."""
    planned_updates: int | None = None
    """Updates that the campaign plans."""
    skipped: int | None = None
    """Updates that the fp16 scaler skipped after an overflow."""
    clip: float | None = None
    """Largest gradient norm that the campaign allows; None when it does not clip."""
    gradient_norm_before_clip: float | None = None
    """Norm of the gradient before clipping."""
    gradient_norm_after_clip: float | None = None
    """Norm of the gradient that the optimizer received."""
    replica_digests: tuple[str, ...] | None = None
    """Digest of the replicated weights on each process after the updates."""
    half_precision: int | None = None
    """Trained tensors that are kept in half precision."""
    rounded_away: float | None = None
    """Share of the trained numbers in half precision with a gradient that two updates left as they were, 0 to 1."""
    seed_twice_equal: bool | None = None
    """Whether the same seed gave the same initial trained weights twice."""


@rule("U101", "optimizer-holds-other-parameters", "stop", phase="update")
def optimizer_holds_the_trained(evidence: UpdateEvidence) -> Finding | Passed:
    """The optimizer holds the parameters that are trained, not those of before the adapter.

    Why it matters: an optimizer built before the adapter holds the frozen base. Losses and gradient norms look healthy
    and nothing moves; no learning rate helps.

    What to do: build the optimizer after `model.adapter` was applied, from the parameters that ask for a gradient.

    Source: peft freezes the base's parameters and creates new ones; an optimizer keeps the objects that it was given.
    """
    trained = set(need(evidence.trained, "the trained parameters"))
    held = set(need(evidence.in_optimizer, "the optimizer's parameters"))
    seen = (
        f"the optimizer holds {len(trained & held)} of {len(trained)} trained tensors and {len(held - trained)} others"
    )
    return found(seen) if trained and not trained & held else passed(seen)


@rule("U102", "optimizer-lacks-parameters", "stop", phase="update", requires=("U101",))
def optimizer_lacks_nothing(evidence: UpdateEvidence) -> Finding | Passed:
    """Every trained parameter is in the optimizer.

    Why it matters: what the optimizer does not hold is never updated.

    What to do: give the optimizer every parameter that asks for a gradient, those of `model.adapter.save_modules` too.

    Source: torch.optim updates its own parameter groups and nothing else.
    """
    trained = need(evidence.trained, "the trained parameters")
    lacking = sorted(set(trained) - set(need(evidence.in_optimizer, "the optimizer's parameters")))
    if lacking:
        return found(f"{len(lacking)} of {len(trained)} trained tensors are not in the optimizer: {names(lacking)}")
    return passed(f"all {len(trained)} trained tensors are in the optimizer")


@rule("U103", "optimizer-holds-foreign-parameters", "stop", phase="update", requires=("U101",))
def optimizer_holds_nothing_foreign(evidence: UpdateEvidence) -> Finding | Passed:
    """The optimizer holds no parameter that is not the model's.

    Why it matters: it updates tensors that nobody uses, usually copies of the real ones from before a wrapping or a
    move to the device.

    What to do: build the optimizer after the model was moved, wrapped and given its `model.adapter`.

    Source: torch.optim: construct the optimizer after moving the model.
    """
    foreign = need(evidence.foreign_in_optimizer, "foreign parameters in the optimizer")
    seen = f"{foreign} parameters in the optimizer are not the model's"
    return found(seen) if foreign else passed(seen)


@rule("U104", "optimizer-holds-twice", "stop", phase="update")
def optimizer_holds_once(evidence: UpdateEvidence) -> Finding | Passed:
    """The optimizer holds each parameter once.

    Why it matters: a parameter in two groups is updated twice, with two learning rates.

    What to do: list tied weights once when groups are made.

    Source: torch.optim warns of or refuses parameters in more than one group.
    """
    twice = need(evidence.duplicates_in_optimizer, "duplicates in the optimizer")
    seen = f"{twice} parameters are in the optimizer more than once"
    return found(seen) if twice else passed(seen)


@rule("U105", "nothing-moved", "stop", phase="update", requires=("U101",))
def something_moves(evidence: UpdateEvidence) -> Finding | Passed:
    """Two updates change the trained parameters.

    Why it matters: a run whose weights stay where they were costs as much as one that learns.

    What to do: look at U101 and B103 first; raise `training.learning_rate` when bf16 rounds each change away.

    Source: AdamW's first update is about the learning rate in size, whatever the gradient (Kingma and Ba 2015).
    """
    trained, moved = need(evidence.trained, "the trained parameters"), need(evidence.moved, "movement")
    if trained and _effective(evidence) <= 0:
        raise CannotCheck("neither update had a learning rate above zero and was taken")
    seen = f"{len(set(trained) & set(moved))} of {len(trained)} trained tensors moved in two updates"
    return found(seen) if trained and not set(trained) & set(moved) else passed(seen)


@rule("U106", "part-did-not-move", "warn", phase="update", requires=("U105",))
def everything_moves(evidence: UpdateEvidence) -> Finding | Passed:
    """Two updates change every trained parameter.

    Why it matters: a part that stays is a part that does not learn.

    What to do: nothing where experts or tokens were not used by these batches; raise `training.learning_rate` or set
    `model.precision: fp32` when bf16 rounds small changes away.

    Source: LoRA's A moves from the second real update on, since B starts at zero (Hu et al. 2021), so after a first
    learning rate of zero (warm-up) or a skipped update this cannot be checked. bf16 keeps 8 bits: a change below 1/256
    of a weight is lost.
    """
    trained, moved = need(evidence.trained, "the trained parameters"), need(evidence.moved, "movement")
    still = sorted(set(trained) - set(moved))
    if still and _effective(evidence) < 2:
        raise CannotCheck("fewer than two updates had a learning rate above zero and were taken")
    if still:
        return found(f"{len(still)} of {len(trained)} trained tensors did not move in two updates: {names(still)}")
    return passed(f"all {len(trained)} trained tensors moved")


@rule("U107", "frozen-changed", "stop", phase="update")
def frozen_stays(evidence: UpdateEvidence) -> Finding | Passed:
    """What is not trained stays the same, bit for bit.

    Why it matters: an adapter is worth nothing on a base that changed while it was trained.

    What to do: take the named tensors out of the optimizer, freeze them, or declare them in
    `model.adapter.save_modules`.

    Source: equal digests mean equal bytes (FIPS 180-4).
    """
    changed = need(evidence.frozen_changed, "frozen parameters")
    if changed:
        return found(f"{len(changed)} frozen tensors changed: {names(changed)}")
    return passed("frozen parameters and buffers are the same bit for bit")


@rule("U108", "learning-rate-off-schedule", "stop", phase="update")
def learning_rate_is_scheduled(evidence: UpdateEvidence, relative: float = 1e-6) -> Finding | Passed:
    """Each update used the learning rate of the schedule.

    Why it matters: a schedule stepped twice, or by microbatch, ends the run early at a learning rate of zero.

    What to do: step the schedule once an update; compare with `training.schedule` and `training.learning_rate`.

    Source: the schedule is a function of the update's number; 1e-6 allows its computation in fp32.
    """
    expected = need(evidence.learning_rate_expected, "the scheduled learning rate")
    applied = need(evidence.learning_rate_applied, "the applied learning rate")
    for number, (want, have) in enumerate(zip(expected, applied, strict=False), start=1):
        if not abs(want - have) <= relative * max(abs(want), abs(have)):
            return found(f"update {number} had learning rate {have:.6g}, the schedule says {want:.6g}")
    return passed(f"{min(len(expected), len(applied))} updates had the scheduled learning rate")


@rule("U109", "update-count", "stop", phase="update")
def updates_are_counted(evidence: UpdateEvidence) -> Finding | Passed:
    """As many updates happened as were asked for.

    Why it matters: accumulation counted wrongly trains half or twice as long as the campaign says.

    What to do: compare `training.accumulation` with the updates; an incomplete last group of microbatches is an update
    too.

    Source: examples per update = microbatch × accumulation × replicas.
    """
    expected = need(evidence.updates_expected, "the expected updates")
    counted = need(evidence.updates_counted, "the updates")
    seen = f"{counted} updates, {expected} expected"
    return passed(seen) if counted == expected else found(seen)


@rule("U110", "schedule-length", "stop", phase="update")
def schedule_is_as_long_as_the_run(evidence: UpdateEvidence) -> Finding | Passed:
    """The learning-rate schedule is as long as the run.

    Why it matters: a schedule in microbatches or of another length never reaches its end, or reaches it early.

    What to do: build `training.schedule` for the number of updates, a last incomplete one included.

    Source: Loshchilov and Hutter 2017 (SGDR): the cosine ends with the run.
    """
    length = need(evidence.schedule_length, "the schedule's length")
    planned = need(evidence.planned_updates, "the planned updates")
    seen = f"the schedule has {length} updates, the campaign plans {planned}"
    return passed(seen) if length == planned else found(seen)


@rule("U111", "clipping-not-applied", "stop", phase="update")
def clipping_is_applied(evidence: UpdateEvidence, relative: float = 1e-3) -> Finding | Passed:
    """The gradient that the optimizer receives is clipped as declared, and only then.

    Why it matters: clipping before gradients are summed or unscaled, or not at all, is another experiment.

    What to do: clip once an update, after accumulation and unscaling, at `training.clip`.

    Source: Pascanu, Mikolov and Bengio 2013: norm after = min(norm before, clip); torch adds 1e-6 below the fraction,
    which 1e-3 allows.
    """
    before = need(evidence.gradient_norm_before_clip, "the gradient norm before clipping")
    after = need(evidence.gradient_norm_after_clip, "the gradient norm after clipping")
    if not (math.isfinite(before) and math.isfinite(after)):
        raise CannotCheck(f"the gradient norm is not finite ({before} before, {after} after)")
    want = before if evidence.clip is None else min(before, evidence.clip)
    seen = f"gradient norm {before:.4g} before and {after:.4g} after clipping at {evidence.clip or 'nothing'}"
    return passed(seen) if abs(after - want) <= relative * max(want, 1e-12) else found(f"{seen}; expected {want:.4g}")


@rule("U112", "every-update-skipped", "stop", phase="update")
def updates_are_taken(evidence: UpdateEvidence) -> Finding | Passed:
    """The fp16 scaler does not skip every update.

    Why it matters: a skipped update changes nothing; a few at the start are the scaler finding its scale, all of them
    are a run without learning.

    What to do: set `model.precision: bf16` or `fp32`.

    Source: torch.amp.GradScaler halves its scale at each overflow, from 65,536 on.
    """
    skipped = need(evidence.skipped, "skipped updates")
    expected = need(evidence.updates_expected, "the expected updates")
    seen = f"{skipped} of {expected} updates were skipped by the scaler"
    return found(seen) if expected and skipped >= expected else passed(seen)


@rule("U113", "replicas-differ", "stop", phase="update")
def replicas_agree(evidence: UpdateEvidence) -> Finding | Passed:
    """Replicated weights are the same on every process after the updates.

    Why it matters: replicas that drift apart train several models and save one of them.

    What to do: wrap the model on every process and clip on every process or on none; see `machine.strategy`.

    Source: data parallel replicas start equal and receive the same gradient (Li et al. 2020, "PyTorch distributed").
    """
    digests = need(evidence.replica_digests, "weights of replicas")
    kinds = len(set(digests))
    seen = f"{len(digests)} replicas have {kinds} different digest{'s' if kinds != 1 else ''}"
    return found(seen) if kinds > 1 else passed(seen)


@rule("U114", "seed-not-repeatable", "stop", phase="update")
def seed_repeats(evidence: UpdateEvidence) -> Finding | Passed:
    """The same seed gives the same initial trained weights.

    Why it matters: otherwise two runs differ by luck before their first update, and no difference can be explained.

    What to do: set every seed before `model.adapter` is created, not after.

    Source: LoRA's A is drawn at random (Hu et al. 2021).
    """
    if need(evidence.seed_twice_equal, "the initial weights of one seed twice"):
        return passed("one seed gave the same initial weights twice")
    return found("one seed gave two different sets of initial weights")


@rule("U125", "updates-lost-to-rounding", "warn", phase="update", requires=("U105",))
def updates_survive_rounding(evidence: UpdateEvidence, most: float = 0.5) -> Finding | Passed:
    """Weights in half precision are not left as they were by the rounding of each update.

    Why it matters: a change smaller than half the spacing of the numbers is rounded away, at every update anew: most
    of the model never moves, whatever the loss says.

    What to do: keep the trained weights in fp32 (`model.precision: fp32`, or bf16 by autocast), or raise
    `training.learning_rate`.

    Source: bf16 keeps 8 bits, so a change below 1/512 of a weight is lost; Zamirai et al. 2020 (arXiv 2010.06192). An
    AdamW update is about the learning rate in size, so above a half of all weights lost is no matter of a few large
    ones.
    """
    if need(evidence.half_precision, "the numbers of trained weights") == 0:
        return passed("no trained weight is kept in half precision")
    lost = need(evidence.rounded_away, "the movement of half-precision weights")
    if _effective(evidence) < 2:
        raise CannotCheck("fewer than two updates had a learning rate above zero and were taken")
    seen = f"{lost:.0%} of the half-precision weights with a gradient did not move in two updates"
    return found(seen) if lost > most else passed(seen)


@rule("U126", "first-update-left-a-part", "warn", phase="update", requires=("U105",))
def first_update_moves(evidence: UpdateEvidence) -> Finding | Passed:
    """The first update moves every parameter that has a gradient then.

    Why it matters: a part that joins in later has a learning rate, a state or a gradient of its own that nobody
    declared; LoRA whose B stays at zero learns nothing until it moves.

    What to do: look for parameter groups with another schedule than `training.schedule`, and for hooks that change
    gradients or weights after the optimizer.

    Source: LoRA's A has no gradient at the first update, since B is zero (Hu et al. 2021, section 4.1), and neither has
    that of an embedding: they are exempt. AdamW's first update is about the learning rate in size (Kingma and Ba 2015),
    SGD's is learning rate times gradient; what is below the spacing of the numbers is not asked for.
    """
    due, first = need(evidence.due_first, "the first gradients"), need(evidence.moved_first, "the first movement")
    if (evidence.learning_rate_applied or (1.0,))[0] <= 0 or evidence.skipped:
        raise CannotCheck("the first update had a learning rate of zero or was skipped")
    late = sorted((set(due) - set(first)) & set(need(evidence.moved, "movement")))  # those that never move: U106
    if late:
        return found(
            f"{len(late)} of {len(due)} tensors with a gradient moved from the second update on: {names(late)}"
        )
    return passed(f"{len(set(due) & set(first))} tensors with a gradient moved at the first update")


def _effective(evidence: UpdateEvidence) -> int:
    """How many of the two updates could move anything: learning rate above zero, and not skipped."""
    rates = (evidence.learning_rate_applied or (1.0, 1.0))[:2]
    return sum(rate > 0 for rate in rates) - min(evidence.skipped or 0, len(rates))

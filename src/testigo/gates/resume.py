"""Evidence about a run that was stopped and goes on in a fresh process, and the rules over it (codes R)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from testigo.gates.measured import names, need
from testigo.rules import DOES_NOT_APPLY, CannotCheck, Finding, Passed, found, passed, rule


@dataclass(frozen=True, kw_only=True)
class ResumeEvidence:
    """The resumed run beside the uninterrupted one. `None` means that it was not measured."""

    fresh_process: bool | None = None
    """Whether another process went on."""
    device: str | None = None
    """cpu, cuda or rocm: where both ran."""
    updates_before: int | None = None
    """Updates done before the stop."""
    updates_after: int | None = None
    """Updates done after it."""
    zero_updates: bool | None = None
    """Whether the resumed run did no update at all."""
    rows_equal: bool | None = None
    """Whether each update saw the same rows in the same order."""
    losses_equal: bool | None = None
    """Whether each loss is the same bit for bit."""
    learning_rates_equal: bool | None = None
    """Whether each learning rate is the same bit for bit."""
    gradient_norms_equal: bool | None = None
    """Whether each gradient norm is the same bit for bit."""
    weights_equal: bool | None = None
    """Whether the trained weights at the end are the same bit for bit."""
    optimizer_equal: bool | None = None
    """Whether the optimizer's state at the end is the same bit for bit."""
    max_loss_difference: float | None = None
    """Largest difference between both runs' losses, nats per supervised token."""
    grade: str | None = None
    """bit for bit, within tolerance, or differs."""
    bad_moments: tuple[str, ...] | None = None
    """Names whose optimizer moments in the checkpoint are not finite, or negative where they are squares."""
    passed_over: tuple[str, ...] | None = None
    """Checkpoints that were newer, damaged, and passed over."""


@dataclass(frozen=True, kw_only=True)
class RepeatedUpdate:
    """An update that an earlier attempt had made after its last checkpoint, and that the resumed run made again."""

    update: int | None = None
    """Counted from 1."""
    recorded: float | None = None
    """The loss that the earlier attempt wrote, nats per supervised token."""
    repeated: float | None = None
    """The loss now."""
    rows_equal: bool | None = None
    """Whether it saw the same rows in the same order."""


@rule("R101", "not-a-fresh-process", "warn", phase="resume")
def resume_is_fresh(evidence: ResumeEvidence) -> Finding | Passed:
    """A fresh process goes on with the run.

    Why it matters: in the old process, state that the checkpoint lacks is still in memory.

    What to do: run the pilot again where a second process can start.

    Source: a killed run has no old process.
    """
    if need(evidence.fresh_process, "the process that went on"):
        return passed("a fresh process went on")
    return found("the same process went on")


@rule("R102", "zero-updates", "stop", phase="resume")
def resume_does_updates(evidence: ResumeEvidence) -> Finding | Passed:
    """The resumed run does updates.

    Why it matters: a run that ends at once with exit code 0 looks finished and is invalid, for instance when the
    position in the data was counted twice.

    What to do: let the checkpoint keep the number of updates and take the position in the data from it alone.

    Source: in a public case 100 batches, accumulation 4 and a resume at update 500 of 750 did no update.
    """
    nothing = evidence.updates_after == 0 if evidence.updates_after is not None else evidence.zero_updates
    seen = f"{evidence.updates_before if evidence.updates_before is not None else '?'} updates before the stop, "
    seen += f"{'none' if need(nothing, 'updates after the resume') else evidence.updates_after or 'some'} after"
    return found(seen) if nothing or evidence.zero_updates else passed(seen)


@rule("R103", "other-rows", "stop", phase="resume", requires=("R102",))
def resume_sees_the_same_rows(evidence: ResumeEvidence) -> Finding | Passed:
    """The resumed run sees the rows that the uninterrupted run saw.

    Why it matters: rows seen twice or never make it another run, and a curve that looks the same hides it.

    What to do: make the order a function of seed and epoch, and keep the position with the checkpoint.

    Source: the order of rows is part of the run's definition (Bottou 2012, on shuffling).
    """
    if need(evidence.rows_equal, "rows after the resume"):
        return passed("the same rows in the same order")
    return found("other rows, or another order, than without the stop")


@rule("R104", "other-learning-rate", "stop", phase="resume", requires=("R102",))
def resume_has_the_same_learning_rate(evidence: ResumeEvidence) -> Finding | Passed:
    """The resumed run has the learning rates of the uninterrupted run.

    Why it matters: a schedule that starts again warms up twice and ends at another place.

    What to do: make `training.schedule` a function of the update's number, or save its state.

    Source: the schedule is a function of the update's number.
    """
    if need(evidence.learning_rates_equal, "learning rates after the resume"):
        return passed("the same learning rates")
    return found("other learning rates than without the stop")


@rule("R105", "resume-not-exact", "stop", phase="resume", requires=("R102",))
def resume_is_bit_for_bit(evidence: ResumeEvidence) -> Finding | Passed:
    """On a CPU the resumed run is the uninterrupted one, bit for bit.

    Why it matters: any difference is state that the checkpoint does not hold: optimizer, random numbers, position.

    What to do: save optimizer and random states; never draw the data's random numbers from the global generator.

    Source: the same operations on the same bits give the same bits on one CPU.
    """
    if not need(evidence.device, "the device").startswith("cpu"):
        raise CannotCheck(f"bit for bit is promised on a CPU, this ran on {evidence.device}; R106 judges it")
    parts = _equal_parts(evidence)
    differing = [name for name, equal in parts.items() if equal is False]
    if differing:
        return found(f"not bit for bit: {', '.join(differing)}")
    if all(equal is None for equal in parts.values()):
        raise CannotCheck("losses, gradients, weights and optimizer were not compared")
    return passed(f"bit for bit: {', '.join(name for name, equal in parts.items() if equal)}")


@rule("R106", "resume-beyond-tolerance", "stop", phase="resume", requires=("R102",))
def resume_is_within_tolerance(evidence: ResumeEvidence, nats: float = 0.01) -> Finding | Passed:
    """On a GPU the resumed run has the losses of the uninterrupted one within a tolerance.

    Why it matters: kernels that add in another order differ a little; lost optimizer state or other rows differ much.

    What to do: save optimizer, scaler and random states; ask for deterministic kernels to see which it is.

    Source: PyTorch's notes on reproducibility; 0.01 nats per token is one percent of a token's probability, far below
    the change by one other row and above rounding in bf16 over a few updates.
    """
    if need(evidence.device, "the device").startswith("cpu"):
        raise CannotCheck(f"{DOES_NOT_APPLY}this ran on a CPU; R105 judges it")
    grade = need(evidence.grade, "the grade of the resume")
    if grade == "bit for bit":
        return passed("bit for bit")
    apart = need(evidence.max_loss_difference, "the difference of losses")
    seen = f"{grade}; losses at most {apart:.3g} nats apart (at most {nats:g})"
    return passed(seen) if apart <= nats else found(seen)


@rule("R107", "optimizer-state-damaged", "stop", phase="resume")
def moments_are_sound(evidence: ResumeEvidence) -> Finding | Passed:
    """The optimizer's moments in the checkpoint are finite, and squares are not negative.

    Why it matters: one bad moment makes its weight NaN at the first resumed update.

    What to do: go on from the checkpoint before; see whether the run had diverged when it was saved.

    Source: AdamW takes the square root of the second moment (Kingma and Ba 2015).
    """
    bad = need(evidence.bad_moments, "the optimizer's moments")
    if bad:
        return found(f"{len(bad)} moments are not finite or negative: {names(bad)}")
    return passed("every moment is finite and no second moment is negative")


@rule("R108", "checkpoint-passed-over", "warn", phase="resume")
def newest_checkpoint_is_whole(evidence: ResumeEvidence) -> Finding | Passed:
    """The newest checkpoint is whole.

    Why it matters: a damaged one is passed over for the last good one; the updates between are done again.

    What to do: nothing for this run; look at the disk, its space and its errors.

    Source: checkpoints carry checksums and are written aside, then renamed.
    """
    damaged = need(evidence.passed_over, "damaged checkpoints")
    if damaged:
        return found(f"passed over as damaged: {names(damaged)}")
    return passed("the newest checkpoint is whole")


def _equal_parts(evidence: ResumeEvidence) -> dict[str, bool | None]:
    return {
        "losses": evidence.losses_equal,
        "gradient norms": evidence.gradient_norms_equal,
        "weights": evidence.weights_equal,
        "optimizer": evidence.optimizer_equal,
    }


@rule("R109", "repeated-update-differs", "stop", phase="resume")
def repeated_update_agrees(evidence: RepeatedUpdate, relative: float = 1e-3) -> Finding | Passed:
    """The first update that is made again has the rows and the loss that were recorded.

    Why it matters: a run that goes on from another state, with other code or other libraries, is no longer the run
    whose name it has.

    What to do: go on with the versions and the files of the first attempt; the run's folder names them. To go on with
    others, give the settings as a variant.

    Source: on a CPU the same state gives the same bits. Another number of threads, another GPU or driver sums in
    another order; 1e-3 of the loss allows for that.
    """
    before, now = (
        need(evidence.recorded, "the recorded loss"),
        need(evidence.repeated, "the loss of the repeated update"),
    )
    if not (math.isfinite(before) and math.isfinite(now)):
        raise CannotCheck(f"update {evidence.update} had no finite loss")
    if not need(evidence.rows_equal, "the rows of the repeated update"):
        return found(f"update {evidence.update} saw other rows than were recorded")
    seen = f"update {evidence.update} had the loss {before:.6g}, and has {now:.6g} when it is made again"
    if before == now:
        return passed(f"{seen}: bit for bit")
    return passed(seen) if abs(now - before) <= relative * max(abs(before), 1e-6) else found(seen)

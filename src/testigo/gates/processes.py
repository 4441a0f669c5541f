"""Evidence of training in several processes under the launch of the run, and the rules over it (codes U131, U132)."""

from __future__ import annotations

from dataclasses import dataclass

from testigo.gates.measured import at_most, need, tolerance
from testigo.rules import Finding, Passed, found, passed, rule


@dataclass(frozen=True, kw_only=True)
class ProcessesEvidence:
    """The first updates of the campaign in all of its processes, beside the same updates in one."""

    processes: int | None = None
    """How many train one run."""
    strategy: str | None = None
    """ddp or fsdp."""
    precision: str | None = None
    """fp32, bf16 or fp16."""
    device: str | None = None
    """cpu, cuda."""
    gradient_error: float | None = None
    """Size of the difference of the first update's two gradients over the size of that of one process."""
    loss_alone: float | None = None
    """Of the first update in one process [nats per supervised token]."""
    loss_together: float | None = None
    """Of the first update in all processes [nats per supervised token]."""
    rows_equal: bool | None = None
    """Whether both updates saw the same rows."""
    weights_error: float | None = None
    """Largest difference of a trained weight after two updates over the largest weight of its tensor."""
    updates_after: int | None = None
    """Updates that fresh processes made from the checkpoint of the first ones."""
    resumed_equal: bool | None = None
    """Whether they were the same, bit for bit: rows, losses, gradient norms, final weights."""
    resumed_difference: float | None = None
    """The largest difference of their losses [nats per supervised token]."""


@rule("U131", "processes-differ-from-one", "stop", phase="update")
def processes_equal_one(evidence: ProcessesEvidence, relative: float = 1e-4) -> Finding | Passed:
    """Several processes make the gradient that one makes.

    Why it matters: replicas that average what should be summed, see rows twice or leave some out train at another
    learning rate or on other data than the file says, and nothing in the curve shows it.

    What to do: set `machine.processes: 1` to train at all; then see which of `machine.strategy: ddp` and `fsdp`
    agrees with it, and report the other.

    Source: the gradient of a sum is the sum of gradients, however its rows are dealt out; what is left is rounding in
    another order. The limit is for fp32, and wider for coarser numbers (Higham 2002, section 2.8).
    """
    if not need(evidence.rows_equal, "the update in one process, for which there was no room,"):
        return found(f"{evidence.processes} processes saw other rows in the first update than one")
    what = (
        f"the relative difference of the gradients of {evidence.processes} processes ({evidence.strategy}) and of one"
    )
    return at_most(evidence.gradient_error, tolerance(relative, evidence.precision), what)


@rule("U132", "processes-resume-differs", "stop", phase="resume")
def processes_resume(evidence: ProcessesEvidence, nats: float = 0.01) -> Finding | Passed:
    """A run of several processes goes on in fresh ones as the same run.

    Why it matters: a share of the state that one process kept to itself is lost when the run goes on.

    What to do: set `machine.processes: 1`, or the other `machine.strategy`; read the pilot's log beside its evidence.

    Source: on a CPU the same sums in the same order give the same bits. On GPUs sums over devices may come in another
    order; 0.01 nats per token is one percent of a token's probability, as for one process (R106).
    """
    if not need(evidence.updates_after, "updates in fresh processes, for which the plan is too short,"):
        return found("the fresh processes made no update")
    difference = need(evidence.resumed_difference, "the difference of losses")
    seen = f"{evidence.updates_after} updates in {evidence.processes} fresh processes"
    if evidence.resumed_equal and difference <= nats:
        return passed(f"{seen}: bit for bit")
    seen += f" differ by at most {difference:.3g} nats in their losses"
    if need(evidence.device, "the device") == "cpu":
        return found(f"{seen}: not bit for bit")
    return passed(seen) if difference <= nats else found(f"{seen} (at most {nats:g})")

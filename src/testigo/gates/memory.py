"""Evidence about memory that ran out, and the rule over it (code M101)."""

from __future__ import annotations

from dataclasses import dataclass

from testigo.gates.measured import names
from testigo.rules import Finding, Passed, found, passed, rule


@dataclass(frozen=True, kw_only=True)
class MemoryEvidence:
    """Whether a phase of the pilot fitted into memory."""

    phase: str
    """data, forward, backward, update, validation, export or resume."""
    failed: bool
    """Whether memory ran out in this phase."""
    rows: tuple[str, ...] = ()
    """Ids of the rows of the batch that was run."""
    tokens: int | None = None
    """Tokens of that batch."""
    message: str = ""
    """What the allocator said."""


@rule("M101", "out-of-memory", "stop", phase="memory")
def phase_fits_into_memory(evidence: MemoryEvidence) -> Finding | Passed:
    """The phase fits into memory.

    Why it matters: what does not fit now does not fit in hour five.

    What to do: keep the examples per update and try, one at a time and as a declared variant: half
    `training.microbatch` with twice `training.accumulation` (same experiment); `training.activation_checkpointing:
    true` (same gradients, about a third slower); `model.precision: bf16` (another rounding: another experiment). In
    validation: a smaller `evaluation.batch_size` (same outputs). Cutting rows is not offered: it changes what is
    learned.

    Source: examples per update = microbatch × accumulation × replicas; Chen et al. 2016 for the cost of recomputing.
    """
    rows = f", rows {names(evidence.rows)}" if evidence.rows else ""
    what = f"{evidence.phase}{rows}{f', {evidence.tokens} tokens' if evidence.tokens else ''}"
    if evidence.failed:
        return found(f"out of memory in {what}: {evidence.message or 'no message'}", rows=evidence.rows)
    return passed(f"{what} fitted into memory")

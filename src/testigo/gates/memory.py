"""Evidence about memory that ran out, and the rule over it (code M101)."""

from __future__ import annotations

from dataclasses import dataclass


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

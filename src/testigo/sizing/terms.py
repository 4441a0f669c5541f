"""What comes on top of the tensors: assumed, or measured by a pilot that ran."""

from __future__ import annotations

from dataclasses import dataclass

from testigo.gates.predicted import Measured

CONTEXT_BYTES = 512 << 20
"""An assumption: what driver, kernels and library workspaces take beside tensors. 0.3 to 0.7 GiB are usual for torch on
CUDA; a pilot on the machine itself measures it."""
SLACK_SHARE = 0.05
"""An assumption: what the caching allocator holds without using it, as a share of the tensors' peak."""


@dataclass(frozen=True)
class Terms:
    """What is added to the tensors' peak.

    Attributes
    ----------
    kernel_share
        What kernels needed beyond the predicted tensors, as a share of these; 0 when nothing was measured.
    source
        In words; empty when all is assumed.
    """

    context_bytes: int = CONTEXT_BYTES
    slack_share: float = SLACK_SHARE
    kernel_share: float = 0.0
    source: str = ""

    def over(self, peak_bytes: int) -> dict[str, int]:
        """Each term for a peak of tensors [bytes]."""
        terms = {
            "context_bytes": self.context_bytes,
            "allocator_slack_bytes": int(self.slack_share * peak_bytes),
        }
        return terms | ({"kernels_bytes": int(self.kernel_share * peak_bytes)} if self.kernel_share else {})

    def needed(self, peak_bytes: int) -> int:
        """The peak and all terms [bytes]."""
        return peak_bytes + sum(self.over(peak_bytes).values())


def terms_of(measured: Measured | None) -> Terms:
    """As a pilot measured them on an accelerator; the assumed ones after a pilot on a CPU, which has none of them."""
    if measured is None or measured.counter != "allocated" or not measured.phases:
        return Terms()
    lacking = max(phase.measured_bytes / phase.predicted_bytes - 1 for phase in measured.phases)
    return Terms(
        CONTEXT_BYTES if measured.context_bytes is None else measured.context_bytes,
        SLACK_SHARE if measured.slack_share is None else measured.slack_share,
        max(lacking, 0.0),
        f"measured by the pilot {measured.pilot} on {measured.device}",
    )

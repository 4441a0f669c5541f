"""Evidence about saving and exporting, and the rules over it (codes X)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ExportEvidence:
    """What the exported adapter or model did when it was loaded again. `None` means that it was not measured."""

    precision: str | None = None
    """fp32, bf16 or fp16: in which numbers the model computes."""
    fresh_process: bool | None = None
    """Whether it was loaded in another process than the one that trained it."""
    control_rows: int | None = None
    """Control inputs that were run before and after."""
    outputs_equal: int | None = None
    """Control inputs whose greedy output is the same, token for token."""
    first_logits_error: float | None = None
    """Largest difference of the control logits, divided by the largest logit's size."""
    base_sha256_bound: str | None = None
    """Digest of the base's weights that the export is bound to."""
    base_sha256_found: str | None = None
    """Digest of the weights of the base that it was loaded on."""
    keys_missing: tuple[str, ...] | None = None
    """Names that the model expects and the file lacks."""
    keys_unexpected: tuple[str, ...] | None = None
    """Names that the file has and the model does not know."""
    finite: bool | None = None
    """Whether every exported number is finite."""
    equals_base: bool | None = None
    """Whether the loaded export's control logits are exactly those of the bare base."""
    merged_error: float | None = None
    """Largest difference of control logits between merged and unmerged, divided by the largest logit's size."""
    free_disk_bytes: int | None = None
    """Free bytes where the workspace lies."""
    checkpoint_bytes: int | None = None
    """Bytes of one checkpoint, optimizer included."""
    checkpoints_kept: int | None = None
    """Most checkpoints that exist at one time."""

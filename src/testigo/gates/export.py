"""Evidence about saving and exporting, and the rules over it (codes X)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from testigo.gates.measured import at_most, names, need, tolerance
from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule


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
    """Checkpoints that are still to be written and will be kept, of all runs together."""


@rule("X101", "not-a-fresh-process", "warn", phase="export")
def export_is_loaded_afresh(evidence: ExportEvidence) -> Finding | Passed:
    """The export is loaded in a fresh process.

    Why it matters: in the process that trained it, what is missing from the files is still in memory.

    What to do: run the pilot again where a second process can start.

    Source: the user who loads the result has a fresh process too.
    """
    if need(evidence.fresh_process, "the process that loaded the export"):
        return passed("loaded in a fresh process")
    return found("loaded in the process that trained it")


@rule("X102", "outputs-not-reproduced", "stop", phase="export", requires=("X105",))
def outputs_are_reproduced(evidence: ExportEvidence) -> Finding | Passed:
    """The loaded export gives the same output for every control input.

    Why it matters: what is handed over must be what was measured.

    What to do: look at X103, X104 and X105; export the tokenizer and generation settings with the adapter.

    Source: greedy decoding is a function of weights and prompt.
    """
    rows = need(evidence.control_rows, "control inputs")
    equal = need(evidence.outputs_equal, "control outputs")
    if rows == 0:
        raise CannotCheck("there are no control inputs")
    seen = f"{equal} of {rows} control outputs are reproduced token for token"
    return passed(seen) if equal == rows else found(seen)


@rule("X103", "logits-not-reproduced", "stop", phase="export", requires=("X105",))
def logits_are_reproduced(evidence: ExportEvidence, relative: float = 1e-4) -> Finding | Passed:
    """The loaded export gives the same logits for the control inputs.

    Why it matters: outputs may be equal by luck while the weights are not.

    What to do: keep the precision of `model.precision` when saving; look at X105 for renamed keys.

    Source: the same weights give the same logits up to rounding; limit as for F104.
    """
    limit = tolerance(relative, evidence.precision)
    return at_most(evidence.first_logits_error, limit, "the difference of control logits")


@rule("X104", "other-base", "stop", phase="export")
def base_is_the_bound_one(evidence: ExportEvidence) -> Finding | Passed:
    """The export is loaded on the base that it was trained on.

    Why it matters: an adapter is a difference; on another revision of the base it gives another model.

    What to do: load `model.base` at the exact revision in `testigo.json`.

    Source: `PeftModel.from_pretrained` does not check the base.
    """
    bound = need(evidence.base_sha256_bound, "the digest of the base")
    here = need(evidence.base_sha256_found, "the digest of the base that was found")
    seen = f"bound to {bound[:12]}, loaded on {here[:12]}"
    return passed(seen) if bound == here else found(seen)


@rule("X105", "keys-do-not-match", "stop", phase="export")
def keys_match(evidence: ExportEvidence) -> Finding | Passed:
    """The file's names are those that the model expects.

    Why it matters: a renamed key is loaded as nothing, without an error, and the adapter has no effect.

    What to do: save the model without compilation or wrapping prefixes (`_orig_mod.`, `module.`).

    Source: `load_adapter` returns missing keys, and trainers discard the answer.
    """
    missing, unexpected = need(evidence.keys_missing, "missing keys"), need(evidence.keys_unexpected, "unexpected keys")
    if missing or unexpected:
        parts = [f"{len(missing)} missing: {names(missing)}"] if missing else []
        parts += [f"{len(unexpected)} unexpected: {names(unexpected)}"] if unexpected else []
        return found("; ".join(parts))
    return passed("every key of the file is expected and none is missing")


@rule("X106", "export-not-finite", "stop", phase="export")
def export_is_finite(evidence: ExportEvidence) -> Finding | Passed:
    """Every exported number is finite.

    Why it matters: one NaN makes every output rubbish.

    What to do: export the last checkpoint before the run diverged; lower `training.learning_rate` and train again.

    Source: NaN propagates through every operation (IEEE 754-2019, section 6.2).
    """
    if need(evidence.finite, "finiteness of the export"):
        return passed("every exported number is finite")
    return found("the export holds NaN or infinity")


@rule("X107", "adapter-without-effect", "stop", phase="export")
def adapter_has_an_effect(evidence: ExportEvidence) -> Finding | Passed:
    """The loaded export is not just the base.

    Why it matters: an adapter that was loaded as zeros answers like the base, and the comparison says "no difference".

    What to do: look at X105 for renamed keys; export after at least one real update.

    Source: LoRA with B = 0 is the base exactly (Hu et al. 2021, section 4.1).
    """
    if need(evidence.equals_base, "the comparison with the base"):
        return found("the control logits are exactly those of the bare base")
    return passed("the control logits differ from those of the bare base")


@rule("X108", "merged-differs", "stop", phase="export", requires=("X106",))
def merged_is_unmerged(evidence: ExportEvidence, relative: float = 1e-4) -> Finding | Passed:
    """Merged and unmerged give the same logits.

    Why it matters: merging rounds the adapter into the base's precision; what is served may not be what was measured.

    What to do: merge in fp32, or hand over the adapter unmerged.

    Source: (W + BA)x = Wx + B(Ax) up to rounding; limit as for F104.
    """
    limit = tolerance(relative, evidence.precision)
    return at_most(evidence.merged_error, limit, "the difference of merged and unmerged logits")


@rule("X109", "disk-too-small", "stop", phase="export")
def disk_holds_the_checkpoints(evidence: ExportEvidence, margin: float = 1.1) -> Finding | Passed:
    """The disk holds the checkpoints that all runs of the campaign keep, and the one being written.

    Why it matters: a campaign waits on a full disk until somebody frees it, and half a checkpoint is none.

    What to do: free the disk, give another `--workspace`, or lower `training.checkpoint.keep`.

    Source: the older one goes only after the newer one was verified, so one more than is kept exists; checkpoints of
    runs that ended stay; 10 % for the rest of the runs' files.
    """
    free, one = need(evidence.free_disk_bytes, "free disk"), need(evidence.checkpoint_bytes, "a checkpoint's size")
    wanted = math.ceil(margin * one * (need(evidence.checkpoints_kept, "the checkpoints kept") + 1))
    seen = f"{free / 2**20:,.0f} MiB free, {wanted / 2**20:,.0f} MiB needed"
    seen += f" for {evidence.checkpoints_kept} + 1 checkpoints"
    return passed(seen) if free >= wanted else found(seen)

"""Evidence about the checkpoint that a Trainer is to go on from, and the rules over it (codes R2xx)."""

from __future__ import annotations

from dataclasses import dataclass

from testigo.gates.measured import names, need
from testigo.rules import Finding, Passed, found, passed, rule


@dataclass(frozen=True, kw_only=True)
class CheckpointEvidence:
    """What was read of the checkpoint, without loading it into anything. `None` means that it was not measured."""

    checkpoint: str | None = None
    """Its folder."""
    files_lacking: tuple[str, ...] | None = None
    """Files that a whole checkpoint has and this one lacks."""
    files_damaged: tuple[str, ...] | None = None
    """Files that are shorter than they say, or whose checksum is wrong."""
    keys_missing: tuple[str, ...] | None = None
    """Names that the model expects and the weights lack."""
    keys_unexpected: tuple[str, ...] | None = None
    """Names in the weights that the model does not know."""
    changed: tuple[tuple[str, str, str], ...] | None = None
    """Settings that differ: name, value then, value now."""
    patience_used: int | None = None
    """Bad validations that early stopping had counted; 0 when there is none or its count comes back."""
    order_repeats: bool | None = None
    """Whether the order of an epoch's rows is the same whatever the global random state is."""


@rule("R201", "checkpoint-not-whole", "stop", phase="resume")
def checkpoint_is_whole(evidence: CheckpointEvidence) -> Finding | Passed:
    """The checkpoint has all its files, and each is whole.

    Why it matters: the Trainer takes the newest folder by its name alone. Without `optimizer.pt` it goes on with fresh
    moments and says nothing; half a file ends the run, or loads half.

    What to do: give the checkpoint before it: `resume_from_checkpoint="out/checkpoint-..."`; delete this one.

    Source: transformers, `get_last_checkpoint` looks at names; `_load_optimizer_and_scheduler` returns silently when
    the files are not there.
    """
    lacking, damaged = need(evidence.files_lacking, "the checkpoint's files"), evidence.files_damaged or ()
    if lacking or damaged:
        parts = [f"lacks {names(lacking)}"] if lacking else []
        parts += [f"damaged: {names(damaged)}"] if damaged else []
        return found(f"{evidence.checkpoint}: {'; '.join(parts)}")
    return passed(f"{evidence.checkpoint} is whole")


@rule("R202", "checkpoint-names-differ", "stop", phase="resume")
def names_fit(evidence: CheckpointEvidence) -> Finding | Passed:
    """The names in the checkpoint's weights are those of the model.

    Why it matters: the Trainer drops the list of names that did not fit: the adapter goes on as it was drawn, B at
    zero, and the first losses are the base's.

    What to do: make the adapter as it was made then: same targets, same adapter name, no wrapper (`torch.compile`, a
    second adapter) around it.

    Source: transformers' `_load_from_checkpoint` ignores what `load_adapter` returns; peft issue 2699.
    """
    missing = need(evidence.keys_missing, "names in the checkpoint")
    unexpected = evidence.keys_unexpected or ()
    if missing or unexpected:
        parts = [f"{len(missing)} missing: {names(missing, 2)}"] if missing else []
        parts += [f"{len(unexpected)} unexpected: {names(unexpected, 2)}"] if unexpected else []
        return found("; ".join(parts))
    return passed("the checkpoint's names are the model's")


@rule("R203", "resume-with-other-settings", "stop", phase="resume")
def settings_are_the_same(evidence: CheckpointEvidence) -> Finding | Passed:
    """The run goes on with the settings that it began with.

    Why it matters: with another learning rate, batch size, seed or other rows it is another run, and its curve says
    nothing of either. The learning rate in the settings is not even used: the checkpoint's wins.

    What to do: set what is named back; for other settings begin a new run from the weights, without
    `resume_from_checkpoint`.

    Source: transformers compares four fields and only warns (`compare_trainer_and_checkpoint_args`).
    """
    changed = need(evidence.changed, "the settings of the checkpoint")
    if changed:
        return found("then and now: " + names(f"{name} {then} -> {now}" for name, then, now in changed))
    return passed("settings and number of rows are those of the checkpoint")


@rule("R204", "patience-starts-anew", "warn", phase="resume")
def patience_is_kept(evidence: CheckpointEvidence) -> Finding | Passed:
    """Early stopping goes on counting where it was.

    Why it matters: a run that is interrupted often enough never stops.

    What to do: set `restore_callback_states_from_checkpoint=True`.

    Source: transformers restores the state of callbacks only when that is set.
    """
    used = need(evidence.patience_used, "early stopping")
    return found(f"{used} bad validations would be forgotten") if used else passed("early stopping forgets nothing")


@rule("R205", "order-from-global-state", "warn", phase="resume")
def order_is_a_function(evidence: CheckpointEvidence) -> Finding | Passed:
    """The order of an epoch's rows does not depend on the global random state.

    Why it matters: after a resume that state is another one at the moment the order is drawn: rows are seen twice and
    others never.

    What to do: use `train_sampling_strategy="random"` for runs that may be resumed, or set `data_seed` and a sampler
    with a generator of its own.

    Source: transformers' `LengthGroupedSampler` shuffles with the global generator.
    """
    if need(evidence.order_repeats, "the order of rows"):
        return passed("the order of an epoch's rows is a function of the seed")
    return found("another global random state gives another order of rows")

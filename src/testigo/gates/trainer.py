"""Evidence about a Trainer that the user already has, and rules that only such a Trainer needs (codes x2xx).

The rules over its rows are in `trainer_rows.py`, those over its optimizer and schedule in `trainer_updates.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from testigo.gates.measured import names, need
from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule


@dataclass(frozen=True, kw_only=True)
class TrainerEvidence:
    """What was seen of a Trainer beside its batches, losses and gradients. `None` means that it was not measured."""

    n_rows: int | None = None
    """Training rows that were looked at."""
    labels_shifted: int | None = None
    """Places that the labels in the batch lie ahead of the tokens that they name: 0, or 1 when shifted before."""
    labels_own_share: float | None = None
    """Share of the labels that are the token of their own place, or of a place beside it, 0 to 1."""
    loss_shift: int | None = None
    """Places that the loss moves labels by: 1 for causal language models of transformers, else 0."""
    assistant_mask_empty: tuple[str, ...] | None = None
    """Ids of rows whose assistant mask marks no token."""
    template_marks_assistant: bool | None = None
    """Whether the chat template has `{% generation %}` marks; None when there is no template."""
    class_names_data: tuple[str, ...] | None = None
    """Names of the classes in the order of the data set's label numbers."""
    class_names_model: tuple[str, ...] | None = None
    """Names of the classes in the order of the model's outputs."""
    adapter: bool | None = None
    """Whether the model carries an adapter."""
    declared_by_user: bool | None = None
    """Whether the user said which parameters are trained."""
    trained_matrices: int | None = None
    """Trained tensors with two or more dimensions."""
    trained_vectors: int | None = None
    """Trained tensors with fewer: norms and biases."""
    frozen: tuple[str, ...] | None = None
    """Names of the parameters that are not trained."""
    trained_share: float | None = None
    """Share of the parameters that is trained, 0 to 1."""
    eval_loss_of_batches: float | None = None
    """Validation loss as the Trainer reports it: the mean of the means of batches."""
    eval_loss_of_tokens: float | None = None
    """The same rows' loss, each supervised token counted once."""
    failed_step: str | None = None
    """Phase and words of an error that the Trainer's own step raised; empty when none did."""
    class_runs: int | None = None
    """Stretches of rows of one class, in the order in which the first epoch loads them."""
    class_runs_expected: float | None = None
    """The same in a random order, on average."""
    class_runs_spread: float | None = None
    """Standard deviation of that number."""
    pixel_range: tuple[float, float] | None = None
    """Lowest and highest value of a picture as it reaches the model."""
    pixel_spread: float | None = None
    """Standard deviation of the values of the liveliest picture."""
    n_answers: int | None = None
    """Rows whose labels are their own tokens, where rows have lengths of their own."""
    n_answers_ended: int | None = None
    """Those of them in which a token that ends an answer follows one that is in the loss."""
    n_batches: int | None = None
    """Batches of one epoch; None for a stream."""
    learning_rate: float | None = None
    """The learning rate that the schedule is a share of."""
    peak_learning_rate: float | None = None
    """The highest learning rate of any planned update."""
    schedule_is_the_optimizers: bool | None = None
    """Whether the schedule changes the learning rate of the optimizer that is used."""
    decayed_vectors: int | None = None
    """Norms and biases with weight decay."""
    adapter_inside_adapter: bool | None = None
    """Whether an adapter was put around a model that carries one."""
    trained_not_saved: tuple[str, ...] | None = None
    """Names of trained tensors that the adapter's file would not hold."""
    recomputes_reentrantly: bool | None = None
    """Whether activation checkpointing is of the reentrant kind."""
    searches_unused: bool | None = None
    """Whether data-parallel processes are told to search for parameters that a step did not use."""


@rule("F201", "step-raises", "stop", phase="forward")
def steps_run(evidence: TrainerEvidence) -> Finding | Passed:
    """The Trainer's own step runs.

    Why it matters: what raises an error on the pilot's rows raises it in the run, perhaps hours later: the pilot takes
    the longest rows first.

    What to do: read the error; it is the library's own.

    Source: by definition: the pilot calls `prediction_step` and `training_step` as the Trainer does.
    """
    failed = need(evidence.failed_step, "the Trainer's step")
    return found(failed) if failed else passed("every step of the Trainer ran")


@rule("B201", "only-vectors-trained", "stop", phase="backward")
def more_than_norms_is_trained(evidence: TrainerEvidence) -> Finding | Passed:
    """Without an adapter, more than norms and biases is trained, unless that is declared.

    Why it matters: everything but the norms frozen by a wrong name looks like training: there are gradients, and the
    loss falls a little.

    What to do: see which tensors ask for a gradient (`requires_grad`); when it is meant, say so:
    `testigo.pilot(trainer, trained=["*norm*", "*bias"])`.

    Source: norms and biases are about a thousandth of a transformer; training them alone is a method of its own
    (BitFit, Ben Zaken et al. 2022) and rarely meant.
    """
    matrices = need(evidence.trained_matrices, "the trained tensors")
    vectors = need(evidence.trained_vectors, "the trained tensors")
    if evidence.adapter or evidence.declared_by_user:
        return passed(f"{matrices + vectors} tensors are trained, by an adapter or as declared")
    if not matrices + vectors:
        raise CannotCheck("nothing is trained")
    share = f" ({evidence.trained_share:.2%} of the parameters)" if evidence.trained_share is not None else ""
    seen = f"{matrices} matrices and {vectors} vectors are trained{share}"
    return passed(seen) if matrices else found(f"{seen}; frozen: {names(evidence.frozen or ())}")


@rule("B202", "partly-frozen", "note", phase="backward", requires=("B201",))
def frozen_parts_are_told(evidence: TrainerEvidence) -> Finding | Passed:
    """Without an adapter, the whole model is trained, unless it is declared.

    Why it matters: a layer that was frozen by mistake does not learn, and nothing tells it.

    What to do: nothing when it is meant; to have it checked, declare it: `testigo.pilot(trainer, trained=[...])` with
    patterns of names.

    Source: by definition of full fine-tuning.
    """
    frozen = need(evidence.frozen, "the frozen tensors")
    if evidence.adapter or evidence.declared_by_user or not frozen:
        return passed("all is trained, or an adapter, or what was declared")
    return found(f"{len(frozen)} tensors are frozen, without an adapter: {names(frozen)}")


@rule("V201", "eval-loss-of-batches", "note", phase="validation")
def eval_loss_is_of_tokens(evidence: TrainerEvidence, relative: float = 1e-3) -> Finding | Passed:
    """The Trainer's `eval_loss` is the loss of a token.

    Why it matters: the Trainer takes the mean of the means of batches: short answers weigh more, and another
    `per_device_eval_batch_size` gives another number. Runs can be compared only at the same batch size.

    What to do: keep `per_device_eval_batch_size` the same in all runs that are compared.

    Source: transformers, `Trainer.evaluation_loop`: each batch's mean loss is repeated by the batch size and averaged.
    """
    batches = need(evidence.eval_loss_of_batches, "the validation loss")
    tokens = need(evidence.eval_loss_of_tokens, "the validation loss by token")
    seen = f"eval_loss {batches:.4f} as a mean of batches, {tokens:.4f} by token"
    return found(seen) if abs(batches - tokens) > relative * max(abs(tokens), 1e-9) else passed(seen)


@rule("B203", "adapter-inside-adapter", "stop", phase="backward")
def adapter_is_outermost(evidence: TrainerEvidence) -> Finding | Passed:
    """An adapter is not put around a model that carries one already.

    Why it matters: the inner adapter is frozen or fresh, its file's names no longer fit, and what is saved gives the
    base's answers when it is loaded.

    What to do: load an adapter that is to be trained further with `PeftModel.from_pretrained(..., is_trainable=True)`
    on the bare base; call `get_peft_model` once.

    Source: peft issue 2115: outputs identical to the base after `get_peft_model` and `from_pretrained` together.
    """
    if need(evidence.adapter_inside_adapter, "the adapter's place"):
        return found("the model inside the adapter is itself a model with an adapter")
    return passed("there is one adapter at most")


@rule("X201", "trained-not-saved", "stop", phase="export")
def what_is_trained_is_saved(evidence: TrainerEvidence) -> Finding | Passed:
    """The adapter's file would hold everything that is trained.

    Why it matters: a part of the base that is trained beside the adapter is lost when the run ends: checkpoints and
    the adapter do not hold it, and the loaded model is another than the one that was evaluated.

    What to do: list the part in `modules_to_save` of the adapter's settings, or freeze it.

    Source: peft saves the adapter's own tensors and `modules_to_save`, nothing else (`get_peft_model_state_dict`).
    """
    lost = need(evidence.trained_not_saved, "what would be saved")
    if lost:
        return found(f"{len(lost)} trained tensors would not be saved: {names(lost)}")
    return passed("every trained tensor would be saved")

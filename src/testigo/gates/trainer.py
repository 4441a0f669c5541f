"""Evidence about a Trainer that the user already has, and the rules that only such a Trainer needs (codes x2xx)."""

from __future__ import annotations

from dataclasses import dataclass

from testigo.gates.measured import names, need, pairs
from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule


@dataclass(frozen=True, kw_only=True)
class TrainerEvidence:
    """What was seen of a Trainer beside its batches, losses and gradients. `None` means that it was not measured."""

    n_rows: int | None = None
    """Training rows that were looked at."""
    labels_shifted: int | None = None
    """Places that the labels in the batch lie ahead of the tokens that they name: 0, or 1 when shifted before."""
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


@rule("D201", "class-names-differ", "stop", phase="data")
def class_names_agree(evidence: TrainerEvidence) -> Finding | Passed:
    """The data set and the model number the classes in the same order.

    Why it matters: the loss can be computed all the same, and each prediction carries another class's name.

    What to do: give the model `id2label` and `label2id` in the order of the data set's label feature, or map the labels
    with `label2id` before training.

    Source: transformers names an output by `config.id2label`; datasets numbers a `ClassLabel` by the order of `names`.
    """
    data = need(evidence.class_names_data, "the data set's class names")
    model = need(evidence.class_names_model, "the model's class names")
    if set(data) != set(model) and len(data) == len(model):
        return found(f"the data set's classes are {names(data)}, the model's are {names(model)}")
    wrong = [(a, b) for a, b in zip(data, model, strict=False) if a != b]
    if wrong or len(data) > len(model):
        return found(f"{len(data)} classes in the data, {len(model)} in the model; data = model: {pairs(wrong)}")
    return passed(f"{len(data)} classes have the same order in data and model")


@rule("E201", "label-shift-count", "stop", phase="data")
def labels_are_shifted_once(evidence: TrainerEvidence) -> Finding | Passed:
    """Labels meet the prediction of their own place: they are shifted by one, once.

    Why it matters: shifted twice, the model learns the token after the next; never shifted, it learns to copy the
    token that it reads, and the loss falls to nothing. Neither raises an error.

    What to do: give a causal language model of transformers labels that are not shifted, since it shifts them itself;
    shift them only where the loss is your own.

    Source: transformers' `ForCausalLMLoss` compares the logits of place t with the label of place t + 1.
    """
    before = need(evidence.labels_shifted, "whether labels are shifted in the batch")
    inside = need(evidence.loss_shift, "whether the loss shifts labels")
    seen = f"labels are shifted by {before} in the batch and by {inside} in the loss"
    return passed(seen) if before + inside == 1 else found(f"{seen}: {before + inside} in all, where 1 is right")


@rule("E202", "assistant-mask-empty", "stop", phase="data")
def assistant_is_marked(evidence: TrainerEvidence) -> Finding | Passed:
    """The assistant mask of each row marks some token.

    Why it matters: a chat template without `{% generation %}` marks gives a mask of zeros, without an error; a loss
    over it is zero or 0/0.

    What to do: put `{% generation %}` and `{% endgeneration %}` around the assistant's words in the chat template, or
    use rows with `prompt` and `completion`.

    Source: transformers, `apply_chat_template(return_assistant_tokens_mask=True)` finds the assistant by these marks
    alone.
    """
    rows = need(evidence.assistant_mask_empty, "the assistant mask")
    of = f" of {evidence.n_rows}" if evidence.n_rows else ""
    why = "; the chat template has no {% generation %} marks" if evidence.template_marks_assistant is False else ""
    if rows:
        return found(f"{len(rows)}{of} rows have nothing marked as the assistant's{why}: {names(rows)}", rows=rows)
    return passed("every row's assistant mask marks some token")


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

"""Rules over the rows and batches of a Trainer that the user already has (codes D2xx, E2xx)."""

from __future__ import annotations

from testigo.gates.measured import names, need, pairs
from testigo.gates.trainer import TrainerEvidence
from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule


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


@rule("D202", "rows-sorted-by-class", "warn", phase="data")
def classes_are_mixed(evidence: TrainerEvidence, spreads: float = 5.0) -> Finding | Passed:
    """Rows of one class do not come in long stretches.

    Why it matters: batches of one class teach the model to answer that class; the last class that came wins.

    What to do: shuffle the rows (`train_sampling_strategy="random"`, or `dataset.shuffle(seed=...)` for a stream).

    Source: Wald and Wolfowitz 1940, number of runs of several kinds in a random order; five standard deviations below
    the mean is one chance in three million.
    """
    runs = need(evidence.class_runs, "the order of classes")
    expected, spread = need(evidence.class_runs_expected, "runs"), need(evidence.class_runs_spread, "runs")
    seen = f"{runs} stretches of one class, where a random order has {expected:.0f} ± {spread:.1f}"
    return found(seen) if spread > 0 and runs < expected - spreads * spread else passed(seen)


@rule("E203", "pictures-out-of-range", "warn", phase="data")
def pictures_are_normalised(evidence: TrainerEvidence, largest: float = 16.0, least: float = 0.02) -> Finding | Passed:
    """Pictures reach the model normalised: small numbers around zero that differ from place to place.

    Why it matters: pictures of 0 to 255 saturate a model that was trained on numbers around zero; pictures that were
    rescaled twice are one grey area each. Both train without an error.

    What to do: let one image processor of this very model rescale and normalise, once.

    Source: the processors of transformers give at most about ±3 (ImageNet's mean and deviation); rescaling by 1/255
    once too often leaves a spread of about 0.005.
    """
    low, high = need(evidence.pixel_range, "the range of pictures")
    spread = need(evidence.pixel_spread, "the spread of pictures")
    seen = f"pictures run from {low:.3g} to {high:.3g}, the liveliest has a standard deviation of {spread:.3g}"
    return found(seen) if max(abs(low), abs(high)) > largest or spread < least else passed(seen)


@rule("E205", "answers-never-end", "warn", phase="data")
def answers_end(evidence: TrainerEvidence, at_least: int = 8) -> Finding | Passed:
    """Some row has a token after its answer that ends it.

    Why it matters: a model that never saw an end writes on to the limit.

    What to do: add the end token to each text (`tokenizer.eos_token`), or render rows with the chat template. For
    running text without ends, waive this with a reason.

    Source: generation stops at `eos_token_id`; a public case where it was never in the rows: unsloth issue 419. Of
    fewer than eight rows nothing is said.
    """
    answers, ended = need(evidence.n_answers, "answers"), need(evidence.n_answers_ended, "ends of answers")
    if answers < at_least:
        raise CannotCheck(f"only {answers} rows have labels of their own tokens")
    seen = f"{ended} of {answers} rows have a token that ends an answer"
    return passed(seen) if ended else found(seen)


@rule("E206", "labels-of-other-tokens", "warn", phase="data")
def labels_are_own_tokens(evidence: TrainerEvidence, least: float = 0.5) -> Finding | Passed:
    """The labels of a causal language model are the tokens of their own row.

    Why it matters: labels of another row teach answers to questions that were never asked; the loss falls all the
    same, since texts are alike.

    What to do: make labels from the same row's `input_ids`; look at what sorted, joined or shuffled one of the two.

    Source: by definition of causal language modelling: the label of a place is the token that stands there. Noise on
    the inputs leaves most tokens as they were.
    """
    if need(evidence.loss_shift, "whether the loss shifts labels") != 1:
        raise CannotCheck("the loss is not a causal language model's")
    share = need(evidence.labels_own_share, "the labels")
    seen = f"{share:.0%} of the labels are the row's own tokens"
    return passed(seen) if share >= least else found(seen)

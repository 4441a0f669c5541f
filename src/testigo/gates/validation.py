"""Evidence about validation and generation, and the rules over it (codes V)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from testigo.gates.measured import at_most, need, tolerance
from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule


@dataclass(frozen=True, kw_only=True)
class ValidationEvidence:
    """What a validation on the pilot's rows showed. `None` means that it was not measured."""

    precision: str | None = None
    """fp32, bf16 or fp16: in which numbers the model computes."""
    training_mode_during: bool | None = None
    """Whether any module was in training mode (dropout active) while validating."""
    losses_by_batch: dict[str, float] | None = None
    """Validation loss by batch size, nats per supervised token: {"1": 2.31, "4": 2.31}."""
    twice_difference: float | None = None
    """Difference of the validation loss when it is computed twice."""
    weights_changed: bool | None = None
    """Whether validating changed any weight."""
    random_state_changed: bool | None = None
    """Whether validating changed a random state that training draws from."""
    outputs_expected: int | None = None
    """Rows for which an output should have been written."""
    outputs_written: int | None = None
    """Rows for which an output was written."""
    empty_outputs: tuple[str, ...] | None = None
    """Ids of rows whose output is empty."""
    longest_generated: int | None = None
    """Tokens of the longest output."""
    max_new_tokens: int | None = None
    """Most tokens that an output may have."""
    outputs_generated: int | None = None
    """Outputs among which `stopped` counts, where these are more than those written: after learning by heart too."""
    stopped: int | None = None
    """Outputs that ended by themselves, with a stop token."""
    target_longest_tokens: int | None = None
    """Tokens of the longest target, its turn's end included."""


@rule("V101", "training-mode-in-validation", "stop", phase="validation")
def validation_is_in_evaluation_mode(evidence: ValidationEvidence) -> Finding | Passed:
    """Validation runs in evaluation mode.

    Why it matters: active dropout makes the validation loss higher and noisy.

    What to do: switch the model to evaluation mode before, and back after; set `model.adapter.dropout: 0.0` to see
    the effect.

    Source: torch.nn.Module.eval.
    """
    if need(evidence.training_mode_during, "the mode in validation"):
        return found("a module was in training mode while validating")
    return passed("every module was in evaluation mode")


@rule("V102", "loss-depends-on-batch", "stop", phase="validation", requires=("V111",))
def loss_is_independent_of_the_batch(evidence: ValidationEvidence, relative: float = 1e-4) -> Finding | Passed:
    """The validation loss is the same with every batch size.

    Why it matters: a mean of batch means weighs short rows more; runs with another `evaluation.batch_size` cannot be
    compared.

    What to do: report the sum of token losses divided by the number of supervised tokens.

    Source: token-weighted mean; `Trainer`'s eval_loss is a mean of batch means. 1e-4 in fp32 allows another order of
    additions.
    """
    losses = need(evidence.losses_by_batch, "losses by batch size")
    if len(losses) < 2:
        raise CannotCheck("only one batch size was run")
    apart = max(losses.values()) - min(losses.values())
    limit = tolerance(relative, evidence.precision) * max(1.0, *map(abs, losses.values()))
    seen = "; ".join(f"batch {size}: {loss:.6f}" for size, loss in losses.items()) + f" (at most {limit:.2g} apart)"
    return passed(seen) if apart <= limit else found(seen)


@rule("V103", "validation-not-repeatable", "stop", phase="validation")
def validation_repeats(evidence: ValidationEvidence, nats: float = 1e-6) -> Finding | Passed:
    """Validating twice gives the same loss.

    Why it matters: noise in the measurement is taken for progress, and early stopping picks by luck.

    What to do: switch every module to evaluation mode; fix the order of rows.

    Source: without dropout a forward pass is a fixed function; the limit allows another order of additions.
    """
    losses = (evidence.losses_by_batch or {}).values()
    limit = tolerance(nats, evidence.precision) * max(1.0, *map(abs, losses), 1.0)
    return at_most(evidence.twice_difference, limit, "the difference of two validations")


@rule("V104", "validation-changes-weights", "stop", phase="validation")
def validation_leaves_weights(evidence: ValidationEvidence) -> Finding | Passed:
    """Validating changes no weight.

    Why it matters: validation rows that reach the weights are training rows.

    What to do: validate without gradients and never step the optimizer there; look for moving averages that update in
    training mode.

    Source: equal digests mean equal bytes (FIPS 180-4).
    """
    if need(evidence.weights_changed, "weights over a validation"):
        return found("weights or buffers changed while validating")
    return passed("weights are the same bit for bit after validating")


@rule("V105", "validation-draws-random-numbers", "warn", phase="validation")
def validation_leaves_random_state(evidence: ValidationEvidence) -> Finding | Passed:
    """Validating leaves the random state of training alone.

    Why it matters: otherwise `training.validate_every` changes the training, and a resume is not the same run.

    What to do: draw validation's random numbers from a generator of its own, or keep and restore the state.

    Source: a popular recorder changed the losses from update 5 on in just this way.
    """
    if need(evidence.random_state_changed, "the random state over a validation"):
        return found("validating changed a random state that training draws from")
    return passed("the random state is the same after validating")


@rule("V106", "outputs-incomplete", "stop", phase="validation")
def outputs_are_complete(evidence: ValidationEvidence) -> Finding | Passed:
    """Every row has its output.

    Why it matters: rows that are lost, or counted twice to fill a batch, change the metric.

    What to do: keep the last incomplete batch; with `machine.processes` above 1, drop the rows that fill it up.

    Source: paired comparison needs the same rows on both sides (McNemar 1947).
    """
    written, expected = need(evidence.outputs_written, "outputs"), need(evidence.outputs_expected, "expected outputs")
    seen = f"{written} outputs for {expected} rows"
    return passed(seen) if written == expected else found(seen)


@rule("V107", "outputs-empty", "warn", phase="validation")
def outputs_are_not_empty(evidence: ValidationEvidence, share: float = 0.5) -> Finding | Passed:
    """Most outputs are not empty.

    Why it matters: a model that ends at once usually reads a prompt that already ends its turn.

    What to do: look at the end of the prompt with `testigo show`; the template must open the assistant's turn.

    Source: transformers' chat templates: `add_generation_prompt`. A few empty outputs of an untrained base are no
    fault; half of them is.
    """
    empty, written = need(evidence.empty_outputs, "empty outputs"), need(evidence.outputs_written, "outputs")
    seen = f"{len(empty)} of {written} outputs are empty"
    return found(seen, rows=empty) if written and len(empty) >= share * written else passed(seen)


@rule("V108", "nothing-stops", "warn", phase="validation")
def some_outputs_stop(evidence: ValidationEvidence, at_least: int = 4) -> Finding | Passed:
    """Some output ends by itself.

    Why it matters: when every output is cut at the limit, each costs the longest time and none can be exactly right.

    What to do: look at E107 and E108; raise `evaluation.max_new_tokens`.

    Source: generation ends at a stop token or at `max_new_tokens`; of fewer than four outputs nothing is said.
    """
    stopped, written = need(evidence.stopped, "stops"), need(evidence.outputs_written, "outputs")
    written = max(written, evidence.outputs_generated or 0)
    seen = f"{stopped} of {written} outputs ended by themselves"
    if written < at_least and not stopped:
        raise CannotCheck(f"too few outputs to say ({seen})")
    return passed(seen) if stopped else found(seen)


@rule("V109", "target-longer-than-limit", "stop", phase="validation")
def targets_fit(evidence: ValidationEvidence) -> Finding | Passed:
    """The longest target fits into the tokens that an output may have.

    Why it matters: a row whose target is longer can never be right, however good the model.

    What to do: set `evaluation.max_new_tokens` to the longest target's tokens or more.

    Source: by definition; the turn's end counts as a token.
    """
    longest = need(evidence.target_longest_tokens, "the longest target")
    limit = need(evidence.max_new_tokens, "max_new_tokens")
    seen = f"the longest target has {longest} tokens, evaluation.max_new_tokens is {limit}"
    return found(seen) if longest > limit else passed(seen)


@rule("V110", "output-over-limit", "stop", phase="validation")
def outputs_respect_the_limit(evidence: ValidationEvidence) -> Finding | Passed:
    """No output is longer than allowed.

    Why it matters: a limit that is not applied makes time and memory unforeseeable, and the evaluation another one
    than declared.

    What to do: give `evaluation.max_new_tokens` to generation, and no `max_length` beside it.

    Source: transformers: `max_new_tokens` and `max_length` are two limits.
    """
    longest = need(evidence.longest_generated, "the longest output")
    limit = need(evidence.max_new_tokens, "max_new_tokens")
    seen = f"the longest output has {longest} tokens, evaluation.max_new_tokens is {limit}"
    return found(seen) if longest > limit else passed(seen)


@rule("V111", "validation-loss-not-finite", "stop", phase="validation")
def validation_loss_is_finite(evidence: ValidationEvidence) -> Finding | Passed:
    """The validation loss is a number.

    Why it matters: some trainers leave out batches that are not finite, and the mean of the rest looks well.

    What to do: set `model.precision: bf16` or `fp32`; look for validation rows without a token in the loss.

    Source: `Trainer` filters NaN from its log by default (`logging_nan_inf_filter`).
    """
    losses = need(evidence.losses_by_batch, "the validation loss")
    if not losses:
        raise CannotCheck("no validation loss was computed")
    seen = "; ".join(f"batch {size}: {loss:.4f}" for size, loss in losses.items())
    return passed(seen) if all(map(math.isfinite, losses.values())) else found(seen)

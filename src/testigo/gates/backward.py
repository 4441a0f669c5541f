"""Evidence about gradients, and the rules over it (codes B)."""

from __future__ import annotations

from dataclasses import dataclass

from testigo.gates.measured import at_most, names, need, tolerance
from testigo.rules import Finding, Passed, found, passed, rule


@dataclass(frozen=True, kw_only=True)
class BackwardEvidence:
    """What the first backward passes showed. `None` means that it was not measured."""

    precision: str | None = None
    """fp32, bf16 or fp16: in which numbers the model computes."""
    trained: tuple[str, ...] | None = None
    """Names of the parameters that ask for a gradient."""
    declared: tuple[str, ...] | None = None
    """Names of the parameters that the adapter settings say are trained."""
    with_gradient: tuple[str, ...] | None = None
    """Names of the parameters that had a gradient tensor after the first backward."""
    nonzero_gradient: tuple[str, ...] | None = None
    """Names of the parameters whose gradient was not all zero after the first backward."""
    exempt: tuple[str, ...] | None = None
    """Names whose gradient must be zero at the first backward: LoRA's A, because B starts at zero."""
    gradient_elsewhere: tuple[str, ...] | None = None
    """Names of parameters outside the trained set that had a gradient."""
    nonfinite: tuple[str, ...] | None = None
    """Names of the parameters with NaN or infinity in the gradient."""
    loss_accumulated: float | None = None
    """Loss of one update over several microbatches, nats per supervised token."""
    loss_one_batch: float | None = None
    """Loss of the same rows as one batch, nats per supervised token."""
    accumulation_error: float | None = None
    """Size of the difference of both gradients divided by the size of the one batch's gradient."""
    gradient_twice_error: float | None = None
    """The same for one batch run twice without an update between."""
    layout_error: float | None = None
    """The same for rows laid out as training lays them, against each row alone with all of its logits at once."""
    checkpointing_error: float | None = None
    """The same with and without activation checkpointing."""
    new_tokens_frozen: tuple[str, ...] | None = None
    """Tokens that were added to the base, occur in rows, and whose embedding is not trained."""
    untied: tuple[str, ...] | None = None
    """The embedding and the head, where the model declares them tied and they are two tensors."""


@rule("B101", "nothing-to-train", "stop", phase="backward")
def something_is_trained(evidence: BackwardEvidence) -> Finding | Passed:
    """At least one parameter asks for a gradient.

    Why it matters: a run with everything frozen ends well and changes nothing.

    What to do: let `model.adapter` create the adapter anew; an adapter loaded for inference is frozen
    (`is_trainable=False`).

    Source: peft loads an adapter frozen unless asked otherwise.
    """
    trained = need(evidence.trained, "the trained parameters")
    seen = f"{len(trained)} tensors are trained"
    return passed(seen) if trained else found(seen)


@rule("B102", "trained-set-not-declared", "stop", phase="backward", requires=("B101",))
def trained_is_declared(evidence: BackwardEvidence) -> Finding | Passed:
    """Exactly the declared parameters are trained.

    Why it matters: a layer frozen or thawed by mistake is another experiment than the one in the file.

    What to do: correct `model.adapter.targets` and `model.adapter.save_modules`, or the code that sets
    `requires_grad`.

    Source: LoRA's trained set is A and B of each target (Hu et al. 2021, section 4); full training's is every
    parameter.
    """
    trained = set(need(evidence.trained, "the trained parameters"))
    declared = set(need(evidence.declared, "the declared parameters"))
    lacking, extra = sorted(declared - trained), sorted(trained - declared)
    if lacking or extra:
        parts = [f"declared and frozen: {names(lacking)}"] if lacking else []
        parts += [f"trained and not declared: {names(extra)}"] if extra else []
        return found("; ".join(parts))
    return passed(f"the {len(trained)} trained tensors are the declared ones")


@rule("B103", "no-gradient", "stop", phase="backward", requires=("B101",))
def trained_have_gradients(evidence: BackwardEvidence) -> Finding | Passed:
    """Every trained parameter receives a gradient.

    Why it matters: what has no gradient stays as it was, whatever the log says.

    What to do: set `training.activation_checkpointing: false` to see whether it is the cause (reentrant checkpointing
    over frozen embeddings cuts gradients off); check `model.adapter.targets` for layers that the forward pass skips.

    Source: torch.utils.checkpoint: reentrant checkpointing needs an input that asks for a gradient.
    """
    trained = need(evidence.trained, "the trained parameters")
    lacking = sorted(set(trained) - set(need(evidence.with_gradient, "gradients")))
    if lacking:
        return found(f"{len(lacking)} of {len(trained)} trained tensors have no gradient: {names(lacking)}")
    return passed(f"all {len(trained)} trained tensors have a gradient")


@rule("B104", "gradient-all-zero", "stop", phase="backward", requires=("B103",))
def some_gradient_is_not_zero(evidence: BackwardEvidence) -> Finding | Passed:
    """Not all gradients are zero.

    Why it matters: zero gradients mean that no label is in the loss, or that fp16 rounded them away.

    What to do: look at the mask with `testigo show`; set `model.precision: fp32`.

    Source: fp16's smallest number is 6e-8 (IEEE 754-2019), hence loss scaling (Micikevicius et al. 2018).
    """
    nonzero = need(evidence.nonzero_gradient, "gradients")
    seen = f"{len(nonzero)} tensors have a gradient that is not zero"
    return passed(seen) if nonzero else found(seen)


@rule("B105", "gradient-zero-somewhere", "warn", phase="backward", requires=("B104",))
def gradients_reach_everything(evidence: BackwardEvidence) -> Finding | Passed:
    """No trained parameter's gradient is all zero, but LoRA's A at the first backward.

    Why it matters: a zero gradient is a part that does not learn. LoRA's A is no fault: B starts at zero, so A's first
    gradient is zero, and from the second update on both move.

    What to do: nothing where experts or added tokens were not used by this batch; else check `model.adapter.targets`.

    Source: d(BA)/dA is proportional to B, and B = 0 at the start (Hu et al. 2021, section 4.1).
    """
    trained = set(need(evidence.trained, "the trained parameters"))
    zero = sorted(trained - set(need(evidence.nonzero_gradient, "gradients")) - set(evidence.exempt or ()))
    if zero:
        return found(f"{len(zero)} of {len(trained)} trained tensors have a zero gradient: {names(zero)}")
    exempt = f", {len(evidence.exempt)} exempt at the first backward" if evidence.exempt else ""
    return passed(f"no trained tensor has a zero gradient{exempt}")


@rule("B106", "gradient-elsewhere", "stop", phase="backward")
def gradients_stay_inside(evidence: BackwardEvidence) -> Finding | Passed:
    """No parameter outside the trained set has a gradient.

    Why it matters: memory is spent on it, clipping counts it, and an optimizer that holds it would change it.

    What to do: freeze it, or declare it in `model.adapter.save_modules`.

    Source: the gradient's norm is taken over all parameters that have one (torch.nn.utils.clip_grad_norm_).
    """
    elsewhere = need(evidence.gradient_elsewhere, "gradients outside the trained set")
    if elsewhere:
        return found(f"{len(elsewhere)} tensors outside the trained set have a gradient: {names(elsewhere)}")
    return passed("no gradient outside the trained set")


@rule("B107", "gradient-not-finite", "stop", phase="backward")
def gradients_are_finite(evidence: BackwardEvidence) -> Finding | Passed:
    """Every gradient is a number.

    Why it matters: one NaN in a gradient makes the whole parameter NaN with the next update.

    What to do: set `model.precision: bf16` or `fp32`; lower `training.learning_rate` only when the loss is finite at
    first.

    Source: fp16 ends at 65,504; a scaled loss passes that easily (Micikevicius et al. 2018).
    """
    bad = need(evidence.nonfinite, "finiteness of gradients")
    if bad:
        return found(f"{len(bad)} tensors have NaN or infinity in the gradient: {names(bad)}")
    return passed("every gradient is finite")


@rule("B108", "accumulation-changes-gradient", "stop", phase="backward", requires=("B107",))
def accumulation_is_one_batch(evidence: BackwardEvidence, relative: float = 1e-4) -> Finding | Passed:
    """Accumulated microbatches give the gradient of the one big batch.

    Why it matters: a mean of means weighs short rows more, and `training.microbatch` changes the result.

    What to do: divide the sum of token losses by the supervised tokens of the whole update; in a Trainer let the
    model's `forward` take `num_items_in_batch`.

    Source: the gradient is linear in the sum of token losses; a widely reported fault in trainers of 2024. 1e-4 in fp32
    allows another order of additions.
    """
    limit = tolerance(relative, evidence.precision)
    return at_most(evidence.accumulation_error, limit, "the relative difference of accumulated and one-batch gradients")


@rule("B109", "accumulation-changes-loss", "stop", phase="backward")
def accumulation_keeps_the_loss(evidence: BackwardEvidence, relative: float = 1e-4) -> Finding | Passed:
    """Accumulated microbatches report the loss of the one big batch.

    Why it matters: otherwise curves of runs with another `training.microbatch` cannot be compared.

    What to do: report the sum of token losses divided by the supervised tokens of the update.

    Source: as for B108; token-weighted mean.
    """
    many, one = (
        need(evidence.loss_accumulated, "the accumulated loss"),
        need(evidence.loss_one_batch, "the one-batch loss"),
    )
    limit = tolerance(relative, evidence.precision) * max(1.0, abs(one))
    seen = f"loss {many:.6f} accumulated, {one:.6f} as one batch (at most {limit:.2g} apart)"
    return passed(seen) if abs(many - one) <= limit else found(seen)


@rule("B150", "layout-changes-gradient", "stop", phase="backward", requires=("B107",))
def layouts_keep_the_gradient(evidence: BackwardEvidence, relative: float = 1e-4) -> Finding | Passed:
    """Rows in packs, with what they share computed once and their losses in pieces, give the gradient of rows alone.

    Why it matters: training is fast because rows share what they have in common; an attention or a cache that does not
    honour a pack's mask would train on something else, with a loss that looks right.

    What to do: set `encoding.layout: padded` and report it with the model's name.

    Source: the sum of token losses has the sum of gradients, whatever is computed once; prefix sharing as in arXiv
    2410.20305; fp32 allows another order of additions.
    """
    limit = tolerance(relative, evidence.precision)
    return at_most(evidence.layout_error, limit, "the relative difference of packed gradients and those of rows alone")


@rule("B110", "gradient-not-repeatable", "stop", phase="backward", requires=("B107",))
def gradients_repeat(evidence: BackwardEvidence, relative: float = 1e-4) -> Finding | Passed:
    """The same batch twice, without an update between, gives the same gradient.

    Why it matters: when gradients are not emptied, each update drags all former ones along, which looks like a learning
    rate too high.

    What to do: call `zero_grad` after each update; look for dropout in a pass that should have none.

    Source: the gradient is a function of weights and batch; a forgotten `zero_grad` doubles it (error 1.0), another
    order of additions stays far below 1e-4 in fp32.
    """
    limit = tolerance(relative, evidence.precision)
    return at_most(evidence.gradient_twice_error, limit, "the relative difference of two gradients of one batch")


@rule("B111", "checkpointing-changes-gradient", "stop", phase="backward", requires=("B107",))
def checkpointing_changes_nothing(evidence: BackwardEvidence, relative: float = 1e-4) -> Finding | Passed:
    """Activation checkpointing gives the gradient that is had without it.

    Why it matters: it recomputes the forward pass; with other random numbers or a cut graph the gradient is another.

    What to do: set `training.activation_checkpointing: false`, or use the non-reentrant kind.

    Source: Chen et al. 2016, "Training deep nets with sublinear memory cost": the same computation, done twice.
    """
    limit = tolerance(relative, evidence.precision)
    return at_most(evidence.checkpointing_error, limit, "the relative difference with and without checkpointing")


@rule("B112", "new-token-frozen", "stop", phase="backward")
def new_tokens_are_trained(evidence: BackwardEvidence) -> Finding | Passed:
    """Tokens that were added to the base have a trained embedding.

    Why it matters: a new row of a frozen embedding stays as it was drawn, noise to the model for ever.

    What to do: list the embedding and the head in `model.adapter.save_modules`, for instance
    `[embed_tokens, lm_head]`.

    Source: peft's guide on extending the vocabulary.
    """
    frozen = need(evidence.new_tokens_frozen, "new tokens")
    if frozen:
        return found(f"{len(frozen)} new tokens have a frozen embedding: {names(frozen)}")
    return passed("no new token has a frozen embedding")


@rule("B125", "tied-weights-apart", "stop", phase="backward")
def tied_weights_are_one(evidence: BackwardEvidence) -> Finding | Passed:
    """Where the model declares its embedding and its head tied, they are one tensor.

    Why it matters: of two tensors only one may be trained, and merging or loading the export ties them again: one of
    the two is lost, and the outputs are others than those that were evaluated.

    What to do: leave embedding and head out of `model.adapter.save_modules`, or list both and untie the base's
    configuration (`tie_word_embeddings: false`).

    Source: transformers ties both at loading when `tie_word_embeddings` is set; peft copies each saved module.
    """
    apart = need(evidence.untied, "tied weights")
    if apart:
        return found(f"declared tied, and two tensors: {names(apart)}")
    return passed("tied weights are one tensor, or none are declared")

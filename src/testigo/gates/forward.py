"""Evidence about the first forward pass and its loss, and the rules over it (codes F)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from testigo.gates.measured import at_most, need, tolerance
from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule


@dataclass(frozen=True, kw_only=True)
class ForwardEvidence:
    """What the first forward pass showed, in evaluation mode. `None` means that it was not measured."""

    rows: tuple[str, ...] | None = None
    """Ids of the rows of the batch."""
    precision: str | None = None
    """fp32, bf16 or fp16: in which numbers the model computes."""
    loss: float | None = None
    """Loss as training computes it, nats per supervised token."""
    loss_fp32: float | None = None
    """The same batch, recomputed from raw logits in fp32 by another path."""
    logits_finite: bool | None = None
    """Whether every logit at a supervised place is finite."""
    base_row_loss: float | None = None
    """Loss of the untouched base on the same rows, each alone, nats per supervised token."""
    vocabulary_size: int | None = None
    """Number of classes that the logits choose from."""
    packed_vs_alone: float | None = None
    """Largest difference of logits between a pack and each row alone, divided by the largest logit's size."""
    padded_vs_alone: float | None = None
    """The same for a padded batch."""
    perturbed_neighbour: float | None = None
    """Largest change of a row's logits when its neighbour in the pack is changed."""
    shuffled_label_loss: float | None = None
    """Loss of the same inputs when the labels are shuffled between places, nats per supervised token."""
    shifted_label_loss: float | None = None
    """The lower loss of the same inputs with labels moved one place to the left or right."""
    evaluation_twice: float | None = None
    """Largest difference of the loss when the batch is evaluated twice."""
    zero_loss: bool | None = None
    """Whether the loss is exactly zero."""
    weights_intact: bool | None = None
    """Whether weights have the same digest before and after they went to the device."""
    output_dtypes: dict[str, int] | None = None
    """How many outputs of layers with a weight matrix had which dtype, by its name in torch."""
    own_code: dict[str, str] | None = None
    """The Python files of the base by which the model and what reads its inputs are made, and their SHA-256."""


_DTYPES = {"fp64": "float64", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_HALVES = ("bfloat16", "float16")


@rule("F101", "logits-not-finite", "stop", phase="forward")
def logits_are_finite(evidence: ForwardEvidence) -> Finding | Passed:
    """Every logit is a number.

    Why it matters: NaN or infinity in the first forward pass means damaged weights or a precision that overflows.

    What to do: set `model.precision: fp32`; when it stays, fetch `model.base` again, its files are damaged.

    Source: fp16 ends at 65,504 (IEEE 754-2019); activations of models trained in bf16 pass that.
    """
    if need(evidence.logits_finite, "logits"):
        return passed("every logit is finite")
    return found(
        f"logits are NaN or infinite in {evidence.precision or 'the declared precision'}", rows=evidence.rows or ()
    )


@rule("F102", "loss-not-finite", "stop", phase="forward", requires=("F101",))
def loss_is_finite(evidence: ForwardEvidence) -> Finding | Passed:
    """The loss is a number.

    Why it matters: a loss of NaN makes every weight NaN with the first update. Finite logits and a loss that is not
    finite usually mean a batch without supervised tokens (0/0).

    What to do: see which rows have no token in the loss with `testigo show`; set `model.precision: fp32`.

    Source: mean over no tokens is 0/0.
    """
    loss = need(evidence.loss, "the loss")
    seen = f"first loss {loss:.4f} nats"
    return passed(seen) if math.isfinite(loss) else found(seen, rows=evidence.rows or ())


@rule("F103", "loss-recomputed-differs", "stop", phase="forward", requires=("F102",))
def loss_agrees_with_fp32(evidence: ForwardEvidence, relative: float = 1e-4) -> Finding | Passed:
    """The loss equals the one recomputed in fp32, token by token, from raw logits.

    Why it matters: a shift by one, a mean of means, or a wrong mask changes the loss and not its looks.

    What to do: look at labels and positions with `testigo show`; set `encoding.layout: padded`; set
    `model.precision: fp32` when only rounding differs.

    Source: cross-entropy by definition; the limit holds for fp32 and is widened by the square root of the machine
    epsilon (Higham 2002, section 2.8).
    """
    loss, again = need(evidence.loss, "the loss"), need(evidence.loss_fp32, "the loss recomputed in fp32")
    limit = tolerance(relative, evidence.precision) * max(1.0, abs(again))
    seen = f"loss {loss:.6f}, recomputed {again:.6f} (at most {limit:.2g} apart)"
    return passed(seen) if abs(loss - again) <= limit else found(seen, rows=evidence.rows or ())


@rule("F104", "packing-changes-logits", "stop", phase="forward", requires=("F101",))
def packing_changes_nothing(evidence: ForwardEvidence, relative: float = 1e-4) -> Finding | Passed:
    """A row has the same logits in a pack as alone.

    Why it matters: otherwise rows see their neighbours or wrong positions, and a row is learned differently each time.

    What to do: set `encoding.layout: padded`.

    Source: Krell et al. 2021, "Efficient sequence packing without cross-contamination"; 1e-4 of the largest logit in
    fp32 is some hundred roundings, widened for coarser numbers.
    """
    limit = tolerance(relative, evidence.precision)
    return at_most(evidence.packed_vs_alone, limit, "the difference of packed and alone logits")


@rule("F105", "padding-changes-logits", "stop", phase="forward", requires=("F101",))
def padding_changes_nothing(evidence: ForwardEvidence, relative: float = 1e-4) -> Finding | Passed:
    """A row has the same logits in a padded batch as alone.

    Why it matters: otherwise the result depends on which rows happen to lie in the batch.

    What to do: pass the attention mask and positions that count from the row's first token; set
    `evaluation.batch_size: 1` to compare.

    Source: attention masks exist to make padding inert (Vaswani et al. 2017); limit as for F104.
    """
    limit = tolerance(relative, evidence.precision)
    return at_most(evidence.padded_vs_alone, limit, "the difference of padded and alone logits")


@rule("F106", "neighbour-leaks", "stop", phase="forward", requires=("F101",))
def neighbours_do_not_leak(evidence: ForwardEvidence, logits: float = 1e-5) -> Finding | Passed:
    """Changing one row of a pack leaves its neighbour's logits alone.

    Why it matters: a row that can read its neighbour learns from text that it will not have later.

    What to do: set `encoding.layout: padded`; choose an attention that knows segments.

    Source: Krell et al. 2021, cross-contamination; masked places have weight exactly zero, so only the order of
    additions may differ.
    """
    limit = tolerance(logits, evidence.precision)
    return at_most(evidence.perturbed_neighbour, limit, "the change of a row's logits by its neighbour")


@rule("F107", "worse-than-guessing", "stop", phase="forward", requires=("F102",))
def better_than_guessing(evidence: ForwardEvidence, nats: float = 0.5, relative: float = 0.05) -> Finding | Passed:
    """The first loss is not above that of guessing among all tokens.

    Why it matters: a language model that does worse than ln(vocabulary) reads another template, another tokenizer or
    shifted labels.

    What to do: look at the rendered rows with `testigo show`; let `model.base` name the model that the tokenizer
    belongs to.

    Source: the entropy of a uniform choice is ln(V) (Shannon 1948). Freshly initialised models lie a little above it,
    hence the margin.
    """
    loss = need(evidence.loss, "the loss")
    guess = math.log(need(evidence.vocabulary_size, "the vocabulary size"))
    limit = guess + max(nats, relative * guess)
    seen = f"first loss {loss:.3f}; guessing has ln(V) = {guess:.3f} (limit {limit:.3f})"
    return found(seen, rows=evidence.rows or ()) if loss > limit else passed(seen)


@rule("F108", "first-loss-not-of-the-base", "stop", phase="forward", requires=("F102",))
def first_loss_is_the_base_loss(
    evidence: ForwardEvidence, nats: float = 0.05, relative: float = 0.05
) -> Finding | Passed:
    """Before the first update, the model's loss is that of the untouched base on the same rows.

    Why it matters: an adapter begins without effect, so another loss means another template, another alignment of
    labels, or an adapter that is already trained.

    What to do: compare prompts with `testigo show`; begin with a new adapter in `model.adapter`.

    Source: LoRA's B starts at zero (Hu et al. 2021, section 4.1), so the first function is the base's.
    """
    loss, base = need(evidence.loss, "the loss"), need(evidence.base_row_loss, "the base's loss")
    limit = max(nats, relative * abs(base))
    seen = f"first loss {loss:.4f}, the base's own {base:.4f} (at most {limit:.3f} apart)"
    return passed(seen) if abs(loss - base) <= limit else found(seen, rows=evidence.rows or ())


@rule("F109", "labels-no-better-than-shuffled", "warn", phase="forward", requires=("F102",))
def labels_carry_information(evidence: ForwardEvidence, nats: float = 0.1, untrained: float = 0.25) -> Finding | Passed:
    """The true labels have a lower loss than the same labels in shuffled order.

    Why it matters: when order does not matter to a trained base, labels are not where the model expects them.

    What to do: look at labels and positions with `testigo show`; a shift by one is the usual cause.

    Source: a permutation test with one permutation (Ojala and Garriga 2010). A base that knows nothing yet, with both
    losses within 0.25 nats of ln(V), is passed: it cannot tell them apart.
    """
    loss, shuffled = need(evidence.loss, "the loss"), need(evidence.shuffled_label_loss, "the loss of shuffled labels")
    seen = f"loss {loss:.3f}, with shuffled labels {shuffled:.3f}"
    if loss == shuffled:
        raise CannotCheck(f"shuffling the labels changed nothing ({seen})")
    if _knows_nothing(evidence, loss, untrained):
        return passed(f"{seen}; both near ln(V), as for an untrained model")
    return passed(seen) if loss <= shuffled - nats else found(seen, rows=evidence.rows or ())


@rule("F110", "labels-shifted", "stop", phase="forward", requires=("F102",))
def labels_are_not_shifted(evidence: ForwardEvidence, nats: float = 0.5, untrained: float = 0.25) -> Finding | Passed:
    """The loss is lowest with the labels where they are, not one place beside.

    Why it matters: labels that are shifted before a model that shifts them again teach the token after the next.

    What to do: give the model unshifted labels, or compute the loss outside; never both.

    Source: transformers' causal models shift labels inside `forward`. Half a nat is a factor of 1.6 in probability; an
    untrained base (loss within 0.25 nats of ln(V)) is passed.
    """
    loss, beside = need(evidence.loss, "the loss"), need(evidence.shifted_label_loss, "the loss of moved labels")
    seen = f"loss {loss:.3f}, with labels moved by one {beside:.3f}"
    if _knows_nothing(evidence, loss, untrained):
        return passed(f"{seen}; near ln(V), as for an untrained model")
    return found(seen, rows=evidence.rows or ()) if beside < loss - nats else passed(seen)


@rule("F111", "loss-is-zero", "stop", phase="forward")
def loss_is_not_zero(evidence: ForwardEvidence) -> Finding | Passed:
    """The loss is not exactly zero.

    Why it matters: exactly zero means that no token is in the loss; the run ends well and learns nothing.

    What to do: look at the mask with `testigo show`; raise `encoding.maximum_length` when answers were cut away.

    Source: cross-entropy is zero only for a probability of one, which a softmax over finite logits does not give.
    """
    if need(evidence.zero_loss, "whether the loss is zero"):
        return found("the loss is exactly 0.0", rows=evidence.rows or ())
    return passed("the loss is not zero")


@rule("F112", "evaluation-not-repeatable", "stop", phase="forward", requires=("F102",))
def evaluation_repeats(evidence: ForwardEvidence, nats: float = 1e-6) -> Finding | Passed:
    """Evaluating one batch twice gives the same loss.

    Why it matters: dropout that stays active in evaluation adds noise to every number that is compared.

    What to do: switch every module to evaluation mode; set `model.adapter.dropout: 0.0` to find the module.

    Source: without dropout a forward pass is a fixed function; the limit allows another order of additions.
    """
    limit = tolerance(nats, evidence.precision) * max(1.0, abs(evidence.loss or 1.0))
    return at_most(evidence.evaluation_twice, limit, "the difference of two evaluations")


@rule("F113", "weights-changed-on-the-way", "stop", phase="forward")
def weights_arrive_whole(evidence: ForwardEvidence) -> Finding | Passed:
    """Weights are the same before and after they went to the device.

    Why it matters: a lost copy leaves zeros, and the model still answers something.

    What to do: load `model.base` again; update the driver; choose another machine.

    Source: equal digests mean equal bytes (FIPS 180-4).
    """
    if need(evidence.weights_intact, "the digest of weights on the device"):
        return passed("weights have the same digest on the device")
    return found("weights on the device have another digest than in the file")


@rule("F121", "computes-in-other-numbers", "warn", phase="forward")
def computes_as_declared(evidence: ForwardEvidence) -> Finding | Passed:
    """The layers of the model compute in the declared precision.

    Why it matters: a base that stayed in half precision rounds where fp32 was declared; an autocast that is not in
    effect takes the time and the memory of fp32 where bf16 was declared.

    What to do: compare `model.precision` with the numbers that the weights were loaded in; `testigo doctor` says which
    precisions the device computes in.

    Source: torch.autocast runs matrix products in its dtype and leaves norms, softmax and losses in fp32, so what
    counts is what layers with a weight matrix give. Logits may be made fp32 again.
    """
    dtypes, declared = need(evidence.output_dtypes, "the dtype of outputs"), need(evidence.precision, "the precision")
    if not dtypes:
        raise CannotCheck("no layer with a weight matrix was seen")
    own = _DTYPES[declared]
    others = sorted(name for name in dtypes if name in _HALVES and name != own)
    counts = ", ".join(f"{dtypes[name]} in {name}" for name in sorted(dtypes))
    seen = f"{declared} is declared; outputs of layers: {counts}"
    return found(seen) if others or own not in dtypes else passed(seen)


@rule("F122", "runs-code-of-its-own", "note", phase="forward")
def runs_known_code(evidence: ForwardEvidence) -> Finding | Passed:
    """The model is made by the libraries' own code, and by none that came with its weights.

    Why it matters: code that a base brings does whatever it likes with your rights: it reads, writes and sends. It is
    also part of what the result rests on: other code with the same weights is another model.

    What to do: read these files, and compare them after each change of the base; keep `model.trust_remote_code` for
    bases that cannot be loaded without it.

    Source: transformers asks for `trust_remote_code=True` before it runs them, and recommends an exact revision.
    """
    files = need(evidence.own_code, "where the model's code lies")
    if not files:
        return passed("no code came with the base")
    return found("code of the base ran: " + ", ".join(f"{name} ({digest[:12]}…)" for name, digest in files.items()))


def _knows_nothing(evidence: ForwardEvidence, loss: float, margin: float) -> bool:
    size = evidence.vocabulary_size
    return size is not None and abs(loss - math.log(size)) <= margin

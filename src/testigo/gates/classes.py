"""Evidence about classes and their head, and about images, and the rules over it (codes F131 to F139)."""

from __future__ import annotations

from dataclasses import dataclass

from testigo.gates.measured import need, no_row
from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule


@dataclass(frozen=True, kw_only=True)
class ClassesEvidence:
    """How names and numbers of classes agree, and what an image becomes. `None` means that it was not measured."""

    labels: tuple[str, ...] | None = None
    """The classes in the campaign's order: a row's number is its class's place here."""
    head_labels: tuple[str, ...] | None = None
    """The classes in the order of the head's own configuration."""
    head_is_named: bool | None = None
    """Whether that configuration names them; else it holds only LABEL_0, LABEL_1, …"""
    head_is_new: bool | None = None
    """Whether the head begins anew, and learns its order from the campaign."""
    n_logits: int | None = None
    """Numbers that the head gives for a row."""
    rows_by_class: dict[str, dict[str, int]] | None = None
    """Split -> class -> rows."""
    other_number: tuple[str, ...] | None = None
    """Ids of rows whose number in the tensors stands for another class, in the campaign, than their target names."""
    confusion: tuple[tuple[int, ...], ...] | None = None
    """Of the base's own head on some rows, before any training: rows by target (down) and chosen class (across)."""
    pixel_shape: tuple[int, ...] | None = None
    """Channels, height and width of an image as it reaches the model."""
    expected_shape: tuple[int | None, ...] | None = None
    """What the model's configuration asks for; None where it takes any size."""
    pixel_range: tuple[float, float] | None = None
    """The lowest and the highest value of the images that were looked at."""
    transforms_differ: tuple[str, ...] | None = None
    """Ids of rows whose image, without augmentation, is another in training than in evaluation."""
    augmentation_unstable: tuple[str, ...] | None = None
    """Ids of rows whose augmented image was another when it was made again from the same seed, epoch and row."""
    augmented: tuple[int, int] | None = None
    """How many of how many images the augmentation changed, over a few epochs."""


@rule("F131", "head-order-differs", "stop", phase="forward")
def head_has_the_campaigns_order(evidence: ClassesEvidence) -> Finding | Passed:
    """The head's classes stand in the campaign's order.

    Why it matters: with the same names in another order the loss can be computed and falls, while the trained head is
    taught that its classes mean others; and every name in an evaluation of the base is wrong.

    What to do: write `task.labels` in the order of the head (`id2label` in the base's config.json), or set
    `model.head: new`.

    Source: transformers' `id2label` is the meaning of the logits' places; nothing compares it with the data.
    """
    labels, own = need(evidence.labels, "the campaign's classes"), need(evidence.head_labels, "the head's classes")
    if evidence.head_is_new:
        return passed(f"the head is new, and its {len(labels)} classes are the campaign's in its order")
    if not need(evidence.head_is_named, "the names of the head's classes"):
        raise CannotCheck(f"the head calls its classes {own[0]} to {own[-1]}: their order is not known by name")
    apart = [
        (place, ours, theirs) for place, (ours, theirs) in enumerate(zip(labels, own, strict=False)) if ours != theirs
    ]
    if apart or len(labels) != len(own):
        shown = "; ".join(f"{place}: {ours} in the campaign, {theirs} in the head" for place, ours, theirs in apart[:4])
        return found(f"{len(apart)} of {len(own)} classes stand in other places: {shown}")
    return passed(f"{len(labels)} classes in one order: {', '.join(labels[:6])}{', …' if len(labels) > 6 else ''}")


@rule("F132", "head-size-differs", "stop", phase="forward")
def head_has_a_place_a_class(evidence: ClassesEvidence) -> Finding | Passed:
    """The head gives one number for each class.

    Why it matters: a number too many is a class that can be chosen and is never right; one too few is an index error
    in the middle of an epoch.

    What to do: set `model.head: new`, or name every class in `task.labels`.

    Source: cross-entropy over C classes takes C logits.
    """
    labels, logits = need(evidence.labels, "the campaign's classes"), need(evidence.n_logits, "the head's logits")
    seen = f"{logits} logits for {len(labels)} classes"
    return passed(seen) if logits == len(labels) else found(seen)


@rule("F133", "label-number-wrong", "stop", phase="forward")
def numbers_say_the_targets(evidence: ClassesEvidence) -> Finding | Passed:
    """The number of each row in the tensors stands for the class that its target names.

    Why it matters: a class by number is meaningless without its name; a shifted or sorted-again list teaches other
    classes, and no loss shows it.

    What to do: name every class in `task.labels`, spelled as in the rows.

    Source: read off the tensors that reach the loss, row by row.
    """
    n_rows = sum(sum(own.values()) for own in (evidence.rows_by_class or {}).values())
    good = f"the numbers of {n_rows} rows name their targets"
    return no_row(evidence.other_number, "the numbers in the tensors", "hold the number of another class", good)


@rule("F134", "head-order-unlike-the-data", "stop", phase="forward", requires=("F132",))
def no_other_order_fits_better(
    evidence: ClassesEvidence, share: float = 0.2, most_by_chance: float = 0.001
) -> Finding | Passed:
    """The base's own head is not much better when its classes are called by each other's names.

    Why it matters: a head without names, or with wrong ones, may hold the campaign's classes in another order. The
    loss can be computed, and training begins by unlearning what the base knew.

    What to do: write `task.labels` in the order of the head, or set `model.head: new`.

    Source: the best assignment of the head's places to classes (Kuhn 1955, the Hungarian method) is right on a fifth of
    the rows more than the campaign's, and McNemar's exact test (1947) on the rows that the two judge apart gives less
    than 0.001.
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.stats import binomtest

    if evidence.head_is_new:
        return passed("the head is new: it knows no order yet")
    rows = need(evidence.confusion, "what the base's own head chooses")
    total, here = sum(map(sum, rows)), sum(rows[k][k] for k in range(len(rows)))
    if not total:
        raise CannotCheck("no row was classified")
    targets, chosen = linear_sum_assignment([[-n for n in line] for line in rows])
    moved = [(t, c) for t, c in zip(targets.tolist(), chosen.tolist(), strict=True) if t != c]
    gained, lost = sum(rows[t][c] for t, c in moved), sum(rows[t][t] for t, _ in moved)
    seen = f"right on {here} of {total} rows in the campaign's order, on {here - lost + gained} in the best one"
    if not moved or gained - lost < share * total:
        return passed(seen)
    by_chance = binomtest(gained, gained + lost, 0.5, alternative="greater").pvalue
    names = evidence.labels or tuple(map(str, range(len(rows))))
    how = "; ".join(f"the place of {names[c]} means {names[t]}" for t, c in moved[:4])
    return found(f"{seen}: {how}") if by_chance < most_by_chance else passed(seen)


@rule("F135", "image-shape-differs", "stop", phase="forward")
def images_have_the_models_shape(evidence: ClassesEvidence) -> Finding | Passed:
    """Images reach the model in its own size and channels.

    Why it matters: another size is refused in the middle of a run, or taken with positions that were never learned.

    What to do: let the image processor beside the base (preprocessor_config.json) have the model's `image_size` and
    `num_channels`.

    Source: Dosovitskiy et al. 2020 (arXiv 2010.11929): a position for each patch of one size.
    """
    shape, asked = need(evidence.pixel_shape, "images"), need(evidence.expected_shape, "the model's shape")
    seen = f"images of {' × '.join(map(str, shape))}; the model takes {' × '.join(str(n or 'any') for n in asked)}"
    fits = len(shape) == len(asked) and all(b in (None, a) for a, b in zip(shape, asked, strict=True))
    return passed(seen) if fits else found(seen)


@rule("F136", "image-range-unlikely", "warn", phase="forward")
def images_are_normalised(evidence: ClassesEvidence, most: float = 20.0) -> Finding | Passed:
    """Pixel values are in the range that a processor's normalisation gives.

    Why it matters: values of 0 to 255 where the base was taught with -1 to 1 make its features noise.

    What to do: set `do_rescale` and `do_normalize` in preprocessor_config.json as the base was trained.

    Source: 8-bit values divided by 255 and normalised by any usual mean and spread (0.2 to 1) stay within ±5; twenty is
    far beyond.
    """
    low, high = need(evidence.pixel_range, "pixel values")
    seen = f"pixel values from {low:.3g} to {high:.3g}"
    if low == high:
        return found(f"{seen}: every pixel of every image is the same")
    return passed(seen) if max(abs(low), abs(high)) <= most else found(seen)


@rule("F137", "transforms-differ", "stop", phase="forward")
def transforms_are_the_same(evidence: ClassesEvidence) -> Finding | Passed:
    """Without augmentation an image is the same in training and in evaluation.

    Why it matters: a crop or a scale that only training has makes the evaluation another task.

    What to do: use one image processor for both; put what only training shall do into `training.augment`.

    Source: Touvron et al. 2019, "Fixing the train-test resolution discrepancy".
    """
    good = "images are the same in training and evaluation, augmentation aside"
    return no_row(evidence.transforms_differ, "both transformations", "have another image in evaluation", good)


@rule("F138", "augmentation-not-repeatable", "stop", phase="forward")
def augmentation_is_a_function(evidence: ClassesEvidence) -> Finding | Passed:
    """The augmented image of a row is the same each time that it is made for the same seed and epoch.

    Why it matters: otherwise a resumed run sees other images than an uninterrupted one, and no run can be repeated.

    What to do: draw all that augmentation needs from a generator of (seed, epoch, row).

    Source: a resume needs a cursor, not a replay.
    """
    good = "augmented images are the same when they are made again"
    return no_row(evidence.augmentation_unstable, "augmented images", "became another image the second time", good)


@rule("F139", "augmentation-without-effect", "warn", phase="forward")
def augmentation_changes_images(evidence: ClassesEvidence) -> Finding | Passed:
    """Augmentation, where it is declared, changes images.

    Why it matters: settings of zero, or images that a mirror leaves as they are, make a declared augmentation none.

    What to do: raise `training.augment`, or remove it.

    Source: counted on a few rows over a few epochs.
    """
    changed, total = need(evidence.augmented, "augmentation")
    seen = f"{changed} of {total} images were changed"
    return passed(seen) if changed else found(seen)

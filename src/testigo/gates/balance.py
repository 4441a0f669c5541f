"""Evidence about how many rows each class has, and the rules over it (codes D150 to D154)."""

from __future__ import annotations

from dataclasses import dataclass

from testigo.gates.measured import names, need
from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule


@dataclass(frozen=True, kw_only=True)
class BalanceEvidence:
    """The classes of a task, however it answers. `None` means that it was not measured."""

    rows_by_class: dict[str, dict[str, int]] | None = None
    """Split -> class -> rows: {"train": {"billing": 80, "other": 20}}."""
    declared: tuple[str, ...] | None = None
    """The classes that `task.labels` names; empty where the rows name them."""


@rule("D150", "one-class-only", "stop", phase="data")
def there_are_two_classes(evidence: BalanceEvidence) -> Finding | Passed:
    """The training rows hold two classes or more.

    Why it matters: with one class every answer is right before anything is learned, and the loss falls to zero.

    What to do: look whether `task.target` names the field with the class; add rows of the other classes to
    `data.source`.

    Source: by definition; the entropy of one class is zero.
    """
    train = _of(evidence, "train")
    held = [name for name, n in train.items() if n]
    if len(held) < 2:
        return found(f"the {sum(train.values())} training rows are all of one class: {names(held) or 'none'}")
    return passed(f"the training rows hold {len(held)} classes")


@rule("D151", "class-absent-from-training", "stop", phase="data", requires=("D150",))
def training_has_every_class(evidence: BalanceEvidence) -> Finding | Passed:
    """Each class that the validation rows hold is in the training rows.

    Why it matters: a class that was never shown cannot be answered; its rows are wrong from the start and weigh on
    every metric.

    What to do: add rows of the named classes, give them to training by another `data.split.seed` or split, or take
    their rows out.

    Source: supervised learning from a sample assumes that the sample holds what is asked (Vapnik 1999, "An overview of
    statistical learning theory").
    """
    train, validation = _of(evidence, "train"), _of(evidence, "validation")
    absent = [f"{name} ({n} validation rows)" for name, n in validation.items() if n and not train.get(name)]
    if absent:
        return found(f"{len(absent)} classes have no training row: {names(absent)}")
    return passed("every class of the validation rows is in the training rows")


@rule("D152", "class-absent-from-validation", "warn", phase="data")
def validation_has_every_class(evidence: BalanceEvidence) -> Finding | Passed:
    """Each class that the training rows hold is in the validation rows.

    Why it matters: nothing is known about a class that no evaluated row is of; macro F1 is a mean without it.

    What to do: add rows of the named classes, raise `data.split.validation`, or set another `data.split.seed`.

    Source: macro F1 is a mean over the classes of the evaluated rows (Opitz and Burst 2019, arXiv 1911.03347).
    """
    train, validation = _of(evidence, "train"), _of(evidence, "validation")
    absent = [f"{name} ({n} training rows)" for name, n in train.items() if n and not validation.get(name)]
    if absent:
        return found(f"{len(absent)} classes have no validation row: {names(absent)}")
    return passed("every class of the training rows is in the validation rows")


@rule("D153", "classes-imbalanced", "note", phase="data", requires=("D150",))
def classes_are_balanced(evidence: BalanceEvidence, ratio: float = 4.0) -> Finding | Passed:
    """The largest class does not have many times the rows of the smallest.

    Why it matters: always answering the largest class then looks good in accuracy, and the small classes are learned
    last.

    What to do: judge by `macro_f1`, which weighs each class alike, and read the table of classes; more rows of the
    small classes help more than any setting.

    Source: Krawczyk 2016, "Learning from imbalanced data: open challenges and future directions": ratios from 1:4 on
    are what the literature calls imbalanced.
    """
    train = {name: n for name, n in _of(evidence, "train").items() if n}
    largest, smallest = max(train, key=lambda name: train[name]), min(train, key=lambda name: train[name])
    share = train[largest] / sum(train.values())
    seen = (
        f"the largest class, {largest}, has {train[largest]} training rows ({100 * share:.0f} %), the smallest, "
        f"{smallest}, {train[smallest]}: {train[largest] / train[smallest]:.3g} to 1"
    )
    return found(seen) if train[largest] >= ratio * train[smallest] else passed(seen)


@rule("D154", "declared-class-without-rows", "warn", phase="data")
def declared_classes_have_rows(evidence: BalanceEvidence) -> Finding | Passed:
    """Each class that `task.labels` names has rows.

    Why it matters: a name without rows is often a spelling that the rows do not use; a head keeps a place for it that
    is never right.

    What to do: spell `task.labels` as in the rows, or take the name out.

    Source: labels by name have to agree in data, head, configuration and metrics.
    """
    declared = need(evidence.declared, "declared classes")
    rows = [_of(evidence, split) for split in ("train", "validation")]
    empty = [name for name in declared if not any(split.get(name) for split in rows)]
    if empty:
        return found(f"{len(empty)} of {len(declared)} declared classes have no row: {names(empty)}")
    return passed(f"all {len(declared)} declared classes have rows" if declared else "the rows name the classes")


def _of(evidence: BalanceEvidence, split: str) -> dict[str, int]:
    rows = need(evidence.rows_by_class, "rows by class")
    if split not in rows:
        raise CannotCheck(f"no {split} rows were counted")
    return rows[split]

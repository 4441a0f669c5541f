"""The section about classes, and the one about rows without copies: what the comparison says, ready to be shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testigo.dossier import class_pictures, units
from testigo.dossier.drawing import svg
from testigo.dossier.language import _
from testigo.dossier.picture import Picture
from testigo.dossier.record import Comparison

_MOST_IN_A_PICTURE = 30


@dataclass(frozen=True)
class ClassRow:
    """One line of the table of classes; `n_rows` is None for a mean. Shares of 1, None where nothing can be divided."""

    name: str
    n_rows: int | None
    precision: tuple[float | None, float | None]
    recall: tuple[float | None, float | None]
    f1: tuple[float | None, float | None]


@dataclass(frozen=True)
class Confused:
    """Rows of one class that were given another one."""

    true: str
    given: str
    n_rows: int


@dataclass(frozen=True)
class Classes:
    """All that the report says about classes."""

    n: int
    majority: str
    majority_share: float
    accuracy: tuple[float, float]
    imbalance: float
    rows: tuple[ClassRow, ...]
    means: tuple[ClassRow, ...]
    confused: tuple[Confused, ...]
    no_class: tuple[int, int]
    ece: tuple[float | None, float | None]
    confusion: Picture | None
    calibration: Picture | None


def classes_in(comparison: Comparison | None, *, drawn: bool = True) -> Classes | None:
    """What a comparison says about classes; None where its task has none. `drawn`: with the pictures."""
    facts = comparison.statistics.get("classes") if comparison else None
    if not isinstance(facts, Mapping):
        return None
    sides = facts["baseline"], facts["control"]
    names = [str(name) for name in facts["names"]]
    return Classes(
        n=len(names),
        majority=str(facts["majority"]["class"]),
        majority_share=float(facts["majority"]["share"]),
        accuracy=(float(sides[0]["accuracy"]), float(sides[1]["accuracy"])),
        imbalance=float(facts["imbalance"]),
        rows=tuple(
            _row(name, int(facts["rows"].get(name, 0)), *(side["per_class"][name] for side in sides)) for name in names
        ),
        means=(
            _row(_("mean over classes (macro)"), None, *(side["macro"] for side in sides)),
            _row(_("all rows (micro)"), None, *(side["micro"] for side in sides)),
        ),
        confused=_confused(names, sides[1]["confusion"]),
        no_class=(sum(sides[0]["no_class"]), sum(sides[1]["no_class"])),
        ece=(sides[0].get("ece"), sides[1].get("ece")),
        confusion=_confusion_picture(names, sides[1]) if drawn else None,
        calibration=_calibration_picture(sides) if drawn and sides[1].get("calibration") else None,
    )


def clean_in(comparison: Comparison | None) -> Mapping[str, Any] | None:
    """The results on rows without copies in training; None where nobody looked for copies."""
    clean = comparison.statistics.get("clean") if comparison else None
    return clean if isinstance(clean, Mapping) else None


def _row(name: str, n_rows: int | None, before: Mapping[str, Any], after: Mapping[str, Any]) -> ClassRow:
    def both(what: str) -> tuple[float | None, float | None]:
        return before.get(what), after.get(what)

    return ClassRow(name, n_rows, both("precision"), both("recall"), both("f1"))


def _confused(names: Sequence[str], counts: Sequence[Sequence[int]], most: int = 5) -> tuple[Confused, ...]:
    """The most frequent confusions, the largest first."""
    found = [
        Confused(names[down], names[across], int(n))
        for down, line in enumerate(counts)
        for across, n in enumerate(line)
        if n and down != across
    ]
    return tuple(sorted(found, key=lambda one: (-one.n_rows, one.true, one.given))[:most])


def _confusion_picture(names: Sequence[str], side: Mapping[str, Any]) -> Picture | None:
    counts, nowhere = side["confusion"], side["no_class"]
    head = [_("True class"), *names]
    rows = [[f"{k + 1}. {name}", *map(str, line)] for k, (name, line) in enumerate(zip(names, counts, strict=True))]
    if any(nowhere):
        head.append(_("no class"))
        rows = [[*row, str(n)] for row, n in zip(rows, nowhere, strict=True)]
    if len(names) > _MOST_IN_A_PICTURE:
        return None
    right = sum(line[k] for k, line in enumerate(counts))
    total = sum(map(sum, counts)) + sum(nowhere)
    confused = _confused(names, counts)
    worst = _("; ").join(
        _("{n} rows of {true} were given {given}", n=one.n_rows, true=one.true, given=one.given) for one in confused
    )
    alternative = _("Confusion after training: {right} of {n} rows are right.", right=right, n=total)
    alternative += f" {worst}." if worst else ""
    return Picture(
        title=_("Who is taken for whom, after training"),
        caption=_(
            "Down: the true class; across: the class that was given. Numbers are rows, the shade is the share of the "
            "true class. On a narrow screen classes are numbered as in the table."
        ),
        wide=svg(class_pictures.confusion(names, counts), alternative=alternative, css_class="wide"),
        narrow=svg(class_pictures.confusion(names, counts, narrow=True), alternative=alternative, css_class="narrow"),
        head=tuple(head),
        rows=tuple(map(tuple, rows)),
    )


def _calibration_picture(sides: Sequence[Mapping[str, Any]]) -> Picture:
    named = list(zip((_("before"), _("after")), sides, strict=True))
    lines = [
        class_pictures.Reliability(
            name,
            [one["confidence"] for one in side["calibration"]],
            [one["accuracy"] for one in side["calibration"]],
            [one["rows"] for one in side["calibration"]],
        )
        for name, side in named
        if side.get("calibration")
    ]
    alternative = _("Share of right rows over the highest probability: ") + _("; ").join(
        _("{model}, calibration error {ece}", model=name, ece=units.share(side["ece"]))
        for name, side in named
        if side.get("ece") is not None
    )
    return Picture(
        title=_("How far probabilities can be believed"),
        caption=_(
            "Each point holds rows of like probability; on the dashed line as many are right as the head says. "
            "The broken line is before training, the whole one after; larger points hold more rows."
        ),
        wide=svg(class_pictures.reliability(lines), alternative=alternative, css_class="wide"),
        narrow=svg(class_pictures.reliability(lines, width=220), alternative=alternative, css_class="narrow"),
        head=(_("Model"), _("Probability"), _("Rows"), _("Share right")),
        rows=tuple(
            (name, units.share(one["confidence"]), units.count(one["rows"]), units.share(one["accuracy"]))
            for name, side in named
            for one in side.get("calibration") or ()
        ),
    )

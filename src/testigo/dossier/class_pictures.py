"""Two pictures of a task with classes: who is taken for whom, and how far probabilities can be believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from testigo.dossier.language import _
from testigo.dossier.pictures import MUTED, SERIES, TEXT, Specification, dressed, unchecked

_CELL, _NARROW_CELL = 40, 26
_DARKEST = 0.45  # a number on it keeps a contrast of 4.5 to 1 in light and dark (WCAG 2.2, 1.4.3)
_SHOWN_IN_CELLS = 12


@dataclass(frozen=True)
class Reliability:
    """One model's bins: mean highest probability, share that is right, and rows of each. Shares of 1."""

    name: str
    confidence: Sequence[float]
    accuracy: Sequence[float]
    rows: Sequence[int]


@unchecked
def confusion(names: Sequence[str], counts: Sequence[Sequence[int]], *, narrow: bool = False) -> Specification:
    """Rows by true class (down) and given class (across), shaded by the share of the true class.

    Classes are numbered as the table beside it numbers them where names would not fit: on the narrow picture.
    """
    labels = [str(k + 1) for k in range(len(names))] if narrow else [_cut(name) for name in names]
    cells = []
    for down, line in enumerate(counts):
        total = sum(line)
        for across, n in enumerate(line):
            share = n / total if total else 0.0
            cells.append({"down": down, "across": across, "rows": n, "share": share, "right": down == across})
    names_of = "{" + ",".join(f"{k}:{_quoted(label)}" for k, label in enumerate(labels)) + "}[datum.value]"
    axis: dict[str, Any] = {"labelExpr": names_of, "ticks": False, "domain": False, "grid": False, "labelLimit": 150}
    base = alt.Chart(alt.InlineData(values=cells)).encode(
        x=alt.X("across:O", title=_("class given"), axis=alt.Axis(**axis, labelAngle=0 if narrow else -40)),
        y=alt.Y("down:O", title=_("true class"), axis=alt.Axis(**axis)),
    )
    shades = base.mark_rect(stroke=MUTED, strokeWidth=0.4, strokeOpacity=0.5).encode(
        # Shaded by opacity, so that the picture follows the page's light or dark ground.
        color=alt.Color("right:N", scale=alt.Scale(domain=[True, False], range=[SERIES[0], SERIES[1]]), legend=None),
        opacity=alt.Opacity("share:Q", scale=alt.Scale(domain=[0, 1], range=[0.0, _DARKEST]), legend=None),
    )
    layers: list[alt.Chart] = [shades]
    if len(names) <= _SHOWN_IN_CELLS:
        numbers = base.transform_filter("datum.rows > 0").mark_text(fontSize=10 if narrow else 12, color=TEXT)
        layers.append(numbers.encode(text=alt.Text("rows:Q", format="d")))
    cell = _NARROW_CELL if narrow else _CELL
    cell = min(cell, (230 if narrow else 460) // max(1, len(names)))
    side = max(80, cell * len(names))
    return dressed(alt.layer(*layers), side, side)


@unchecked
def reliability(sides: Sequence[Reliability], *, width: int = 300) -> Specification:
    """Share that is right over the highest probability, a line a model; on the straight line both agree."""
    points = [
        {"model": side.name, "confidence": p, "accuracy": right, "rows": n}
        for side in sides
        for p, right, n in zip(side.confidence, side.accuracy, side.rows, strict=True)
    ]
    names = [side.name for side in sides]
    scale = alt.Scale(domain=[0, 1], nice=False)
    axis = alt.Axis(format="%", tickCount=5, grid=True)
    straight = (
        alt.Chart(alt.InlineData(values=[{"x": 0, "y": 0}, {"x": 1, "y": 1}]))
        .mark_line(color=MUTED, strokeWidth=1.2, strokeDash=[4, 3])
        .encode(x=alt.X("x:Q", scale=scale), y=alt.Y("y:Q", scale=scale))
    )
    base = alt.Chart(alt.InlineData(values=points)).encode(
        x=alt.X("confidence:Q", scale=scale, title=_("highest probability"), axis=axis),
        y=alt.Y("accuracy:Q", scale=scale, title=_("share right"), axis=axis),
        color=alt.Color("model:N", scale=alt.Scale(domain=names, range=list(SERIES[: len(names)])), legend=None),
    )
    dots = base.mark_point(filled=True, opacity=1).encode(
        size=alt.Size("rows:Q", scale=alt.Scale(range=[24, 180]), legend=None)
    )
    dashes = alt.StrokeDash("model:N", scale=alt.Scale(domain=names, range=[[5, 3], [1, 0]]), legend=None)
    return dressed(alt.layer(straight, base.mark_line(strokeWidth=1.4).encode(strokeDash=dashes), dots), width, 240)


def _cut(name: str, most: int = 20) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _quoted(text: str) -> str:
    """A text as a literal of the Vega expression language."""
    plain = " ".join(text.split())
    return "'" + plain.replace("\\", "\\\\").replace("'", "\\'") + "'"

"""The pictures as Vega-Lite specifications, made with Altair: plain values in, a mapping out, no templates, no files.

The live page draws the same specifications. The colours stand on white and on near-black alike; `drawing` replaces
them by the style sheet's own, so that a picture follows the reader's light or dark mode.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec

import altair as alt
from altair.utils.schemapi import debug_mode

from testigo.dossier.language import _

_P = ParamSpec("_P")

INK, MUTED, RULE = "#747a80", "#7f858b", "#8f959b"
TEXT = "#3f4449"  # numbers on a shade
GOOD, BAD, OPEN = "#1f8a70", "#c2543d", "#b07d1a"
SERIES = ("#2f7fb5", "#c8702a", "#3d9a6d", "#9166b3", "#b8578a", "#7d8a2e")
DASHES: tuple[tuple[int, ...], ...] = ((), (5, 3), (2, 2), (8, 3, 2, 3))
_FONT = "sans-serif"
_NARROW = 400
_WIDE = 100

Specification = dict[str, Any]
"""A Vega-Lite specification, as vega-embed and vl-convert read it."""


@dataclass(frozen=True)
class Effect:
    """One line of the forest: a difference with its interval, shares of 1; `reference` is what it must reach."""

    label: str
    n: int
    difference: float
    low: float | None
    high: float | None
    reference: float | None
    tone: str


@dataclass(frozen=True)
class Series:
    """One run's points of one quantity. `kind` chooses the colour, `twin` the dashes: a variant and its seeds."""

    name: str
    updates: Sequence[float]
    values: Sequence[float | None]
    marks: bool = False
    kind: int = 0
    twin: int = 0

    @property
    def colour(self) -> str:
        """Of the line and its points."""
        return SERIES[self.kind % len(SERIES)]

    @property
    def dash(self) -> list[int]:
        """Of the line; empty is a whole line."""
        return list(DASHES[self.twin % len(DASHES)])


def unchecked(make: Callable[_P, Specification]) -> Callable[_P, Specification]:
    """Without Altair's validation of every part, which takes most of the time; a test validates the results."""

    @wraps(make)
    def quick(*args: _P.args, **kwargs: _P.kwargs) -> Specification:
        with debug_mode(False):
            return make(*args, **kwargs)

    return quick


@unchecked
def forest(effects: Sequence[Effect], *, width: int = 520, narrow: bool = False) -> Specification:
    """Differences against the baseline with their intervals; a tick marks what was required of each."""
    finite = [x for e in effects for x in (e.difference, e.low, e.high, e.reference, 0.0) if x is not None]
    low, high = 100 * min(finite), 100 * max(finite)
    pad = 0.06 * max(high - low, 1.0)
    scale = alt.Scale(domain=[low - pad, high + pad], nice=False, zero=False)
    rows = [
        {
            "row": i,
            "difference": 100 * e.difference,
            "low": 100 * e.low if e.low is not None else low - pad,
            "high": 100 * e.high if e.high is not None else high + pad,
            "reference": None if e.reference is None else 100 * e.reference,
            "tone": e.tone,
        }
        for i, e in enumerate(effects)
    ]
    y = rows_axis([e.label for e in effects], narrow=narrow)
    colour = alt.Color(
        "tone:N", scale=alt.Scale(domain=["good", "bad", "open", "none"], range=[GOOD, BAD, OPEN, INK]), legend=None
    )
    title = _("difference to the baseline, percentage points")
    x = alt.X(
        "difference:Q",
        scale=scale,
        title=_("points") if narrow else title,
        axis=alt.Axis(tickCount=5 if narrow else 8, format="+~r", labelExpr="replace(datum.label, '-', '−')"),
    )
    base = alt.Chart(alt.InlineData(values=rows))
    zero = (
        alt.Chart(alt.InlineData(values=[{"zero": 0}]))
        .mark_rule(color=MUTED, strokeWidth=1.2)
        .encode(x=alt.X("zero:Q", scale=scale))
    )
    bars = base.mark_rule(strokeWidth=2.4).encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y, color=colour)
    dots = base.mark_point(filled=True, size=84, opacity=1).encode(x=x, y=y, color=colour)
    needed = [row for row in rows if row["reference"] is not None]
    required = (
        alt.Chart(alt.InlineData(values=needed))
        .mark_tick(thickness=2, size=20, color=INK, orient="vertical")
        .encode(x=alt.X("reference:Q", scale=scale), y=y)
    )
    return dressed(alt.layer(zero, required, bars, dots), width, max(60, (36 if narrow else 30) * len(effects)))


@unchecked
def curve(
    series: Sequence[Series],
    *,
    title: str,
    width: int = 520,
    height: int = 190,
    last_update: float | None = None,
    over: str | None = None,
    logarithmic: bool | None = None,
) -> Specification:
    """One quantity over the updates, a line a run; a gap is drawn where a value was not finite.

    Where the values span more than two powers of ten the scale is logarithmic, and its title says so. There is no
    legend: several pictures share one, which the page writes.

    Parameters
    ----------
    over
        What the horizontal axis counts, where that is not updates.
    logarithmic
        Whether the scale is logarithmic, where that was chosen.
    """
    logarithmic = spans_widely(series) if logarithmic is None else logarithmic
    rows = [
        {"run": one.name, "update": update, "value": None if logarithmic and (value or 0) <= 0 else value}
        for one in series
        for update, value in zip(one.updates, one.values, strict=True)
    ]
    names = [one.name for one in series]
    end = max([last_update or 1, *(update for one in series for update in one.updates)])
    x_axis = alt.Axis(grid=False, tickMinStep=1, tickCount=5 if width < _NARROW else 8)
    y_axis = alt.Axis(tickCount=4 if logarithmic else 5, format=_format(series))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("update:Q", title=over or _("update"), scale=alt.Scale(domain=[0, end], nice=False), axis=x_axis),
        y=alt.Y(
            "value:Q",
            title=_("{quantity}, log scale", quantity=title) if logarithmic else title,
            scale=alt.Scale(type="log") if logarithmic else _plain_scale(series),
            axis=y_axis,
        ),
        color=alt.Color(
            "run:N", sort=names, scale=alt.Scale(domain=names, range=[one.colour for one in series]), legend=None
        ),
        strokeDash=alt.StrokeDash(
            "run:N",
            sort=names,
            scale=alt.Scale(domain=names, range=[one.dash or [1, 0] for one in series]),
            legend=None,
        ),
    )
    layers: list[alt.Chart] = [base.mark_line(strokeWidth=1.6, invalid="break-paths-show-path-domains")]
    if any(one.marks or len(one.updates) == 1 for one in series):
        layers.append(base.mark_point(filled=True, size=34, opacity=1))
    return dressed(alt.layer(*layers), width, height)


def _plain_scale(series: Sequence[Series]) -> alt.Scale:
    """From the smallest to the largest value; where all are one, with room above and below, else labels mislead."""
    values = {value for one in series for value in one.values if value is not None}
    if len(values) != 1:
        return alt.Scale(zero=False, nice=True)
    (value,) = values
    room = abs(value) / 10 or 1.0
    return alt.Scale(domain=[value - room, value + room], zero=False)


def spans_widely(series: Sequence[Series]) -> bool:
    """Whether the values reach over more than two powers of ten, so that a plain scale would hide most of them."""
    values = [value for one in series for value in one.values if value is not None and value > 0]
    return (
        bool(values)
        and max(values) > _WIDE * min(values)
        and max(values) > _WIDE / 2 * sorted(values)[len(values) // 2]
    )


def _format(series: Sequence[Series]) -> str:
    """Number format of the axis: powers of ten where values are very small, else digits: 5000, not 5e+3."""
    values = [abs(value) for one in series for value in one.values if value]
    return "~e" if (values and max(values) < 0.001) or (spans_widely(series) and min(values) < 0.001) else "~r"


def dressed(chart: alt.LayerChart | alt.FacetChart, width: int, height: int) -> Specification:
    """A chart in the dossier's colours and letters, of a size in pixels."""
    axis = {
        "labelColor": INK,
        "titleColor": INK,
        "domainColor": RULE,
        "tickColor": RULE,
        "gridColor": RULE,
        "gridOpacity": 0.22,
        "labelFont": _FONT,
        "titleFont": _FONT,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 10,
    }
    specification: dict[str, Any] = chart.to_dict(validate=False)
    specification |= {
        "width": width,
        "height": height,
        "config": {
            "background": "transparent",
            "font": _FONT,
            "padding": 4,
            "view": {"stroke": None},
            "axis": axis,
        },
    }
    return specification


def rows_axis(labels: Sequence[str], *, narrow: bool) -> alt.Y:
    """The upright axis of a picture with a labelled row for each thing: data carry the row's number as `row`."""
    names = "{" + ",".join(f"{i}:{_lines(label, narrow)}" for i, label in enumerate(labels)) + "}[datum.value]"
    limit = 110 if narrow else 210
    axis = alt.Axis(labelExpr=names, ticks=False, domain=False, grid=False, labelLimit=limit, labelPadding=10)
    return alt.Y("row:O", title=None, sort=None, axis=axis)


def _lines(label: str, narrow: bool) -> str:
    """A label as an expression: one line, or on a narrow picture two, split where it has a colon or a comma."""
    limit = 17 if narrow else 34
    parts = re.split(r"(?<=:) |(?<=,) ", label, maxsplit=1) if narrow else [label]
    cut = [_js(part if len(part) <= limit else f"{part[: limit - 1]}…") for part in parts]
    return f"[{','.join(cut)}]"


def _js(text: str) -> str:
    """A text as a literal of the Vega expression language."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", " ").replace("\r", " ")
    return f"'{escaped}'"

"""The rental plan as a picture: each piece where it lies in time, and what it really took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from testigo.dossier import pictures
from testigo.dossier.language import _
from testigo.dossier.pictures import GOOD, INK, MUTED, OPEN, SERIES, Specification

COLOURS = {
    "pilot": SERIES[3],
    "baseline": SERIES[1],
    "training": SERIES[0],
    "evaluation": SERIES[2],
    "reserve": MUTED,
    "test": SERIES[4],
    "export": SERIES[5],
}


@dataclass(frozen=True)
class Bar:
    """One piece of the plan [s]."""

    label: str
    kind: str
    begins: float
    ends: float


@dataclass(frozen=True)
class Pair:
    """One piece as it was planned and as it was [s]."""

    label: str
    planned: float
    real: float


def unit_of(seconds: float) -> tuple[str, float]:
    """The unit in which a time axis of this length is read, and its seconds."""
    for name, size in ((_("days"), 86_400.0), (_("hours"), 3_600.0), (_("minutes"), 60.0)):
        if seconds >= 2 * size:
            return name, size
    return _("seconds"), 1.0


@pictures.unchecked
def gantt(
    bars: Sequence[Bar], *, limits: Sequence[float] = (), width: int = 520, narrow: bool = False
) -> Specification:
    """Bars over time, one under the other; an upright line where a package of days ends [s]."""
    end = max((bar.ends for bar in bars), default=1.0)
    unit, size = unit_of(end)
    shown = [limit for limit in limits if limit <= 1.15 * end]
    rows = [{"row": i, "begins": b.begins / size, "ends": b.ends / size, "kind": b.kind} for i, b in enumerate(bars)]
    scale = alt.Scale(domain=[0, 1.02 * max([end, *shown]) / size], nice=False)
    y = pictures.rows_axis([bar.label for bar in bars], narrow=narrow)
    kinds = list(COLOURS)
    drawn = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(height=11)
        .encode(
            x=alt.X("begins:Q", scale=scale, title=unit, axis=alt.Axis(tickCount=4 if narrow else 8)),
            x2="ends:Q",
            y=y,
            color=alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=[COLOURS[k] for k in kinds]), legend=None),
        )
    )
    lines = (
        alt.Chart(alt.InlineData(values=[{"at": limit / size} for limit in shown]))
        .mark_rule(color=INK, strokeDash=[4, 3])
        .encode(x=alt.X("at:Q", scale=scale))
    )
    return pictures.dressed(alt.layer(drawn, lines), width, max(60, 22 * len(bars)))


@pictures.unchecked
def planned_and_real(pairs: Sequence[Pair], *, width: int = 520, narrow: bool = False) -> Specification:
    """Two bars a piece: planned above, real below."""
    unit, size = unit_of(max((max(pair.planned, pair.real) for pair in pairs), default=1.0))
    rows = [
        {"row": i, "what": what, "value": value / size}
        for i, pair in enumerate(pairs)
        for what, value in (("planned", pair.planned), ("real", pair.real))
    ]
    drawn = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(height=8)
        .encode(
            x=alt.X("value:Q", title=unit, axis=alt.Axis(tickCount=4 if narrow else 8)),
            y=pictures.rows_axis([pair.label for pair in pairs], narrow=narrow),
            yOffset=alt.YOffset("what:N", sort=["planned", "real"]),
            color=alt.Color("what:N", scale=alt.Scale(domain=["planned", "real"], range=[OPEN, GOOD]), legend=None),
        )
    )
    return pictures.dressed(alt.layer(drawn), width, max(60, 30 * len(pairs)))

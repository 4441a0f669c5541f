"""The distribution of lengths as a picture, drawn like those of the dossier, with the table of the same numbers."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
from markupsafe import Markup

from testigo.dossier.drawing import svg, variable_of
from testigo.dossier.pictures import INK, SERIES, Specification, dressed, unchecked
from testigo.inspection import wording
from testigo.inspection.lengths import Bin

_OTHERS = "other categories"


@unchecked
def histogram(
    bins: Sequence[Bin], categories: Sequence[str], *, maximum: int | None, width: int = 620, height: int = 170
) -> Specification:
    """Rows by their number of tokens, a colour a category; an upright line is the maximum length, where it is near."""
    names = drawn_categories(bins, categories)
    rows = [
        {"low": one.low, "high": one.high, "category": name, "rows": n}
        for one in bins
        for name, n in _gathered(one, names).items()
        if n
    ]
    end = max((one.high for one in bins), default=1)
    start = min((one.low for one in bins), default=0)
    near = maximum if maximum is not None and maximum <= end + (end - start) / 2 else None
    scale = alt.Scale(domain=[start, max(end, near or 0)], nice=False)
    base = alt.Chart(alt.InlineData(values=rows))
    bars = base.mark_bar(binSpacing=1).encode(
        x=alt.X("low:Q", scale=scale, title="tokens", axis=alt.Axis(grid=False, tickCount=5 if width < 400 else 9)),
        x2="high:Q",
        y=alt.Y("sum(rows):Q", title="rows", stack="zero", axis=alt.Axis(tickMinStep=1, tickCount=4)),
        color=alt.Color("category:N", sort=names, scale=alt.Scale(domain=names, range=list(SERIES)), legend=None),
    )
    layers = [bars]
    if near is not None:
        line = alt.Chart(alt.InlineData(values=[{"maximum": near}]))
        layers.append(
            line.mark_rule(color=INK, strokeWidth=1.6, strokeDash=[5, 3]).encode(x=alt.X("maximum:Q", scale=scale))
        )
    return dressed(alt.layer(*layers), width, height)


def drawn_categories(bins: Sequence[Bin], categories: Sequence[str]) -> list[str]:
    """The names that get a colour: of more categories than colours the largest, and one for the rest."""
    sizes = {name: sum(one.rows.get(name, 0) for one in bins) for name in categories}
    if len(categories) <= len(SERIES):
        return [wording.category_name(name) for name in categories]
    largest = sorted(categories, key=lambda name: (-sizes[name], name))[: len(SERIES) - 1]
    return [*map(wording.category_name, largest), _OTHERS]


def _gathered(one: Bin, names: Sequence[str]) -> dict[str, int]:
    counts = dict.fromkeys(names, 0)
    for category, n in one.rows.items():
        name = wording.category_name(category)
        counts[name if name in counts else _OTHERS] = counts.get(name if name in counts else _OTHERS, 0) + n
    return counts


def drawn(bins: Sequence[Bin], categories: Sequence[str], *, maximum: int, alternative: str) -> Markup:
    """The picture in two widths; the style sheet shows one of the two."""
    wide = svg(histogram(bins, categories, maximum=maximum), alternative=alternative, css_class="wide")
    narrow = svg(histogram(bins, categories, maximum=maximum, width=250), alternative=alternative, css_class="narrow")
    return wide + narrow


def legend(bins: Sequence[Bin], categories: Sequence[str]) -> list[tuple[str, str]]:
    """Name and colour of each category, as the style sheet's variable; empty where there is one alone."""
    names = drawn_categories(bins, categories)
    return [(name, variable_of(SERIES[k])) for k, name in enumerate(names)] if len(names) > 1 else []

"""Curves of runs: the dossier's own specifications, over what the reader chose, with findings pinned to their place."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode

from markupsafe import Markup

from testigo.dossier import pictures, units
from testigo.dossier.drawing import svg, variable_of, with_variables
from testigo.dossier.language import _, later
from testigo.dossier.picture import Picture, cell
from testigo.page.standing import Found
from testigo.page.steps import AXES, Steps
from testigo.page.thinning import smoothed, thinned

MOST_POINTS = 500
ALL_POINTS = 4000
"""Of all curves of a picture together: of twenty runs each has two hundred."""
SMOOTHINGS = (0.0, 0.6, 0.9, 0.98)
_TABLE_ROWS = 24
_GIB = 1024**3
_MOST_PINS = 12
_WIDTH, _HEIGHT = 370, 180
_WIDTH_STYLE = re.compile(r' style="max-width:([0-9.]+)px"')
_TONES = {"stop": pictures.BAD, "warn": pictures.OPEN, "note": pictures.MUTED}


@dataclass(frozen=True)
class Way:
    """How a reader wants to see curves. `smoothing` is the weight of the past in a moving average, 0 is none."""

    axis: str = "updates"
    smoothing: float = 0.0
    logarithmic: bool | None = None

    @classmethod
    def asked(cls, query: Mapping[str, str]) -> Way:
        """From an address; what it does not know is left out."""
        axis = query.get("axis", "")
        smoothing = next((one for one in SMOOTHINGS if f"{one:g}" == query.get("smooth")), 0.0)
        return cls(axis if axis in AXES else "updates", smoothing, True if query.get("log") == "1" else None)

    @property
    def query(self) -> dict[str, str]:
        """As an address says it."""
        asked = {"axis": self.axis, "smooth": f"{self.smoothing:g}", "log": "1" if self.logarithmic else ""}
        return {name: value for name, value in asked.items() if value not in ("", "0", "updates")}


@dataclass(frozen=True)
class Line:
    """A run among those that are drawn: its name, its colour and its dashes."""

    run: str
    name: str
    steps: Steps
    kind: int = 0
    twin: int = 0


@dataclass(frozen=True)
class Quantity:
    """Something that is measured at updates, or at validations."""

    title: str
    unit: str
    of: Callable[[Steps], Iterable[tuple[str, Sequence[float | None]]]]
    """The columns of a run, each with a name where there are several."""
    at_validations: bool = False


@dataclass(frozen=True)
class Drawn:
    """A picture as the page has it: drawn without script, its numbers, its legend, and where its specification is."""

    picture: Picture
    legend: tuple[tuple[str, str, list[int]], ...]
    address: str
    state: str


def _column(name: str) -> Callable[[Steps], Iterable[tuple[str, Sequence[float | None]]]]:
    return lambda steps: [("", steps.columns[name])]


def _throughput(steps: Steps) -> Iterable[tuple[str, Sequence[float | None]]]:
    pairs = zip(steps.columns["supervised_tokens"], steps.columns["seconds"], strict=True)
    yield "", [tokens / seconds if tokens and seconds else None for tokens, seconds in pairs]


def _memory(steps: Steps) -> Iterable[tuple[str, Sequence[float | None]]]:
    names = (
        ("resident_bytes", later("main memory")),
        ("allocated_bytes", later("GPU, allocated")),
        ("reserved_bytes", later("GPU, reserved")),
    )
    for column, name in names:
        values = steps.columns[column]
        if any(value is not None for value in values):
            yield name, [None if value is None else value / _GIB for value in values]


QUANTITIES: dict[str, Quantity] = {
    "loss": Quantity(later("Training loss"), later("nats"), _column("loss")),
    "validation": Quantity(
        later("Validation loss"),
        later("nats"),
        lambda steps: [("", [one.loss for one in steps.validations])],
        at_validations=True,
    ),
    "rate": Quantity(later("Learning rate"), later("learning rate"), _column("learning_rate")),
    "norm": Quantity(later("Gradient norm"), later("norm before clipping"), _column("gradient_norm")),
    "throughput": Quantity(later("Throughput"), later("tokens in the loss per second"), _throughput),
    "seconds": Quantity(later("Time of an update"), later("seconds"), _column("seconds")),
    "memory": Quantity(later("Memory"), later("GiB"), _memory),
}
OVER = {
    "updates": later("update"),
    "examples": later("examples"),
    "tokens": later("tokens in the loss"),
    "time": later("seconds of training"),
}


@dataclass(frozen=True)
class Curves:
    """One quantity of some runs, as series that can be drawn."""

    quantity: Quantity
    series: tuple[pictures.Series, ...]
    raw: tuple[pictures.Series, ...]
    """The same without smoothing, where there is some."""
    end: float
    way: Way
    pins: tuple[tuple[float, Found], ...]

    def specification(self) -> pictures.Specification:
        """The dossier's picture of curves, with pins."""
        title = _(self.quantity.unit)
        log = self.way.logarithmic
        over = None if self.way.axis == "updates" else _(OVER[self.way.axis])
        made = pictures.curve(
            self.series, title=title, width=_WIDTH, height=_HEIGHT, last_update=self.end, over=over, logarithmic=log
        )
        if self.raw:
            pale = pictures.curve(
                self.raw, title=title, width=_WIDTH, height=_HEIGHT, last_update=self.end, over=over, logarithmic=log
            )
            first = pale["layer"][0]
            behind = {**first, "data": pale["data"], "mark": {**first["mark"], "opacity": 0.22}}
            made = {**made, "layer": [behind, *made["layer"]], "datasets": pale["datasets"] | made["datasets"]}
        return pinned(made, self.pins)

    def as_json(self) -> str:
        """What the page's script draws: the specification, with the style sheet's variables for its colours."""
        told = {
            "specification": self.specification(),
            "over": _(OVER[self.way.axis]),
            "unit": _(self.quantity.unit),
            "lines": [{"name": one.name, "colour": one.colour} for one in self.series],
        }
        return with_variables(json.dumps(told, ensure_ascii=False, separators=(",", ":")))


def curves(name: str, lines: Sequence[Line], way: Way, found: Sequence[Found] = ()) -> Curves | None:
    """A quantity of some runs; None where none of them has measured it."""
    quantity = QUANTITIES[name]
    most = min(MOST_POINTS, max(ALL_POINTS // max(len(lines), 1), 100))
    made, raw, end = [], [], 1.0
    for line in lines:
        steps, axis = line.steps, line.steps.axis(way.axis)
        if not steps.updates:
            continue
        end = max(end, axis[-1])
        places: Sequence[float] = axis
        if quantity.at_validations:
            places = [axis[steps.place_of(one.update)] for one in steps.validations]
        for n, (part, values) in enumerate(quantity.of(steps)):
            if all(value is None for value in values):
                continue
            title = ", ".join(filter(None, [line.name, _(part) if part else ""])) or _(quantity.title).lower()
            look = {"marks": quantity.at_validations, "kind": line.kind + n, "twin": line.twin}
            own = values if quantity.at_validations else smoothed(values, way.smoothing)
            made.append(pictures.Series(title, *thinned(places, own, most), **look))  # type: ignore[arg-type]
            if way.smoothing and not quantity.at_validations:
                raw.append(pictures.Series(title, *thinned(places, values, most), **look))  # type: ignore[arg-type]
    if not made:
        return None
    pins = [(lines[0].steps.axis(way.axis)[lines[0].steps.place_of(one.update)], one)
            for one in found if one.update is not None and lines[0].steps.updates]  # fmt: skip
    return Curves(quantity, tuple(made), tuple(raw), end, way, tuple(pins[:_MOST_PINS]))


def drawn(
    name: str, lines: Sequence[Line], way: Way, found: Sequence[Found] = (), *, at: str, with_picture: bool = True
) -> Drawn | None:
    """A picture of the page. Without `with_picture` the page's script has to draw it."""
    made = curves(name, lines, way, found)
    if made is None:
        return None
    title = _(made.quantity.title)
    told = "".join(f" {one.finding.code}: {one.update}." for _place, one in made.pins)
    alternative = f"{title}: " + "; ".join(
        f"{one.name} {units.number(one.values[0])} – {units.number(one.values[-1])}" for one in made.series
    )
    places = sorted({place for one in made.series for place in one.updates})[-_TABLE_ROWS:]
    columns = [dict(zip(one.updates, one.values, strict=True)) for one in made.series]
    picture = Picture(
        title=title,
        caption=_(made.quantity.unit),
        wide=without_style(svg(made.specification(), alternative=alternative + told)) if with_picture else Markup(""),
        narrow=Markup(""),
        head=(_(OVER[way.axis]), *(one.name for one in made.series)),
        rows=tuple((f"{place:,.0f}", *(cell(column, place) for column in columns)) for place in reversed(places)),
        note=_("The newest first; steps.jsonl has all of them."),
    )
    query = urlencode([("what", name), *(("run", line.run) for line in lines), *way.query.items()], quote_via=quote)
    legend = [(one.name, variable_of(one.colour), one.dash) for one in made.series] if len(made.series) > 1 else []
    state = "/".join(f"{len(line.steps.updates)}.{len(line.steps.validations)}" for line in lines) + f"/{len(found)}"
    return Drawn(picture, tuple(legend), f"{at}/curves?{query}", state)


def pinned(specification: pictures.Specification, pins: Sequence[tuple[float, Found]]) -> pictures.Specification:
    """The specification with an upright line and the rule's code at the place of each finding."""
    if not pins:
        return specification
    places = dict(reversed(pins))  # the first, the gravest, names a place that several share
    values = [
        {"update": place, "code": one.finding.code, "colour": _TONES[one.finding.severity]}
        for place, one in sorted(places.items(), key=lambda item: item[0])
    ]
    x = {"field": "update", "type": "quantitative"}
    colour = {"field": "colour", "type": "nominal", "scale": None}
    rule = {"mark": {"type": "rule", "strokeDash": [3, 3], "strokeWidth": 1.4}, "encoding": {"x": x, "color": colour}}
    name = {
        "mark": {"type": "text", "align": "right", "baseline": "top", "dx": -3, "fontSize": 11, "fontWeight": 600},
        "encoding": {"x": x, "y": {"value": 1}, "text": {"field": "code", "type": "nominal"}, "color": colour},
    }
    pins_layer = {"data": {"values": values}, "layer": [rule, name]}
    layers = specification["layer"]
    return {**specification, "layer": [*layers, pins_layer], "resolve": {"scale": {"color": "independent"}}}


def in_page(picture: Picture) -> Picture:
    """One of the dossier's pictures, as the page's policy wants it."""
    return replace(picture, wide=without_style(picture.wide), narrow=without_style(picture.narrow))


def without_style(drawn: Markup) -> Markup:
    """The picture without its style attribute, which the page's security policy refuses: its width as an attribute."""
    return Markup(_WIDTH_STYLE.sub(r' width="\1"', str(drawn), count=1))

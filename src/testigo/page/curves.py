"""The pictures of one run: the dossier's own specifications, with the findings pinned to their updates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from testigo.dossier import pictures, units
from testigo.dossier.drawing import svg, variable_of
from testigo.dossier.language import _
from testigo.dossier.picture import Picture, cell
from testigo.page.standing import Found
from testigo.page.steps import Steps

MOST_POINTS = 500
_TABLE_ROWS = 24
_GIB = 1024**3
_MOST_PINS = 12
_WIDTH, _HEIGHT = 370, 180
_WIDTH_STYLE = re.compile(r' style="max-width:([0-9.]+)px"')
_TONES = {"stop": pictures.BAD, "warn": pictures.OPEN, "note": pictures.MUTED}


@dataclass(frozen=True)
class RunPicture:
    """A picture and the legend of its lines, where it has more than one: name, colour, dashes."""

    picture: Picture
    legend: tuple[tuple[str, str, list[int]], ...]


def run_pictures(steps: Steps, found: Sequence[Found]) -> tuple[RunPicture, ...]:
    """Loss, validation, learning rate, gradient norm, seconds and memory over the updates, as far as measured."""
    if not steps.updates:
        return ()
    column = steps.columns
    validation = pictures.Series(
        _("validation loss"),
        [one.update for one in steps.validations],
        [one.loss for one in steps.validations],
        marks=True,
        kind=2,
    )
    kinds = [
        (_("Training loss"), _("nats per token"), [_series(_("training loss"), steps, column["loss"])]),
        (_("Validation loss"), _("nats per token"), [validation]),
        (_("Learning rate"), _("learning rate"), [_series(_("learning rate"), steps, column["learning_rate"])]),
        (
            _("Gradient norm"),
            _("norm before clipping"),
            [_series(_("gradient norm"), steps, column["gradient_norm"])],
        ),
        (_("Time of an update"), _("seconds"), [_series(_("seconds"), steps, column["seconds"])]),
        (_("Memory"), _("GiB"), list(_memory(steps))),
    ]
    made = []
    for title, quantity, series in kinds:
        seen = [one for one in series if any(value is not None for value in one.values)]
        if seen:
            made.append(_picture(title, quantity, seen, steps.last_update, found))
    return tuple(made)


def thinned(
    updates: Sequence[int], values: Sequence[float | None], most: int = MOST_POINTS
) -> tuple[list[int], list[float | None]]:
    """At most about so many points: the lowest and the highest of each stretch, each gap, the first and the last."""
    n = len(updates)
    if n <= most:
        return list(updates), list(values)
    width = -(-2 * n // most)
    kept = {0, n - 1}
    for start in range(0, n, width):
        places = range(start, min(start + width, n))
        known = [(value, i) for i in places if (value := values[i]) is not None]
        if len(known) < len(places):
            kept.add(next(i for i in places if values[i] is None))
        if known:
            kept |= {min(known)[1], max(known)[1]}
    chosen = sorted(kept)
    return [updates[i] for i in chosen], [values[i] for i in chosen]


def pinned(specification: pictures.Specification, found: Iterable[Found]) -> pictures.Specification:
    """The specification with an upright line and the rule's code at the update of each finding."""
    at = [one for one in found if one.update is not None][:_MOST_PINS]
    if not at:
        return specification
    places = {one.update: one for one in reversed(at)}  # the first, the gravest, names a place that several share
    values = [
        {"update": update, "code": one.finding.code, "colour": _TONES[one.finding.severity]}
        for update, one in sorted(places.items(), key=lambda item: item[0] or 0)
    ]
    x = {"field": "update", "type": "quantitative"}
    colour = {"field": "colour", "type": "nominal", "scale": None}
    rule = {"mark": {"type": "rule", "strokeDash": [3, 3], "strokeWidth": 1.4}, "encoding": {"x": x, "color": colour}}
    name = {
        "mark": {"type": "text", "align": "right", "baseline": "top", "dx": -3, "fontSize": 11, "fontWeight": 600},
        "encoding": {"x": x, "y": {"value": 1}, "text": {"field": "code", "type": "nominal"}, "color": colour},
    }
    pins = {"data": {"values": values}, "layer": [rule, name]}
    layers = specification["layer"]
    return {**specification, "layer": [*layers, pins], "resolve": {"scale": {"color": "independent"}}}


def _series(name: str, steps: Steps, values: Sequence[float | None], kind: int = 0) -> pictures.Series:
    return pictures.Series(name, *thinned(steps.updates, values), kind=kind)


def _memory(steps: Steps) -> Iterable[pictures.Series]:
    names = (
        ("resident_bytes", _("main memory")),
        ("allocated_bytes", _("GPU, allocated")),
        ("reserved_bytes", _("GPU, reserved")),
    )
    for kind, (column, name) in enumerate(names):
        gib = [None if value is None else value / _GIB for value in steps.columns[column]]
        yield _series(name, steps, gib, kind=kind)


def _picture(
    title: str, quantity: str, series: Sequence[pictures.Series], last: int, found: Sequence[Found]
) -> RunPicture:
    specification = pictures.curve(series, title=quantity, width=_WIDTH, height=_HEIGHT, last_update=last)
    pins = "".join(f" {one.finding.code}: {one.update}." for one in found if one.update is not None)
    alternative = f"{title}: " + "; ".join(
        f"{one.name} {units.number(one.values[0])} – {units.number(one.values[-1])}" for one in series
    )
    updates = sorted({update for one in series for update in one.updates})[-_TABLE_ROWS:]
    columns = [dict(zip(one.updates, one.values, strict=True)) for one in series]
    picture = Picture(
        title=title,
        caption=quantity,
        wide=without_style(svg(pinned(specification, found), alternative=alternative + pins)),
        narrow=Markup(""),
        head=(_("Update"), *(one.name for one in series)),
        rows=tuple((f"{update:,}", *(cell(column, update) for column in columns)) for update in reversed(updates)),
        note=_("The newest first; steps.jsonl has all of them."),
    )
    lines = [(one.name, variable_of(one.colour), one.dash) for one in series] if len(series) > 1 else []
    return RunPicture(picture, tuple(lines))


def without_style(drawn: Markup) -> Markup:
    """The picture without its style attribute, which the page's security policy refuses: its width as an attribute."""
    return Markup(_WIDTH_STYLE.sub(r' width="\1"', str(drawn), count=1))

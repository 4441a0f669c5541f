"""What stands beside the registered result: the noise floor, the base with examples, and what was forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from testigo.dossier import units
from testigo.dossier.language import _, counted
from testigo.dossier.record import Record


@dataclass(frozen=True)
class Kept:
    """A guard beside the task: general text or another task. Numbers are written in their own unit."""

    name: str
    before: str
    after: str
    difference: str
    interval: str
    allowed: str
    verdict: str


@dataclass(frozen=True)
class Beside:
    """Sentences and guards; empty where nothing was measured."""

    sentences: tuple[str, ...]
    guards: tuple[Kept, ...]


def beside_in(record: Record) -> Beside:
    """All of it, in the language that is spoken."""
    statistics, metric = _statistics(record), record.hypothesis.metric
    told = [*_noise(_mapping(statistics, "noise_floor"), metric), *_prompted(statistics, metric)]
    guards = tuple(map(_kept, _guards(statistics)))
    if not guards:
        told += _general(statistics)
    return Beside(tuple(told), guards)


def verdicts_beside(record: Record) -> list[str]:
    """The verdicts of the guards beside the task."""
    return [str(guard.get("verdict")) for guard in _guards(_statistics(record))]


def _statistics(record: Record) -> Mapping[str, Any]:
    """Of the comparison that decides; what only the one on validation measured is taken from there."""
    found: dict[str, Any] = {}
    for comparison in (record.on_validation, record.comparison):
        if comparison is not None:
            found |= {name: value for name, value in comparison.statistics.items() if value is not None}
    return found


def _mapping(statistics: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = statistics.get(name)
    return value if isinstance(value, Mapping) else {}


def _guards(statistics: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    guards = _mapping(statistics, "forgetting").get("guards")
    return [guard for guard in guards if isinstance(guard, Mapping)] if isinstance(guards, list) else []


def _noise(floor: Mapping[str, Any], metric: str) -> Iterable[str]:
    if floor:
        yield counted(
            "Noise floor: the base answered {n} row twice, in other batches; {different} of the outputs differ "
            "({share} of them), and {metric} moved by {moved}.",
            "Noise floor: the base answered {n} rows twice, in other batches; {different} of the outputs differ "
            "({share} of them), and {metric} moved by {moved}.",
            int(floor.get("n") or 0),
            different=units.count(floor.get("different")),
            share=units.share(floor.get("share")),
            metric=metric,
            moved=units.points(_mapping(_mapping(floor, "metrics"), metric).get("difference")),
        )


def _prompted(statistics: Mapping[str, Any], metric: str) -> Iterable[str]:
    found = _mapping(statistics, "prompted_baseline")
    own, control = (_mapping(_mapping(found, side), metric) for side in ("metrics", "control"))
    if own and control:
        yield _(
            "A fair rival: the base with {n} examples in its prompt has {metric} {value}, without them {before}; from "
            "there the tuned model differs by {difference} ({interval}).",
            n=found.get("examples"),
            metric=metric,
            value=units.share(own.get("after")),
            before=units.share(own.get("before")),
            difference=units.points(control.get("difference")),
            interval=units.interval(control.get("low"), control.get("high")),
        )


def _general(statistics: Mapping[str, Any]) -> Iterable[str]:
    control = _mapping(_mapping(_mapping(statistics, "forgetting"), "general"), "control")
    if control:
        yield _(
            "General text: a loss of {before} nats per token before and {after} after ({difference}); no guard was "
            "registered for it.",
            before=units.number(control.get("before")),
            after=units.number(control.get("after")),
            difference=_signed(control.get("difference")),
        )


def _kept(guard: Mapping[str, Any]) -> Kept:
    task, metric = str(guard.get("task") or ""), str(guard.get("metric"))
    numbers = [guard.get(name) for name in ("before", "after", "difference", "low", "high", "within")]
    before, after, difference, low, high, within = numbers
    if guard.get("better") == "lower":
        return Kept(
            name=_("loss of general text, nats per token"),
            before=units.number(before),
            after=units.number(after),
            difference=_signed(difference),
            interval=_("{low} to {high}", low=_signed(low), high=_signed(high)),
            allowed=_signed(within),
            verdict=str(guard.get("verdict")),
        )
    return Kept(
        name=_("{metric} of {task}", metric=metric, task=task) if task else metric,
        before=units.share(before),
        after=units.share(after),
        difference=units.points(difference),
        interval=units.interval(low, high),
        allowed=units.points(None if within is None else -within),
        verdict=str(guard.get("verdict")),
    )


def _signed(value: float | None) -> str:
    text = units.number(value)
    return f"+{text}" if value is not None and value > 0 else text

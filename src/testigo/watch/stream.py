"""The watch on a run that is going on: one step in, new findings out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from testigo.rules import Finding, NotChecked, Rule, collect, judge
from testigo.watch.curve import COLUMNS, Curve, row_of, validation_of
from testigo.watch.robust import level, spread

_HEAD, _FULL, _ROOM = 32, 256, 768


class Watcher:
    """Feeds each step of a run to the diagnoses, and returns what is new.

    It only reads numbers: it draws no random number, holds no tensor and changes nothing of the training. Its memory is
    bounded: the first 32 and the last 256 updates are kept whole, and those between are thinned out.

    Parameters
    ----------
    rules
        The rules over `Curve`; by default those of this package.
    limits
        Overrides by code, as in the campaign's `rules:`.
    planned_learning_rates, planned_updates, vocabulary_size, base_loss
        What the rules need to know about the run, where it is known.
    """

    #: A code is reported again only after so many updates.
    QUIET_UPDATES = 50
    #: Every so many updates all rules are judged: in the first 50, up to 100, up to 500 and later, since what a curve
    #: says does not change faster; and at the last that is planned. Events (NaN, skipped update, a loss or gradient
    #: far above those before) are judged at once.
    EVERY_UPDATES = (10, 25, 50, 100)
    #: Whether events are judged at once; a run that is over is judged for them as a whole.
    JUDGES_EVENTS = True

    def __init__(
        self,
        *,
        rules: Iterable[Rule] | None = None,
        limits: Mapping[str, Mapping[str, Any]] | None = None,
        planned_learning_rates: Sequence[float] | None = None,
        planned_updates: int | None = None,
        vocabulary_size: int | None = None,
        base_loss: float | None = None,
    ) -> None:
        every = collect("testigo.watch") if rules is None else tuple(rules)
        self._rules = tuple(rule for rule in every if rule.evidence is Curve)
        self._limits = dict(limits or {})
        self._planned = None if planned_learning_rates is None else np.array(planned_learning_rates, dtype=np.float64)
        self._last_update = planned_updates or len(planned_learning_rates or ())
        self._about: dict[str, Any] = {
            "planned_updates": planned_updates,
            "vocabulary_size": vocabulary_size,
            "base_loss": base_loss,
        }
        self._table = np.empty((_ROOM, len(COLUMNS)))
        self._n = 0
        self._rows: dict[int, tuple[str, ...]] = {}
        self._row_losses: dict[int, Mapping[str, float]] = {}
        self._validation: list[tuple[int, float, int]] = []
        self._alarm = self._norm_alarm = math.inf
        self._last_norm = 0.0
        self._judged = 0
        self._last_report: dict[str, int] = {}

    def feed(self, *steps: Mapping[str, Any]) -> tuple[Finding, ...]:
        """Take lines of `steps.jsonl`, updates or validations, and return what was found by them.

        Events, validations and the updates of `EVERY_UPDATES` are judged where they stand, whatever comes after them in
        the same call. A code is reported at most once in 50 updates. A step with a number that was seen before (after a
        resume) replaces it and what came after it.
        """
        new: list[Finding] = []
        for step in steps:
            update = int(step["update"])
            if "validation_loss" in step:
                before = [old for old in self._validation if old[0] < update]
                self._validation = [*before[-_FULL:], validation_of(step)]
                is_judged = True
            else:
                row = row_of(step)
                self._add(row, step)
                is_event = self.JUDGES_EVENTS and self._urgent(row)
                is_judged = is_event or self._is_due(update)
            if is_judged:
                new += self._judge(update)
        return tuple(new)

    def know(self, *, vocabulary_size: int | None) -> None:
        """Among how many a prediction chooses, where that is known only once the run goes on."""
        self._about["vocabulary_size"] = vocabulary_size

    def _is_due(self, update: int) -> bool:
        every = self.EVERY_UPDATES[(update > 50) + (update > 100) + (update > 500)]
        return update // every > self._judged // every or update == self._last_update

    def replay(self, steps: Iterable[Mapping[str, Any]]) -> None:
        """Take the steps of before a resume without reporting on them again."""
        for step in steps:
            self.feed(step)

    def curve(self) -> Curve:
        """What the rules see now."""
        return Curve.from_table(
            self._table[: self._n],
            rows=self._rows,
            row_losses=self._row_losses,
            validation=tuple(self._validation),
            planned_learning_rates=self._planned,
            since=self._judged,
            **self._about,
        )

    def not_checked(self) -> tuple[NotChecked, ...]:
        """The rules that cannot be judged on what the watch has seen so far, and why."""
        return judge(self._rules, [self.curve()], limits=self._limits).not_checked if self._n else ()

    def _add(self, row: tuple[float, ...], step: Mapping[str, Any]) -> None:
        if self._n and row[0] <= self._table[self._n - 1, 0]:
            self._go_back(row[0])
        if self._n == _ROOM:
            self._thin()
        self._table[self._n] = row
        self._n += 1
        update = int(row[0])
        if step.get("rows"):
            self._rows[update] = tuple(step["rows"])
            if len(self._rows) > _FULL:
                del self._rows[next(iter(self._rows))]
        if step.get("row_losses"):
            self._row_losses[update] = step["row_losses"]
            if len(self._row_losses) > _FULL:
                del self._row_losses[next(iter(self._row_losses))]

    def _go_back(self, update: float) -> None:
        """Forget this update and all after it: the run was resumed from before."""
        self._n = int(np.searchsorted(self._table[: self._n, 0], update))
        self._rows = {number: rows for number, rows in self._rows.items() if number < update}
        self._row_losses = {number: losses for number, losses in self._row_losses.items() if number < update}
        self._validation = [point for point in self._validation if point[0] < update]
        self._judged = min(self._judged, int(update) - 1)

    def _thin(self) -> None:
        """Keep the head and the last updates, and every second one between."""
        kept = np.concatenate([self._table[:_HEAD], self._table[_HEAD:-_FULL:2], self._table[-_FULL:]])
        self._table[: len(kept)] = kept
        self._n = len(kept)

    def _urgent(self, row: tuple[float, ...]) -> bool:
        update, loss, rate, norm, skipped = row[:5]
        if skipped or not math.isfinite(loss) or not math.isfinite(norm) or (loss == 0.0 and norm == 0.0):
            return True
        if self._planned is not None and update <= len(self._planned) and math.isfinite(rate):
            planned = float(self._planned[int(update) - 1])
            if abs(rate - planned) > 1e-6 * abs(planned):
                return True
        before, self._last_norm = self._last_norm, norm
        return loss > self._alarm or min(before, norm) > self._norm_alarm

    def _judge(self, update: int) -> tuple[Finding, ...]:
        curve = self.curve()
        verdict = judge(self._rules, [curve], limits=self._limits)
        self._judged = update
        self._alarm, self._norm_alarm = _alarms(curve)
        new = []
        for finding in verdict.findings:
            last = self._last_report.get(finding.code)
            if last is None or not 0 <= update - last < self.QUIET_UPDATES:
                self._last_report[finding.code] = update
                new.append(finding)
        return tuple(new)


def _alarms(curve: Curve) -> tuple[float, float]:
    """A loss above the first number, or two gradient norms above the second, are worth a look at once.

    The median and four spreads of the last losses; ten times the median of the last norms.
    """
    losses, norms = curve.taken_losses[-20:], curve.measured_norms[-20:]
    loss = norm = math.inf
    if len(losses) >= 12:
        middle = level(losses)
        loss = middle + 4 * max(spread(losses), 1e-3 * abs(middle))
    if len(norms) >= 12:
        norm = 10 * level(norms) or math.inf
    return loss, norm

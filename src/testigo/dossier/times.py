"""Time: what the pilot let one expect of each piece of the campaign, and what it took."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from testigo.campaign import Campaign
from testigo.dossier import gantt, units
from testigo.dossier.drawing import svg
from testigo.dossier.language import _
from testigo.dossier.picture import Picture
from testigo.dossier.record import PlannedTime
from testigo.dossier.retelling import told
from testigo.ledger import Event
from testigo.rental import NotMeasured, held_in

BEFORE = ("pilot", "baseline")
_PIECES_DRAWN = 24


def times_from(root: Path, campaign: Campaign, events: Sequence[Event]) -> tuple[PlannedTime, ...]:
    """The plan that the pilot and the baseline gave, held against the ledger; empty without them."""
    try:
        held = held_in(root, campaign, events)
    except (NotMeasured, OSError, ValueError, KeyError, TypeError):
        return ()  # nothing was measured, or by a version that wrote other files: the dossier goes without
    return tuple(PlannedTime(one.name, one.planned_seconds, one.real_seconds) for one in held)


def after_the_pilot(times: Sequence[PlannedTime]) -> tuple[float, float] | None:
    """Planned and real seconds of what came after pilot and baseline and was done."""
    done = [
        (one.planned_seconds, one.real_seconds)
        for one in times
        if one.real_seconds is not None and one.piece not in BEFORE
    ]
    return (sum(one for one, _ in done), sum(other for _, other in done)) if done else None


def times_picture(times: Sequence[PlannedTime]) -> Picture | None:
    """Planned and real of each piece that was done; None while there is none."""
    pairs = [
        gantt.Pair(told(one.piece), one.planned_seconds, one.real_seconds)
        for one in times
        if one.real_seconds is not None
    ]
    if not pairs:
        return None
    shown = pairs[:_PIECES_DRAWN]
    rows = tuple((pair.label, units.duration(pair.planned), units.duration(pair.real)) for pair in pairs)
    alternative = f"{_('Planned and real time')}{_(': ')}" + _("; ").join(
        _("{piece}: planned {planned}, real {real}", piece=row[0], planned=row[1], real=row[2]) for row in rows[:8]
    )
    note = "" if len(shown) == len(pairs) else _("The first {n} pieces are drawn; the table has all.", n=len(shown))
    return Picture(
        title=_("Planned and real time"),
        caption=_("The upper bar of each piece is the plan, the lower one the real time."),
        wide=svg(gantt.planned_and_real(shown, width=470), alternative=alternative, css_class="wide"),
        narrow=svg(gantt.planned_and_real(shown, width=190, narrow=True), alternative=alternative, css_class="narrow"),
        head=(_("Piece"), _("as planned"), _("in reality")),
        rows=rows,
        note=note,
    )

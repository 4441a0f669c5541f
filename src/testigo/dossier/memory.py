"""Memory by phase as a picture: the level before each phase and its peak."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from testigo.dossier import pictures, units
from testigo.dossier.drawing import svg
from testigo.dossier.language import _
from testigo.dossier.picture import Picture
from testigo.dossier.record import Phase
from testigo.dossier.retelling import told

_GIB = 1 << 30


def memory_picture(phases: Sequence[Phase]) -> Picture | None:
    """On a GPU what was allocated and reserved at most, on a CPU the resident memory; None when unmeasured."""
    on_gpu = any(phase.allocated_peak_bytes is not None for phase in phases)
    kinds = ("allocated_peak_bytes", "reserved_peak_bytes") if on_gpu else ("resident_peak_bytes",)
    measured = [phase for phase in phases if getattr(phase, kinds[0]) is not None]
    if not measured:
        return None
    heads = {
        "allocated_peak_bytes": _("GPU allocated, peak"),
        "reserved_peak_bytes": _("GPU reserved, peak"),
        "resident_peak_bytes": _("Resident memory, peak"),
    }
    rows = tuple((told(phase.phase), *(units.size(getattr(phase, kind)) for kind in kinds)) for phase in measured)
    alternative = f"{_('Memory by phase')}{_(': ')}" + _("; ").join(f"{row[0]} {row[1]}" for row in rows)
    caption = (
        _("The bar is what was allocated at most, the tick what was reserved; they are never added.")
        if on_gpu
        else _("The bar is the resident memory of the process at most.")
    )
    return Picture(
        title=_("Memory by phase"),
        caption=caption,
        wide=svg(_bars(measured, kinds, width=500), alternative=alternative, css_class="wide"),
        narrow=svg(_bars(measured, kinds, width=210, narrow=True), alternative=alternative, css_class="narrow"),
        head=(_("Phase"), *(heads[kind] for kind in kinds)),
        rows=rows,
    )


@pictures.unchecked
def _bars(
    phases: Sequence[Phase], kinds: tuple[str, ...], *, width: int, narrow: bool = False
) -> pictures.Specification:
    rows = [
        {"row": i, "peak": getattr(phase, kinds[0]) / _GIB, "tick": (getattr(phase, kinds[-1]) or 0) / _GIB}
        for i, phase in enumerate(phases)
    ]
    y = pictures.rows_axis([told(phase.phase) for phase in phases], narrow=narrow)
    base = alt.Chart(alt.InlineData(values=rows))
    axis = alt.Axis(tickCount=4 if narrow else 8)
    bars = base.mark_bar(height=11, color=pictures.SERIES[0]).encode(x=alt.X("peak:Q", title="GiB", axis=axis), y=y)
    ticks = base.mark_tick(thickness=2, size=16, color=pictures.INK).encode(x=alt.X("tick:Q"), y=y)
    layers = [bars, ticks] if len(kinds) > 1 else [bars]
    return pictures.dressed(alt.layer(*layers), width, max(60, 22 * len(phases)))

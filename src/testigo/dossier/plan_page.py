"""The rental plan as one page that opens offline: packages of days, pieces in time, GPUs beside each other."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from testigo.dossier import gantt, units
from testigo.dossier.drawing import svg, svg_file
from testigo.dossier.language import _, speaking
from testigo.dossier.picture import Picture
from testigo.dossier.report import environment
from testigo.dossier.retelling import told
from testigo.rental import RentalPlan
from testigo.rental.gpus import Offer


def plan_page(plan: RentalPlan, *, campaign: str, language: str, offers: Sequence[Offer] = ()) -> str:
    """The page, in the campaign's language."""
    with speaking(language):
        templates = environment()
        style = Markup(templates.loader.get_source(templates, "report.css")[0])  # type: ignore[union-attr]
        return templates.get_template("plan.html").render(
            plan=plan, campaign=campaign, style=style, picture=picture_of(plan), offers=offers, piece_told=piece_told
        )


def picture_svg(plan: RentalPlan) -> str:
    """The picture alone, as a file for other documents."""
    bars, limits = _bars(plan)
    return svg_file(gantt.gantt(bars, limits=limits, width=640))


def picture_of(plan: RentalPlan) -> Picture:
    """The pieces in time, with the numbers as a table."""
    bars, limits = _bars(plan)
    rows = tuple(
        (bar.label, units.duration(bar.begins), units.duration(bar.ends), units.duration(bar.ends - bar.begins))
        for bar in bars
    )
    alternative = f"{_('The pieces in time')}{_(': ')}" + _("; ").join(f"{row[0]} {row[3]}" for row in rows)
    return Picture(
        title=_("The pieces in time"),
        caption=_("One after another, with the margin. A broken line is the end of a package."),
        wide=svg(gantt.gantt(bars, limits=limits, width=460), alternative=alternative, css_class="wide"),
        narrow=svg(
            gantt.gantt(bars, limits=limits, width=190, narrow=True), alternative=alternative, css_class="narrow"
        ),
        head=(_("Piece"), _("begins after"), _("ends after"), _("takes")),
        rows=rows,
    )


def _bars(plan: RentalPlan) -> tuple[list[gantt.Bar], list[float]]:
    bars, at = [], 0.0
    for piece in plan.pieces:
        bars.append(gantt.Bar(piece_told(piece.name), piece.kind, at, at + piece.seconds))
        at += piece.seconds
    return bars, [package.seconds for package in plan.packages]


def piece_told(name: str) -> str:
    """A piece's name in the language that is spoken; the names of variants stay."""
    return told(name)

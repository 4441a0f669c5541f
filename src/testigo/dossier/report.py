"""The record as one HTML file that opens offline, and as a model card."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from testigo.dossier import conclusion, language, pictures, retelling, units
from testigo.dossier.beside import beside_in
from testigo.dossier.classes import classes_in, clean_in
from testigo.dossier.drawing import svg, variable_of
from testigo.dossier.language import _, speaking, spoken
from testigo.dossier.marking import marked
from testigo.dossier.memory import memory_picture
from testigo.dossier.picture import Picture, cell
from testigo.dossier.record import Comparison, Record, Run
from testigo.dossier.run_facts import thinned
from testigo.dossier.sentence import conclusion_told, seeds_told
from testigo.dossier.times import after_the_pilot, times_picture
from testigo.dossier.words import breakable, explained

_TABLE_ROWS = 24
# A picture is a few hundred pixels wide: more points only make the page heavier, and fifty runs share one picture.
_POINTS_DRAWN, _FEWEST_POINTS = 12_000, 120
_LINES_TOLD = 16
_FILTERS = {
    "number": units.number,
    "plain": units.plain,
    "count": units.count,
    "share": units.share,
    "small_share": units.trained_share,
    "points": units.points,
    "size": units.size,
    "duration": units.duration,
    "hours": units.hours,
    "probability": units.probability,
    "date": units.date,
    "short": units.short,
    "breakable": breakable,
    "level": units.level,
    "told": retelling.shown,
    "told_name": retelling.told,
    "told_reason": retelling.told_reason,
    "told_place": retelling.told_place,
    "told_why": retelling.told_why,
    "told_rule": retelling.told_rule,
    "told_known": retelling.told_known,
    "told_change": retelling.told_change,
    "told_elision": retelling.told_elision,
    "of_a_rule": retelling.of_a_rule,
    "in_english": retelling.in_english,
}


@cache
def environment() -> Environment:
    """The templates. Autoescaping is on for all of them: data and model output never become markup."""
    made = Environment(
        loader=PackageLoader("testigo.dossier", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    made.install_gettext_callables(language.plain, language.plural, newstyle=True)  # type: ignore[attr-defined]
    made.filters.update(_FILTERS)
    made.globals.update(interval=units.interval, money=units.money, marked=marked, explained=explained, spoken=spoken)
    return made


def html(record: Record) -> str:
    """The whole report, in the campaign's language. The same record gives the same text."""
    with speaking(record.plan.language):
        return _html(record)


def _html(record: Record) -> str:
    templates = environment()
    # The style sheet is ours, a file of this package: the one text that is put in as markup.
    style = Markup(templates.loader.get_source(templates, "report.css")[0])  # type: ignore[union-attr]
    improvement = conclusion.improvement(record)
    badge, sentence = conclusion.badge(record), conclusion.sentence(record)
    return templates.get_template("report.html").render(
        record=record,
        style=style,
        badge=badge,
        sentence=sentence,
        sentence_after_badge=_marked_if_stored(conclusion.after_badge(sentence, badge), sentence, record.comparison),
        on_validation=_concluded(record.on_validation),
        seeds_note=_seeds_note(record.comparison),
        limits=conclusion.limits(record),
        improvement=improvement,
        guards=conclusion.guards(record),
        categories=conclusion.categories(record),
        before_after={metric: conclusion.values(record, metric) for metric in record.plan.metrics},
        false_alarm=conclusion.false_alarm(record),
        forest=forest_picture(record),
        beside=beside_in(record),
        classes=classes_in(record.comparison),
        clean=clean_in(record.comparison),
        curves=curve_pictures(record.runs, record.hypothesis.metric),
        memory=memory_picture(record.gates.phases) if record.gates else None,
        times=times_picture(record.times),
        after_the_pilot=after_the_pilot(record.times),
        legend=legend(record.runs),
        crowded=is_crowded(record.runs),
        total_seconds=_total(run.seconds for run in record.runs),
        total_cost=_total(run.cost for run in record.runs),
    )


def _marked_if_stored(text: str, sentence: str, comparison: Comparison | None) -> str | Markup:
    """A conclusion that could not be built again stands as it was stored, in English."""
    stored = comparison.statistics.get("conclusion") if comparison else None
    return retelling.in_english(text) if sentence == stored else text


def _concluded(comparison: Comparison | None) -> str | Markup:
    if comparison is None:
        return ""
    stored = str(comparison.statistics.get("conclusion", ""))
    return conclusion_told(comparison.statistics) or retelling.in_english(stored)


def _seeds_note(comparison: Comparison | None) -> str | Markup:
    seeds = comparison.statistics.get("seeds") if comparison else None
    if comparison is None or not isinstance(seeds, Mapping):
        return ""
    return seeds_told(comparison.statistics) or retelling.in_english(str(seeds.get("note", "")))


def forest_picture(record: Record) -> Picture | None:
    """Overall improvement, guards and categories as one forest; None without a comparison."""
    effects = list(_effects(record))
    if not effects:
        return None
    rows = tuple(
        (
            effect.label,
            units.count(effect.n),
            units.points(effect.difference),
            units.interval(effect.low, effect.high),
            units.points(effect.reference) if effect.reference is not None else "",
        )
        for effect in effects
    )
    alternative = _("Differences with intervals: ") + _("; ").join(f"{row[0]} {row[2]} ({row[3]})" for row in rows)
    return Picture(
        title=_("Differences to the unadapted model"),
        caption=_(
            "A dot is the difference, its bar the interval; the long upright line is no change. A short tick is what "
            "was required: the improvement's dot must reach it, a guard's whole bar must lie to its right. "
            "A guard's ends are one-sided bounds."
        ),
        wide=svg(pictures.forest(effects, width=560), alternative=alternative, css_class="wide"),
        narrow=svg(pictures.forest(effects, width=205, narrow=True), alternative=alternative, css_class="narrow"),
        head=(_("What"), _("Rows"), _("Difference"), _("Interval"), _("Required")),
        rows=rows,
    )


_TONES = {"shown": "good", "kept": "good", "refuted": "bad", "broken": "bad"}


def _effects(record: Record) -> Iterable[pictures.Effect]:
    improvement = conclusion.improvement(record)
    metric = record.hypothesis.metric
    made = [
        _effect(_("{metric}, all rows", metric=metric), improvement, record.hypothesis.by),
        *(
            _effect(
                _("guard: {metric}", metric=guard.get("metric", "")),
                {**guard, "low": guard.get("lower_bound"), "high": guard.get("upper_bound")},
                None if guard.get("within") is None else -float(guard["within"]),
            )
            for guard in conclusion.guards(record)
        ),
    ]
    for name, facts in conclusion.categories(record):
        of_metric = (facts.get("metrics") or {}).get(metric)
        if isinstance(of_metric, Mapping):
            made.append(_effect(name or _("no category"), {"n": facts.get("n"), **of_metric}, None, tone="none"))
    yield from (effect for effect in made if effect is not None)


def _effect(
    label: str, facts: Mapping[str, Any], reference: float | None, tone: str | None = None
) -> pictures.Effect | None:
    if facts.get("difference") is None:
        return None
    return pictures.Effect(
        label=label,
        n=int(facts.get("n") or 0),
        difference=float(facts["difference"]),
        low=facts.get("low"),
        high=facts.get("high"),
        reference=reference,
        tone=tone or _TONES.get(str(facts.get("verdict")), "open"),
    )


def curve_pictures(runs: Sequence[Run], metric: str = "") -> tuple[Picture, ...]:
    """Losses, the score of the fixed prompts, learning rate and gradient norm over the updates, all runs together."""
    training, validation, rates, norms, samples = [], [], [], [], []
    points = max(_FEWEST_POINTS, _POINTS_DRAWN // max(1, sum(run.curve is not None for run in runs)))
    for run, drawn in _drawn(runs):
        assert run.curve is not None
        curve = thinned(run.curve, points)
        training.append(drawn(curve.updates, curve.losses))
        validation.append(
            drawn([p.update for p in curve.validation], [p.loss_nats_per_token for p in curve.validation], marks=True)
        )
        rates.append(drawn(curve.updates, curve.learning_rates))
        norms.append(drawn(curve.updates, curve.gradient_norms))
        samples.append(drawn([p.update for p in run.samples], [p.score for p in run.samples], marks=True))
    kinds = [
        (_("Training loss"), _("nats"), training),
        (_("Validation loss"), _("nats"), validation),
        (_("Learning rate"), _("learning rate"), rates),
        (_("Gradient norm"), _("norm before clipping"), norms),
        (_("Fixed prompts"), _("mean {metric}", metric=metric), samples),
    ]
    last = max((update for one in training for update in one.updates), default=1)
    return tuple(
        _curve_picture(title, quantity, series, last)
        for title, quantity, series in kinds
        if any(value is not None for one in series for value in one.values)
    )


def legend(runs: Sequence[Run]) -> list[tuple[str, str, list[int]]]:
    """Name, colour and dashes of each run's line; of each variant's where the runs are many."""
    lines = {run.variant if is_crowded(runs) else run.id: (run, drawn((), ())) for run, drawn in _drawn(runs)}
    return [
        (run.variant if is_crowded(runs) else line.name, variable_of(line.colour), line.dash)
        for run, line in lines.values()
    ]


def is_crowded(runs: Sequence[Run]) -> bool:
    """Whether lines of their own would tell nobody anything: then seeds share the line of their variant."""
    return sum(run.curve is not None for run in runs) > _LINES_TOLD


def _drawn(runs: Sequence[Run]) -> Iterable[tuple[Run, Callable[..., pictures.Series]]]:
    """Each run that left steps, with its name, colour and dashes: a colour a variant, other dashes a seed."""
    with_curve = [run for run in runs if run.curve is not None]
    variants = list(dict.fromkeys(run.variant for run in with_curve))
    names = [_("{variant}, seed {seed}", variant=run.variant, seed=run.seed) for run in with_curve]
    seen: dict[str, int] = {}
    for run, name in zip(with_curve, names, strict=True):
        kind = variants.index(run.variant)
        twin = seen[run.variant] = seen.get(run.variant, -1) + 1
        if is_crowded(runs):
            twin = kind // len(pictures.SERIES)  # dashes tell apart the variants that share a colour
        unique = name if names.count(name) == 1 else run.id
        yield run, partial(pictures.Series, unique, kind=kind, twin=twin)


def _curve_picture(title: str, quantity: str, series: Sequence[pictures.Series], last: float) -> Picture:
    alternative = f"{title}{_(': ')}" + _("; ").join(_ends(one) for one in series if one.updates)
    updates = sorted({update for one in series for update in one.updates})
    step = max(1, -(-len(updates) // _TABLE_ROWS))
    lost = [update for one in series for update, value in zip(one.updates, one.values, strict=True) if value is None]
    shown = sorted({*updates[::step], updates[-1], *lost[:_TABLE_ROWS]})
    columns = [dict(zip(one.updates, one.values, strict=True)) for one in series]
    wide = pictures.curve(series, title=quantity, width=310, height=170, last_update=last)
    narrow = pictures.curve(series, title=quantity, width=270, height=170, last_update=last)
    return Picture(
        title=title,
        caption=quantity,
        wide=svg(wide, alternative=alternative, css_class="wide"),
        narrow=svg(narrow, alternative=alternative, css_class="narrow"),
        head=(_("Update"), *(one.name for one in series)),
        rows=tuple((str(update), *(cell(column, update) for column in columns)) for update in shown),
        note="" if step == 1 else _("One update in {n} is shown; dossier.json has more.", n=step),
    )


def _ends(series: pictures.Series) -> str:
    first, last = series.values[0], series.values[-1]
    return _(
        "{run} from {first} at update {start} to {last} at update {end}",
        run=series.name,
        first=units.number(first),
        start=series.updates[0],
        last=units.number(last),
        end=series.updates[-1],
    )


def _total(amounts: Iterable[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None

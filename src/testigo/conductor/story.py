"""The campaign from top to bottom."""

from __future__ import annotations

from collections.abc import Callable

from testigo.campaign import PlannedRun, planned_runs
from testigo.campaign.withdrawn import without_control
from testigo.conductor import deliver, judge, look, measure, tell, train, weigh
from testigo.conductor.grounds import Grounds
from testigo.conductor.opening import carried_on
from testigo.corpus import check_seal
from testigo.errors import WorkspaceError
from testigo.judgement import Comparison
from testigo.ledger import kinds
from testigo.pilot.startable import refuse_unstartable
from testigo.training.start import Work, side_by_side, to_end
from testigo.watch.trackers import require


def run(grounds: Grounds, *, amend: str | None = None) -> Comparison | None:
    """From the file to the dossier. Returns the comparison; None when no run of the control ended well.

    Parameters
    ----------
    amend
        Why the campaign was changed after runs had begun.

    Raises
    ------
    GateFailed
        When a gate stops the campaign.
    Interrupted
        When a run was stopped from outside; the same call goes on.
    MissingExtra
        When the library of a declared tracker is not installed.
    """
    require(grounds.campaign)
    return carried_on(grounds, lambda: _run(grounds, amend))


def _run(grounds: Grounds, amend: str | None) -> Comparison | None:
    grounds.ledger.mark_dead(progress=grounds.progress_of, evidence=grounds.evidence_of)
    refuse_unstartable(grounds.campaign, grounds.corpus, grounds.base)
    state = grounds.register(amend)
    grounds.reporter.say(f"campaign {grounds.campaign.name}: {state} as {grounds.campaign.identity()[:12]}")
    look.look(grounds)
    weigh.weigh(grounds, measure.baseline(grounds))
    measure.pilot(grounds)
    side_by_side(
        [_trained_and_evaluated(grounds, p) for p in planned_runs(grounds.campaign)], at_once=train.at_once(grounds)
    )
    comparison = judge.compare_runs(grounds)
    if comparison is not None:
        deliver.export(grounds)
    deliver.dossier(grounds)
    tell.trackers(grounds)
    return comparison


def check_openable(grounds: Grounds) -> None:
    """Hold what the test would decide against what was promised.

    Raises
    ------
    WorkspaceError
        When the campaign, its rows or its base are not those that were registered, or when no run of the control ended
        well.
    DataError
        When the test rows are not those that were sealed.
    """
    if grounds.ledger.events(kind=kinds.CAMPAIGN_REGISTERED):
        grounds.register()
    if not any(p.variant == "control" and grounds.best_weights(p) for p in planned_runs(grounds.campaign)):
        raise WorkspaceError(
            expected="a run of the control that ended well, before the test is opened",
            found=without_control(grounds.ledger.runs()),
            where=str(grounds.workspace.root),
            action=grounds.way_on(),
        )
    check_seal(grounds.corpus)


def open_test(grounds: Grounds, *, reason: str, confirmed: bool) -> Comparison | None:
    """Open the sealed test: recorded first, then read. Baseline and the one choice are evaluated on it and compared.

    An opening that was interrupted before its result goes on; it is not counted twice.
    """
    check_openable(grounds)
    body = {"reason": reason, "looked": confirmed, "corpus": grounds.corpus.fingerprint}
    openings = grounds.ledger.events(kind=kinds.TEST_OPENED)
    results = [e.number for e in grounds.ledger.events(kind=kinds.COMPARED) if e.body["split"] == "test"]
    is_unfinished = bool(openings) and openings[-1].number > max(results, default=0)
    if not (is_unfinished and openings[-1].body == body):
        grounds.ledger.append(kinds.TEST_OPENED, body)
    measure.baseline(grounds, "test")
    chosen = judge.chosen_variant(grounds)
    for planned in planned_runs(grounds.campaign):
        if planned.variant == chosen:
            to_end(measure.evaluate(grounds, planned, "test"))
    comparison = judge.compare_runs(grounds, "test")
    deliver.dossier(grounds)
    return comparison


def _trained_and_evaluated(grounds: Grounds, planned: PlannedRun) -> Callable[[int], Work[None]]:
    def work(place: int) -> Work[None]:
        placement = train.placement_at(place, grounds)
        yield from train.train(grounds, planned, placement=placement)
        yield from measure.evaluate(grounds, planned, placement=placement)

    return work

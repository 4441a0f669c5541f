"""The campaign from top to bottom."""

from __future__ import annotations

from testigo.campaign import planned_runs
from testigo.campaign.registration import register
from testigo.conductor import deliver, judge, measure, train
from testigo.conductor.grounds import Grounds
from testigo.judgement import Comparison
from testigo.ledger import kinds


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
    """
    grounds.ledger.mark_dead(progress=grounds.progress_of)
    state = register(grounds.campaign, grounds.ledger, reason=amend)
    grounds.reporter.say(f"campaign {grounds.campaign.name}: {state} as {grounds.campaign.identity()[:12]}")
    measure.baseline(grounds)
    measure.pilot(grounds)
    for planned in planned_runs(grounds.campaign):
        train.train(grounds, planned)
        measure.evaluate(grounds, planned)
    comparison = judge.compare_runs(grounds)
    if comparison is not None:
        deliver.export(grounds)
    deliver.dossier(grounds)
    return comparison


def open_test(grounds: Grounds, *, reason: str, confirmed: bool) -> Comparison | None:
    """Open the sealed test: recorded first, then read. Baseline and control are evaluated on it and compared."""
    body = {"reason": reason, "looked": confirmed, "corpus": grounds.corpus.fingerprint}
    grounds.ledger.append(kinds.TEST_OPENED, body)
    measure.baseline(grounds, "test")
    for planned in planned_runs(grounds.campaign):
        if planned.variant == "control":
            measure.evaluate(grounds, planned, "test")
    comparison = judge.compare_runs(grounds, "test")
    deliver.dossier(grounds)
    return comparison

"""The adapter that the dossier hands over, and when it is withdrawn: a run that is invalid has nothing to give."""

from __future__ import annotations

from collections.abc import Sequence

from testigo.campaign import Workspace
from testigo.campaign.withdrawn import INVALID
from testigo.dossier.files import read_json
from testigo.dossier.missing import FINISHED
from testigo.ledger import Event, Run

FOLDER = "adapter"


def is_withdrawn(workspace: Workspace, runs: Sequence[Run], exported: Sequence[Event]) -> bool:
    """Whether the adapter beside the dossier is that of a run which is invalid.

    Parameters
    ----------
    exported
        The events of exports, which name run and weights.
    """
    record = read_json(workspace.dossier / FOLDER / "testigo.json")
    states = {run.id: run.state for run in runs}
    if record is None or INVALID not in states.values():
        return False
    digest = record.get("weights_sha256")
    makers = {event.run for event in exported if digest and event.body.get("weights_sha256") == digest}
    if makers:
        return all(states.get(run or "") == INVALID for run in makers)
    return not any(state in FINISHED for state in states.values())  # then it cannot be that of a valid run

"""A look at rows and tensors before any compute: what the data gate would stop is told in seconds, without a model."""

from __future__ import annotations

from testigo.conductor import measure
from testigo.conductor.grounds import Grounds
from testigo.errors import GateFailed
from testigo.ledger import kinds
from testigo.pilot.check import check


def look(grounds: Grounds) -> None:
    """The data gate alone, unless a pilot of these settings has judged it already.

    Raises
    ------
    EncodingError
        When rows are too long and the campaign does not say what to do with them.
    GateFailed
        With each finding that stops.
    """
    if (measure.pilot_folder(grounds) / "findings.json").exists():
        return
    verdict = check(grounds.campaign, grounds.corpus, grounds.base).verdict
    if not verdict.ok:
        codes = sorted(finding.code for finding in verdict.findings)
        body = {"fingerprint": measure.pilot_folder(grounds).name, "ok": False, "findings": codes, "phases": ["data"]}
        grounds.record(kinds.PILOT_FINISHED, body)
        raise GateFailed(problems=[measure.problem(finding, grounds.corpus.folder) for finding in verdict.stops])

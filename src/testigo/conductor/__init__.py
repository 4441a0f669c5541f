"""The campaign told in order. `story` is the whole of it; the steps that it tells are one file each.

Each step is done once, recorded in the ledger, and found again by the next start: running the same command again goes
on where it stopped and does nothing twice. `grounds` is what every step stands on, `opening` makes them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from testigo.signs import shown

if TYPE_CHECKING:
    from testigo.campaign import Campaign
    from testigo.judgement import Comparison
    from testigo.ledger import Run
    from testigo.training.start import Reporter


@dataclass(frozen=True)
class Result:
    """What a campaign came to. `comparison` is None when no run of the control ended well."""

    comparison: Comparison | None
    runs: tuple[Run, ...]
    dossier: Path

    @property
    def conclusion(self) -> str:
        """One plain sentence."""
        from testigo.campaign.withdrawn import without_control

        return self.comparison.told if self.comparison else without_control(self.runs)

    def _repr_html_(self) -> str:
        from html import escape

        from testigo.campaign.tables import Table

        columns = ("id", "variant", "seed", "state", "cause", "updates", "seconds")
        table = Table(columns, [[getattr(run, name) for name in columns] for run in self.runs])
        return (
            f"<p><strong>{escape(self.conclusion)}</strong></p>{table._repr_html_()}<p>{escape(str(self.dossier))}</p>"
        )


class Lines:
    """A reporter that writes what stays to standard error."""

    def say(self, text: str) -> None:
        """A line."""
        print(shown(text), file=sys.stderr, flush=True)

    def progress(self, step: str, done: int, of: int, note: str = "") -> None:
        """Nothing: a script has no bar."""

    def ended(self, step: str) -> None:
        """Nothing either."""


def run(
    campaign: Campaign,
    *,
    workspace: Path | str | None = None,
    amend: str | None = None,
    reporter: Reporter | None = None,
) -> Result:
    """Carry a campaign from its file to its dossier, as `testigo run --yes` does; call it again to go on.

    Nobody is asked whether samples look right, and the ledger says so.

    Parameters
    ----------
    campaign
        From `testigo.load`.
    workspace
        The folder to work in, `NAME.testigo` in the current folder when not given.
    amend
        Why the campaign was changed after runs had begun.
    reporter
        Who listens; lines on standard error when not given.

    Raises
    ------
    GateFailed, Interrupted, WorkspaceError
        As `testigo run` tells them; each carries its exit code.

    Examples
    --------
    >>> campaign = testigo.load("campaign.yaml")  # doctest: +SKIP
    >>> testigo.run(campaign).conclusion  # doctest: +SKIP
    """
    from testigo.campaign.against_rules import check_rules
    from testigo.conductor import samples, story
    from testigo.conductor.opening import opened
    from testigo.gates import all_rules

    check_rules(campaign, all_rules(tuple(campaign.folder / name for name in campaign.rules.files)))
    with opened(campaign, None if workspace is None else Path(workspace), reporter or Lines()) as grounds:
        if samples.standing(grounds) is None:
            samples.record(grounds, how="--yes")
        comparison = story.run(grounds, amend=amend)
        return Result(comparison, grounds.ledger.runs(), grounds.workspace.dossier / "index.html")

"""Prediction files of a workspace, found by its ledger and folders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testigo.errors import DataError, WorkspaceError

if TYPE_CHECKING:
    from testigo.campaign.workspace import Workspace
    from testigo.ledger import Run

CONTROL = "control"
NO_OUTPUTS = ("diverged", "out-of-memory", "gate-failed")
FILE = Path("predictions") / "validation.jsonl"


@dataclass(frozen=True)
class Evaluated:
    """What was evaluated on the validation rows, and what was not and why."""

    baseline: Path
    runs: tuple[tuple[Run, Path], ...]
    others: tuple[Run, ...]

    @property
    def control(self) -> tuple[tuple[Run, Path], ...]:
        """The control's seeds, in their planned order."""
        return tuple(pair for pair in self.runs if pair[0].variant == CONTROL)

    @property
    def variants(self) -> dict[str, Path]:
        """Each variant's first seed."""
        found: dict[str, Path] = {}
        for run, path in self.runs:
            if run.variant != CONTROL:
                found.setdefault(run.variant, path)
        return found

    @property
    def newest(self) -> float:
        """When the youngest of the files was written [s]."""
        return max(path.stat().st_mtime for path in (self.baseline, *(path for _, path in self.runs)))


def find_evaluated(workspace: Workspace, name: str) -> Evaluated:
    """The baseline's and the runs' prediction files. Of a run that was planned again with other settings, the last.

    Raises
    ------
    WorkspaceError
        When the baseline or the control was not evaluated yet; the action is the command that does it.
    """
    from testigo.campaign.withdrawn import way_on, without_control
    from testigo.ledger import kinds

    with workspace.open_ledger() as ledger:
        events = ledger.events(kinds.BASELINE_EVALUATED)
        frozen = [event for event in ledger.events() if event.kind in kinds.FREEZES]
        latest = {(run.variant, run.seed): run for run in ledger.runs()}
    words = [word for event in events[::-1] for word in event.body.values() if isinstance(word, str)]
    folders = [workspace.root / "baseline" / Path(word).name for word in words if word]
    folders += sorted((workspace.root / "baseline").glob("*"))
    baseline = next((folder / FILE for folder in folders if (folder / FILE).is_file()), None)
    if baseline is None:
        raise _nothing("the baseline's predictions", workspace, f"testigo baseline {name}")
    runs = [(run, workspace.run(run.id) / FILE) for run in latest.values()]
    done = tuple((run, path) for run, path in runs if path.is_file() and run.state != "invalid")
    found = Evaluated(baseline, done, tuple(run for run, path in runs if (run, path) not in done))
    if not found.control:
        known = tuple(latest.values())
        gone = any(run.variant == CONTROL and run.state in ("invalid", *NO_OUTPUTS) for run in known)
        action = way_on(known, frozen[-1].body.get("runs", ()) if frozen else (), name)
        found_instead = without_control(known) if gone else "none yet"
        raise _nothing("the control's predictions", workspace, action, found_instead)
    return found


def read_predictions(path: Path) -> list[dict[str, Any]]:
    """The lines of a predictions file.

    Raises
    ------
    DataError
        When a line is not a prediction.
    """
    lines: list[dict[str, Any]] = []
    for number, text in enumerate(path.read_text(encoding="utf-8").rstrip("\n").split("\n"), 1):
        try:
            line = json.loads(text)
            if not isinstance(line["row"], str) or not isinstance(line["scores"], dict):
                raise ValueError("not a prediction")
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(
                expected="one prediction a line, with row and scores",
                found="a line that is none",
                where=f"{path}:{number}",
                action="remove the file and run the campaign again",
            ) from error
        lines.append(line)
    return lines


def describe(runs: Sequence[Run]) -> list[dict[str, str]]:
    """Runs that are not in a comparison, each with its state and cause."""
    return [{"id": run.id, "state": run.state, "cause": run.cause} for run in runs]


def _nothing(what: str, workspace: Workspace, command: str, found: str = "none yet") -> WorkspaceError:
    return WorkspaceError(
        expected=f"{what} on the validation rows",
        found=found,
        where=str(workspace.root),
        action=command,
    )

"""A campaign's runs and comparison as a notebook wants them: read from its workspace, nothing is changed."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

from testigo.campaign.campaign import Campaign
from testigo.campaign.tables import Table
from testigo.campaign.withdrawn import superseded_by, withdrawn_by
from testigo.campaign.workspace import Workspace
from testigo.disk import read_lines
from testigo.signs import drawable

_RUN = ("id", "variant", "seed", "state", "cause", "updates", "seconds", "loss", "validation_loss")
_STEP = (
    "update", "epoch", "loss", "learning_rate", "gradient_norm", "clipped", "skipped", "supervised_tokens", "tokens",
    "examples", "seconds", "resident_bytes", "allocated_bytes", "reserved_bytes",
)  # fmt: skip
_VALIDATION = ("update", "validation_loss", "validation_tokens", "seconds")
_FINDING = ("update", "code", "name", "severity", "observed", "remedy")
_METRIC = ("metric", "n", "before", "after", "difference", "low", "high", "p_value", "fixed", "broken", "test")
_MOST_POINTS = 2000
_NUMBERS = {"loss", "validation_loss", "learning_rate", "gradient_norm"}


class RunRecord(Mapping[str, Any]):
    """One run: its ledger entry as a mapping, its curves as tables. Losses are in nats per supervised token."""

    def __init__(self, values: Mapping[str, Any], folder: Path) -> None:
        self._values, self._folder = dict(values), folder

    @property
    def steps(self) -> Table:
        """Each update."""
        return Table.of((line for line in self._lines if "loss" in line), _STEP, f"{self['id']}: updates")

    @property
    def validations(self) -> Table:
        """Each validation."""
        found = (line for line in self._lines if "validation_loss" in line)
        return Table.of(found, _VALIDATION, f"{self['id']}: validations")

    @property
    def findings(self) -> Table:
        """What the watch said."""
        return Table.of(read_lines(self._folder / "findings.jsonl"), _FINDING, f"{self['id']}: findings")

    def chart(self, quantity: str = "loss") -> Any:
        """An Altair chart of a column of `steps` over the updates; with `loss` the validation's too."""
        return curves([self], quantity)

    @cached_property
    def _lines(self) -> list[dict[str, Any]]:
        lines = read_lines(self._folder / "steps.jsonl")
        return [{key: float(v) if key in _NUMBERS and v is not None else v for key, v in one.items()} for one in lines]

    def __getitem__(self, key: str) -> Any:
        if key in ("loss", "validation_loss") and key not in self._values:
            known = self.steps.column("loss")[-1:] if key == "loss" else self.validations.column(key)
            self._values[key] = min((loss for loss in known if math.isfinite(loss)), default=None)
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(_RUN)

    def __len__(self) -> int:
        return len(_RUN)

    def __repr__(self) -> str:
        return f"run {self['id']}: {self['state']} after {self['updates']} updates"

    def _repr_html_(self) -> str:
        found = self.findings
        return Table.of([self], _RUN)._repr_html_() + (found._repr_html_() if found else "")


class Runs(Sequence[RunRecord]):
    """All runs of a campaign, in the order in which they were planned; `pandas.DataFrame(runs)` is their table."""

    def __init__(self, runs: Sequence[RunRecord]) -> None:
        self._runs = tuple(runs)

    @property
    def table(self) -> Table:
        """One line a run: its last loss, and its best validation loss."""
        return Table.of(self._runs, _RUN)

    def chart(self, quantity: str = "loss") -> Any:
        """An Altair chart of a column of all runs over each other."""
        return curves(self._runs, quantity)

    def __len__(self) -> int:
        return len(self._runs)

    @overload
    def __getitem__(self, at: int | str) -> RunRecord: ...
    @overload
    def __getitem__(self, at: slice) -> Runs: ...
    def __getitem__(self, at: int | str | slice) -> RunRecord | Runs:
        if isinstance(at, slice):
            return Runs(self._runs[at])
        if isinstance(at, str):
            return next(run for run in self._runs if run["id"] == at)
        return self._runs[at]

    def __repr__(self) -> str:
        return repr(self.table)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


def runs_of(workspace: Workspace) -> Runs:
    """The runs that the ledger of a workspace knows.

    Raises
    ------
    WorkspaceError, LedgerError
        When there is none, or it cannot be read.
    """
    with workspace.open_ledger() as ledger:
        known = ledger.runs()
    kept = ("id", "variant", "seed", "state", "cause", "updates", "seconds")
    return Runs([RunRecord({name: getattr(run, name) for name in kept}, workspace.run(run.id)) for run in known])


def runs(campaign: Campaign, workspace: Path | str | None = None) -> Runs:
    """The runs of a campaign, for notebooks; `workspace` when it is not `NAME.testigo` in the current folder."""
    return runs_of(Workspace.find(campaign.path, None if workspace is None else Path(workspace)))


class ComparisonRecord:
    """The campaign's last comparison: its conclusion, and each metric before and after on the same rows."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document

    @property
    def conclusion(self) -> str:
        """One plain sentence."""
        return str(self.document["conclusion"])

    @property
    def table(self) -> Table:
        """One line a metric; scores run from 0 to 1, `low` and `high` bound the difference."""
        return metrics_table(self.document["metrics"])

    def chart(self) -> Any:
        """An Altair forest plot of the differences."""
        return forest(self.table)

    def __repr__(self) -> str:
        return f"{self.conclusion}\n{self.table!r}"

    def _repr_html_(self) -> str:
        return f"<p><strong>{html.escape(self.conclusion)}</strong></p>{self.table._repr_html_()}"


def comparison_of(workspace: Workspace) -> ComparisonRecord | None:
    """The last comparison of a workspace; None before the first.

    None too when a run that it rests on is invalid now, and when what it was judged by was amended since.
    """
    if not workspace.comparison_path.exists():
        return None
    document = json.loads(workspace.comparison_path.read_text(encoding="utf-8"))
    with workspace.open_ledger() as ledger:
        runs, amended = ledger.runs(), superseded_by("validation", ledger.events())
    return None if amended or withdrawn_by(document, runs) else ComparisonRecord(document)


def metrics_table(metrics: Mapping[str, Mapping[str, Any]]) -> Table:
    """The metrics of a comparison."""
    return Table.of([{"metric": name, **own} for name, own in metrics.items()], _METRIC)


def curves(runs: Sequence[RunRecord], quantity: str) -> Any:
    """A line a run, of long ones every so many updates.

    Raises
    ------
    KeyError
        When steps have no such column.
    """
    import altair

    values: list[dict[str, Any]] = []
    for run in runs:
        steps, label = run.steps, f"{run['variant']}, seed {run['seed']}"
        if quantity not in steps.columns:
            raise KeyError(f"steps have no column {quantity!r}; they have {', '.join(steps.columns)}")
        every = -(-max(len(steps), 1) * len(runs) // _MOST_POINTS)
        pairs = list(zip(steps.column("update"), steps.column(quantity), strict=True))[::every]
        values += [{"update": u, quantity: v, "run": label, "kind": "training"} for u, v in pairs if _known(v)]
        if quantity == "loss":
            values += [
                {"update": one["update"], quantity: one["validation_loss"], "run": label, "kind": "validation"}
                for one in run.validations
                if _known(one["validation_loss"])
            ]
    return (
        altair.Chart({"values": drawable(values)})
        .mark_line()
        .encode(
            x=altair.X("update:Q"),
            y=altair.Y(f"{quantity}:Q", scale=altair.Scale(zero=False)),
            color=altair.Color("run:N"),
            strokeDash=altair.StrokeDash("kind:N"),
            tooltip=["run:N", "kind:N", "update:Q", f"{quantity}:Q"],
        )
    )


def forest(table: Table) -> Any:
    """The differences of a comparison with their intervals."""
    import altair

    base = altair.Chart({"values": drawable([dict(row) for row in table])}).encode(y=altair.Y("metric:N", title=None))
    interval = base.mark_rule().encode(x=altair.X("low:Q", title="difference, with its interval"), x2="high:Q")
    point = base.mark_point(filled=True).encode(
        x="difference:Q", tooltip=["metric:N", "before:Q", "after:Q", "difference:Q", "low:Q", "high:Q"]
    )
    nothing = altair.Chart({"values": [{"x": 0}]}).mark_rule(strokeDash=[3, 3]).encode(x="x:Q")
    return nothing + interval + point


def _known(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)

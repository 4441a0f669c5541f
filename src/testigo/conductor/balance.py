"""Every run of a campaign in the balance: how it ended, what it changed, and how it counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from testigo.campaign import Campaign, PlannedRun, planned_runs
from testigo.campaign.campaign import Campaign as Settings
from testigo.ledger import Run

LEFT_OUT = {
    "planned": "not begun yet",
    "running": "still running",
    "interrupted": "interrupted: it goes on with the next start",
    "invalid": "left out: declared invalid",
    "out-of-memory": "left out: memory ran out",
    "gate-failed": "left out: a gate failed",
    "diverged": "no result: it diverged",
}


@dataclass(frozen=True)
class Entry:
    """One run.

    Attributes
    ----------
    because
        Why the variant is tried; empty for the control.
    changes
        Its settings against the control's: key -> [control, own].
    consequences
        Updates, examples and supervised tokens that it saw.
    counted
        How it counts in the comparison, in words.
    """

    run: str
    variant: str
    seed: int
    state: str
    cause: str
    because: str
    changes: dict[str, list[Any]]
    consequences: dict[str, int]
    seconds: float
    counted: str

    def to_json(self) -> dict[str, Any]:
        """All fields as a JSON object."""
        return asdict(self)


def balance_of(
    campaign: Campaign,
    ids: Mapping[tuple[str, int], str],
    runs: Mapping[str, Run],
    compared: Collection[str],
    tokens: Mapping[str, int],
) -> tuple[Entry, ...]:
    """The planned runs in order, none left out.

    Parameters
    ----------
    ids
        Variant and seed -> run id.
    compared
        Ids of the runs whose outputs were compared.
    tokens
        Run id -> supervised tokens that it saw.
    """
    reasons = {variant.name: variant for variant in campaign.variants}
    entries = []
    for planned in planned_runs(campaign):
        id = ids.get((planned.variant, planned.seed), "")
        run, variant = runs.get(id), reasons.get(planned.variant)
        state = run.state if run else "planned"
        changes = {key: [_at(campaign, key), value] for key, value in variant.set.items()} if variant else {}
        entries.append(
            Entry(
                run=id,
                variant=planned.variant,
                seed=planned.seed,
                state=state,
                cause=run.cause if run else "",
                because=variant.because if variant else "",
                changes=changes,
                consequences=_consequences(planned, run, tokens.get(id)),
                seconds=run.seconds if run else 0.0,
                counted=_counted(planned, state, id in compared, campaign),
            )
        )
    return tuple(entries)


def _counted(planned: PlannedRun, state: str, is_compared: bool, campaign: Campaign) -> str:
    if is_compared:
        return "compared"
    if state == "diverged" and planned.variant == "control" and len(campaign.seeds) > 1:
        return "as if every row were wrong" + (
            ", or right: bounds" if campaign.hypothesis.divergence == "bounds" else ": a failure"
        )
    return LEFT_OUT.get(state, "no outputs yet")


def _consequences(planned: PlannedRun, run: Run | None, tokens: int | None) -> dict[str, int]:
    settings = planned.campaign
    updates = run.updates if run else 0
    per_update = settings.training.microbatch * settings.training.accumulation * settings.machine.processes
    seen = {"updates": updates, "examples": updates * per_update}
    return seen if tokens is None else {**seen, "supervised_tokens": tokens}


def _at(campaign: Settings, dotted: str) -> Any:
    value: Any = campaign.to_json()
    for step in dotted.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value

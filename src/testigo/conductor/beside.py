"""What is measured beside the registered comparison, read back: noise floor, prompted baseline, forgetting."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from testigo.conductor.balance import Entry, balance_of
from testigo.corpus.guard_rows import guard_rows
from testigo.disk import file_sha256, read_lines
from testigo.evaluation.prediction import LOSSES, guard_name, prompted_name, twice_name
from testigo.judgement.choice import Choice, choose
from testigo.judgement.forgetting import Forgetting, forgetting_of
from testigo.judgement.noise import NoiseFloor, Prompted, noise_floor_of, prompted_of
from testigo.tasks import is_answered_by_head, task_for

if TYPE_CHECKING:
    from testigo.campaign import Campaign, Workspace
    from testigo.campaign.sections import GuardTask
    from testigo.judgement import Comparison
    from testigo.ledger import Run


def wanted_of_base(campaign: Campaign) -> tuple[int, int]:
    """How many rows the base answers twice, and with how many examples it is also tried."""
    return campaign.evaluation.twice, 0 if is_answered_by_head(campaign) else campaign.evaluation.prompted_baseline


def guard_files(campaign: Campaign) -> dict[str, str]:
    """Name of each guard task -> the file of its answers, beside the predictions of base and runs.

    Raises
    ------
    DataError
        When its rows cannot be used.
    """
    return {name: guard_name(name, digest) for name, digest in guard_digests(campaign).items()}


def guard_digests(campaign: Campaign) -> dict[str, str]:
    """Name of each guard task -> the digest of its rows."""
    return {guard.name: _digest_of(campaign, guard) for guard in campaign.guards}


def _digest_of(campaign: Campaign, guard: GuardTask) -> str:
    task = task_for(campaign.on_guard(guard))
    return guard_rows(campaign, guard, lambda row: task.problems(row.fields))[1]


def digests_of(made: Sequence[Path]) -> dict[str, str]:
    """File -> SHA-256 of what an evaluation wrote beside a split's own outputs, for the ledger.

    Parameters
    ----------
    made
        The split's outputs first, then the others.
    """
    own, *more = made
    losses = [own.with_name(LOSSES)] if own.stem == "validation" else []
    return {path.name: file_sha256(path) for path in (*more, *losses) if path.is_file()}


def noise_floor(campaign: Campaign, baseline: Path, metrics: Mapping[str, str]) -> NoiseFloor | None:
    """The base against itself; None where nothing was answered twice."""
    again = baseline.with_name(twice_name(baseline.stem, campaign.evaluation.twice))
    return noise_floor_of(read_lines(baseline), read_lines(again), metrics) if again.is_file() else None


def prompted(campaign: Campaign, baseline: Path, control: Path, metrics: Mapping[str, str]) -> Prompted | None:
    """The base with examples, beside base and control; None where it was not asked for."""
    n = campaign.evaluation.prompted_baseline
    made = baseline.with_name(prompted_name(baseline.stem, n))
    if not n or not made.is_file():
        return None
    sides = [read_lines(path) for path in (baseline, made, control)]
    return prompted_of(*sides, metrics=metrics, examples=n, alpha=campaign.hypothesis.alpha)


def forgetting(campaign: Campaign, baseline: Path, runs: Mapping[str, Path]) -> Forgetting | None:
    """General text and guard tasks, for the control and each variant; None where nothing was measured.

    Parameters
    ----------
    runs
        `control` and each variant -> its folder of predictions.
    """
    losses = {}
    for name, folder in {"baseline": baseline, **runs}.items():
        path = folder / LOSSES
        losses[name] = json.loads(path.read_text(encoding="utf-8"))["general"] if path.is_file() else {}
    tasks = {}
    for guard in campaign.guards:
        file = guard_files(campaign)[guard.name]
        if (baseline / file).is_file():
            made = {name: read_lines(folder / file) for name, folder in runs.items() if (folder / file).is_file()}
            kind = task_for(campaign.on_guard(guard)).metrics[guard.metric]
            tasks[guard.name] = (guard, kind, read_lines(baseline / file), made)
    return forgetting_of(losses, tasks, campaign.hypothesis, tuple(runs))


def with_beside(
    comparison: Comparison, campaign: Campaign, baseline: Path, firsts: Mapping[str, Path], metrics: Mapping[str, str]
) -> Comparison:
    """A comparison with all that was measured beside it.

    Parameters
    ----------
    baseline
        The base's predictions; only on the validation rows was it tried again and with examples.
    firsts
        `control` and each variant -> the predictions of its first seed.
    """
    folders = {name: path.parent for name, path in firsts.items()}
    return replace(
        comparison,
        forgetting=forgetting(campaign, baseline.parent, folders),
        noise_floor=noise_floor(campaign, baseline, metrics),
        prompted_baseline=prompted(campaign, baseline, next(iter(firsts.values())), metrics),
    )


def choice_of(comparison: Comparison) -> Choice:
    """The variant that goes to the sealed test; one that forgets more than was allowed does not."""
    forgotten = comparison.forgetting.variants if comparison.forgetting else {}
    breaks = {name: any(one.guard.verdict == "broken" for one in kept) for name, kept in forgotten.items()}
    return choose(comparison, breaks)


def balance_of_runs(
    campaign: Campaign, runs: Sequence[Run], compared: Collection[str], workspace: Workspace
) -> tuple[Entry, ...]:
    """Every recorded run in the balance, by what the ledger knows of it."""
    ids = {(run.variant, run.seed): run.id for run in runs}
    tokens = {run.id: tokens_of(workspace.run(run.id)) for run in runs}
    return balance_of(campaign, ids, {run.id: run for run in runs}, compared, tokens)


def tokens_of(run: Path) -> int:
    """Supervised tokens that a run saw, by its journal."""
    return sum(int(line.get("supervised_tokens") or 0) for line in read_lines(run / "steps.jsonl"))

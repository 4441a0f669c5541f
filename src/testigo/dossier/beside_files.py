"""The files behind what stands beside the result: which there are, and the same numbers found again from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

from testigo.campaign.metrics import METRICS
from testigo.dossier.files import finite, n_lines, read_json, read_lines, sha256_of
from testigo.dossier.record import BesideFile, Comparison, Hypothesis, Plan
from testigo.evaluation.prediction import LOSSES
from testigo.judgement.choice import CONTROL
from testigo.judgement.forgetting import forgetting_of
from testigo.judgement.noise import noise_floor_of, prompted_of
from testigo.ledger import Event

Read = Callable[[str], list[dict[str, Any]]]
_GUARD = re.compile(r"guard-(.+)-[0-9a-f]{10}\.jsonl")


@dataclass(frozen=True)
class BesidePath:
    """Where such a file lies in the workspace, and in the dossier."""

    path: Path
    file: str
    of: str


def beside_kept(
    baseline: Path | None,
    runs: Iterable[tuple[str, Path]],
    of_baseline: Sequence[Event],
    of_runs: Sequence[Event],
) -> list[BesidePath]:
    """The files that the last evaluations on the validation rows recorded, the baseline's first."""
    folders = [("baseline", baseline / "predictions" if baseline else None, "predictions/baseline")]
    folders += [(run, folder / "predictions", f"predictions/runs/{run}") for run, folder in runs]
    return beside_in(folders, of_baseline, of_runs)


def beside_in(
    folders: Iterable[tuple[str, Path | None, str]], of_baseline: Sequence[Event], of_runs: Sequence[Event]
) -> list[BesidePath]:
    """Those that lie in these folders; each has whose it is, where it lies, and its name in the dossier."""
    recorded = {str(event.run): _recorded(event) for event in of_runs if event.body.get("split") == "validation"}
    for event in of_baseline:
        if event.body.get("split") == "validation":
            recorded["baseline"] = _recorded(event)  # the last evaluation holds
    return [
        BesidePath(folder / name, f"{inside}/{name}", of)
        for of, folder, inside in folders
        for name in recorded.get(of, [])
        if folder and (folder / name).is_file()
    ]


def _recorded(event: Event) -> list[str]:
    beside = event.body.get("beside")
    return [Path(str(name)).name for name in beside] if isinstance(beside, Mapping) else []


def beside_file(kept: BesidePath) -> BesideFile:
    """A file as the record holds it."""
    what, task = meaning_of(kept.file)
    rows = len(_losses(read_json(kept.path))) if what == "general" else n_lines(kept.path)
    return BesideFile(kept.file, kept.of, what, task, rows, sha256_of(kept.path))


def meaning_of(file: str) -> tuple[str, str]:
    """What a file holds, and the guard task's name where it is one."""
    name = PurePosixPath(file).name
    if guard := _GUARD.fullmatch(name):
        return "guard", guard[1]
    return ("general" if name == LOSSES else "prompted" if ".prompted-" in name else "twice"), ""


def content_of(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a file: its lines, or the one that it is."""
    if path.suffix == ".jsonl":
        return read_lines(path)
    document = read_json(path)
    return [] if document is None else [document]


def beside_again(
    comparison: Comparison, files: Sequence[BesideFile], read: Read, plan: Plan, hypothesis: Hypothesis
) -> dict[str, Any]:
    """What stands beside the result, found again from the files; only what they are enough for.

    Raises
    ------
    TestigoError
        When the rows are not those of one comparison.
    """
    found: dict[str, Any] = {}
    by = {(one.of, one.what, one.task): one.file for one in files}
    statistics = comparison.statistics
    twice, tried = by.get(("baseline", "twice", "")), by.get(("baseline", "prompted", ""))
    if statistics.get("noise_floor") and twice:
        floor = noise_floor_of(read(comparison.baseline_file), read(twice), plan.metrics)
        found["noise_floor"] = floor.to_json() if floor else None
    if (claimed := statistics.get("prompted_baseline")) and tried:
        sides = [read(file) for file in (comparison.baseline_file, tried, comparison.tuned_file)]
        examples = int(claimed["examples"])
        prompted = prompted_of(*sides, metrics=plan.metrics, examples=examples, alpha=hypothesis.alpha)
        found["prompted_baseline"] = prompted.to_json()
    if statistics.get("forgetting") and any(one.what in ("general", "guard") for one in files):
        found["forgetting"] = _forgetting(comparison, by, read, plan, hypothesis)
    plain: dict[str, Any] = finite(found)
    return plain


def _forgetting(
    comparison: Comparison, by: Mapping[tuple[str, str, str], str], read: Read, plan: Plan, hypothesis: Hypothesis
) -> dict[str, Any] | None:
    chosen = comparison.statistics.get("choice") if comparison.split == "test" else None
    first = str(chosen.get("variant", CONTROL)) if isinstance(chosen, Mapping) else CONTROL
    runs = {first: comparison.run}
    runs |= {name: PurePosixPath(file).parent.name for name, file in comparison.variant_files.items()}

    def of(run: str, what: str, task: str = "") -> list[dict[str, Any]]:
        file = by.get((run, what, task))
        return read(file) if file else []

    sides = {"baseline": "baseline", **runs}
    losses = {name: _losses(next(iter(of(run, "general")), None)) for name, run in sides.items()}
    tasks = {}
    for guard in plan.settings.get("guards") or ():
        name, metric = str(guard["name"]), str(guard["metric"])
        base, made = of("baseline", "guard", name), {who: of(run, "guard", name) for who, run in runs.items()}
        if base:
            registered = SimpleNamespace(metric=metric, within=float(guard["within"]))
            kind = METRICS[guard["task"]["kind"]][metric]
            tasks[name] = (registered, kind, base, {who: lines for who, lines in made.items() if lines})
    keep = tuple(SimpleNamespace(metric=guard.metric, within=guard.within) for guard in hypothesis.guards)
    improve = SimpleNamespace(metric=hypothesis.metric, by=hypothesis.by)
    asked = SimpleNamespace(improve=improve, keep=keep, alpha=hypothesis.alpha)
    again = forgetting_of(losses, tasks, asked, tuple(runs))
    return again.to_json() if again else None


def _losses(document: Mapping[str, Any] | None) -> dict[str, float]:
    general = document.get("general") if document else None
    return {str(name): float(loss) for name, loss in general.items()} if isinstance(general, Mapping) else {}

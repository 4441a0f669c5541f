"""The comparison section: the statistics as they were written, and the same found again from the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from testigo.campaign.withdrawn import superseded_by, withdrawn_by
from testigo.dossier.beside_files import BesidePath, Read, beside_again, beside_file, content_of
from testigo.dossier.files import finite, read_json, read_lines, real, whole
from testigo.dossier.record import BesideFile, Comparison, Example, Hypothesis, Plan, Run
from testigo.errors import TestigoError
from testigo.judgement import compare, detectable_effect
from testigo.ledger import Event, kinds

_POWER = 0.8
_SPLITS = ("validation", "test")
_SHORT = 700
_EXAMPLES_A_KIND = 6
_TOLERANCE = 1e-9
_DIFFERENCES_KEPT = 20


@dataclass(frozen=True)
class Rows:
    """Where row-by-row predictions lie in the workspace and in the dossier."""

    of: str
    split: str
    path: Path
    file: str


def rows_kept(baseline: Path | None, runs: Iterable[tuple[str, Path]]) -> list[Rows]:
    """Every predictions file that there is: the baseline's first, then each run's."""
    folders = [("baseline", baseline / "predictions", "predictions/baseline")] if baseline else []
    folders += [(name, folder / "predictions", f"predictions/runs/{name}") for name, folder in runs]
    return rows_in(folders)


def rows_in(folders: Iterable[tuple[str, Path, str]]) -> list[Rows]:
    """The predictions files of folders; each has whose it is, where it lies, and its name in the dossier."""
    kept = []
    for of, folder, inside in folders:
        for path in [folder / f"{split}.jsonl" for split in _SPLITS]:
            if path.is_file():
                kept.append(Rows(of, path.stem, path, f"{inside}/{path.name}"))
    return kept


def statistics_again(
    baseline: Sequence[dict[str, Any]],
    tuned: Sequence[dict[str, Any]],
    *,
    metrics: Mapping[str, str],
    hypothesis: Hypothesis,
    seed: int,
    variants: Mapping[str, Sequence[dict[str, Any]]] | None = None,
    seeds: Mapping[int, Sequence[dict[str, Any]]] | None = None,
    unclean: Sequence[str] | None = None,
    lost: tuple[Sequence[int], str] = ((), "failure"),
) -> dict[str, Any]:
    """The statistics of prediction lines, as JSON values."""
    registered = SimpleNamespace(
        improve=SimpleNamespace(metric=hypothesis.metric, by=hypothesis.by),
        keep=tuple(SimpleNamespace(metric=guard.metric, within=guard.within) for guard in hypothesis.guards),
        alpha=hypothesis.alpha,
    )
    result = compare(
        list(baseline),
        list(tuned),
        metrics=dict(metrics),
        hypothesis=registered,
        seed=seed,
        variants=variants,
        seeds=seeds,
        unclean=unclean,
        lost=lost[0],
        lost_as=lost[1],
    )
    return dict(finite(result.to_json()))


def differences(claimed: object, found: object, where: str = "", absent: list[str] | None = None) -> list[str]:
    """What differs between the claimed and the recomputed statistics, as `place: claimed, found`.

    At the top level only what was recomputed is asked for: whoever wrote the statistics may have put more beside them.

    Parameters
    ----------
    absent
        Takes the places that are not claimed at all, where an earlier version may have computed less; without it
        these differ.
    """
    if isinstance(claimed, Mapping) and isinstance(found, Mapping):
        lines = []
        for key in dict.fromkeys([*found, *(claimed if where else ())]):
            place = f"{where}.{key}" if where else str(key)
            if absent is not None and key not in claimed:
                absent.append(place)
            else:
                lines += differences(claimed.get(key), found.get(key), place, absent)
        return lines
    if isinstance(claimed, list | tuple) and isinstance(found, list | tuple) and len(claimed) == len(found):
        pairs = enumerate(zip(claimed, found, strict=True))
        return [line for i, (a, b) in pairs for line in differences(a, b, f"{where}[{i}]", absent)]
    if isinstance(claimed, list | tuple) and isinstance(found, list | tuple):
        return [f"{where}: claimed {len(claimed)} entries, found {len(found)}"]
    return [] if _same(claimed, found) else [f"{where}: claimed {_brief(claimed)}, found {_brief(found)}"]


def _same(claimed: object, found: object) -> bool:
    a, b = real(claimed), real(found)
    if a is None or b is None or (isinstance(claimed, int) and isinstance(found, int)):
        return claimed == found
    return abs(a - b) <= _TOLERANCE * max(1.0, abs(a), abs(b))


def recomputed(
    comparison: Comparison, read: Read, plan: Plan, hypothesis: Hypothesis, beside: Sequence[BesideFile] = ()
) -> list[str]:
    """Compute the statistics again from the rows and say what differs; as `statistics_of`."""
    return differences(comparison.statistics, statistics_of(comparison, read, plan, hypothesis, beside))


def statistics_of(
    comparison: Comparison, read: Read, plan: Plan, hypothesis: Hypothesis, beside: Sequence[BesideFile] = ()
) -> dict[str, Any]:
    """The statistics computed again from the rows; `read` gives the content of a dossier's file.

    What stands beside them is found again too, as far as `beside` names its files.

    Raises
    ------
    TestigoError
        When the rows are not those of one comparison.
    """
    again = statistics_again(
        read(comparison.baseline_file),
        read(comparison.tuned_file),
        metrics=plan.metrics,
        hypothesis=hypothesis,
        seed=comparison.bootstrap_seed,
        variants={name: read(file) for name, file in comparison.variant_files.items()},
        seeds={int(seed): read(file) for seed, file in comparison.seed_files.items()},
        unclean=unclean_in(comparison.statistics),
        lost=lost_in(comparison.statistics),
    )
    return again | beside_again(comparison, beside, read, plan, hypothesis)


def unclean_in(statistics: Mapping[str, Any]) -> list[str] | None:
    """The rows that the clean subset leaves out; None where the statistics have none."""
    clean = statistics.get("clean")
    return [str(row) for row in clean.get("left_out") or ()] if isinstance(clean, Mapping) else None


def lost_in(statistics: Mapping[str, Any]) -> tuple[list[int], str]:
    """The seeds of the control that diverged, and what was declared that they count."""
    seeds = statistics.get("seeds")
    if not isinstance(seeds, Mapping):
        return [], "failure"
    return [int(seed) for seed in seeds.get("lost") or ()], str(seeds.get("lost_as") or "failure")


def comparison_from(
    workspace: Path,
    split: str,
    *,
    rows: Sequence[Rows],
    beside: Sequence[BesidePath],
    runs: Sequence[Run],
    events: Sequence[Event],
    plan: Plan,
    hypothesis: Hypothesis,
) -> Comparison | None:
    """The workspace's comparison on a split; None when none was written, or one that does not hold any more.

    A run that it rests on may be invalid now, or what it was judged by may have been amended.
    """
    name = "comparison.json" if split == "validation" else f"comparison-{split}.json"
    statistics = read_json(workspace / name)
    if statistics is None or superseded_by(split, events):
        return None
    compared = [event for event in events if event.kind == kinds.COMPARED]
    bodies = [event.body for event in compared if event.body.get("split", "validation") == split]
    if withdrawn_by(statistics, runs, bodies[-1].get("run") if bodies else None):
        return None
    comparison = comparison_of(
        finite(statistics), split, rows=rows, runs=runs, compared=compared, plan=plan, hypothesis=hypothesis
    )
    by_file = {item.file: item.path for item in rows} | {item.file: item.path for item in beside}
    files = [beside_file(item) for item in beside]
    return found_again(comparison, lambda file: content_of(by_file[file]), plan, hypothesis, files)


def comparison_of(
    statistics: dict[str, Any],
    split: str,
    *,
    rows: Sequence[Rows],
    runs: Sequence[Run],
    compared: Sequence[Event],
    plan: Plan,
    hypothesis: Hypothesis,
) -> Comparison:
    """The statistics with the run that the ledger says was compared and the files behind them; not yet found again."""
    bodies = [event.body for event in compared if event.body.get("split", "validation") == split]
    body = bodies[-1] if bodies else {}
    before = _one(rows, "baseline", split)
    run = _tuned_run(statistics, body, rows, runs, split)
    after = _one(rows, run, split)
    variant_files, seed_files = _other_files(statistics, rows, runs, split)
    return Comparison(
        split=split,
        run=run,
        baseline_file=before.file if before else "",
        tuned_file=after.file if after else "",
        variant_files=variant_files,
        seed_files=seed_files,
        bootstrap_seed=whole(statistics.get("bootstrap_seed")) or 0,
        statistics=statistics,
        recomputed=None,
        differences=(),
        detectable_effect=_detectable(read_lines(before.path), plan.metrics, hypothesis) if before else None,
    )


def found_again(
    comparison: Comparison, read: Read, plan: Plan, hypothesis: Hypothesis, beside: Sequence[BesideFile]
) -> Comparison:
    """The comparison with what differs when its statistics are computed again; as it is where rows are missing."""
    if not comparison.baseline_file or not comparison.tuned_file:
        return comparison
    try:
        faults = recomputed(comparison, read, plan, hypothesis, beside)
    except TestigoError as error:
        faults = [" ".join(str(error).split())]
    return replace(comparison, recomputed=not faults, differences=tuple(faults[:_DIFFERENCES_KEPT]))


def examples_from(
    comparison: Comparison, before: Path, after: Path, texts: Mapping[str, tuple[str, str]]
) -> tuple[Example, ...]:
    """Fixed and broken rows, as many categories as possible; `texts` gives prompt and target of a row id."""
    outputs = [{str(line.get("row")): line for line in read_lines(path)} for path in (before, after)]
    listed = comparison.statistics.get("rows")
    listed = listed if isinstance(listed, Mapping) else {}
    examples: list[Example] = []
    for kind in ("broken", "fixed"):
        lines = [outputs[0][row] for row in map(str, listed.get(kind) or ()) if row in outputs[0] and row in outputs[1]]
        for line in _spread(lines):
            row = str(line["row"])
            prompt, target = texts.get(row, ("", ""))
            examples.append(
                Example(
                    row=row,
                    category=str(line.get("category") or ""),
                    kind=kind,
                    prompt=shortened(prompt),
                    target=shortened(target),
                    before=shortened(str(line.get("output", ""))),
                    after=shortened(str(outputs[1][row].get("output", ""))),
                )
            )
    return tuple(examples)


def shortened(text: str, limit: int = _SHORT) -> str:
    """A text with its middle left out, and how much was."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]} […{len(text) - limit:,} characters left out…] {text[-tail:]}"


def _spread(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first rows, taking the categories in turn."""
    queues: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        queues.setdefault(str(line.get("category") or ""), []).append(line)
    chosen: list[dict[str, Any]] = []
    while len(chosen) < _EXAMPLES_A_KIND and any(queues.values()):
        for queue in queues.values():
            if queue and len(chosen) < _EXAMPLES_A_KIND:
                chosen.append(queue.pop(0))
    return chosen


def _one(rows: Sequence[Rows], of: str, split: str) -> Rows | None:
    return next((item for item in rows if item.of == of and item.split == split), None)


def _tuned_run(
    statistics: Mapping[str, Any], body: Mapping[str, Any], rows: Sequence[Rows], runs: Sequence[Run], split: str
) -> str:
    """The run that was compared: named by the comparison, else the first finished run of the control."""
    named = body.get("run") or statistics.get("run")
    if named:
        return str(named)
    with_rows = {item.of for item in rows if item.split == split}
    finished = [
        run
        for run in runs
        if run.variant == "control" and run.id in with_rows and run.state in ("completed", "stopped-early")
    ]
    return min(finished, key=lambda run: run.seed).id if finished else ""


def _other_files(
    statistics: Mapping[str, Any], rows: Sequence[Rows], runs: Sequence[Run], split: str
) -> tuple[dict[str, str], dict[str, str]]:
    """The files behind the variants and the seeds of the statistics, as far as they are kept."""
    files = {item.of: item.file for item in rows if item.split == split}
    variants: dict[str, str] = {}
    for name in statistics.get("variants") or {}:
        of_variant = sorted((one for one in runs if one.variant == name and one.id in files), key=lambda one: one.seed)
        if of_variant:
            variants[str(name)] = files[of_variant[0].id]
    spread = statistics.get("seeds")
    wanted = spread.get("differences") if isinstance(spread, Mapping) else None
    tuned = next((one.variant for one in runs if one.id == statistics.get("run")), "control")
    control = {str(one.seed): files[one.id] for one in runs if one.variant == tuned and one.id in files}
    return variants, {str(number): control[str(number)] for number in wanted or {} if str(number) in control}


def _detectable(lines: Sequence[Mapping[str, Any]], metrics: Mapping[str, str], hypothesis: Hypothesis) -> float | None:
    """The smallest effect that these rows can show at 80 % power, from the baseline's own outputs."""
    kind = metrics.get(hypothesis.metric)
    scored = [line for line in lines if kind == "corpus" or hypothesis.metric in (line.get("scores") or {})]
    if len(scored) < 2 or kind is None:
        return None
    try:
        return real(detectable_effect(scored, hypothesis.metric, kind, hypothesis.alpha, _POWER))
    except KeyError:
        return None  # lines of a version that did not keep targets


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"

"""`testigo compare`."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testigo.cli.beside import print_beside
from testigo.cli.forest import branches_of, forest
from testigo.cli.open_test import read_price, told_price
from testigo.cli.opening import find_workspace
from testigo.cli.output import (
    CampaignPath,
    JsonFlag,
    WorkspaceFlag,
    ending,
    named,
    print_json,
    short,
    show,
    show_as_it_is,
    show_table,
)
from testigo.cli.predictions import CONTROL, Evaluated, describe, find_evaluated, read_predictions
from testigo.errors import WorkspaceError
from testigo.signs import in_one_line

if TYPE_CHECKING:
    from testigo.campaign.workspace import Workspace

_WIDTH = 79
_SHOWN_ROWS = 8


def compare(
    campaign: CampaignPath,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write it as one offline page.")
    ] = None,
    workspace: WorkspaceFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Say whether the result is better than the baseline on the same rows: conclusion, metrics, categories, rows.

    Example: testigo compare campaign.yaml --html comparison.html
    """

    found = find_workspace(campaign, workspace)
    file = campaign if campaign.is_file() else found.campaign_path
    if file is not None and file.is_file():
        _check_registered(found, file)
    evaluated = find_evaluated(found, short(file or campaign))
    document = _kept(found, evaluated) or _computed(found, file, evaluated)
    document["not_compared"] = describe(evaluated.others)
    document["test_openings"] = _price(found)
    if html is not None:
        from testigo.cli.compare_page import page_of
        from testigo.disk import write_atomically

        write_atomically(html, page_of(document, found.campaign_name or found.root.name))
    if as_json:
        print_json(document)
    else:
        _print(document)
    split, n_runs = document.get("split") or "validation", len(evaluated.runs)
    ending(
        checked=f"the {split} rows of the baseline and of {n_runs} run{'s' if n_runs > 1 else ''}"
        + (f"; the page is {short(html)}" if html else ""),
        not_checked="" if split == "test" else "the sealed test rows",
        next_command=f"testigo open-test {named(campaign, workspace)} --because '…'",
    )


def _price(workspace: Workspace) -> dict[str, Any] | None:
    """What the last opening of the test is worth; nothing where a run that it rests on is invalid."""
    from testigo.campaign.withdrawn import withdrawn_by
    from testigo.dossier.files import read_json

    with workspace.open_ledger() as ledger:
        runs = ledger.runs()
    opened = read_json(workspace.root / "comparison-test.json") or {}
    return None if withdrawn_by(opened, runs) else read_price(workspace.root)


def _check_registered(workspace: Workspace, file: Path) -> None:
    """Results are held against what was promised, never against a file that was edited once they were known."""
    from testigo.campaign import load
    from testigo.campaign.registration import require_registered

    loaded = load(file)
    with workspace.open_ledger() as ledger:
        require_registered(loaded, ledger)


def _kept(workspace: Workspace, evaluated: Evaluated) -> dict[str, Any] | None:
    """The comparison on the disk, unless a prediction file or an amendment is younger, or a run has another state."""
    path = workspace.comparison_path
    if not path.is_file() or path.stat().st_mtime < evaluated.newest or _is_amended_since(workspace):
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    if not isinstance(document, dict) or "improvement" not in document:
        return None
    states = {run.id: run.state for run in (*(run for run, _ in evaluated.runs), *evaluated.others)}
    balance = document.get("balance") or ()
    same = all(one["state"] == states.get(one["run"], one["state"]) for one in balance)
    return document if same else None


def _is_amended_since(workspace: Workspace) -> bool:
    """Whether the campaign was amended after it was last compared on the validation rows."""
    from testigo.ledger import kinds

    with workspace.open_ledger() as ledger:
        compared = [e.number for e in ledger.events(kinds.COMPARED) if e.body.get("split") != "test"]
        amended = [e.number for e in ledger.events(kinds.CAMPAIGN_AMENDED)]
    return bool(compared and amended) and amended[-1] > compared[-1]


def _computed(workspace: Workspace, file: Path | None, evaluated: Evaluated) -> dict[str, Any]:
    from testigo.campaign import load
    from testigo.judgement import compare as judge
    from testigo.tasks import task_for

    if file is None or not file.is_file():
        raise WorkspaceError(
            expected="the campaign file, whose hypothesis the results are held against",
            found="no file" if file is None else "it is not there any more",
            where=str(file or workspace.root),
            action="give the campaign file in place of the workspace, with --workspace for the folder",
        )
    from testigo.conductor import beside

    loaded = load(file)
    control, metrics = evaluated.control, task_for(loaded).metrics
    lost = [run.seed for run in evaluated.others if run.variant == CONTROL and run.state == "diverged"]
    comparison = judge(
        read_predictions(evaluated.baseline),
        read_predictions(control[0][1]),
        metrics=metrics,
        hypothesis=loaded.hypothesis,
        variants={name: read_predictions(path) for name, path in evaluated.variants.items()},
        seeds={run.seed: read_predictions(path) for run, path in control},
        unclean=_unclean(workspace),
        lost=lost,
        lost_as=loaded.hypothesis.divergence,
    )
    firsts = {CONTROL: control[0][1], **evaluated.variants}
    comparison = beside.with_beside(comparison, loaded, evaluated.baseline, firsts, metrics)
    every = [*(run for run, _ in evaluated.runs), *evaluated.others]
    balance = beside.balance_of_runs(loaded, every, {run.id for run, _ in evaluated.runs}, workspace)
    return {
        **comparison.to_json(),
        "choice": beside.choice_of(comparison).to_json(),
        "balance": [one.to_json() for one in balance],
    }


def _unclean(workspace: Workspace) -> tuple[str, ...] | None:
    """Validation rows with copies among the training rows, from the corpus that is there; None where none looked."""
    from testigo.corpus import unclean_rows
    from testigo.dossier.files import read_json
    from testigo.dossier.gather import current_folder
    from testigo.ledger import kinds

    with workspace.open_ledger() as ledger:
        folder = current_folder(workspace.root / "corpus", ledger.events(kinds.CORPUS_BUILT))
    manifest = read_json(folder / "manifest.json") if folder else None
    return unclean_rows(manifest or {}, "validation")


def _print(document: Mapping[str, Any]) -> None:
    show(textwrap.fill(document["conclusion"], _WIDTH), style="bold")
    show()
    improvement = document["improvement"]
    show_table(
        ("metric", "before", "after", "difference", _interval_title(document), "verdict"), _metric_rows(document)
    )
    show(f"{improvement['test']}, p = {improvement['p_value']:.2g}; interval: {improvement['interval']}", style="dim")
    _print_rows(document)
    show()
    for line in forest(branches_of(document), improvement["by"]):
        show_as_it_is(line)
    if document.get("categories"):
        show()
        columns = ("category", "rows", "before", "after", "difference", _interval_title(document), "verdict")
        show(f"{improvement['metric']} by category")
        show_table(columns, _category_rows(document))
    _print_classes(document)
    _print_clean(document)
    _print_variants(document)
    print_beside(document)
    if document.get("seeds"):
        seeds = document["seeds"]
        each = ", ".join(f"{seed}: {value:+.3f}" for seed, value in seeds["differences"].items())
        show(f"\nseeds  {each}; mean {seeds['mean']:+.3f}")
        show(textwrap.fill(seeds["note"], _WIDTH), style="dim")
    if document["test_openings"]:
        show(textwrap.fill(told_price(document["test_openings"]), _WIDTH))
    for run in document["not_compared"]:
        cause = f": {run['cause']}" if run["cause"] else ""
        show(textwrap.fill(f"not compared: {run['id']} ({run['state']}{cause})", _WIDTH))


def _metric_rows(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The registered metrics first, with their verdicts, then the others."""
    improvement, guards = document["improvement"], document["guards"]
    verdicts = {improvement["metric"]: f"{improvement['verdict']} (by {improvement['by']:g})"}
    for guard in guards:
        verdicts.setdefault(guard["metric"], f"{guard['verdict']} (within {guard['within']:g})")
    metrics = document.get("metrics", {})
    order = [name for name in verdicts if name in metrics] + [name for name in metrics if name not in verdicts]
    return [(name, *_numbers(metrics[name]), verdicts.get(name, "")) for name in order]


def _category_rows(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    metric = document["improvement"]["metric"]
    return [
        (name, str(category["n"]), *_numbers(category["metrics"][metric]), category["metrics"][metric]["verdict"])
        for name, category in document["categories"].items()
    ]


def _numbers(paired: Mapping[str, Any]) -> tuple[str, str, str, str]:
    interval = f"{paired['low']:+.3f} to {paired['high']:+.3f}"
    return f"{paired['before']:.3f}", f"{paired['after']:.3f}", f"{paired['difference']:+.3f}", interval


def _interval_title(document: Mapping[str, Any]) -> str:
    alphas = [paired["alpha"] for paired in document.get("metrics", {}).values()]
    return f"{100 * (1 - alphas[0]):g} % interval" if alphas else "interval"


def _print_rows(document: Mapping[str, Any]) -> None:
    rows = document["rows"]
    words = {"fixed": "fixed", "broken": "broken", "both_right": "right both times", "both_wrong": "wrong both times"}
    show(
        ", ".join(f"{len(rows[key])} {word}" for key, word in words.items()) + f" ({document['improvement']['metric']})"
    )
    if rows["broken"]:
        more = ", …" if len(rows["broken"]) > _SHOWN_ROWS else ""
        show(textwrap.fill(f"broken: {', '.join(map(in_one_line, rows['broken'][:_SHOWN_ROWS]))}{more}", _WIDTH))


def _print_classes(document: Mapping[str, Any]) -> None:
    """Each class with its rows, precision, recall and F1; what is taken for what; how far to believe probabilities."""
    classes = document.get("classes")
    if not classes:
        return
    before, after, majority = classes["baseline"], classes["control"], classes["majority"]
    rows = [
        (name, str(classes["rows"][name]), _share(one["precision"]), _share(one["recall"]),
         _share(before["per_class"][name]["f1"]), _share(one["f1"]))
        for name, one in after["per_class"].items()
    ]  # fmt: skip
    rows += [
        (name, "", _share(after[kind]["precision"]), _share(after[kind]["recall"]), _share(before[kind]["f1"]),
         _share(after[kind]["f1"]))
        for kind, name in (("macro", "mean of classes (macro)"), ("micro", "all rows (micro)"))
    ]  # fmt: skip
    show()
    show_table(("class", "rows", "precision", "recall", "F1 before", "F1 after"), rows)
    told = [
        f"always answering {majority['class']} would be right on {majority['share']:.3f} of the rows; "
        f"the largest class has {classes['imbalance']:.3g} times the rows of the smallest"
    ]
    if worst := _confusions(classes):
        told.append(f"most confused: {worst}")
    if any(after["no_class"]):
        told.append(f"outputs that name no class: {sum(before['no_class'])} before, {sum(after['no_class'])} after")
    if after["ece"] is not None:
        told.append(f"calibration error (ECE): {_share(before['ece'])} before, {after['ece']:.3f} after")
    for line in told:
        show(textwrap.fill(line, _WIDTH))


def _confusions(classes: Mapping[str, Any], most: int = 3) -> str:
    names, counts = classes["names"], classes["control"]["confusion"]
    found = [
        (n, names[down], names[across])
        for down, line in enumerate(counts)
        for across, n in enumerate(line)
        if n and down != across
    ]
    return ", ".join(f"{true} as {given} ({n})" for n, true, given in sorted(found, key=lambda one: -one[0])[:most])


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _print_clean(document: Mapping[str, Any]) -> None:
    """The registered metric without the rows that training has seen in some form."""
    clean, metric = document.get("clean"), document["improvement"]["metric"]
    if not clean:
        return
    left_out = len(clean["left_out"])
    if not left_out:
        words = "no evaluated row has a copy, near copy or overlap among the training rows"
    elif not clean["n"]:
        words = "every evaluated row has a copy, near copy or overlap among the training rows"
    else:
        before, after, difference, interval = _numbers(clean["metrics"][metric])
        words = (
            f"without the {left_out} rows that have copies in training: {metric} {before} to {after}, {difference} "
            f"({interval}): {clean['verdict']}"
        )
    show(textwrap.fill(words, _WIDTH))


def _print_variants(document: Mapping[str, Any]) -> None:
    variants = document.get("variants") or {}
    if not variants:
        return
    metric = document["improvement"]["metric"]
    rows = []
    for name, variant in variants.items():
        beside, own = variant["against_control"], variant["improvement"]
        better = "better" if variant["better_than_control"] else "not shown better"
        rows.append((name, f"{variant[metric]:.3f}", own["verdict"], f"{beside['difference']:+.3f}", better))
    show()
    show_table(("variant", metric, "over the baseline", "to the control", "than the control"), rows)

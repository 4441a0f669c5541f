"""`testigo show --generations`: what each run wrote to its fixed prompts, from the base to the last validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testigo.cli.opening import find_workspace
from testigo.cli.output import ending, named, print_json, show, show_part, show_table
from testigo.counting import counted
from testigo.disk import read_lines
from testigo.errors import WorkspaceError
from testigo.signs import in_one_line

if TYPE_CHECKING:
    from testigo.campaign.workspace import Workspace

FILE = "samples.jsonl"
_WIDTH = 150


def show_generations(campaign: Path, workspace: Path | None, *, n: int | None, as_json: bool) -> None:
    """Each run's prompts with their outputs over the validations, and what changed from one to the next.

    Raises
    ------
    WorkspaceError
        When no run has kept any.
    """

    found = find_workspace(campaign, workspace)
    kept = kept_samples(found)
    if not kept:
        raise WorkspaceError(
            expected="outputs to fixed prompts, which a run keeps at each validation",
            found="none",
            where=str(found.root / "runs"),
            action="set `evaluation.samples` above 0 and run the campaign",
        )
    if as_json:
        print_json({"runs": {run: compared(lines) for run, lines in kept.items()}})
    else:
        for run, lines in kept.items():
            _print(run, compared(lines), n)
    ending(
        checked=f"{counted(sum(map(len, kept.values())), 'output')} of {counted(len(kept), 'run')}",
        not_checked="all other prompts; the comparison on all rows decides",
        next_command=f"testigo compare {named(campaign, workspace)}",
    )


def kept_samples(workspace: Workspace) -> dict[str, list[dict[str, Any]]]:
    """Run -> the lines of its fixed prompts; runs without any are left out."""
    folders = sorted((workspace.root / "runs").glob("*"))
    return {folder.name: lines for folder in folders if (lines := read_lines(folder / FILE))}


def compared(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The validations in their order: how many outputs changed, and the mean of each metric; then prompt by prompt."""
    updates = sorted({line["update"] for line in lines})
    by_update = {update: {line["row"]: line for line in lines if line["update"] == update} for update in updates}
    validations = []
    for at, update in enumerate(updates):
        now, before = by_update[update], by_update[updates[at - 1]] if at else {}
        changed = sum(row in before and before[row]["output"] != line["output"] for row, line in now.items())
        names = list(dict.fromkeys(name for line in now.values() for name in line["scores"]))
        means = {name: sum(line["scores"].get(name, 0.0) for line in now.values()) / len(now) for name in names}
        cut = sum(line["stop"] == "length" for line in now.values())
        validations.append({"update": update, "prompts": len(now), "changed": changed, "cut": cut, "means": means})
    rows = {
        row: {
            "target": line.get("target"),
            "outputs": [{"update": u, "output": by_update[u][row]["output"]} for u in updates if row in by_update[u]],
        }
        for row, line in by_update[updates[-1]].items()
    }
    return {"validations": validations, "rows": rows}


def _print(run: str, document: Mapping[str, Any], n: int | None) -> None:
    show(f"{run}: fixed prompts at update 0 (the base) and at each validation", style="bold")
    validations = document["validations"]
    metrics = list(validations[-1]["means"])
    rows = [
        (str(v["update"]), str(v["prompts"]), str(v["changed"]), str(v["cut"]),
         *(f"{v['means'].get(name, 0.0):.2f}" for name in metrics))
        for v in validations
    ]  # fmt: skip
    show_table(("update", "prompts", "changed", "cut", *metrics), rows)
    for row, one in list(document["rows"].items())[:n]:
        show()
        show(in_one_line(row), style="bold")
        if one["target"]:
            show_part("  target    ", _short(one["target"]), style="green")
        before = None
        for output in one["outputs"]:
            if output["output"] != before:
                show_part(f"  {output['update']:>6}    ", _short(output["output"]))
            before = output["output"]
    show()


def _short(text: str) -> str:
    line = text.replace("\n", "⏎")
    return line if len(line) <= _WIDTH else f"{line[:_WIDTH]}… ({len(text)} characters)"

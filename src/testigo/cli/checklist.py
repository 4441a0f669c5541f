"""`testigo checklist`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from testigo.cli.generations import compared, kept_samples
from testigo.cli.opening import find_workspace, load_campaign
from testigo.cli.output import CampaignPath, JsonFlag, WorkspaceFlag, ending, named, print_json, short, show, show_part
from testigo.disk import read_lines
from testigo.errors import TestigoError

if TYPE_CHECKING:
    from testigo.campaign.workspace import Workspace
    from testigo.ledger import Event, Run


@dataclass(frozen=True)
class Item:
    """One item of the checklist."""

    name: str
    done: bool
    there: str
    """What the record holds."""
    look: str
    """What a person should look at."""
    command: str
    """The command that shows it, or makes it."""


def checklist(campaign: CampaignPath, workspace: WorkspaceFlag = None, as_json: JsonFlag = False) -> None:
    """Walk through the debugging checklist: raw rows, format, tokens, mechanics, curves, generations, comparison.

    Each item says what the record holds, what to look at yourself, and the command for it. Nothing is changed.

    Example: testigo checklist campaign.yaml
    """
    items = list(_items(campaign, workspace))
    following = next((item for item in items if not item.done), None)
    if as_json:
        print_json({"ok": following is None, "items": [asdict(item) for item in items]})
    else:
        for number, item in enumerate(items, 1):
            mark = "[x]" if item.done else "[ ]"
            show(f"{mark} {number}. {item.name}: {item.there}", style=None if item.done else "bold")
            show_part("       look: ", item.look)
            show_part("       ", item.command, style="dim")
    ending(
        checked=f"{sum(item.done for item in items)} of {len(items)} items are done",
        not_checked="what only a person can see: the ledger cannot know how well somebody looked",
        next_command=following.command
        if following
        else f"testigo open-test {named(campaign, workspace)} --because '…'",
    )


def _items(campaign: Path, workspace: Path | None) -> Iterator[Item]:
    from testigo.errors import WorkspaceError

    name = named(campaign, workspace)
    found: Workspace | None = None
    events: tuple[Event, ...] = ()
    runs: tuple[Run, ...] = ()
    try:
        found = find_workspace(campaign, workspace)
    except WorkspaceError:
        if campaign.is_dir() or workspace is not None:
            raise
    else:
        with found.open_ledger() as ledger:
            events, runs = tuple(ledger.events()), tuple(ledger.runs())
    yield from _data_items(name, campaign, events)
    yield from _mechanics(name, events)
    yield _curves(name, found, runs)
    yield _generations(name, found)
    yield _comparison(name, found, events)


def _data_items(name: str, path: Path, events: Sequence[Event]) -> Iterator[Item]:
    from testigo.ledger import kinds

    built = _last(events, kinds.CORPUS_BUILT)
    counts = ", ".join(f"{n} {split}" for split, n in built.body["rows"].items()) if built else ""
    yield Item(
        "raw rows", built is not None, f"{counts} rows" if built else "no corpus was built yet",
        "read ten rows whole: is the answer right, is it in the input, is anything broken or foreign?",
        f"testigo show {name} --raw 10",
    )  # fmt: skip
    pilot = _last(events, kinds.PILOT_FINISHED)
    own = [code for code in pilot.body["findings"] if code[0] in "DE"] if pilot else []
    there = ("nothing found in data and encoding" if not own else f"found {', '.join(own)}") if pilot else "not checked"
    yield Item(
        "format", pilot is not None and bool(pilot.body["ok"]), there,
        "lengths, duplicates, what was dropped or cut; `testigo explain CODE` has a page for each finding",
        f"testigo check {name}" if pilot else f"testigo pilot {name}",
    )  # fmt: skip
    yield _tokens(name, path, events)


def _tokens(name: str, path: Path, events: Sequence[Event]) -> Item:
    from testigo.ledger import kinds

    answer: Mapping[str, object] | None = None
    there = "no samples were shown yet"
    if _last(events, kinds.SAMPLES_CONFIRMED) is not None:
        there = "samples were shown of another encoding: rows, base, task or settings have changed since"
        try:
            answer = _standing(path, events)
        except TestigoError:
            there = "samples were shown, but of which encoding cannot be told: `testigo check` says why"
    looked = answer is not None and bool(answer.get("looked"))
    if answer is not None:
        there = "a person looked at samples" if looked else "nobody looked"
    return Item(
        "tokens", looked, there,
        "what counts in the loss (green): the whole answer, its end, nothing of the prompt",
        f"testigo show {name}" if looked else f"testigo show {name} --confirm NAME",
    )  # fmt: skip


def _standing(path: Path, events: Sequence[Event]) -> Mapping[str, object] | None:
    """The last answer for the encoding of today; None where nobody was asked about it."""
    from testigo.conductor.samples import last_answer
    from testigo.inspection.material import encoding_identity
    from testigo.ledger import kinds
    from testigo.model.base import base_of

    built = _last(events, kinds.CORPUS_BUILT)
    if built is None:
        return None
    campaign = load_campaign(path)
    corpus, base = built.body["fingerprint"], base_of(campaign)
    return last_answer(events, corpus=corpus, encoding=encoding_identity(campaign, corpus=corpus, base=base.digest))


def _mechanics(name: str, events: Sequence[Event]) -> Iterator[Item]:
    from testigo.ledger import kinds

    pilot = _last(events, kinds.PILOT_FINISHED)
    ok = pilot is not None and bool(pilot.body["ok"])
    there = "no pilot yet" if pilot is None else "the pilot passed" if ok else "the pilot failed"
    if pilot is not None and pilot.body["findings"]:
        there += f", with {', '.join(pilot.body['findings'])}"
    yield Item(
        "mechanics", ok, there,
        "two rows are learned by heart; the right tensors move; a resume is the same run",
        f"testigo pilot {name}",
    )  # fmt: skip
    base = _last(events, kinds.BASELINE_EVALUATED)
    yield Item(
        "baseline", base is not None, "the base's outputs are kept" if base else "the base was not evaluated yet",
        "what the untouched base already can: without it no improvement means anything",
        f"testigo baseline {name}",
    )  # fmt: skip


def _curves(name: str, workspace: Workspace | None, runs: Sequence[Run]) -> Item:
    told = []
    for run in runs:
        folder = workspace.run(run.id) if workspace is not None else Path()
        losses = [float(x["loss"]) for x in read_lines(folder / "steps.jsonl") if "loss" in x]
        codes = sorted({line["code"] for line in read_lines(folder / "findings.jsonl") if line["severity"] != "note"})
        if losses:
            found = f", found {', '.join(codes)}" if codes else ", nothing found"
            told.append(f"{run.id} {run.state}: loss {losses[0]:.3f} to {losses[-1]:.3f}{found}")
    ended = bool(told) and all(run.state not in ("planned", "running", "interrupted") for run in runs)
    return Item(
        "curves", ended, "; ".join(told) or "no run has begun",
        "does the loss fall, does validation follow it, what stands at the named updates?",
        f"testigo serve {short(workspace.root)}" if told and workspace is not None else f"testigo run {name}",
    )  # fmt: skip


def _generations(name: str, workspace: Workspace | None) -> Item:
    kept = kept_samples(workspace) if workspace is not None else {}
    told = []
    for run, lines in kept.items():
        last = compared(lines)["validations"][-1]
        told.append(f"{run}: {last['prompts']} prompts at update {last['update']}, {last['cut']} cut")
    return Item(
        "generations over checkpoints", bool(told), "; ".join(told) or "no outputs to fixed prompts are kept",
        "does the form come first and the content after; do outputs repeat, end, copy?",
        f"testigo show {name} --generations" if told else f"testigo run {name}",
    )  # fmt: skip


def _comparison(name: str, workspace: Workspace | None, events: Sequence[Event]) -> Item:
    from testigo.campaign.records import comparison_of
    from testigo.ledger import kinds

    there, done = "nothing was compared yet", False
    kept = comparison_of(workspace) if workspace is not None and _last(events, kinds.COMPARED) is not None else None
    if kept is not None:
        improvement = kept.document["improvement"]
        there, done = f"{improvement['metric']} {improvement['difference']:+.3f}: {improvement['verdict']}", True
    return Item(
        "comparison with the base", done, there,
        "read the rows that were broken, not only those that were fixed; each category by itself",
        f"testigo compare {name}" if done else f"testigo run {name}",
    )  # fmt: skip


def _last(events: Sequence[Event], kind: str) -> Event | None:
    return next((event for event in reversed(events) if event.kind == kind), None)

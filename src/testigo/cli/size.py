"""`testigo size`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testigo.cli.output import CampaignPath, JsonFlag, WorkspaceFlag, ending, named, print_json, show

if TYPE_CHECKING:
    from testigo.campaign import Campaign, Workspace
    from testigo.sizing import Choice, RowLengths, Sizing

_MIB, _GIB = 1 << 20, 1 << 30
SMALL_BYTES = 4 * _GIB
"""Below it all is told in MiB."""
_NARROW = 80


def size(
    campaign: CampaignPath,
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", metavar="GPU", help='The GPU: its memory ("24GiB") or its name ("H100 80GB").'),
    ] = None,
    gpus: Annotated[
        str | None,
        typer.Option("--sheet", metavar="GPUS", help='A choice sheet for several GPUs: "L4, H100 80GB", or "all".'),
    ] = None,
    workspace: WorkspaceFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Predict the memory of every phase on a GPU before renting it; no GPU is needed and no weights are loaded.

    Example: testigo size campaign.yaml --gpu "H100 80GB"
    """
    from testigo.cli.opening import load_campaign
    from testigo.cli.terminal import Terminal

    loaded = load_campaign(campaign)
    from testigo.campaign import Workspace
    from testigo.gates.predicted import measured_in

    wanted, gpu_bytes = _gpus(gpu, gpus)
    place = Workspace.for_campaign(
        loaded, workspace if workspace is not None else campaign if campaign.is_dir() else None
    )
    with Terminal() as terminal:
        terminal.progress("reading and tokenising rows", 0, 0)
        lengths = _lengths(loaded, place)
        terminal.ended("reading and tokenising rows")
        asked: dict[str, Any] = {
            "lengths": lengths,
            "measured": measured_in(place.root / "pilot"),
            "progress": lambda done, of, words: terminal.progress("sizing", done, of, words),
        }
        if wanted:
            from testigo.sizing import sheet

            choices = sheet(loaded, wanted, **asked)
        else:
            from testigo.sizing import size as predict

            sizing = predict(loaded, gpu_bytes=gpu_bytes, **asked)
    if as_json:
        print_json({"choices": [choice.to_json() for choice in choices]} if wanted else sizing.to_json())
    elif wanted:
        print_sheet(choices)
    else:
        print_sizing(sizing)
    notes = "what a GPU's own kernels need while they run" if wanted else "; ".join(sizing.notes)
    ending(
        checked="the campaign's own model, loop and rows, step by step, with tensors that have a size and no values",
        not_checked=notes,
        next_command=f"testigo pilot {named(campaign, workspace)}",
    )


def _gpus(gpu: str | None, gpus: str | None) -> tuple[dict[str, int], int | None]:
    """The GPUs of a sheet by name, or the bytes of the one that is asked for."""
    from testigo.sizing import KNOWN_GPUS_GIB, gpu_bytes_of

    if gpus is None:
        return {}, None if gpu is None else gpu_bytes_of(gpu)
    names = KNOWN_GPUS_GIB if gpus.strip() == "all" else [name.strip() for name in gpus.split(",") if name.strip()]
    return {name: gpu_bytes_of(name) for name in names}, None


def print_sheet(choices: Sequence[Choice]) -> None:
    """The table of settings, a line a GPU."""
    first = choices[0]
    told = f"{first.examples_per_update} examples in every update, {first.precision}"
    show(f"The largest settings that fit; {told}", "bold")
    columns = ("GPU", "GiB", "GPUs", "rows", "times", "recompute", "needs", "longest", "result")
    _show_numbers(columns, [_choice_cells(choice) for choice in choices], words=("GPU", "recompute", "result"))
    show(
        "rows: at once. times: accumulation. recompute: activation checkpointing. needs: GiB. longest: tokens of every "
        "row that still fit. GPUs: the state is sharded over so many (strategy fsdp); bytes are those of one.",
        "dim",
    )


def _choice_cells(choice: Choice) -> tuple[str, ...]:
    return (
        choice.gpu,
        _told(choice.gpu_bytes, _GIB),
        str(choice.gpus),
        str(choice.microbatch),
        str(choice.accumulation),
        "yes" if choice.activation_checkpointing else "no",
        _told(choice.needed_bytes, _GIB),
        "" if choice.largest_length is None else str(choice.largest_length),
        choice.verdict,
    )


def _lengths(campaign: Campaign, workspace: Workspace) -> RowLengths:
    """From the campaign's corpus where there is a workspace; else from one that is made aside and thrown away."""
    from testigo.sizing.rows import read_lengths

    if workspace.exists:
        return read_lengths(campaign, workspace.corpus)
    with tempfile.TemporaryDirectory() as aside:
        return read_lengths(campaign, lambda fingerprint: Path(aside) / fingerprint)


def print_sizing(sizing: Sizing) -> None:
    """The table by phase and kind, the verdict, and what would help."""
    unit = _MIB if max(sizing.needed_bytes, sizing.gpu_bytes or 0) < SMALL_BYTES else _GIB
    name = "MiB" if unit == _MIB else "GiB"
    if sizing.method == "formula":
        show(f"BY FORMULA: the model was not run without values ({sizing.why_formula})", "bold yellow")
    show(f"The longest rows, in {name}. {sizing.inputs}", "bold")
    _print_phases(sizing, unit)
    show()
    highest = max(sizing.phases, key=lambda phase: phase.peak_bytes)
    terms = " + ".join(
        f"{_told(n, unit)} {term.removesuffix('_bytes').replace('_', ' ')}" for term, n in sizing.terms.items()
    )
    source = sizing.terms_source or "assumed"
    show(f"needed: {_told(highest.peak_bytes, unit)} tensors in {highest.phase} + {terms} ({source})")
    show(f"        = {_told(sizing.needed_bytes, unit)} {name}")
    if sizing.measured is not None:
        show(sizing.measured.in_words())
    show(str(sizing.examples))
    if sizing.gpu_bytes is not None:
        _print_verdict(sizing, f"{_told(sizing.gpu_bytes, unit)} {name}", sizing.needed_bytes / sizing.gpu_bytes)
    for remedy in sizing.remedies:
        change = ", ".join(f"{key}: {str(value).lower()}" for key, value in remedy.change.items())
        verdict = f", {remedy.verdict}" if remedy.verdict else ""
        other = "" if remedy.same_experiment else "another experiment; "
        needed = f"{_told(remedy.needed_bytes, unit)} {name}"
        show(f"with {change}: {needed}{verdict}; {other}{remedy.examples} ({remedy.name})")


def _print_phases(sizing: Sizing, unit: int) -> None:
    """A line a phase, a column a kind that is there."""
    kinds = [kind for kind in KINDS if any(kind in phase.by_kind for phase in sizing.phases)]
    usual = {phase.phase: phase.peak_bytes for phase in sizing.typical_phases}
    rows = [
        (
            phase.phase,
            _told(phase.peak_bytes, unit),
            *(_told(phase.by_kind[kind], unit) if kind in phase.by_kind else "-" for kind in kinds),
            _told(usual[phase.phase], unit) if phase.phase in usual else "",
        )
        for phase in sizing.phases
    ]
    _show_numbers(("phase", "peak", *(KINDS[kind] for kind in kinds), "median"), rows, words=("phase",))
    short = [f"{KINDS[kind]} {kind.replace('_', ' ')}" for kind in kinds if KINDS[kind].endswith(".")]
    show(f"{', '.join(short)}; median: the peak with rows of median length", "dim")


def _print_verdict(sizing: Sizing, gpu: str, share: float) -> None:
    colour = {"fits": "green", "risky": "yellow", "does not fit": "red"}[sizing.verdict or "fits"]
    show(f"{sizing.verdict}: {share:.0%} of {gpu}", f"bold {colour}")
    sure = "" if sizing.largest_is_exact else " at least"
    show(f"largest microbatch that fits with room to spare:{sure} {sizing.largest_microbatch or 'none'}")
    if sizing.largest_length is not None:
        tokens = f"{sizing.largest_length} tokens" if sizing.largest_length else "none"
        show(f"longest rows that fit with room to spare, all of a microbatch: {tokens}")


KINDS = {
    "weights": "weights",
    "gradients": "grad.",
    "optimizer_state": "optim.",
    "activations": "activ.",
    "logits": "logits",
    "cache": "cache",
    "exchange": "exch.",
    "other": "other",
}
"""Kinds of bytes, and the heads of their columns: eleven columns have to stand in 80 characters."""


def _show_numbers(columns: Sequence[str], rows: Sequence[Sequence[str]], *, words: Sequence[str]) -> None:
    """A table whose numbers stand on the right of their columns, as tight as a terminal of 80 columns needs it."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    gap = "  " if sum(widths) + 2 * (len(widths) - 1) <= _NARROW else " "
    for row in (columns, *rows):
        laid = zip(columns, widths, row, strict=True)
        cells = [cell.ljust(width) if name in words else cell.rjust(width) for name, width, cell in laid]
        show(gap.join(cells).rstrip(), "bold" if row is columns else None)


def _told(n_bytes: int, unit: int) -> str:
    return f"{n_bytes / unit:.0f}" if unit == _MIB else f"{n_bytes / unit:.2f}"

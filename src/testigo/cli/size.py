"""`testigo size`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testigo.cli.output import CampaignPath, JsonFlag, WorkspaceFlag, ending, named, print_json, say, show, show_table

if TYPE_CHECKING:
    from testigo.campaign import Campaign, Workspace
    from testigo.sizing import Choice, PhaseSize, RowLengths, Sizing

_GIB = 1 << 30


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

    loaded = load_campaign(campaign)
    from testigo.campaign import Workspace
    from testigo.gates.predicted import measured_in

    wanted, gpu_bytes = _gpus(gpu, gpus)
    place = Workspace.for_campaign(
        loaded, workspace if workspace is not None else campaign if campaign.is_dir() else None
    )
    asked: dict[str, Any] = {
        "lengths": _lengths(loaded, place),
        "measured": measured_in(place.root / "pilot"),
        "progress": lambda words: say(f"running the model without values: {words}", "dim"),
    }
    if wanted:
        _print_sheet(loaded, wanted, asked, as_json=as_json)
        notes = "what a GPU's own kernels need while they run"
    else:
        from testigo.sizing import size as predict

        sizing = predict(loaded, gpu_bytes=gpu_bytes, **asked)
        notes = "; ".join(sizing.notes)
        if as_json:
            print_json(sizing.to_json())
        else:
            print_sizing(sizing)
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


def _print_sheet(campaign: Campaign, gpus: dict[str, int], asked: dict[str, Any], *, as_json: bool) -> None:
    from testigo.sizing import sheet

    choices = sheet(campaign, gpus, **asked)
    if as_json:
        print_json({"choices": [choice.to_json() for choice in choices]})
        return
    show(f"The largest settings that fit; {choices[0].examples_per_update} examples in every update", "bold")
    columns = (
        "GPU",
        "GiB",
        "GPUs",
        "precision",
        "rows at once",
        "times",
        "recompute",
        "needs GiB",
        "longest",
        "result",
    )
    show_table(columns, [_choice_cells(choice) for choice in choices])
    show(
        "times: accumulation. recompute: activation checkpointing. longest: tokens of every row that still fit.", "dim"
    )
    show("several GPUs: the state is sharded over them (strategy fsdp); bytes are those of one.", "dim")


def _choice_cells(choice: Choice) -> tuple[str, ...]:
    return (
        choice.gpu,
        _gib(choice.gpu_bytes),
        str(choice.gpus),
        choice.precision,
        str(choice.microbatch),
        str(choice.accumulation),
        "yes" if choice.activation_checkpointing else "no",
        _gib(choice.needed_bytes),
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
    kinds = [kind for kind in _KINDS if any(kind in phase.by_kind for phase in sizing.phases)]
    if sizing.method == "formula":
        show(f"BY FORMULA: the model could not be run without values ({sizing.why_formula})", "bold yellow")
    show(f"The longest rows. {sizing.inputs}", "bold")
    columns = ("phase", "peak GiB", *(f"of it {kind.replace('_', ' ')}" for kind in kinds), "with median rows")
    usual = {phase.phase: phase.peak_bytes for phase in sizing.typical_phases}
    show_table(columns, [_cells(phase, kinds, usual.get(phase.phase)) for phase in sizing.phases])
    show()
    highest = max(sizing.phases, key=lambda phase: phase.peak_bytes)
    terms = " + ".join(f"{_gib(n)} {name.removesuffix('_bytes').replace('_', ' ')}" for name, n in sizing.terms.items())
    source = sizing.terms_source or "assumed"
    show(f"needed: {_gib(highest.peak_bytes)} tensors in {highest.phase} + {terms} ({source})")
    show(f"        = {_gib(sizing.needed_bytes)} GiB")
    if sizing.measured is not None:
        show(sizing.measured.in_words())
    show(str(sizing.examples))
    if sizing.gpu_bytes is not None:
        _print_verdict(sizing, sizing.gpu_bytes)
    for remedy in sizing.remedies:
        change = ", ".join(f"{key}: {str(value).lower()}" for key, value in remedy.change.items())
        verdict = f", {remedy.verdict}" if remedy.verdict else ""
        other = "" if remedy.same_experiment else "another experiment; "
        show(f"with {change}: {_gib(remedy.needed_bytes)} GiB{verdict}; {other}{remedy.examples} ({remedy.name})")


def _print_verdict(sizing: Sizing, gpu_bytes: int) -> None:
    share = sizing.needed_bytes / gpu_bytes
    colour = {"fits": "green", "risky": "yellow", "does not fit": "red"}[sizing.verdict or "fits"]
    show(f"{sizing.verdict}: {share:.0%} of {_gib(gpu_bytes)} GiB", f"bold {colour}")
    sure = "" if sizing.largest_is_exact else " at least"
    show(f"largest microbatch that fits with room to spare:{sure} {sizing.largest_microbatch or 'none'}")
    if sizing.largest_length is not None:
        tokens = f"{sizing.largest_length} tokens" if sizing.largest_length else "none"
        show(f"longest rows that fit with room to spare, all of a microbatch: {tokens}")


_KINDS = ("weights", "gradients", "optimizer_state", "activations", "logits", "cache", "exchange", "other")


def _cells(phase: PhaseSize, kinds: list[str], usual: int | None) -> tuple[str, ...]:
    return (
        phase.phase,
        _gib(phase.peak_bytes),
        *(_gib(phase.by_kind.get(kind, 0)) for kind in kinds),
        "" if usual is None else _gib(usual),
    )


def _gib(n_bytes: int) -> str:
    return f"{n_bytes / _GIB:.2f}"

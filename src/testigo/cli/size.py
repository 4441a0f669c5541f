"""`testigo size`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testigo.cli.output import CampaignPath, JsonFlag, WorkspaceFlag, ending, named, print_json, say, show, show_table

if TYPE_CHECKING:
    from testigo.campaign import Campaign
    from testigo.sizing import PhaseSize, RowLengths, Sizing

_GIB = 1 << 30


def size(
    campaign: CampaignPath,
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", metavar="GPU", help='The GPU: its memory ("24GiB") or its name ("H100 80GB").'),
    ] = None,
    workspace: WorkspaceFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Predict the memory of every phase on a GPU before renting it; no GPU is needed and no weights are loaded.

    Example: testigo size campaign.yaml --gpu "H100 80GB"
    """
    from testigo.cli.opening import load_campaign

    loaded = load_campaign(campaign)
    from testigo.sizing import gpu_bytes_of
    from testigo.sizing import size as predict

    gpu_bytes = None if gpu is None else gpu_bytes_of(gpu)
    given = workspace if workspace is not None else campaign if campaign.is_dir() else None
    sizing = predict(
        loaded,
        gpu_bytes=gpu_bytes,
        lengths=_lengths(loaded, given),
        progress=lambda words: say(f"running the model without values: {words}", "dim"),
    )
    if as_json:
        print_json(sizing.to_json())
    else:
        print_sizing(sizing)
    ending(
        checked="the campaign's own model, loop and rows, step by step, with tensors that have a size and no values",
        not_checked="; ".join(sizing.notes),
        next_command=f"testigo pilot {named(campaign, workspace)}",
    )


def _lengths(campaign: Campaign, given: Path | None) -> RowLengths:
    """From the campaign's corpus where there is a workspace; else from one that is made aside and thrown away."""
    from testigo.campaign import Workspace
    from testigo.sizing.rows import read_lengths

    workspace = Workspace.for_campaign(campaign, given)
    if workspace.exists:
        return read_lengths(campaign, workspace.corpus)
    with tempfile.TemporaryDirectory() as aside:
        return read_lengths(campaign, lambda fingerprint: Path(aside) / fingerprint)


def print_sizing(sizing: Sizing) -> None:
    """The table by phase and kind, the verdict, and what would help."""
    kinds = [kind for kind in _KINDS if any(kind in phase.by_kind for phase in sizing.phases)]
    show(f"The longest rows. {sizing.inputs}", "bold")
    columns = ("phase", "peak GiB", *(f"of it {kind.replace('_', ' ')}" for kind in kinds), "with median rows")
    usual = {phase.phase: phase.peak_bytes for phase in sizing.typical_phases}
    show_table(columns, [_cells(phase, kinds, usual.get(phase.phase)) for phase in sizing.phases])
    show()
    highest = max(phase.peak_bytes for phase in sizing.phases)
    terms = " + ".join(
        f"{_gib(n)} {name.removesuffix('_bytes').replace('_', ' ')}" for name, n in sizing.assumed.items()
    )
    show(f"needed: {_gib(highest)} tensors + {terms} (assumed) = {_gib(sizing.needed_bytes)} GiB")
    show(str(sizing.examples))
    if sizing.gpu_bytes is not None:
        share = sizing.needed_bytes / sizing.gpu_bytes
        colour = {"fits": "green", "risky": "yellow", "does not fit": "red"}[sizing.verdict or "fits"]
        show(f"{sizing.verdict}: {share:.0%} of {_gib(sizing.gpu_bytes)} GiB", f"bold {colour}")
        sure = "" if sizing.largest_is_exact else " at least"
        show(f"largest microbatch that fits with room to spare:{sure} {sizing.largest_microbatch or 'none'}")
    for remedy in sizing.remedies:
        change = ", ".join(f"{key}: {str(value).lower()}" for key, value in remedy.change.items())
        verdict = f", {remedy.verdict}" if remedy.verdict else ""
        show(f"with {change}: {_gib(remedy.needed_bytes)} GiB{verdict}; {remedy.examples} ({remedy.name})")


_KINDS = ("weights", "gradients", "optimizer_state", "activations", "logits", "cache", "other")


def _cells(phase: PhaseSize, kinds: list[str], usual: int | None) -> tuple[str, ...]:
    return (
        phase.phase,
        _gib(phase.peak_bytes),
        *(_gib(phase.by_kind.get(kind, 0)) for kind in kinds),
        "" if usual is None else _gib(usual),
    )


def _gib(n_bytes: int) -> str:
    return f"{n_bytes / _GIB:.2f}"

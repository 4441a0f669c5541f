"""The runs that follow from a campaign, and their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from testigo.campaign.campaign import Campaign, digest
from testigo.campaign.loading import with_variant

CONTROL = "control"
"""The name of the file as written among the variants."""

ONLY_OF_THE_BASELINE = ("twice", "prompted_baseline")
"""What is done with the base alone: it makes no run another one."""


@dataclass(frozen=True)
class PlannedRun:
    """One run to be done: a variant (or the control) with one seed, and its settings as a campaign."""

    variant: str
    seed: int
    campaign: Campaign


def planned_runs(campaign: Campaign) -> tuple[PlannedRun, ...]:
    """The control and then each variant, each with every seed, in the file's order."""
    settings = {CONTROL: campaign} | {v.name: with_variant(campaign, v) for v in campaign.variants}
    return tuple(PlannedRun(name, seed, own) for name, own in settings.items() for seed in campaign.seeds)


def run_definition(planned: PlannedRun, *, corpus: str, base: str) -> dict[str, Any]:
    """All that defines a run, as plain data: a run with anything of it changed is another run.

    Parameters
    ----------
    corpus
        Fingerprint of the corpus; it stands for everything in `data`.
    base
        Digest of the base model's weights; it stands for where the base was found.
    """
    canonical = planned.campaign.canonical()
    defines = {name: canonical[name] for name in ("task", "encoding", "training", "evaluation", "machine", "rules")}
    defines["evaluation"] = {k: v for k, v in defines["evaluation"].items() if k not in ONLY_OF_THE_BASELINE}
    # A diagnosis that is waived no longer ends a run: with it the run is another one. Gates are judged before the runs.
    watched = sorted(code for code in canonical["waive"] if code[0] in "TOM")
    defines |= {"waive": watched} if watched else {}
    model = {name: value for name, value in canonical["model"].items() if name != "base"}
    return {**defines, "model": model, "seed": planned.seed, "corpus": corpus, "base": base}


def run_id(planned: PlannedRun, *, corpus: str, base: str) -> str:
    """The run's name: variant, seed and ten hex digits of what defines it, such as `control-s0-1a2b3c4d5e`."""
    return f"{planned.variant}-s{planned.seed}-{digest(run_definition(planned, corpus=corpus, base=base))[:10]}"

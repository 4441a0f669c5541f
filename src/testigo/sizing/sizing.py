"""What a campaign needs of a GPU, told in order: every phase, the verdict, the largest microbatch, the ways out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from testigo.campaign import Campaign
from testigo.sizing.architecture import source_of
from testigo.sizing.lengths import Inputs, RowLengths, typical, worst
from testigo.sizing.rehearse import rehearse
from testigo.sizing.search import largest_fitting
from testigo.sizing.tracker import Peak

CONTEXT_BYTES = 512 << 20
"""An assumption: what driver, kernels and library workspaces take beside tensors. 0.3 to 0.7 GiB are usual for torch on
CUDA; a pilot on the machine itself measures it."""
SLACK_SHARE = 0.05
"""An assumption: what the caching allocator holds without using it, as a share of the tensors' peak."""
RISKY_SHARE = 0.9
"""From here on a prediction is too near to the limit to rely on."""
MOST_ROWS = 256
"""Larger microbatches are of no interest: they no longer make a GPU faster."""

Verdict = Literal["fits", "risky", "does not fit"]


@dataclass(frozen=True)
class PhaseSize:
    """One phase: the most memory that tensors take at one moment, and what they are [bytes]."""

    phase: str
    peak_bytes: int
    by_kind: Mapping[str, int]


@dataclass(frozen=True)
class Examples:
    """Examples per update, with the arithmetic."""

    microbatch: int
    accumulation: int
    processes: int

    @property
    def per_update(self) -> int:
        """Rows that make one update."""
        return self.microbatch * self.accumulation * self.processes

    def __str__(self) -> str:
        parts = f"microbatch {self.microbatch} × accumulation {self.accumulation} × processes {self.processes}"
        return f"{parts} = {self.per_update} examples per update"


@dataclass(frozen=True)
class Remedy:
    """A change of the campaign that saves memory, and what is left then."""

    name: str
    change: Mapping[str, Any]
    examples: Examples
    needed_bytes: int
    verdict: Verdict | None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "name": self.name,
            "change": dict(self.change),
            "examples_per_update": self.examples.per_update,
            "arithmetic": str(self.examples),
            "needed_bytes": self.needed_bytes,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Sizing:
    """What a campaign needs.

    Attributes
    ----------
    phases, typical_phases
        With the longest rows, and with rows of median length.
    needed_bytes
        The highest phase with the longest rows, and both assumed terms.
    largest_microbatch
        That still fits with room to spare; 0 when not even one row does; None without a GPU.
    """

    phases: tuple[PhaseSize, ...]
    typical_phases: tuple[PhaseSize, ...]
    inputs: str
    gpu_bytes: int | None
    needed_bytes: int
    assumed: Mapping[str, int]
    verdict: Verdict | None
    examples: Examples
    largest_microbatch: int | None
    largest_is_exact: bool
    remedies: tuple[Remedy, ...]
    notes: tuple[str, ...]

    @property
    def fits(self) -> bool | None:
        """Whether it fits at all, narrowly or not; None without a GPU."""
        return None if self.verdict is None else self.verdict != "does not fit"

    def to_json(self) -> dict[str, Any]:
        """The document of `testigo size --json`."""
        return {
            "phases": [asdict(phase) for phase in self.phases],
            "typical_phases": [asdict(phase) for phase in self.typical_phases],
            "inputs": self.inputs,
            "fits": self.fits,
            "verdict": self.verdict,
            "gpu_bytes": self.gpu_bytes,
            "needed_bytes": self.needed_bytes,
            "assumed": dict(self.assumed),
            "examples_per_update": self.examples.per_update,
            "arithmetic": str(self.examples),
            "largest_microbatch": self.largest_microbatch,
            "largest_microbatch_is_exact": self.largest_is_exact,
            "remedies": [remedy.to_json() for remedy in self.remedies],
            "notes": list(self.notes),
        }


def size(
    campaign: Campaign,
    *,
    gpu_bytes: int | None,
    lengths: RowLengths,
    progress: Callable[[str], object] = lambda words: None,
) -> Sizing:
    """Predict the memory of every phase on one GPU, without a GPU and without weights.

    Parameters
    ----------
    gpu_bytes
        What the GPU has; None gives no verdict.
    lengths
        Of the rows of both splits; see `RowLengths.of`.
    progress
        Called with a few words before each run of the model.

    Raises
    ------
    ModelError
        When the base's configuration is not found, or the architecture cannot be run without values.
    """
    configuration = source_of(campaign.model.base, relative_to=campaign.folder).configuration()
    progress("the longest rows")
    ways = _worst(campaign, lengths)
    phases = _phases(rehearse(campaign, configuration, ways))
    progress("rows of median length")
    ordinary = _phases(rehearse(campaign, configuration, [_typical(campaign, lengths)]))
    needed = _needed(phases)
    verdict = verdict_of(needed, gpu_bytes)
    bench = _Bench(campaign, configuration, lengths, phases, gpu_bytes, progress)
    largest, is_exact = (None, False) if gpu_bytes is None else bench.largest_microbatch()
    return Sizing(
        phases=phases,
        typical_phases=ordinary,
        inputs=_describe(ways[0]),
        gpu_bytes=gpu_bytes,
        needed_bytes=needed,
        assumed=_assumed(max(phase.peak_bytes for phase in phases)),
        verdict=verdict,
        examples=_examples(campaign),
        largest_microbatch=largest,
        largest_is_exact=is_exact,
        remedies=() if verdict == "fits" else bench.remedies(),
        notes=_notes(campaign),
    )


def verdict_of(needed_bytes: int, gpu_bytes: int | None) -> Verdict | None:
    """Whether it fits; None without a GPU."""
    if gpu_bytes is None:
        return None
    if needed_bytes > gpu_bytes:
        return "does not fit"
    return "risky" if needed_bytes > RISKY_SHARE * gpu_bytes else "fits"


@dataclass(frozen=True)
class _Bench:
    """Runs of the same campaign with other settings."""

    campaign: Campaign
    configuration: Any
    lengths: RowLengths
    phases: tuple[PhaseSize, ...]
    gpu_bytes: int | None
    progress: Callable[[str], object]

    def largest_microbatch(self) -> tuple[int, bool]:
        assert self.gpu_bytes is not None
        microbatch = self.campaign.training.microbatch
        found = largest_fitting(
            lambda rows: self.needed(microbatch=rows),
            int(RISKY_SHARE * self.gpu_bytes),
            known={microbatch: _needed(self.phases)},
            most=max(min(len(self.lengths.train), MOST_ROWS), microbatch),
        )
        return found.number, found.is_exact

    def remedies(self) -> tuple[Remedy, ...]:
        training = self.campaign.training
        half = {"microbatch": training.microbatch // 2, "accumulation": training.accumulation * 2}
        fewer = "half the microbatch, twice the accumulation: the same gradient, somewhat slower"
        # one more forward pass, which is about a third of a step: Chen et al. 2016, arXiv 1604.06174
        again = "activation checkpointing: the same gradient, about a third more time"
        ways: list[tuple[str, dict[str, Any]]] = []
        if training.microbatch % 2 == 0:
            ways.append((fewer, half))
        if not training.activation_checkpointing:
            ways.append((again, {"activation_checkpointing": True}))
            if training.microbatch % 2 == 0:
                ways.append(("both", {**half, "activation_checkpointing": True}))
        return tuple(self._remedy(name, change) for name, change in ways)

    def _remedy(self, name: str, change: dict[str, Any]) -> Remedy:
        needed = self.needed(**change)
        dotted = {f"training.{key}": value for key, value in change.items()}
        return Remedy(
            name, dotted, _examples(_with(self.campaign, **change)), needed, verdict_of(needed, self.gpu_bytes)
        )

    def needed(self, **change: Any) -> int:
        """With other training settings; phases outside of training stay as they are."""
        self.progress(", ".join(f"{key} {value}" for key, value in change.items()))
        changed = _with(self.campaign, **change)
        trained = _phases(rehearse(changed, self.configuration, _worst(changed, self.lengths), training_only=True))
        names = {phase.phase for phase in trained}
        return _needed((*trained, *(phase for phase in self.phases if phase.phase not in names)))


def _with(campaign: Campaign, **change: Any) -> Campaign:
    plain = campaign.to_json()
    plain["training"] |= change
    return Campaign.from_json(plain, folder=campaign.folder)


def _worst(campaign: Campaign, lengths: RowLengths) -> tuple[Inputs, ...]:
    training = campaign.training
    return worst(
        lengths,
        microbatch=training.microbatch,
        accumulation=training.accumulation,
        batch_size=campaign.evaluation.batch_size,
    )


def _typical(campaign: Campaign, lengths: RowLengths) -> Inputs:
    training = campaign.training
    return typical(
        lengths,
        microbatch=training.microbatch,
        accumulation=training.accumulation,
        batch_size=campaign.evaluation.batch_size,
    )


def _phases(peaks: Mapping[str, Peak]) -> tuple[PhaseSize, ...]:
    return tuple(
        PhaseSize(name, peak.n_bytes, {str(kind): n for kind, n in peak.by_kind.items()})
        for name, peak in peaks.items()
    )


def _assumed(peak_bytes: int) -> dict[str, int]:
    return {"context_bytes": CONTEXT_BYTES, "allocator_slack_bytes": int(SLACK_SHARE * peak_bytes)}


def _needed(phases: tuple[PhaseSize, ...]) -> int:
    peak = max(phase.peak_bytes for phase in phases)
    return peak + sum(_assumed(peak).values())


def _examples(campaign: Campaign) -> Examples:
    return Examples(campaign.training.microbatch, campaign.training.accumulation, campaign.machine.processes)


def _describe(inputs: Inputs) -> str:
    rows, last = inputs.microbatches[-1], inputs.validation
    return (
        f"training: {len(rows)} rows of up to {max(row.n_tokens for row in rows)} tokens a microbatch; "
        f"validation: {len(last)} rows of up to {max(row.n_tokens for row in last)} tokens a batch; "
        f"{inputs.n_shared} tokens shared by all rows"
    )


def _notes(campaign: Campaign) -> tuple[str, ...]:
    notes = [
        "context and allocator slack are assumptions; `testigo pilot` on the machine measures them",
        "kernels are taken to be the CPU's: what a GPU's own kernels need while they run is not counted",
    ]
    if campaign.machine.processes > 1:
        notes.append("one process is sized, holding all of the state; buffers of the communication are not counted")
    return tuple(notes)

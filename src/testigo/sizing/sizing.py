"""What a campaign needs of a GPU, told in order: every phase, the verdict, the largest microbatch, the ways out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from testigo.campaign import Campaign, WayOut, ways_out
from testigo.sizing.architecture import shape, source_of
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
Order = Literal["length", "target"]


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
    bench = _Bench(campaign, configuration, lengths, gpu_bytes, progress)
    order = bench.worst_order()
    inputs = _worst(campaign, lengths, order)
    progress("two updates, validation, generation and export with the longest rows")
    phases = _phases(rehearse(campaign, configuration, inputs))
    progress("two updates and validation with rows of median length")
    ordinary = _phases(rehearse(campaign, configuration, _typical(campaign, lengths), parts=["train"]))
    needed = _needed(phases)
    verdict = verdict_of(needed, gpu_bytes)
    largest, is_exact = (None, False) if gpu_bytes is None else bench.largest_microbatch(phases, order)
    return Sizing(
        phases=phases,
        typical_phases=ordinary,
        inputs=_describe(inputs),
        gpu_bytes=gpu_bytes,
        needed_bytes=needed,
        assumed=_assumed(max(phase.peak_bytes for phase in phases)),
        verdict=verdict,
        examples=_examples(campaign),
        largest_microbatch=largest,
        largest_is_exact=is_exact,
        remedies=() if verdict == "fits" else bench.remedies(phases, order),
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
    gpu_bytes: int | None
    progress: Callable[[str], object]

    def worst_order(self) -> Order:
        """Whether the longest rows take the most memory, or those with the most supervised tokens, by their logits."""
        orders: tuple[Order, ...] = ("length", "target")
        longest, most = (_worst(self.campaign, self.lengths, order).microbatches[-1] for order in orders)
        if sum(row.n_supervised for row in most) <= sum(row.n_supervised for row in longest):
            return "length"
        return max(orders, key=lambda order: max(phase.peak_bytes for phase in self._microbatch(order)))

    def largest_microbatch(self, phases: Sequence[PhaseSize], order: Order) -> tuple[int, bool]:
        """That needs no more than a safe share of the GPU, and whether it is known that one row more does."""
        assert self.gpu_bytes is not None
        microbatch = self.campaign.training.microbatch
        found = largest_fitting(
            lambda rows: self._needed(phases, order, microbatch=rows),
            int(RISKY_SHARE * self.gpu_bytes),
            known={microbatch: _needed(phases)},
            most=max(min(len(self.lengths.train), MOST_ROWS), microbatch),
        )
        return found.number, found.is_exact

    def remedies(self, phases: Sequence[PhaseSize], order: Order) -> tuple[Remedy, ...]:
        """What keeps the gradient and saves memory."""
        ways = [way for way in ways_out(self.campaign, "backward") if way.keeps_gradient]
        possible = [way for way in ways if "training.activation_checkpointing" not in way.set or self._can_recompute()]
        return tuple(self._remedy(phases, order, way) for way in possible)

    def _can_recompute(self) -> bool:
        """Whether the architecture offers activation checkpointing: some small ones for images do not."""
        model = shape(self.campaign, self.configuration, adapted=False, n_classes=self.lengths.n_classes)
        return bool(getattr(model, "supports_gradient_checkpointing", True))

    def _remedy(self, phases: Sequence[PhaseSize], order: Order, way: WayOut) -> Remedy:
        change = {key.removeprefix("training."): value for key, value in way.set.items()}
        needed = self._needed(phases, order, **change)
        examples = _examples(_with(self.campaign, **change))
        return Remedy(way.changes, way.set, examples, needed, verdict_of(needed, self.gpu_bytes))

    def _needed(self, phases: Sequence[PhaseSize], order: Order, **change: Any) -> int:
        """With other training settings; the phases that they do not touch stay as they are."""
        rest = [phase for phase in phases if phase.phase not in ("forward", "backward", "update-1", "update-2")]
        return _needed((*self._microbatch(order, **change), *rest))

    def _microbatch(self, order: Order, **change: Any) -> tuple[PhaseSize, ...]:
        self.progress("one microbatch, " + (", ".join(f"{k} {v}" for k, v in change.items()) or f"rows by {order}"))
        changed = _with(self.campaign, **change)
        inputs = _worst(changed, self.lengths, order)
        return _phases(rehearse(changed, self.configuration, inputs, parts=["microbatch"]))


def _with(campaign: Campaign, **change: Any) -> Campaign:
    plain = campaign.to_json()
    plain["training"] |= change
    return Campaign.from_json(plain, folder=campaign.folder)


def _worst(campaign: Campaign, lengths: RowLengths, order: Order) -> Inputs:
    training = campaign.training
    return worst(
        lengths,
        microbatch=training.microbatch,
        accumulation=training.accumulation,
        batch_size=campaign.evaluation.batch_size,
        by=order,
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


def _needed(phases: Sequence[PhaseSize]) -> int:
    peak = max(phase.peak_bytes for phase in phases)
    return peak + sum(_assumed(peak).values())


def _examples(campaign: Campaign) -> Examples:
    return Examples(campaign.training.microbatch, campaign.training.accumulation, campaign.machine.processes)


def _describe(inputs: Inputs) -> str:
    rows, last = inputs.microbatches[-1], inputs.validation
    if inputs.pixels is not None:
        size = " × ".join(map(str, inputs.pixels))
        return f"training: {len(rows)} images of {size} a microbatch; validation: {len(last)} images a batch"
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

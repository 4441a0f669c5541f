"""What a campaign needs of a GPU, told in order: every phase, the verdict, the largest inputs, the ways out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from testigo.campaign import Campaign, WayOut, ways_out
from testigo.gates.predicted import Measured
from testigo.sizing.architecture import shape, source_of
from testigo.sizing.bench import Bench, changed, highest
from testigo.sizing.journey import Journey, Progress, silent
from testigo.sizing.lengths import Inputs, RowLengths
from testigo.sizing.limits import Limits
from testigo.sizing.search import MAX_TRIES
from testigo.sizing.terms import Terms, terms_of
from testigo.sizing.tracker import Peak

RISKY_SHARE = 0.9
"""From here on a prediction is too near to the limit to rely on."""
SHARDS = (2, 4, 8)
"""Numbers of processes for which sharding is tried as a way out."""

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

    @classmethod
    def of(cls, campaign: Campaign) -> Examples:
        """Those of a campaign."""
        return cls(campaign.training.microbatch, campaign.training.accumulation, campaign.machine.processes)

    @property
    def per_update(self) -> int:
        """Rows that make one update."""
        return self.microbatch * self.accumulation * self.processes

    def __str__(self) -> str:
        parts = f"microbatch {self.microbatch} × accumulation {self.accumulation} × processes {self.processes}"
        return f"{parts} = {self.per_update} examples per update"


@dataclass(frozen=True)
class Remedy:
    """A change of the campaign that saves memory, and what is left then.

    Attributes
    ----------
    same_experiment
        Whether training learns the same: the same gradient from the same examples, up to rounding.
    """

    name: str
    change: Mapping[str, Any]
    examples: Examples
    needed_bytes: int
    verdict: Verdict | None
    same_experiment: bool = True

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "name": self.name,
            "change": dict(self.change),
            "same_experiment": self.same_experiment,
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
        The highest phase with the longest rows, and the terms on top.
    method
        `followed`: the model itself was run without values. `formula`: it could not be, and bytes were counted.
    largest_microbatch, largest_length
        Rows, and tokens of every row, that still fit with room to spare, the other kept; 0 when not even one does;
        None without a GPU, and for the length where rows are images.
    measured
        What a pilot that ran says about its own prediction.
    """

    phases: tuple[PhaseSize, ...]
    typical_phases: tuple[PhaseSize, ...]
    inputs: str
    gpu_bytes: int | None
    needed_bytes: int
    terms: Mapping[str, int]
    terms_source: str
    verdict: Verdict | None
    examples: Examples
    largest_microbatch: int | None
    largest_is_exact: bool
    largest_length: int | None
    remedies: tuple[Remedy, ...]
    notes: tuple[str, ...]
    method: Literal["followed", "formula"] = "followed"
    why_formula: str = ""
    measured: Measured | None = field(default=None, repr=False)

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
            "method": self.method,
            "why_formula": self.why_formula,
            "fits": self.fits,
            "verdict": self.verdict,
            "gpu_bytes": self.gpu_bytes,
            "needed_bytes": self.needed_bytes,
            "terms": dict(self.terms),
            "terms_source": self.terms_source or "assumed",
            "examples_per_update": self.examples.per_update,
            "arithmetic": str(self.examples),
            "largest_microbatch": self.largest_microbatch,
            "largest_microbatch_is_exact": self.largest_is_exact,
            "largest_length": self.largest_length,
            "remedies": [remedy.to_json() for remedy in self.remedies],
            "measured": None if self.measured is None else self.measured.to_json(),
            "notes": list(self.notes),
        }


def size(
    campaign: Campaign,
    *,
    gpu_bytes: int | None,
    lengths: RowLengths,
    measured: Measured | None = None,
    progress: Progress = silent,
) -> Sizing:
    """Predict the memory of every phase on one GPU, without a GPU and without weights.

    Parameters
    ----------
    gpu_bytes
        What the GPU has; None gives no verdict.
    lengths
        Of the rows of both splits; see `RowLengths.of`.
    measured
        What a pilot found; its terms take the place of the assumed ones.
    progress
        Called before each run of the model: how many are done, of how many at most, and a few words. At the end both
        numbers are alike.

    Raises
    ------
    ModelError
        When the base's configuration is not found.
    """
    configuration = source_of(campaign).configuration()
    of_search = 0 if gpu_bytes is None else MAX_TRIES + 2
    journey = Journey(progress, ahead=2 + 2 * of_search)
    bench = Bench(campaign, configuration, lengths, journey)
    terms = terms_of(measured)
    peak = highest(bench.whole)
    needed = terms.needed(peak)
    verdict = verdict_of(needed, gpu_bytes)
    ways = () if verdict == "fits" else _ways(bench)
    journey.ahead = 1 + 2 * of_search + len(ways)
    typical = bench.later(campaign, bench.usual_inputs(), "rows of median length")
    limits = None if gpu_bytes is None else Limits(bench, terms, int(RISKY_SHARE * gpu_bytes), campaign)
    journey.ahead = 2 * of_search + len(ways)
    largest, is_exact = (None, False) if limits is None else limits.microbatch()
    journey.ahead = of_search + len(ways)
    largest_length = None if limits is None else limits.length()
    journey.ahead = len(ways)
    found = remedies(bench, terms, gpu_bytes, ways)
    journey.ends()
    return Sizing(
        phases=phase_sizes(bench.whole),
        typical_phases=phase_sizes(typical),
        inputs=_describe(bench.inputs()),
        gpu_bytes=gpu_bytes,
        needed_bytes=needed,
        terms=terms.over(peak),
        terms_source=terms.source,
        verdict=verdict,
        examples=Examples.of(campaign),
        largest_microbatch=largest,
        largest_is_exact=is_exact,
        largest_length=largest_length,
        remedies=found,
        notes=_notes(campaign, bench),
        method="formula" if bench.why_formula else "followed",
        why_formula=bench.why_formula,
        measured=measured,
    )


def verdict_of(needed_bytes: int, gpu_bytes: int | None) -> Verdict | None:
    """Whether it fits; None without a GPU."""
    if gpu_bytes is None:
        return None
    if needed_bytes > gpu_bytes:
        return "does not fit"
    return "risky" if needed_bytes > RISKY_SHARE * gpu_bytes else "fits"


def remedies(
    bench: Bench, terms: Terms, gpu_bytes: int | None, ways: Sequence[WayOut] | None = None
) -> tuple[Remedy, ...]:
    """What saves memory, each with what it would need; what keeps the experiment first."""
    found = []
    for way in _ways(bench) if ways is None else ways:
        campaign = changed(bench.campaign, way.set)
        words = ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in way.set.items())
        needed = terms.needed(bench.peak(campaign, words))
        verdict = verdict_of(needed, gpu_bytes)
        same = way.keeps_gradient or all(key.startswith("machine.") or key in _SAME for key in way.set)
        found.append(Remedy(way.changes, way.set, Examples.of(campaign), needed, verdict, same))
    return tuple(sorted(found, key=lambda remedy: not remedy.same_experiment))


_SAME = ("training.accumulation", "training.microbatch")


def _ways(bench: Bench) -> tuple[WayOut, ...]:
    in_training = ways_out(bench.campaign, "backward")
    recomputes = _can_recompute(bench)
    possible = [way for way in in_training if "training.activation_checkpointing" not in way.set or recomputes]
    return (*(way for way in possible if _lays_otherwise(bench, way)), *_shards(bench.campaign))


def _lays_otherwise(bench: Bench, way: WayOut) -> bool:
    """Whether a change of the microbatch alone is one: a larger number than there are rows is not."""
    rows_alone = all(key in _SAME for key in way.set)
    return not rows_alone or bench.n_rows(changed(bench.campaign, way.set)) < bench.n_rows(bench.campaign)


def _shards(campaign: Campaign) -> tuple[WayOut, ...]:
    """The state spread over several of these GPUs, with the examples of an update kept."""
    training, machine = campaign.training, campaign.machine
    if machine.processes > 1 or campaign.model.precision == "fp16":
        return ()
    ways = []
    for n in SHARDS:
        if training.accumulation % n == 0:
            rows = {"training.accumulation": training.accumulation // n}
        elif training.microbatch % n == 0:
            rows = {"training.microbatch": training.microbatch // n}
        else:
            continue
        change = {"machine.processes": n, "machine.strategy": "fsdp"} | rows
        ways.append(WayOut(f"fsdp-{n}", change, f"the same gradient up to rounding, on {n} such GPUs"))
    return tuple(ways)


def _can_recompute(bench: Bench) -> bool:
    """Whether the architecture offers activation checkpointing: some small ones for images do not."""
    model = shape(bench.campaign, bench.configuration, adapted=False, n_classes=bench.lengths.n_classes)
    return bool(getattr(model, "supports_gradient_checkpointing", True))


def phase_sizes(peaks: Mapping[str, Peak]) -> tuple[PhaseSize, ...]:
    """As they are told and kept."""
    return tuple(
        PhaseSize(name, peak.n_bytes, {str(kind): n for kind, n in peak.by_kind.items()})
        for name, peak in peaks.items()
    )


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


def _notes(campaign: Campaign, bench: Bench) -> tuple[str, ...]:
    notes = [
        "context and allocator slack are assumptions until `testigo pilot` has run on the machine",
        "kernels are taken to be the CPU's: what a GPU's own kernels need while they run is not counted",
    ]
    if bench.why_formula:
        notes.insert(0, f"by formula, not by running the model without values: {bench.why_formula}")
    if campaign.machine.processes > 1:
        shared = "its share of the state" if campaign.machine.strategy == "fsdp" else "all of the state"
        notes.append(
            f"one of {campaign.machine.processes} processes is sized, with {shared}; evaluation is one process"
        )
    return tuple(notes)

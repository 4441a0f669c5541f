"""A choice sheet: for each GPU the settings that fit, the same examples in every update, and the largest input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from testigo.campaign import Campaign
from testigo.campaign.sections import MOST_ROWS as MOST_ACCUMULATED
from testigo.gates.predicted import Measured
from testigo.sizing.architecture import source_of
from testigo.sizing.bench import Bench, changed
from testigo.sizing.journey import Journey, Progress, silent
from testigo.sizing.lengths import RowLengths
from testigo.sizing.limits import Limits
from testigo.sizing.search import MAX_TRIES
from testigo.sizing.sizing import RISKY_SHARE, SHARDS, Examples, Verdict, verdict_of
from testigo.sizing.terms import Terms, terms_of


@dataclass(frozen=True)
class Choice:
    """What one GPU asks of the campaign.

    Attributes
    ----------
    gpus
        How many of them; more than one where the state is sharded.
    largest_length
        Tokens that every row may have with these settings [tokens]; None where rows are images, or nothing fits.
    change
        Dotted key -> value, against the file.
    """

    gpu: str
    gpu_bytes: int
    gpus: int
    precision: str
    microbatch: int
    accumulation: int
    activation_checkpointing: bool
    strategy: str
    needed_bytes: int
    verdict: Verdict
    largest_length: int | None
    examples_per_update: int
    change: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"change": dict(self.change)}


def sheet(
    campaign: Campaign,
    gpus: Mapping[str, int],
    *,
    lengths: RowLengths,
    measured: Measured | None = None,
    progress: Progress = silent,
) -> tuple[Choice, ...]:
    """For each GPU the fastest settings that fit with room to spare; examples per update and precision stay.

    In this order: the largest microbatch that fits; with activation checkpointing, where none does without; the state
    sharded over 2, 4 or 8 such GPUs. Where nothing fits, the most saving of them is shown with its verdict.

    Parameters
    ----------
    gpus
        Name -> memory [bytes].

    Raises
    ------
    ModelError
        When the base's configuration is not found.
    """
    configuration = source_of(campaign).configuration()
    journey = Journey(progress, ahead=1 + len(gpus) * OF_A_GPU)
    bench = Bench(campaign, configuration, lengths, journey)
    terms = terms_of(measured)
    choices = []
    for at, (name, n_bytes) in enumerate(gpus.items()):
        journey.ahead = (len(gpus) - at) * OF_A_GPU
        choices.append(_choice(bench, terms, name, n_bytes))
    journey.ends()
    return tuple(choices)


OF_A_GPU = MAX_TRIES + 2
"""Runs that a GPU takes about; settings that others were tried with are known."""


def _choice(bench: Bench, terms: Terms, gpu: str, gpu_bytes: int) -> Choice:
    best: tuple[int, Campaign, dict[str, Any]] | None = None
    for change in candidates(bench.campaign, bench.most_rows(bench.campaign)):
        campaign = changed(bench.campaign, change)
        needed = terms.needed(bench.peak(campaign, f"{gpu}, {campaign.training.microbatch} rows a microbatch"))
        if best is None or needed < best[0] or needed <= RISKY_SHARE * gpu_bytes:
            best = (needed, campaign, change)
        if needed <= RISKY_SHARE * gpu_bytes:
            break
    assert best is not None
    needed, campaign, change = best
    fitting = verdict_of(needed, gpu_bytes)
    assert fitting is not None
    training = campaign.training
    length = None
    if fitting == "fits":
        length = Limits(bench, terms, int(RISKY_SHARE * gpu_bytes), campaign).length()
    return Choice(
        gpu=gpu,
        gpu_bytes=gpu_bytes,
        gpus=campaign.machine.processes,
        precision=campaign.model.precision,
        microbatch=training.microbatch,
        accumulation=training.accumulation,
        activation_checkpointing=training.activation_checkpointing,
        strategy="alone" if campaign.machine.processes == 1 else campaign.machine.strategy,
        needed_bytes=needed,
        verdict=fitting,
        largest_length=length,
        examples_per_update=Examples.of(campaign).per_update,
        change={key: value for key, value in change.items() if _value(bench.campaign, key) != value},
    )


def _value(campaign: Campaign, key: str) -> Any:
    value: Any = campaign
    for name in key.split("."):
        value = getattr(value, name)
    return value


def candidates(campaign: Campaign, most_rows: int) -> Iterator[dict[str, Any]]:
    """Settings with the same examples in an update, fastest first."""
    per_update, own = Examples.of(campaign).per_update, campaign.machine.processes
    numbers = [own, *(n for n in SHARDS if n > own and _can_shard(campaign))]
    for n in numbers:
        if per_update % n:
            continue
        spread = {} if n == own else {"machine.processes": n, "machine.strategy": "fsdp"}
        rows = per_update // n
        for recompute in sorted({campaign.training.activation_checkpointing, True}):
            for microbatch in (size for size in range(min(rows, most_rows), 0, -1) if rows % size == 0):
                if rows // microbatch > MOST_ACCUMULATED:
                    continue
                yield spread | {
                    "training.microbatch": microbatch,
                    "training.accumulation": rows // microbatch,
                    "training.activation_checkpointing": recompute,
                }


def _can_shard(campaign: Campaign) -> bool:
    return campaign.model.precision != "fp16"

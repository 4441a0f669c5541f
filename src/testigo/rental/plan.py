"""Seconds of each piece of a campaign, laid on packages of days."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal

MARGIN: Final = 1.25
"""All measured time is multiplied by it. The pilot runs for minutes; over days, rows are longer, a disk is slower, a
machine is shared. A quarter more is a convention of this tool, not a measurement: raise it for a machine you do not
know."""


@dataclass(frozen=True)
class Measured:
    """What the pilot and the baseline measured on the machine that is to be rented [s].

    `load_seconds` is a process's start with the model; `seconds_per_answered_row` an output of the trained model, which
    ends where the target ends, while the base's outputs often go on to the limit. `samples_seconds` are the outputs
    before the first update. `beside_seconds` go to general text and guard tasks at each evaluation on validation.
    """

    seconds_per_update: float
    seconds_per_validation: float
    seconds_per_evaluated_row: float
    load_seconds: float
    export_seconds: float
    pilot_seconds: float
    seconds_per_checkpoint: float = 0.0
    seconds_per_answered_row: float | None = None
    samples_seconds: float = 0.0
    beside_seconds: float = 0.0

    @property
    def answered_row_seconds(self) -> float:
        """Of a model that has learned when to end; as the baseline's where that was not measured."""
        per_row = self.seconds_per_answered_row
        return self.seconds_per_evaluated_row if per_row is None else per_row

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is None and each.name == "seconds_per_answered_row":
                continue
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{each.name} is {value}: a time in seconds is a number from 0")


@dataclass(frozen=True)
class RunWork:
    """One planned run, in the order of the campaign: the control's seeds first, then each variant's."""

    variant: str
    seed: int
    updates: int
    validations: int = 0
    checkpoints: int = 0

    @property
    def name(self) -> str:
        """Variant and seed."""
        return f"{self.variant}, seed {self.seed}"


Kind = Literal["pilot", "baseline", "training", "evaluation", "reserve", "test", "export"]
"""What a piece's time goes with: training with arithmetic, evaluation with the memory's bandwidth."""


@dataclass(frozen=True)
class Piece:
    """A part of the campaign with its time, margin included, and the arithmetic behind it.

    `run` is empty for the parts that every plan needs. `measured_seconds` is the time without the margin.
    """

    name: str
    seconds: float
    arithmetic: str
    run: str = ""
    kind: Kind = "training"
    measured_seconds: float = 0.0


@dataclass(frozen=True)
class Package:
    """What a number of days holds. `left_out` is in the order in which runs fall out; `fits` is about everything."""

    days: float
    seconds: float
    used_seconds: float
    fits: bool
    fits_control: bool
    kept: tuple[str, ...]
    left_out: tuple[str, ...]
    cost: float | None
    cost_used: float | None


@dataclass(frozen=True)
class RentalPlan:
    """The whole time, its pieces, and each package."""

    margin: float
    pieces: tuple[Piece, ...]
    packages: tuple[Package, ...]
    currency: str

    @property
    def seconds(self) -> float:
        """The time of everything, margin included."""
        return sum(piece.seconds for piece in self.pieces)

    @property
    def measured_seconds(self) -> float:
        """The time of everything as it is expected, without the margin."""
        return sum(piece.measured_seconds for piece in self.pieces)

    def to_json(self) -> dict[str, Any]:
        """The document that `testigo plan --json` prints."""
        return {
            "margin": self.margin,
            "seconds": self.seconds,
            "measured_seconds": self.measured_seconds,
            "currency": self.currency,
            "pieces": [asdict(piece) for piece in self.pieces],
            "packages": [asdict(package) for package in self.packages],
        }

    def piece_rows(self) -> list[tuple[str, str, str]]:
        """Name, time and arithmetic of each piece, for a table; the last row is the sum."""
        rows = [(piece.name, duration(piece.seconds), piece.arithmetic) for piece in self.pieces]
        return [*rows, ("everything", duration(self.seconds), f"with a margin of × {self.margin:g}")]

    def package_rows(self) -> list[tuple[str, str, str, str, str]]:
        """Days, time used, what is paid, the part of it that is used, and what falls out, for a table."""
        return [
            (
                f"{package.days:g} days",
                f"{duration(package.used_seconds)} of {duration(package.seconds)}",
                self._money(package.cost),
                self._money(package.cost_used),
                _what_fits(package),
            )
            for package in self.packages
        ]

    def _money(self, amount: float | None) -> str:
        return "no price" if amount is None else f"{amount:,.2f} {self.currency}".strip()


def plan_rental(
    measured: Measured,
    runs: Sequence[RunWork],
    *,
    baseline_rows: int,
    test_rows: int = 0,
    checkpoint_every: int = 0,
    interruptions: int = 1,
    days: Sequence[float] = (3, 7, 30),
    price_per_hour: float | None = None,
    currency: str = "",
    margin: float = MARGIN,
) -> RentalPlan:
    """Lay a campaign on packages of days.

    Parameters
    ----------
    runs
        In the campaign's order, which is their priority. Where time is short the last run falls out first: the last
        variant's last seed. The control's first seed never does, for without it there is no campaign.
    baseline_rows
        Rows of the validation split, which the baseline and each run's result are evaluated on.
    test_rows
        Rows of the sealed test, evaluated once with the baseline and once with the result.
    checkpoint_every
        Updates between checkpoints: what an interruption can cost at most.
    interruptions
        How many are reckoned with.
    price_per_hour
        A package is paid whole, used or not; the cost of the used hours is given beside it.

    Raises
    ------
    ValueError
        When there is no run, or days, price or margin are not positive numbers.
    """
    if not runs:
        raise ValueError("no run is planned")
    if not all(math.isfinite(day) and day > 0 for day in days) or not (math.isfinite(margin) and margin >= 1):
        raise ValueError(f"days {list(days)} have to be above 0, and the margin {margin} at least 1")
    shared = _shared_pieces(measured, baseline_rows, test_rows, checkpoint_every, interruptions, margin)
    own = [piece for run in runs for piece in _run_pieces(measured, run, baseline_rows, margin)]
    packages = tuple(_package(day, shared, own, price_per_hour) for day in days)
    return RentalPlan(margin, (*shared[:2], *own, *shared[2:]), packages, currency)


def _shared_pieces(
    m: Measured, baseline_rows: int, test_rows: int, checkpoint_every: int, interruptions: int, margin: float
) -> list[Piece]:
    load, row, answered = m.load_seconds, m.seconds_per_evaluated_row, m.answered_row_seconds
    lost = load + checkpoint_every * m.seconds_per_update
    test = 2 * load + test_rows * (row + answered) if test_rows else 0.0
    parts: list[tuple[str, Kind, float, str]] = [
        ("pilot", "pilot", m.pilot_seconds, "as measured"),
        (
            "baseline",
            "baseline",
            load + baseline_rows * row + m.beside_seconds,
            f"start, {baseline_rows} rows × {row:.3g} s{_beside(m)}",
        ),
        (
            "resume reserve",
            "reserve",
            interruptions * lost,
            f"{interruptions} × (start + {checkpoint_every} updates done again)",
        ),
        ("sealed test", "test", test, f"2 starts, {test_rows} rows × ({row:.3g} + {answered:.3g} s)"),
        ("export and fresh reading", "export", m.export_seconds + load, "export, load in a fresh process"),
    ]
    return [Piece(name, margin * seconds, how, "", kind, seconds) for name, kind, seconds, how in parts]


def _run_pieces(m: Measured, run: RunWork, rows: int, margin: float) -> list[Piece]:
    """Training and evaluation of one run."""
    training = run.updates * m.seconds_per_update + run.validations * m.seconds_per_validation
    training += m.load_seconds + m.samples_seconds + run.checkpoints * m.seconds_per_checkpoint
    how = f"start, {run.updates} updates × {m.seconds_per_update:.3g} s, "
    how += f"{run.validations} validations × {m.seconds_per_validation:.3g} s"
    evaluation = m.load_seconds + rows * m.answered_row_seconds + m.beside_seconds
    told = f"start, {rows} rows × {m.answered_row_seconds:.3g} s{_beside(m)}"
    return [
        Piece(run.name, margin * training, how, run.name, "training", training),
        Piece(f"evaluation: {run.name}", margin * evaluation, told, run.name, "evaluation", evaluation),
    ]


def _beside(m: Measured) -> str:
    return f", {m.beside_seconds:.3g} s beside" if m.beside_seconds else ""


def _package(days: float, shared: Sequence[Piece], own: Sequence[Piece], price: float | None) -> Package:
    available = days * 86_400
    seconds: dict[str, float] = {}
    for piece in own:
        seconds[piece.run] = seconds.get(piece.run, 0.0) + piece.seconds
    kept = list(seconds)
    always = sum(piece.seconds for piece in shared)
    left_out: list[str] = []
    while len(kept) > 1 and always + sum(seconds[run] for run in kept) > available:
        left_out.append(kept.pop())
    used = always + sum(seconds[run] for run in kept)
    return Package(
        days=days,
        seconds=available,
        used_seconds=used,
        fits=not left_out and used <= available,
        fits_control=used <= available,
        kept=tuple(kept),
        left_out=tuple(left_out),
        cost=None if price is None else days * 24 * price,
        cost_used=None if price is None else used / 3600 * price,
    )


def _what_fits(package: Package) -> str:
    if not package.fits_control:
        return "not even the control with one seed fits"
    if package.fits:
        return "everything fits"
    return f"falls out: {'; '.join(package.left_out)}"


def duration(seconds: float) -> str:
    """Seconds as a person says them: 45 s, 12 min, 3.5 h, 2.1 days."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 5_400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"

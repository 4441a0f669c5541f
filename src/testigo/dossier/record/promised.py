"""What was promised before any compute, and what was changed later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Guard:
    """A metric that must not fall by more than `within`."""

    metric: str
    within: float


@dataclass(frozen=True)
class Hypothesis:
    """What was promised before any compute."""

    metric: str
    by: float
    guards: tuple[Guard, ...]
    alpha: float


@dataclass(frozen=True)
class Variant:
    """A declared departure from the control."""

    name: str
    settings: dict[str, Any]
    because: str


@dataclass(frozen=True)
class Plan:
    """The campaign file, read."""

    name: str
    question: str
    identity: str
    task: str
    metrics: dict[str, str]
    base: str
    settings: dict[str, Any]
    seeds: tuple[int, ...]
    variants: tuple[Variant, ...]
    price_per_hour: float | None
    currency: str
    language: str
    text: str


@dataclass(frozen=True)
class Registration:
    """The freeze of the hypothesis in the ledger."""

    number: int
    time: str
    digest: str
    identity: str


@dataclass(frozen=True)
class Amendment:
    """A change after the freeze, with what was already known when it was made."""

    number: int
    time: str
    reason: str
    changes: tuple[str, ...]
    known: str
    identity: str


@dataclass(frozen=True)
class Waiver:
    """A rule that was set aside with words."""

    code: str
    reason: str
    time: str
    observed: str


@dataclass(frozen=True)
class Opening:
    """One opening of the sealed test."""

    number: int
    time: str
    reason: str


@dataclass(frozen=True)
class Note:
    """An entry of the notebook; `run` and `gate` (a rule's code) say what it speaks of, where it speaks of one."""

    number: int
    time: str
    text: str
    run: str
    gate: str

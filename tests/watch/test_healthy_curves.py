"""No diagnosis fires on a healthy run, whatever its length, noise, schedule and batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testigo.rules import judge
from testigo.watch import Curve, Watcher, all_rules

RULES = [rule for rule in all_rules() if rule.evidence is Curve]
Steps = list[dict[str, Any]]


def schedule(n: int, kind: str, warmup: float) -> np.ndarray:
    at, first = np.arange(n), int(warmup * n)
    progress = np.clip((at - first) / max(n - first, 1), 0, 1)
    tail = {"cosine": 0.5 * (1 + np.cos(np.pi * progress)), "linear": 1 - progress, "constant": np.ones(n)}[kind]
    return np.where(at < first, at / max(first, 1), tail)


def healthy(seed: int, n: int | None = None) -> tuple[Steps, dict[str, Any]]:
    """A healthy run: a falling level, noise that grows with it, ragged batches, epochs, validations, a busy machine."""
    g = np.random.default_rng(seed)
    n = n or int(np.exp(g.uniform(np.log(10), np.log(600))))
    share = schedule(n, str(g.choice(["cosine", "linear", "constant"])), float(g.choice([0.0, 0.03, 0.1])))
    rates = share * 10 ** g.uniform(-6, -3)
    untrained = bool(g.random() < 0.2)
    vocabulary = int(g.choice([40, 500, 49152])) if untrained else 49152
    start = np.log(vocabulary) + 0.02 if untrained else g.uniform(0.3, 5)
    floor = start * g.uniform(0.02, 0.6 if untrained else 0.9)
    tau = n * np.exp(g.uniform(np.log(0.02), 0))
    level = floor + (start - floor) * np.exp(-np.cumsum(share) / tau)
    per_epoch = int(g.integers(5, max(6, n)))
    if g.random() < 0.4:
        level = level * 0.75 ** np.clip(np.arange(n) // per_epoch, 0, 6)
    rows = g.integers(1, 9, size=n)
    scatter = (
        float(g.choice([0.01, 0.05, 0.1, 0.2])) if untrained else float(g.choice([0.01, 0.05, 0.1, 0.2, 0.4, 0.6]))
    )
    size = scatter / np.sqrt(rows)
    kind = g.choice(["normal", "lognormal", "gamma"])
    if kind == "normal":
        factor = np.clip(1 + np.minimum(size, 0.35) * g.normal(size=n), 0.02, None)
    elif kind == "lognormal":
        factor = np.exp(size * g.normal(size=n) - size**2 / 2)
    else:
        factor = g.gamma(1 / size**2, size**2)
    if untrained:  # a model that knows nothing finds all rows equally hard
        factor = 1 + (factor - 1) * np.clip(2 * (start - level) / start, 0.02, 1)
    tokens = rows * g.integers(100, 2000, size=n)
    seconds = tokens / 5000 * np.exp(0.3 * g.normal(size=n)) + 0.01
    seconds[:2] *= 20
    columns = {
        "loss": level * factor,
        "learning_rate": rates,
        "gradient_norm": np.exp(g.uniform(0.1, 1.0) * g.normal(size=n)) * np.sqrt(level / start),
        "tokens": tokens,
        "supervised_tokens": 20 * rows,
        "seconds": seconds,
        "resident_bytes": 2e9 + 3e8 * (1 - np.exp(-np.arange(n) / 20)) + 5e6 * g.normal(size=n),
        "allocated_bytes": 1e9 + 1e4 * tokens,
        "epoch": (np.arange(n) + 1) / per_epoch,
    }
    every = int(g.integers(3, max(4, n // 4)))
    gap, wobble = g.uniform(0, 0.15), float(g.choice([0.002, 0.01, 0.03]))
    smooth = floor * (1 + gap) + (start - floor) * np.exp(-np.cumsum(share) / tau)
    steps: Steps = []
    for at in range(n):
        steps.append({"update": at + 1, "skipped": False} | {name: float(v[at]) for name, v in columns.items()})
        if (at + 1) % every == 0:
            loss = float(smooth[at] * (1 + wobble * g.normal()))
            steps.append({"update": at + 1, "validation_loss": loss, "validation_tokens": 100})
    base = float(start * np.exp(0.05 * g.normal()))
    return steps, {"planned_learning_rates": rates.tolist(), "vocabulary_size": vocabulary, "base_loss": base}


def live_findings(steps: Steps, about: dict[str, Any]) -> list[tuple[str, str]]:
    watcher = Watcher(rules=RULES, **about)
    return [(finding.code, finding.observed) for step in steps for finding in watcher.feed(step)]


@pytest.mark.parametrize("block", range(8))
def test_hundreds_of_healthy_runs_raise_no_alarm_live_or_afterwards(block: int) -> None:
    for seed in range(100 * block, 100 * (block + 1)):
        steps, about = healthy(seed)
        assert live_findings(steps, about) == [], seed
        assert judge(RULES, [Curve.from_steps(steps, **about)]).findings == (), seed


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(10**6, 2 * 10**6), n=st.integers(10, 40))
def test_tiny_runs_raise_no_alarm(seed: int, n: int) -> None:
    steps, about = healthy(seed, n)

    assert live_findings(steps, about) == []


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    fall=st.floats(0.1, 0.9),
    noise=st.floats(0.0, 0.1),
    n=st.integers(60, 900),
    seed=st.integers(0, 10**6),
)
def test_a_slowly_improving_curve_is_no_plateau(fall: float, noise: float, n: int, seed: int) -> None:
    losses = 3 * (1 - fall * np.arange(n) / n) * (1 + noise * np.random.default_rng(seed).normal(size=n))
    steps = [{"update": at + 1, "loss": float(loss), "learning_rate": 1e-4} for at, loss in enumerate(losses)]

    found = live_findings(steps, {"planned_learning_rates": [1e-4] * n})

    assert "T111" not in {code for code, _ in found}


def sick_curve(seed: int) -> np.ndarray:
    g = np.random.default_rng(seed)
    losses = (2 + 2 * np.exp(-np.arange(160) / 40)) * (1 + 0.03 * g.normal(size=160))
    losses[90] *= 3
    losses[120:] = np.linspace(3, 12, 40)
    return losses


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.125, 0.5, 4.0, 64.0]), healthy_one=st.booleans())
def test_diagnoses_of_shape_do_not_depend_on_the_scale(seed: int, scale: float, healthy_one: bool) -> None:
    """Powers of two scale exactly, so even borderline cases must agree."""
    losses = sick_curve(seed)[: 80 if healthy_one else 160]
    shape = [rule for rule in RULES if rule.code in ("T104", "T109", "T112", "T115", "T116")]

    def codes(values: np.ndarray) -> list[str]:
        steps = [{"update": at + 1, "loss": float(loss)} for at, loss in enumerate(values)]
        return [finding.code for finding in judge(shape, [Curve.from_steps(steps)]).findings]

    assert codes(losses) == codes(losses * scale)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), shift=st.floats(-1.0, 1.0))
def test_a_clear_spike_and_a_divergence_are_found_at_another_level(seed: int, shift: float) -> None:
    losses = sick_curve(seed) + shift
    spiked = [{"update": at + 1, "loss": float(loss)} for at, loss in enumerate(losses[:120])]
    diverged = [{"update": at + 1, "loss": float(loss)} for at, loss in enumerate(losses)]

    assert "T104" in {code for code, _ in live_findings(spiked, {})}
    assert "T109" in {code for code, _ in live_findings(diverged, {})}

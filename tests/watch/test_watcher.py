"""The live watch: once a fault, at once where it matters, in bounded memory, and without touching anything."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np

from testigo.rules import Finding, found, passed, rule
from testigo.watch import Curve, Watcher

NAN = float("nan")


def step(update: int, loss: float = 2.0, **values: Any) -> dict[str, Any]:
    return {"update": update, "loss": loss, "gradient_norm": 1.0, "learning_rate": 1e-4, "skipped": False} | values


def test_a_nan_is_reported_at_its_own_update_with_its_rows() -> None:
    watcher = Watcher()

    assert watcher.feed(step(1)) == ()
    assert watcher.feed(step(2)) == ()
    (finding,) = watcher.feed(step(3, NAN, rows=["row 7"]))

    assert (finding.code, finding.severity, finding.rows) == ("T101", "stop", ("row 7",))
    assert "update 3" in finding.observed


def test_a_code_is_reported_at_most_once_in_fifty_updates() -> None:
    watcher = Watcher()
    reported = [update for update in range(1, 131) for f in watcher.feed(step(update, NAN)) if f.code == "T101"]

    assert reported == [1, 51, 101]


def test_an_event_is_not_reported_again_when_the_quiet_time_is_over() -> None:
    watcher = Watcher()
    noise = np.random.default_rng(0).normal(size=400)
    losses = 2 + 0.02 * noise
    losses[60] = 7.0
    reported = [
        update
        for update, loss in enumerate(losses, 1)
        for f in watcher.feed(step(update, float(loss)))
        if f.code == "T104"
    ]

    assert reported == [61]


def test_a_wrong_learning_rate_is_reported_at_once() -> None:
    watcher = Watcher(planned_learning_rates=[1e-4] * 10)
    watcher.feed(step(1))

    assert [f.code for f in watcher.feed(step(2, learning_rate=5e-5))] == ["T113"]


def test_exploding_gradients_are_reported_at_once() -> None:
    watcher = Watcher()
    reported = [
        update
        for update in range(1, 325)
        for finding in watcher.feed(step(update, gradient_norm=50.0 if update > 320 else 1.0))
        if finding.code == "T108"
    ]

    assert reported == [323]


def test_the_last_update_that_is_planned_is_judged() -> None:
    losses = [2 + 0.01 * (at % 3) + 0.02 * max(at - 100, 0) for at in range(149)]

    def codes(planned: int | None) -> set[str]:
        watcher = Watcher(planned_updates=planned)
        watcher.JUDGES_EVENTS = False
        return {f.code for at, loss in enumerate(losses, 1) for f in watcher.feed(step(at, loss))}

    assert "T109" in codes(149)
    assert "T109" not in codes(None)


def test_limits_of_the_campaign_reach_the_rules() -> None:
    losses = [2.0 + 0.01 * (at % 3) for at in range(40)]
    losses[30] = 4.0

    def codes(**limits: Any) -> set[str]:
        watcher = Watcher(limits={"T104": limits} if limits else None)
        return {f.code for at, loss in enumerate(losses, 1) for f in watcher.feed(step(at, loss))}

    assert "T104" in codes()
    assert "T104" not in codes(spreads=1000)


def test_a_resumed_run_replaces_what_it_does_again() -> None:
    watcher, straight = Watcher(), Watcher()
    for update in range(1, 9):
        watcher.feed(step(update, 2.0 + update))
    for update in range(6, 12):
        watcher.feed(step(update, 1.0 + update))
    for update in range(1, 12):
        straight.feed(step(update, 2.0 + update if update < 6 else 1.0 + update))

    assert watcher.curve().updates.tolist() == list(range(1, 12))
    assert watcher.curve().losses.tolist() == straight.curve().losses.tolist()


def test_a_replay_is_silent_and_leaves_the_same_state() -> None:
    watcher = Watcher()
    watcher.replay(step(update, NAN if update == 3 else 2.0) for update in range(1, 30))

    assert watcher.curve().updates.tolist() == list(range(1, 30))
    assert watcher.feed(step(30)) == ()


def test_a_long_run_is_kept_in_bounded_memory_with_its_head_and_its_end() -> None:
    watcher = Watcher(rules=[])
    for update in range(1, 5001):
        watcher.feed(step(update, float(update), rows=[str(update)]))
    curve = watcher.curve()

    assert len(curve) <= 768
    assert curve.updates[:32].tolist() == list(range(1, 33))
    assert curve.updates[-256:].tolist() == list(range(4745, 5001))
    assert (np.diff(curve.updates) > 0).all()
    assert np.array_equal(curve.losses, curve.updates)
    assert len(curve.rows) <= 256


def test_a_fault_after_thousands_of_updates_is_still_found() -> None:
    watcher = Watcher()
    noise = np.random.default_rng(1).normal(size=3000)
    losses = (1 + 2 * np.exp(-np.arange(3000) / 300)) * (1 + 0.05 * noise)
    losses[2900:] = np.linspace(1.5, 9, 100)
    reported = {f.code: at for at, loss in enumerate(losses, 1) for f in watcher.feed(step(at, float(loss)))}

    assert set(reported) == {"T109", "T116"}
    assert reported["T109"] > 2900


def test_watching_draws_no_random_number_and_changes_no_step() -> None:
    random.seed(3)
    np.random.seed(3)
    before, before_numpy = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
    watcher = Watcher(planned_learning_rates=[1e-4] * 100, vocabulary_size=40, base_loss=2.0)
    fed = [step(update, rows=["a"], row_losses={"a": 2.0}) for update in range(1, 101)]
    copies = [dict(one) for one in fed]
    for one in fed:
        watcher.feed(one)

    assert random.getstate() == before
    assert np.random.get_state()[1].tolist() == before_numpy  # type: ignore[index]
    assert fed == copies


def test_a_users_own_rule_over_the_curve_is_watched_too() -> None:
    @rule("Z902", "too-high", "warn", phase="training")
    def too_high(curve: Curve, most: float = 3.0) -> Finding | Any:
        """The loss is low.

        Why it matters: it does.

        What to do: lower it.

        Source: the user.
        """
        return found(f"{curve.losses[-1]}") if curve.losses[-1] > most else passed("low")

    watcher = Watcher(rules=[too_high])

    assert [f.code for update in range(1, 21) for f in watcher.feed(step(update, 5.0))] == ["Z902"]


def test_the_watch_knows_no_tensor_library() -> None:
    folder = Path(__import__("testigo.watch", fromlist=["watch"]).__file__).parent

    assert all(
        "torch" not in line
        for path in folder.glob("*.py")
        for line in path.read_text().splitlines()
        if "import" in line
    )

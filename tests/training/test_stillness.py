"""A run that stands still is told once, by whoever listens to it."""

from __future__ import annotations

from testigo.training.stillness import Stillness


def heard(seconds: float, n: int = 9) -> Stillness:
    own = Stillness(0.0)
    for update in range(1, n + 1):
        own.hear({"update": update, "loss": 2.0, "seconds": seconds}, now=float(update))
    return own


def test_a_run_that_stands_still_is_told_once_and_again_after_it_went_on() -> None:
    own = heard(2.0)

    assert own.words(300.0) is None
    assert own.words(700.0) == "note M111 stall: nothing since update 9, 12 min ago; 2 s are usual"
    assert own.words(900.0) is None
    own.hear({"update": 10, "validation_loss": 2.0, "seconds": 1.0}, now=1000.0)
    assert own.words(1100.0) is None
    assert "since update 10" in str(own.words(1700.0))


def test_slow_updates_and_the_first_ones_are_not_called_a_stall() -> None:
    assert heard(60.0).words(1000.0) is None
    assert heard(2.0, n=4).words(9000.0) is None

"""Schedules, groups, clipping."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from testigo.training.optimizer import build_optimizer, clip, learning_rate_at, set_learning_rate, warmup_updates


def rates(kind: str, *, warmup: int, n: int) -> list[float]:
    return [learning_rate_at(u, peak=1.0, kind=kind, warmup_updates=warmup, n_updates=n) for u in range(1, n + 1)]


def test_warm_up_rises_in_even_steps_to_the_peak() -> None:
    assert rates("constant", warmup=4, n=6) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_linear_falls_in_even_steps_and_wastes_no_update() -> None:
    assert rates("linear", warmup=0, n=4) == [1.0, 0.75, 0.5, 0.25]
    assert rates("linear", warmup=2, n=6) == [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]


def test_cosine_falls_along_half_a_wave() -> None:
    expected = [0.5, 1.0, *(0.5 * (1 + math.cos(math.pi * k / 4)) for k in range(4))]
    assert rates("cosine", warmup=2, n=6) == pytest.approx(expected, abs=1e-15)
    assert rates("cosine", warmup=2, n=6)[4] == pytest.approx(0.5)


@pytest.mark.parametrize("kind", ["cosine", "linear", "constant"])
def test_one_update_and_warm_up_alone_have_a_rate(kind: str) -> None:
    assert rates(kind, warmup=0, n=1) == [1.0]
    assert rates(kind, warmup=1, n=1) == [1.0]
    assert rates(kind, warmup=5, n=5)[-1] == 1.0


@pytest.mark.parametrize(
    ("share", "n", "expected"), [(0, 100, 0), (0.05, 100, 5), (0.01, 10, 1), (1, 8, 8), (0.05, 30, 2)]
)
def test_a_share_of_warm_up_is_so_many_updates(share: float, n: int, expected: int) -> None:
    assert warmup_updates(share, n) == expected


def layer() -> dict[str, nn.Parameter]:
    return {"weight": nn.Parameter(torch.ones(2, 3)), "bias": nn.Parameter(torch.ones(3))}


def test_matrices_decay_and_vectors_do_not() -> None:
    own = layer()
    made = build_optimizer(own, learning_rate=0.1, weight_decay=0.5)
    for parameter in own.values():
        parameter.grad = torch.zeros_like(parameter)
    made.step()
    assert torch.allclose(own["weight"], torch.full((2, 3), 0.95))
    assert torch.equal(own["bias"], torch.ones(3))


def test_only_vectors_or_only_matrices_are_an_optimizer_too() -> None:
    for name in ("weight", "bias"):
        own = {name: layer()[name]}
        made = build_optimizer(own, learning_rate=0.1, weight_decay=0.5)
        assert [p for group in made.param_groups for p in group["params"]] == list(own.values())


def test_the_rate_is_set_for_every_group() -> None:
    made = build_optimizer(layer(), learning_rate=0.1, weight_decay=0.5)
    set_learning_rate(made, 0.02)
    assert [group["lr"] for group in made.param_groups] == [0.02, 0.02]


def test_clipping_scales_the_whole_gradient_to_the_limit() -> None:
    own = layer()
    own["weight"].grad, own["bias"].grad = torch.full((2, 3), 3.0), torch.full((3,), 4.0)
    norm = clip(list(own.values()), 1.0)
    assert norm == pytest.approx((9 * 6 + 16 * 3) ** 0.5)
    assert float(torch.cat([p.grad.flatten() for p in own.values()]).norm()) == pytest.approx(1.0, rel=1e-5)
    assert float(own["bias"].grad[0] / own["weight"].grad[0, 0]) == pytest.approx(4 / 3)


def test_a_small_gradient_and_no_limit_leave_the_gradient_as_it_is() -> None:
    for maximum in (100.0, None):
        own = layer()
        own["weight"].grad, own["bias"].grad = torch.full((2, 3), 3.0), torch.full((3,), 4.0)
        clip(list(own.values()), maximum)
        assert torch.equal(own["weight"].grad, torch.full((2, 3), 3.0))

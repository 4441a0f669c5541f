"""Healthy campaigns: no rule of the pilot raises an alarm, whatever the model, the method and the layout."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tiny import Tiny

    from testigo.rules import Verdict

LORA = {"method": "lora", "rank": 4, "alpha": 8, "dropout": 0.1}
TWINS = list(itertools.product(("llama", "gpt2", "qwen2"), ("lora", "full"), ("packed", "padded")))


@pytest.fixture(scope="module")
def even(tiny: Tiny) -> None:
    """Random bases that guess about evenly. One whose wide weights guess worse than that is no healthy base."""
    import tiny as bases

    for kind in bases.CONFIGURATIONS:
        bases.save_base(tiny.folder / f"even-{kind}", kind, seed=1, spread=0.05 if kind == "qwen2" else 0.3)


@pytest.mark.usefixtures("even")
@pytest.mark.parametrize(("kind", "method", "layout"), TWINS)
def test_a_healthy_campaign_raises_no_alarm(pilot: Callable[..., Verdict], kind: str, method: str, layout: str) -> None:
    checkpointing = (method == "lora") == (layout == "packed")  # on in half of the twins, with each method and layout
    changes: dict[str, Any] = {
        "model.base": f"path:even-{kind}",
        "model.adapter": LORA if method == "lora" else {"method": "full"},
        "training.learning_rate": 1e-2 if method == "lora" else 1e-3,
        "encoding.layout": layout,
        "training.activation_checkpointing": checkpointing,
    }
    verdict = pilot(changes)
    assert [finding for finding in verdict.findings if finding.severity != "note"] == []
    seen = {passed.code for passed in verdict.passed}
    assert {"E107", "E116", "F104", "F106", "B108", "U107", "U114", "U122", "V102", "X102", "R105"} <= seen
    assert ("B111" in seen) == checkpointing


@pytest.mark.usefixtures("even")
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_healthy_campaign_in_half_precision_raises_no_alarm(pilot: Callable[..., Verdict], precision: str) -> None:
    verdict = pilot({"model.base": "path:even-llama", "model.precision": precision})
    assert [finding for finding in verdict.findings if finding.severity != "note"] == []

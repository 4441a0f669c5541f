"""Settings of a Trainer that several processes stumble over, found on the one process in which the script is tried."""

from __future__ import annotations

from typing import Any

import pytest

import testigo


@pytest.mark.parametrize(
    ("reentrant", "searches", "stops"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_reentrant_checkpointing_beside_a_search_for_unused_parameters_is_refused_before_launch(
    shop: Any, reentrant: bool, searches: bool, stops: bool
) -> None:  # C28
    model = shop.lora(shop.llama())
    model.enable_input_require_grads()
    trainer = shop.trainer(
        model,
        activation_checkpointing=True,
        activation_checkpointing_kwargs={"use_reentrant": reentrant},
        ddp_find_unused_parameters=searches,
    )
    found = {finding.code: finding for finding in testigo.pilot(trainer).findings}
    assert ("U133" in found) is stops
    if stops:
        assert found["U133"].severity == "stop"
        assert "ddp_find_unused_parameters=False" in found["U133"].remedy

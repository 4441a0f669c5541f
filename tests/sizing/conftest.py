"""Tiny architectures, and campaigns on them: configurations alone, no weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import memory
import pytest

from testigo.campaign import Campaign


@pytest.fixture(scope="session")
def campaign_on(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Campaign]:
    """A campaign on one of the tiny architectures: its folder holds config.json and nothing else."""
    return memory.campaign_in(tmp_path_factory.mktemp("campaigns"))


@pytest.fixture(scope="session")
def configurations() -> dict[str, Any]:
    return memory.CONFIGURATIONS


def pytest_configure(config: pytest.Config) -> None:
    # libraries announce names to come
    config.addinivalue_line("filterwarnings", "ignore:.*(gradient_checkpointing|past_key_values).*:FutureWarning")
    config.addinivalue_line("filterwarnings", "ignore:fan_in_fan_out is set to False:UserWarning")  # peft on GPT-2

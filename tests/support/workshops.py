"""Fixtures of the tests that build Trainers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from shop import Workshop


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads cost tiny models more than they give."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)

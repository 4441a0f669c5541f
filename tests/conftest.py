"""What many rooms' tests stand on: tiny real models, and a tiny campaign on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from browser import Browser
    from small_disk import Disk
    from tiny import Tiny


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A campaign folder with three tiny bases (Llama, GPT-2, Qwen2) and sixty rows."""
    import tiny
    import torch

    torch.set_num_threads(1)  # threads gain nothing on small matrices, and sums run in one order
    folder = tmp_path_factory.mktemp("tiny")
    for kind in tiny.CONFIGURATIONS:
        tiny.save_base(folder / kind, kind)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in tiny.rows())
    (folder / "orders.jsonl").write_text(lines, encoding="utf-8")
    return tiny.Tiny(folder)


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A campaign of texts before a class head: bases BERT and Llama."""
    import classes
    import torch

    torch.set_num_threads(1)
    return classes.texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A campaign of images before a class head: bases ViT and ResNet."""
    import classes
    import torch

    torch.set_num_threads(1)
    return classes.images(tmp_path_factory.mktemp("images"))


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[int], Disk]]:
    """A small disk of so many bytes in memory."""
    from small_disk import Disk

    disks: list[Disk] = []

    def make(n_bytes: int) -> Disk:
        disks.append(Disk.mounted(tmp_path / f"disk{len(disks)}", n_bytes))
        return disks[-1]

    yield make
    for disk in disks:
        disk.let_go()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of dequantised bases, empty and of this test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real browser that reaches nothing but this machine; started once a process."""
    from browser import Browser

    made = Browser()
    yield made
    made.close()

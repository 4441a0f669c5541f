"""A workshop of tiny models, tokenizers and rows, from which each test builds its Trainer."""

from __future__ import annotations

from workshops import one_thread, shop

__all__ = ["one_thread", "shop"]

"""The workshop in which sick trainings and their twins are built."""

from __future__ import annotations

from workshops import one_thread, shop

__all__ = ["one_thread", "shop"]

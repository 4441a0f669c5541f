"""How a worker process is started: one launcher a file. Every launcher only starts ``python -m WORKER SPEC``."""

from __future__ import annotations

from testigo.training.launchers.placement import HERE, Placement, start

__all__ = ["HERE", "Placement", "start"]

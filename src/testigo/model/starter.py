"""A worker ends with whoever started it: at once when it has nothing to save."""

from __future__ import annotations

import os
import threading
import time

STARTER = "TESTIGO_STARTER"
"""The environment variable by which a launcher tells its process id: a worker that asks too late would find another."""
_STARTER = int(os.environ.get(STARTER, os.getppid()))
_INTERRUPTED = 3
_LOOK_EVERY_SECONDS = 0.1


def is_orphaned() -> bool:
    """Whether the process that started this one is gone."""
    return os.getppid() != _STARTER


def end_with_starter() -> None:
    """End at once when the process that started this one is gone: the next start does the same work anew."""

    def watch() -> None:
        while not is_orphaned():
            time.sleep(_LOOK_EVERY_SECONDS)
        os._exit(_INTERRUPTED)

    threading.Thread(target=watch, daemon=True).start()

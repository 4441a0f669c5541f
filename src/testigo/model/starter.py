"""A worker that has nothing to save ends with whoever started it."""

from __future__ import annotations

import os
import threading
import time

STARTER = "TESTIGO_STARTER"
"""The environment variable by which a launcher tells its process id: a worker that asks too late would find another."""
_INTERRUPTED = 3
_LOOK_EVERY_SECONDS = 0.1


def end_with_starter() -> None:
    """End at once when the process that started this one is gone: the next start does the same work anew."""
    starter = int(os.environ.get(STARTER, os.getppid()))

    def watch() -> None:
        while os.getppid() == starter:
            time.sleep(_LOOK_EVERY_SECONDS)
        os._exit(_INTERRUPTED)

    threading.Thread(target=watch, daemon=True).start()

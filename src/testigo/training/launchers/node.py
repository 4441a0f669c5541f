"""What happens on a node of a cluster: the same worker is started there, and told where it is.

Workspace, campaign and base lie on a file system that all nodes see: a worker reads its spec, its rows and its
checkpoints there, and writes its journal there, so a run goes on on any node.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from testigo.disk import write_json
from testigo.errors import TestigoError
from testigo.training.launchers import local

TOLD = "worker.json"
"""Beside the log: process id and host of the worker that is at work."""
MISSING = -1
"""Told in place of an exit code when the node does not see the workspace."""


def work(command: list[str], log: str) -> dict[str, Any]:
    """Start a worker on this node and wait for it; how it ended, as plain values.

    An interruption from the cluster reaches the worker as a signal: it saves and ends.
    """
    spec, out = Path(command[-1]), Path(log)
    if not spec.exists():
        return {"exit_code": MISSING, "host": platform.node(), "for_memory": False}
    told = out.with_name(TOLD)

    worker: dict[str, Any] = {"host": platform.node(), "ended": False}

    def tell(pid: int) -> None:
        worker["pid"] = pid
        write_json(told, worker)

    ended: dict[str, Any] = {"exit_code": 0, "host": platform.node(), "for_memory": False}
    try:
        for _ in local.start(*command, log=out, on_start=tell):
            pass
    except local.WorkerDied as died:
        ended |= {"exit_code": died.exit_code, "for_memory": died.for_memory}
    except TestigoError as error:  # it is in the log, from which whoever waits reads it
        ended |= {"exit_code": error.exit_code}
    finally:  # an interrupted task counts as done before its worker has saved: whoever waits looks here
        if "pid" in worker:
            write_json(told, worker | {"ended": True})
    return ended

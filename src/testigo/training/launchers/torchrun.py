"""Several processes of one run on this machine: ``python -m testigo.training.launchers.torchrun N SPEC.json [MODULE]``.

It is torchrun with one difference: it ends as its first process that failed did, so that whoever started it can tell a
kill from an error. Over several machines torchrun itself starts the same worker on each::

    torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:29400 --rdzv-id RUN \\
        -m testigo.training.worker RUN_DIR/spec.json
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from testigo.model.starter import STARTER, end_with_starter

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

_STOPPED = (signal.SIGTERM, signal.SIGINT)


def main(arguments: list[str]) -> int:
    """Start the workers and wait; 0 when each ended well, else the exit code of the first that did not."""
    n_processes, spec = int(arguments[0]), arguments[1]
    module = arguments[2] if len(arguments) > 2 else "testigo.training.worker"
    end_with_starter()  # the workers then find this process gone; they save and end by themselves
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ[STARTER] = str(os.getpid())
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=n_processes,
        run_id=str(os.getpid()),
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        monitor_interval=0.1,
        start_method="spawn",
    )
    try:
        elastic_launch(config, sys.executable)("-u", "-m", module, spec)
    except ChildFailedError as failed:
        code = cause(list(failed.failures.values()))
        if code < 0:
            signal.signal(-code, signal.SIG_DFL) if -code in _STOPPED else None
            os.kill(os.getpid(), -code)
        return code
    except SignalException:
        return 3
    return 0


def cause(failures: list[ProcessFailure]) -> int:
    """The exit code that the others follow from: an error or a stop that was told, a kill, else the first failure.

    A process that is killed takes its partners with it, and all may be found in one look. Failures are told by whole
    seconds; torchrun ends the rest by SIGTERM, and by SIGKILL half a minute later.
    """
    first = min(failures, key=lambda failure: failure.timestamp)
    told = [failure.exitcode for failure in failures if failure.exitcode in (2, 3)]
    at_once = [failure.exitcode for failure in failures if failure.timestamp <= first.timestamp + 1]
    kills = [code for code in at_once if code < 0 and code != -signal.SIGTERM]
    return [*told, *kills, first.exitcode][0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

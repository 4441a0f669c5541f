"""The first moments of a process: a room is imported and does its work, and Ctrl-C is told in a line from the start.

Loading takes seconds. A stop in the middle of it is an ordinary end, and no traceback of a library that was half read.
``python -m testigo.beginning ROOM ARGUMENTS`` is how a command becomes another room's program.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

INTERRUPTED = 3
_HOW = "Run the same command again to go on."


def testigo() -> NoReturn:
    """The entry point of `testigo`."""
    sys.exit(begin("testigo.cli"))


def begin(room: str, *arguments: Sequence[str]) -> int:
    """Import a room and call its `main`; the exit code is what that gives back, and 3 where it was stopped in loading.

    Raises
    ------
    Exception
        What the room raised, unless the loading was interrupted.
    """
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        code = import_module(room).main(*arguments)
    except KeyboardInterrupt:
        return interrupted(as_json="--json" in sys.argv)
    except (ImportError, SystemError) as error:
        if was_interrupted(error):
            return interrupted(as_json="--json" in sys.argv)
        raise
    return code if isinstance(code, int) else 0


def become(room: str, arguments: Sequence[str]) -> NoReturn:
    """This process goes on as another room's `main(arguments)`; Ctrl-C is held back until that one can tell it."""
    sys.stdout.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.execv(sys.executable, [sys.executable, "-m", "testigo.beginning", room, *arguments])


def was_interrupted(error: BaseException | None) -> bool:
    """Whether an error comes from a Ctrl-C: compiled libraries say of one that they could not be imported."""
    if not isinstance(error, ImportError | SystemError | KeyboardInterrupt):
        return False
    return isinstance(error, KeyboardInterrupt) or was_interrupted(error.__cause__ or error.__context__)


def interrupted(*, as_json: bool) -> int:
    """Tell that somebody asked to end, on standard error or as one JSON document; the exit code."""
    if as_json:
        problem = {
            "expected": "time to end",
            "found": "an interruption",
            "where": "this command",
            "action": "run the same command again to go on",
        }
        print(json.dumps({"ok": False, "problems": [problem]}, indent=1), flush=True)
    else:
        print(f"Interrupted. {_HOW}", file=sys.stderr, flush=True)
    return INTERRUPTED


if __name__ == "__main__":
    sys.exit(begin(sys.argv[1], sys.argv[2:]))

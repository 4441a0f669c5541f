"""Processes of Testigo that begin with their libraries loaded: a kill then costs what was killed, not a start of torch.

The product starts each process as ``python -m MODULE``. Here the last step of that, `exec`, is left out: the process is
a fork of one that has imported the libraries and computed nothing, and runs the same module as `__main__`, with the
same environment, files, session and parent. All else, from the launchers to the signals, is the product's own.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import runpy
import signal
import subprocess
import sys
import threading
from typing import Any

_COLD = subprocess.Popen._execute_child  # type: ignore[attr-defined]
_SWITCHES = ("-u",)


def begin() -> None:
    """Load what the processes of a campaign need, and start all of them warm from now on."""
    for name in (
        "testigo.cli", "testigo.conductor.story", "testigo.dossier.build", "testigo.evaluation.worker",
        "testigo.model.control", "testigo.model.export_worker", "testigo.pilot.worker", "testigo.training.prepare",
        "testigo.training.worker", "testigo.training.launchers.torchrun", "torch.distributed.launcher.api",
        "transformers.models.llama.modeling_llama",
    ):  # fmt: skip
        importlib.import_module(name)
    assert threading.active_count() == 1, "a fork keeps one thread alone"
    subprocess.Popen._execute_child = _execute_child  # type: ignore[attr-defined]


def _execute_child(
    self: Any, args: Any, executable: Any, preexec_fn: Any, close_fds: bool, pass_fds: Any, cwd: Any, env: Any,
    startupinfo: Any, creationflags: int, shell: bool, p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int,
    errread: int, errwrite: int, *rest: Any,
) -> None:  # fmt: skip
    """What `Popen` does last: here a fork that runs a module, where the command is one of Testigo's."""
    command = [] if shell or isinstance(args, str | bytes) else [os.fsdecode(part) for part in args]
    module = _module_of(command)
    if module is None:
        _COLD(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
              p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *rest)  # fmt: skip
        return
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            new_session = rest[-2]
            _become([module, *command[command.index("-m") + 2 :]], env, cwd, (p2cread, c2pwrite, errwrite), new_session)
            if preexec_fn is not None:
                preexec_fn()
            code = _run(module)
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            os._exit(code)
    self.pid = pid
    self._child_created = True
    self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


def _module_of(command: list[str]) -> str | None:
    """The module of ``python [-u] -m testigo…``."""
    own = [part for part in command[1:] if part not in _SWITCHES]
    is_ours = command[:1] == [sys.executable] and own[:1] == ["-m"] and own[1].partition(".")[0] == "testigo"
    return own[1] if is_ours else None


def _become(argv: list[str], env: Any, cwd: Any, streams: tuple[int, int, int], new_session: bool) -> None:
    """What `exec` and `Popen` would have made of this process."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    if new_session:
        os.setsid()
    for stream, number in zip(streams, range(3), strict=True):
        if stream not in (-1, number):
            os.dup2(stream, number)
    os.closerange(3, 4096)
    if env is not None:
        os.environ.clear()
        os.environ.update({os.fsdecode(name): os.fsdecode(value) for name, value in env.items()})
    if cwd is not None:
        os.chdir(cwd)
    sys.argv = argv
    from testigo import room
    from testigo.model import starter

    starter._STARTER = int(os.environ.get(starter.STARTER, os.getppid()))
    room._patience = None  # the parent's
    threading.current_thread().name = "MainThread"


def _run(module: str) -> int:
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        import traceback

        traceback.print_exc()
        return 1
    return 0

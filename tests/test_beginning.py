"""Ctrl-C while a command still loads is an ordinary end: one line, exit code 3, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

INTERRUPTED_AS_A_LIBRARY_TELLS = """
try:
    raise KeyboardInterrupt
except KeyboardInterrupt as stop:
    raise ImportError("half of a library") from stop
"""


def begun(folder: Path, room: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "a_room.py").write_text(room, encoding="utf-8")
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-m", "testigo.beginning", "a_room", *arguments],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


@pytest.mark.parametrize("room", ["raise KeyboardInterrupt", INTERRUPTED_AS_A_LIBRARY_TELLS])
def test_a_stop_while_a_room_loads_is_told_in_one_line(tmp_path: Path, room: str) -> None:
    done = begun(tmp_path, room)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "Interrupted. Run the same command again to go on.\n"
    done = begun(tmp_path, room, "--json")
    assert (done.returncode, done.stderr) == (3, "")
    assert json.loads(done.stdout)["problems"][0]["found"] == "an interruption"


def test_a_library_that_is_really_missing_is_no_interruption(tmp_path: Path) -> None:
    done = begun(tmp_path, "import no_such_library")
    assert done.returncode == 1
    assert "no_such_library" in done.stderr


def test_what_a_room_gives_back_is_the_exit_code(tmp_path: Path) -> None:
    assert begun(tmp_path, "def main(arguments): return len(arguments)", "a", "b").returncode == 2


@pytest.mark.parametrize("room", ["testigo.page.screen", "testigo.page.__main__", "testigo.cli"])
def test_a_stop_between_two_programs_is_told_by_the_second(tmp_path: Path, room: str) -> None:
    code = (
        "import os, signal, sys; from testigo.beginning import become;"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}); os.kill(os.getpid(), signal.SIGINT);"
        f"become({room!r}, [{str(tmp_path)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "Interrupted. Run the same command again to go on.\n"

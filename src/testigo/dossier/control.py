"""The control inputs of an adapter, tried again in a fresh process: the only part of a check that needs the model."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import TYPE_CHECKING, Any

from testigo.dossier.files import read_json
from testigo.errors import TestigoError
from testigo.model.base import locate
from testigo.training.launchers.local import environment

if TYPE_CHECKING:
    from testigo.training.start import Reporter

_STEP = "control inputs"
ControlCheck = Callable[[Path], Mapping[str, Any]]
"""Given the adapter's folder, answers `{"ok", "outputs_equal", "control_rows", "faults": [...]}`; with the
number of a signal as `ended_by` when one ended its process."""


def base_at_hand(reference: str) -> str:
    """Why the base that a dossier names cannot be loaded here without asking the network; empty when it can."""
    kind, _, name = reference.partition(":")
    if kind == "package" and name.isidentifier() and importlib.util.find_spec(name) is not None:
        return ""
    if kind == "path" and Path(name).is_dir():
        return ""
    if kind == "hub":
        return f"they need {reference}: give --base {reference} to fetch it"
    return f"the base {reference} is not here: give it with --base"


def runs_own_code(folder: Path) -> bool:
    """Whether the adapter of a dossier, or an adapter, says that it was made with code which its base brought."""
    for record in (folder / "adapter" / "testigo.json", folder / "testigo.json"):
        told = read_json(record) or {}
        base = told.get("base")
        if isinstance(base, Mapping) and base.get("code_sha256"):
            return True
    return False


def in_fresh_process(
    base: str,
    *,
    trusted: bool = False,
    timeout_seconds: float = 3600,
    reporter: Reporter | None = None,
) -> ControlCheck:
    """A check that loads `base` with the adapter in a process of its own.

    Parameters
    ----------
    base
        As in the campaign file: `hub:NAME@REVISION`, `path:FOLDER` or `package:NAME`.
    trusted
        Whether the Python files that it brings may run.
    reporter
        Hears how many control inputs are answered, of how many.
    """

    def check(adapter: Path) -> Mapping[str, Any]:
        try:
            locate(base, trusted=trusted)  # here, where a hub base may be fetched: the process itself is offline
        except TestigoError as error:
            return {
                "ok": False,
                "faults": [f"the base is not here: {error.problems[0].where}, {error.problems[0].found}"],
            }
        # -P: a folder that came with the dossier must not shadow our own modules.
        command = [sys.executable, "-P", "-m", "testigo.model.control", str(adapter), "--base", base, "--tell"]
        command += ["--trust-remote-code"] if trusted else []
        if reporter is None:
            return _answer(command, timeout_seconds, lambda done, of: None)
        reporter.progress(_STEP, 0, 0, "the model is loaded by a fresh process")
        try:
            return _answer(command, timeout_seconds, partial(reporter.progress, _STEP))
        finally:
            reporter.ended(_STEP)

    return check


def _answer(command: list[str], timeout_seconds: float, on_input: Callable[[int, int], object]) -> Mapping[str, Any]:
    """What the process says in its last line; those before tell how far it is."""
    answer: dict[str, Any] = {}
    began = time.monotonic()
    with TemporaryFile("w+", errors="replace") as words:
        try:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=words, text=True, errors="replace", env=environment()
            )
        except OSError as error:
            return _fault(f"failed: {error}")
        too_long = Timer(timeout_seconds, process.kill)
        too_long.start()
        with process:
            try:
                for line in process.stdout or ():
                    answer = _read(line)
                    if "done" in answer:
                        on_input(answer["done"], answer["of"])
                code = process.wait()
            finally:
                too_long.cancel()
                process.kill()  # where this process is interrupted; one that has ended does not mind
        words.seek(0)
        last = (words.read().strip().splitlines() or [f"exit code {code}, no message"])[-1]
    if "ok" in answer:
        return answer
    if time.monotonic() - began > timeout_seconds:
        return _fault(f"took longer than {timeout_seconds:.0f} s")
    told = _fault(f"gave no answer: {last}")
    return {**told, "ended_by": -code} if code < 0 else told


def _read(line: str) -> dict[str, Any]:
    """A line as it was told; empty where a library printed something."""
    try:
        told = json.loads(line)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _fault(words: str) -> dict[str, Any]:
    return {"ok": False, "faults": [f"the process of the control inputs {words}"]}

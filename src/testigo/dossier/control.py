"""The control inputs of an adapter, tried again in a fresh process: the only part of a check that needs the model."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from testigo.dossier.files import read_json
from testigo.errors import TestigoError
from testigo.model.base import locate
from testigo.training.launchers.local import environment

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


def in_fresh_process(base: str, *, trusted: bool = False, timeout_seconds: float = 3600) -> ControlCheck:
    """A check that loads `base` with the adapter in a process of its own.

    Parameters
    ----------
    base
        As in the campaign file: `hub:NAME@REVISION`, `path:FOLDER` or `package:NAME`.
    trusted
        Whether the Python files that it brings may run.
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
        command = [sys.executable, "-P", "-m", "testigo.model.control", str(adapter), "--base", base]
        command += ["--trust-remote-code"] if trusted else []
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=timeout_seconds, check=False, env=environment()
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return {"ok": False, "faults": [f"the process of the control inputs failed: {error}"]}
        try:
            answer = json.loads((done.stdout.strip().splitlines() or [""])[-1])
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}, no message"])[-1]
            answer = {"ok": False, "faults": [f"the process of the control inputs gave no answer: {last}"]}
            if done.returncode < 0:
                answer["ended_by"] = -done.returncode
        return answer

    return check

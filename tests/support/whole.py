"""Whole campaigns on a tiny model, as a user runs them: by the command line, with real worker processes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import tiny
from ruamel.yaml import YAML

from testigo.cli import run
from testigo.disk import read_lines
from testigo.ledger import Event, Ledger

# Dropout, so that random states matter; more checkpoints than are kept; validations between them.
SETTINGS: dict[str, Any] = {
    "model.adapter.dropout": 0.1,
    "training.updates": 30,
    "training.validate_every": 5,
    "training.checkpoint": {"every": 3, "keep": 2},
}


def _hears_interruptions() -> None:
    """A shell starts what it puts into the background deaf to Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass(frozen=True)
class Answer:
    """What a command gave back."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on standard output."""
        document: dict[str, Any] = json.loads(self.out)
        return document

    @property
    def problem(self) -> dict[str, str]:
        """The only problem of a refused command, which has its four parts."""
        (problem,) = self.document["problems"]
        assert set(problem) == {"expected", "found", "where", "action"}
        assert all(problem.values()), problem
        return problem


@dataclass(frozen=True)
class Place:
    """A folder with a campaign file, its base and rows, and the workspace that it makes."""

    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "campaign.yaml"

    @property
    def workspace(self) -> Path:
        return self.folder / "tiny.testigo"

    def testigo(self, command: str, *options: str) -> Answer:
        """A command on this campaign, in this process; what it starts are real processes."""
        named = (*command.split(), str(self.file), "--workspace", str(self.workspace), *options)
        return testigo(*named)

    def start(self, command: str, *options: str, stderr: int | IO[str] = subprocess.PIPE) -> subprocess.Popen[str]:
        """A command on this campaign in a process group of its own."""
        named = (*command.split(), str(self.file), "--workspace", str(self.workspace), *options)
        return subprocess.Popen(
            [sys.executable, "-m", "testigo", *named], start_new_session=True, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=stderr, preexec_fn=_hears_interruptions,
        )  # fmt: skip

    def change(self, changes: Mapping[str, Any]) -> None:
        """Edit the campaign file by dotted keys."""
        yaml = YAML()
        plain = yaml.load(self.file.read_text(encoding="utf-8"))
        for key, value in changes.items():
            *sections, last = key.split(".")
            section = plain
            for name in sections:
                section = section.setdefault(name, {})
            section[last] = value
        with self.file.open("w", encoding="utf-8") as file:
            yaml.dump(plain, file)

    def copy(self, folder: Path) -> Place:
        """The same campaign, with all that it did so far, in another folder."""
        shutil.copytree(self.folder, folder)
        return Place(folder)

    def events(self, kind: str | None = None) -> tuple[Event, ...]:
        with Ledger.open(self.workspace / "ledger.sqlite", create=False) as ledger:
            return ledger.events(kind)

    def steps(self, run: Path) -> list[dict[str, Any]]:
        return [line for line in read_lines(run / "steps.jsonl") if "loss" in line]

    @property
    def only_run(self) -> Path:
        (run,) = (self.workspace / "runs").iterdir()
        return run


@dataclass(frozen=True)
class Finished:
    """A campaign that went from its file to its dossier; before that, its baseline and pilot were asked for alone.

    `words` are what the other commands answered, in `shared` lies all that was written, and `without_route` counts the
    packets that the kernel found no way for where the campaign had a network of its own.
    """

    place: Place
    piloted: Place
    shared: Path
    answers: dict[str, dict[str, Any]]
    words: list[str]
    network: str
    without_route: int


def make(folder: Path, changes: Mapping[str, Any] | None = None, *, kind: str = "llama") -> Place:
    """A campaign on a tiny base of a kind."""
    tiny.save_base(folder / kind, kind)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in tiny.rows())
    (folder / "orders.jsonl").write_text(lines, encoding="utf-8")
    tiny.Tiny(folder).campaign({**SETTINGS, "model.base": f"path:{kind}", **(changes or {})})
    return Place(folder)


def testigo(*arguments: str) -> Answer:
    """A command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    return Answer(code, out.getvalue(), err.getvalue())


def weights(place: Place) -> tuple[str, str]:
    """What a finished campaign's weights are: at the end of its run, and in its export."""
    result = json.loads((place.only_run / "result.json").read_text(encoding="utf-8"))
    export = json.loads((place.workspace / "dossier" / "adapter" / "testigo.json").read_text(encoding="utf-8"))
    return result["final_weights_sha256"], export["weights_sha256"]

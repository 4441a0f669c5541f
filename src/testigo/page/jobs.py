"""Commands of Testigo that the page starts as processes of their own: the page knows no second way to do anything."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from testigo.errors import Problem

MOST_SECONDS = 900.0


@dataclass(frozen=True)
class Answer:
    """What a command gave back: its document, and what was wrong."""

    document: dict[str, Any]
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether it did what was asked."""
        return not self.problems


@dataclass(frozen=True)
class Job:
    """A command for a certain state of the workspace: `answer` is None while it goes on."""

    key: str
    answer: Answer | None = None


class Jobs:
    """What goes on in the background, one command of a name at a time; and what came of the last of each."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._going: set[subprocess.Popen[str]] = set()
        self._n = 0
        self._closed = False

    @property
    def state(self) -> str:
        """Changes when a job begins or ends."""
        return str(self._n)

    def get(self, name: str) -> Job | None:
        """The last job of a name."""
        return self._jobs.get(name)

    def start(
        self, name: str, key: str, arguments: Sequence[str], then: Callable[[Answer], object] = lambda answer: None
    ) -> Job:
        """Begin a command unless one of this name and key is there or one of this name goes on; what there is of it."""
        with self._lock:
            known = self._jobs.get(name)
            if known is not None and (known.answer is None or known.key == key):
                return known
            job = self._jobs[name] = Job(key)
            self._n += 1
        threading.Thread(target=self._work, args=(name, job, arguments, then), daemon=True).start()
        return job

    def run(self, arguments: Sequence[str]) -> Answer:
        """A command to its end."""
        command = [sys.executable, "-m", "testigo", *arguments, "--json"]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._going.add(process)
        try:
            if self._closed:
                process.terminate()
            out, _ = process.communicate(timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
        finally:
            self._going.discard(process)
        return _answer(out, arguments[0], process.returncode)

    def close(self) -> None:
        """End what goes on: nobody waits for it any more."""
        self._closed = True
        for process in list(self._going):
            process.terminate()

    def _work(self, name: str, job: Job, arguments: Sequence[str], then: Callable[[Answer], object]) -> None:
        answer = self.run(arguments)
        then(answer)
        with self._lock:
            self._jobs[name] = replace(job, answer=answer)
            self._n += 1


def _answer(out: str, command: str, code: int) -> Answer:
    try:
        document = json.loads(out)
    except ValueError:
        document = {}
    told = document.get("problems") if isinstance(document, dict) else None
    problems = tuple(Problem(**{key: str(value) for key, value in one.items()}) for one in told or ())
    if not document and not problems:
        found = f"it ended with code {code} and no word"
        problems = (Problem("an answer", found, f"testigo {command}", "run it in a terminal"),)
    return Answer(document if isinstance(document, dict) else {}, problems)

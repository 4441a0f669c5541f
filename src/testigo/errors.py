"""The errors that a user can meet, and what each means for the process.

::

    TestigoError                 exit code 2: the input is wrong
    ├── CampaignError            the campaign file
    ├── DataError                rows, files and splits
    ├── EncodingError            what the model would see
    ├── ModelError               base, adapter, precision
    ├── WorkspaceError           folder, disk, another campaign's workspace
    │   └── DiskFull             no room on the disk: the work waits for some where it can
    ├── LedgerError              the record of what happened
    ├── ResumeRefused            the run on disk is not the run that was asked for
    ├── MissingExtra             an optional library is not installed
    ├── GateFailed               exit code 1: a stop-rule found a fault
    ├── VerificationFailed       exit code 1: a dossier, adapter or ledger is not what it claims
    ├── Interrupted              exit code 3: run the same command again to go on
    └── FaultOfTestigo           exit code 70: our own fault, to be reported
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from testigo.redaction import without_secrets


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, in four parts."""

    expected: str
    found: str
    where: str
    action: str

    def redacted(self) -> Problem:
        """Without passwords and tokens, wherever they came from."""
        return Problem(*map(without_secrets, (self.expected, self.found, self.where, self.action)))

    def __str__(self) -> str:
        return f"{self.where}\n  expected: {self.expected}\n  found:    {self.found}\n  do:       {self.action}"


class TestigoError(Exception):
    """A user's error: one or many problems, each in four parts, never a traceback."""

    exit_code = 2
    __test__ = False

    def __init__(
        self,
        *,
        expected: str = "",
        found: str = "",
        where: str = "",
        action: str = "",
        problems: Sequence[Problem] = (),
    ) -> None:
        every = tuple(problems) or (Problem(expected, found, where, action),)
        self.problems = tuple(problem.redacted() for problem in every)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class CampaignError(TestigoError):
    """The campaign file cannot be what the user meant."""


class DataError(TestigoError):
    """Rows, files or splits are not usable as they are."""


class EncodingError(TestigoError):
    """What the model would see is not what the row says."""


class ModelError(TestigoError):
    """The base, the adapter or the precision cannot be used."""


class WorkspaceError(TestigoError):
    """The workspace folder cannot be used."""


class DiskFull(WorkspaceError):
    """There is no room on the disk."""


class LedgerError(TestigoError):
    """The ledger cannot be read or written."""


class ResumeRefused(TestigoError):
    """The run on disk is another run than the one that was asked for."""


class MissingExtra(TestigoError):
    """An optional library is needed and not installed."""

    def __init__(self, library: str, extra: str, what_for: str) -> None:
        super().__init__(
            expected=f"the library {library}, which {what_for}",
            found="it is not installed",
            where=f"extra '{extra}'",
            action=f"pip install 'testigo[{extra}]'",
        )


class GateFailed(TestigoError):
    """A stop-rule found a fault; the campaign waits until it is mended or waived with a reason."""

    exit_code = 1


class VerificationFailed(TestigoError):
    """Something on disk is not what its record says."""

    exit_code = 1


class Interrupted(TestigoError):
    """The work was stopped from outside; the same command goes on."""

    exit_code = 3


class FaultOfTestigo(TestigoError):
    """A fault of Testigo's own in one of its processes; nothing that was recorded is lost."""

    exit_code = 70


_REPORT = "testigo-error "


def report(error: TestigoError) -> None:
    """Tell the process that started this one: one line of JSON on standard error."""
    body = {"kind": type(error).__name__, "problems": [asdict(problem) for problem in error.problems]}
    print(_REPORT + json.dumps(body), file=sys.stderr, flush=True)


def exit_code_of(work: Callable[[], int | None]) -> int:
    """Do a worker's work and say how it ended: 0 when it says nothing else; a user's error is reported.

    The traceback of a fault of ours goes to the log without passwords and tokens.
    """
    try:
        return work() or 0
    except TestigoError as error:
        report(error)
        return error.exit_code
    except Exception:
        print(without_secrets(traceback.format_exc()), file=sys.stderr, flush=True)
        return 1


def reported_in(text: str) -> TestigoError | None:
    """The last error that a worker reported in its log, as the same kind of exception."""
    for line in reversed(text.splitlines()):
        if line.startswith(_REPORT):
            body = json.loads(line.removeprefix(_REPORT))
            kind = {k.__name__: k for k in _kinds()}[body["kind"]]
            error = kind.__new__(kind)
            TestigoError.__init__(error, problems=[Problem(**problem) for problem in body["problems"]])
            return error
    return None


def _kinds() -> list[type[TestigoError]]:
    return [TestigoError, *TestigoError.__subclasses__(), *WorkspaceError.__subclasses__()]

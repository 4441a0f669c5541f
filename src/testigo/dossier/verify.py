"""Checking a dossier or an adapter again, trusting nothing that it says about itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from jinja2 import TemplateError

from testigo.campaign.campaign import DEFINES_NO_RESULT, PROMISED_BESIDE
from testigo.dossier import crate, croissant, signature, sums, twin, versions
from testigo.dossier.again import not_as_told, not_the_registered
from testigo.dossier.beside_files import content_of
from testigo.dossier.card import model_card
from testigo.dossier.comparison_facts import differences, statistics_of
from testigo.dossier.control import ControlCheck
from testigo.dossier.files import read_json, read_lines, sha256_of
from testigo.dossier.found import Found
from testigo.dossier.gather import drawn_with
from testigo.dossier.record import FORMAT, Comparison, Record
from testigo.dossier.recorded import evidence_recorded, inside, outputs_and_adapter
from testigo.dossier.report import html
from testigo.dossier.unchecked import unknown_then, unrecorded, untold
from testigo.errors import TestigoError, VerificationFailed, WorkspaceError
from testigo.ledger import Head, verify_export
from testigo.ledger.export import event_from

BOUND = "testigo.json"
_BESIDE: Final = {
    "noise_floor": ("the noise floor", {"twice"}),
    "prompted_baseline": ("the base with examples", {"prompted"}),
    "forgetting": ("what was forgotten", {"general", "guard"}),
}


@dataclass(frozen=True)
class Verification:
    """What was found. `faults` name the file first; `not_checked` says what nobody looked at, and why."""

    ok: bool
    files: int
    faults: tuple[str, ...]
    checked: tuple[str, ...]
    not_checked: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The document that `testigo verify --json` prints."""
        return {**asdict(self), **{k: list(getattr(self, k)) for k in ("faults", "checked", "not_checked")}}

    def raise_if_faulty(self) -> None:
        """Raise VerificationFailed with every fault."""
        if not self.ok:
            raise VerificationFailed(
                expected="files that are what their record says",
                found="; ".join(self.faults),
                where="the dossier",
                action="get an unchanged copy from where it was published",
            )


class _Report:
    """Collects while the checks go on."""

    def __init__(self, without_control: str) -> None:
        self.without_control = without_control
        self.faults: list[str] = []
        self.checked: list[str] = []
        self.not_checked: list[str] = []

    def look(self, what: str, check: Callable[[], Iterable[str]]) -> None:
        """Make one check. One that breaks on damaged content is a fault of that content, not a traceback."""
        try:
            faults = list(check())
        except (
            TestigoError,
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            OSError,
            ArithmeticError,
            RecursionError,
            TemplateError,  # of drawing the page again
        ) as error:
            faults = [f"{what}: could not be checked: {str(error).splitlines()[0] if str(error) else type(error)}"]
        self.faults += [fault for fault in faults if fault not in self.faults]
        if not faults:
            self.checked.append(what)

    def finished(self, files: int) -> Verification:
        return Verification(not self.faults, files, tuple(self.faults), tuple(self.checked), tuple(self.not_checked))


def verify_dossier(
    path: Path,
    *,
    control: ControlCheck | None = None,
    without_control: str = "no base model was given to try them on",
    key: Path | None = None,
) -> Verification:
    """Check a dossier, or an adapter folder alone.

    Every file against SHA256SUMS; the ledger's chain; dossier.json and campaign.yaml against the events and files
    beside them; the statistics again from the row-by-row predictions; the page and the card again from dossier.json;
    the adapter's own hashes; and, where `control` is given, its control inputs.

    Parameters
    ----------
    path
        The folder, or its index.html, dossier.json or SHA256SUMS.
    control
        Tries the adapter's control inputs: `in_fresh_process(BASE)`.
    without_control
        Why there is no `control`, for `not_checked`.
    key
        The public key that the dossier must be signed by.

    Raises
    ------
    VerificationFailed
        When the folder is neither a dossier nor an adapter.
    WorkspaceError
        When dossier.json has another format than this version reads, or an earlier one recorded too little.
    """
    folder = path.parent if path.name in ("index.html", "dossier.json", sums.NAME) else path
    report = _Report(without_control)
    if (folder / BOUND).is_file() and not (folder / "dossier.json").is_file():
        report.not_checked.append(f"{BOUND} itself: an adapter alone carries no digest of it")
        _adapter(folder, "", report, control)
        return report.finished(sum(file.is_file() for file in folder.rglob("*")))
    if not (folder / sums.NAME).is_file() and not (folder / "dossier.json").is_file():
        raise VerificationFailed(
            expected=f"a dossier (with {sums.NAME} and dossier.json) or an adapter (with {BOUND})",
            found="no such folder" if not folder.is_dir() else "neither",
            where=str(folder),
            action="give the folder that `testigo dossier` or `testigo export` wrote",
        )
    _check_format(folder)
    n_files, faults = sums.check_sums(folder)
    report.look("the digest of every file", lambda: faults)
    _signed(folder, key, report)
    told = _record(folder, report)
    if told is not None:
        record = told.record
        report.look("the ledger's chain", lambda: _chain(folder, record))
        _told(folder, told, report)
        _rows(folder, record, report)
        _drawn(folder, told, report)
    if (folder / "adapter").is_dir():
        _adapter(folder / "adapter", "adapter/", report, control)
    else:
        report.not_checked.append("the adapter: the dossier has none")
    return report.finished(n_files)


def _signed(folder: Path, key: Path | None, report: _Report) -> None:
    if key is not None:
        signature.check_key(key, public=True)
        report.look("the signature", lambda: signature.faults_of(folder, key))
    elif (folder / signature.NAME).exists():
        report.not_checked.append("the signature: give the public key with --key PUBLIC")


def _check_format(folder: Path) -> None:
    """Refuse another format: it is not false, and this version cannot judge it."""
    path = folder / "dossier.json"
    try:
        found = twin.format_of(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if found != FORMAT or isinstance(found, bool):
        raise WorkspaceError(
            expected=f"a dossier of format {FORMAT}",
            found=f"written by format {str(found)[:20]}, this version reads {FORMAT}",
            where=str(path),
            action="verify it with the version of Testigo that wrote it",
        )


def _told(folder: Path, told: versions.Told, report: _Report) -> None:
    """The record against the events and files beside it; what they do not tell is listed."""
    record = told.record
    found: list[Found] = []

    def registered() -> Iterable[str]:
        found.append(Found(folder, [event_from(event) for event in read_lines(folder / "events.jsonl")]))
        return not_the_registered(found[0], record)

    report.look("campaign.yaml against the registration", registered)
    if not found:
        return
    report.look("dossier.json against the events and files beside it", lambda: not_as_told(found[0], told))
    if found[0].bound:
        report.look("what it was drawn from, against the ledger", lambda: evidence_recorded(found[0], record))
    untold_by: list[str] = []

    def listed() -> Iterable[str]:
        untold_by.extend(untold(found[0], record))
        report.not_checked.extend([*unrecorded(found[0], record), *unknown_then(found[0])])
        return []

    report.look("what else dossier.json says", listed)
    report.checked.remove("what else dossier.json says")
    if found[0].campaign is None:
        pass  # named as missing, or not to be read
    elif found[0].freeze is None:
        report.not_checked.append("campaign.yaml: the ledger holds no registration to hold it against")
    else:
        frozen = PROMISED_BESIDE if "beside" in found[0].freeze.body else ()
        free = [key for key in DEFINES_NO_RESULT if key not in frozen]
        report.not_checked.append(f"in campaign.yaml, what defines no result: {', '.join(free)}")
    if untold_by:
        report.not_checked.append(f"in dossier.json, what no event and no file here tells: {', '.join(untold_by)}")


def _record(folder: Path, report: _Report) -> versions.Told | None:
    told, fault = None, ""
    try:
        told = versions.read(folder)
        fault = "" if versions.as_written(folder, told) else "was changed: it is not as it was written"
    except FileNotFoundError:
        fault = "missing"
    except versions.NotAsItsSchemaSays as error:
        fault = f"was changed: {error}, by {twin.SCHEMA_FILE.name} beside it"
    except (OSError, ValueError, RecursionError):
        fault = "not a dossier of this version of Testigo"
    report.look("dossier.json's form", lambda: [f"dossier.json: {fault}"] if fault else [])
    if told is not None:
        of = f"in dossier.json, written by Testigo {told.record.testigo_version}"
        if told.lacking:
            report.not_checked.append(f"{of}, what was not recorded then: {versions.places(told.lacking)}")
        if told.unknown:
            report.not_checked.append(f"{of}, what this version does not know: {versions.places(told.unknown)}")
    return told


def _chain(folder: Path, record: Record) -> Iterable[str]:
    path = folder / "events.jsonl"
    if not path.is_file():
        return ["events.jsonl: missing"]
    head = Head(record.ledger.events, record.ledger.last_digest) if record.ledger.events else None
    return [f"events.jsonl: {fault}" for fault in verify_export(path, head)]


def _rows(folder: Path, record: Record, report: _Report) -> None:
    def listed() -> Iterable[str]:
        recorded = [(one.file, one.sha256) for one in record.predictions]
        recorded += [(one.file, one.sha256) for one in record.beside_files]
        for name, digest in recorded:
            path = inside(folder, name)
            if path is None or not path.is_file():
                yield f"{name}: missing"
            elif sha256_of(path) != digest:
                yield f"{name}: was changed: its content does not fit its digest in dossier.json"

    report.look("the predictions", listed)
    report.look("the digests that the ledger recorded", lambda: outputs_and_adapter(folder))
    if record.comparison is None:
        report.not_checked.append("the statistics: the dossier has no comparison")
    for comparison in (record.comparison, record.on_validation):
        if comparison is not None:
            _statistics(folder, record, comparison, report)


def _statistics(folder: Path, record: Record, comparison: Comparison, report: _Report) -> None:
    which = f"the statistics of {comparison.split}"
    if not comparison.baseline_file or not comparison.tuned_file:
        report.not_checked.append(f"{which}: the predictions behind them are not in the dossier")
        return

    def read(name: str) -> list[dict[str, Any]]:
        path = inside(folder, name)
        return content_of(path) if path else []

    found: dict[str, Any] = {}
    absent: list[str] | None = [] if record.testigo_version != drawn_with()["testigo"] else None

    def again() -> Iterable[str]:
        found.update(statistics_of(comparison, read, record.plan, record.hypothesis, record.beside_files))
        lines = differences(comparison.statistics, found, absent=absent)
        for line in lines:
            yield f"dossier.json: {which} do not follow from the predictions: {line}"
        if not lines and (comparison.recomputed is not True or comparison.differences):
            yield f"dossier.json: {which} are said not to be found again, and they are"

    report.look(f"{which}, computed again", again)
    if absent:
        report.not_checked.append(f"in {which}, what was not computed then: {versions.places(tuple(absent))}")
    others = sorted({*comparison.statistics} - {*found, *_BESIDE, "forgetting", "split", "run"})
    if found and others:
        report.not_checked.append(f"in {which}: {', '.join(others)}")
    kept = {one.what for one in record.beside_files}
    beside = [told for name, (told, needs) in _BESIDE.items() if comparison.statistics.get(name) and not needs & kept]
    if beside:
        report.not_checked.append(f"{', '.join(beside)} ({comparison.split}): their outputs are not in the dossier")


def _drawn(folder: Path, told: versions.Told, report: _Report) -> None:
    record = told.record
    if record.drawn_with != drawn_with() or told.is_of_another_version:
        report.not_checked.append("that index.html says what dossier.json says: other versions drew it")
        return
    drawn: tuple[tuple[str, Callable[[Record], str]], ...] = (
        ("index.html", html),
        ("MODEL_CARD.md", model_card),
        (crate.NAME, crate.crate),
        (croissant.NAME, croissant.croissant),
    )
    for name, draw in drawn:

        def same(name: str = name, draw: Callable[[Record], str] = draw) -> Iterable[str]:
            text = (folder / name).read_bytes() if (folder / name).is_file() else b""
            return [] if text == draw(record).encode() else [f"{name}: does not say what dossier.json says"]

        report.look(f"{name}, drawn again", same)


def _adapter(folder: Path, prefix: str, report: _Report, control: ControlCheck | None) -> None:
    bound = read_json(folder / BOUND)

    def hashes() -> Iterable[str]:
        recorded = (bound or {}).get("sha256")
        if not isinstance(recorded, dict) or not recorded:
            yield f"{prefix}{BOUND}: holds no digests of the adapter's files"
            return
        for name, digest in recorded.items():
            path = inside(folder, str(name))
            if path is None or not path.is_file():
                yield f"{prefix}{name}: missing"
            elif sha256_of(path) != digest:
                yield f"{prefix}{name}: was changed: its content does not fit its digest in {BOUND}"
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_file() and name != BOUND and name not in recorded:
                yield f"{prefix}{name}: not listed in {BOUND}"
        for name in [] if prefix else sums.empty_folders(folder):
            yield f"{name}: is an empty folder, which no adapter has"

    report.look("the adapter's files", hashes)
    if control is None:
        report.not_checked.append(f"the control inputs: {report.without_control}")
        return

    def tried() -> Iterable[str]:
        answer = control(folder)
        if answer.get("ok") is True:
            return []
        faults = [" ".join(str(fault).split()) for fault in answer.get("faults") or ()]
        equal, rows = answer.get("outputs_equal"), answer.get("control_rows")
        return [
            f"{prefix or 'adapter'}: control inputs: {f}" for f in faults or [f"{equal} of {rows} outputs are equal"]
        ]

    report.look("the control inputs", tried)

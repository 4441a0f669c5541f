"""Baseline, pilot, and the outputs of each run: what is measured, by processes of their own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from testigo.campaign import Campaign, PlannedRun, planned_runs
from testigo.campaign.campaign import digest
from testigo.campaign.plan import ONLY_OF_THE_BASELINE
from testigo.conductor import beside
from testigo.conductor.grounds import Grounds
from testigo.conductor.outputs import watch_outputs
from testigo.conductor.train import measured_at
from testigo.disk import file_sha256
from testigo.dossier import evidence
from testigo.errors import GateFailed, Problem
from testigo.evaluation.worker import PROGRESS, EvaluationSpec
from testigo.gates.catalogue import promise_of
from testigo.gates.predicted import Measured, measured_in
from testigo.ledger import kinds
from testigo.pilot.verdict import judge_pilot
from testigo.rules import Finding, Verdict
from testigo.tasks import is_answered_by_head
from testigo.training.launchers import HERE, Placement
from testigo.training.start import Work, follow, to_end

_NOT_OF_THE_BASELINE = ("samples", *ONLY_OF_THE_BASELINE)  # these make files of their own beside its outputs


def baseline(grounds: Grounds, split: str = "validation") -> Path:
    """The base's outputs on a split, made once for all runs. Returns the predictions file."""
    own = grounds.campaign.canonical()
    settings = {name: own[name] for name in ("task", "evaluation", "encoding")}
    settings["evaluation"] = {
        name: value for name, value in own["evaluation"].items() if name not in _NOT_OF_THE_BASELINE
    }
    defines = {**settings, "precision": grounds.campaign.model.precision, "corpus": grounds.corpus.fingerprint}
    if grounds.campaign.model.quantise is not None:
        defines["quantise"] = grounds.campaign.model.quantise
    if is_answered_by_head(grounds.campaign):
        defines["head"] = grounds.campaign.model.head
    fingerprint = digest({**defines, "base": grounds.base.digest})[:16]
    out = grounds.workspace.baseline(fingerprint) / "predictions"
    placement = measured_at(grounds)
    files = to_end(
        _evaluate(grounds, grounds.campaign, out, split, "baseline", weights=None, seed=0, placement=placement)
    )
    made = files[0]
    head = json.loads(made.with_name(f"{split}.meta.json").read_text(encoding="utf-8")).get("head", "")
    told = {"sha256": file_sha256(made), "beside": beside.digests_of(files)}
    body = {"fingerprint": fingerprint, "split": split, **told}
    if grounds.record(kinds.BASELINE_EVALUATED, body, about=("split",)) and head.startswith("new"):
        grounds.reporter.say(f"baseline: the base's head is {head}: it has learned no class yet")
    return made


def evaluate(
    grounds: Grounds, planned: PlannedRun, split: str = "validation", *, placement: Placement = HERE
) -> Work[Path | None]:
    """The outputs of a run's best checkpoint on a split; None when the run did not end well."""
    weights = grounds.best_weights(planned)
    if weights is None:
        return None
    run = grounds.spec(planned).run_id
    out = grounds.workspace.run(run) / "predictions"
    files = yield from _evaluate(
        grounds, planned.campaign, out, split, run, weights=weights, seed=planned.seed, placement=placement
    )
    made = files[0]
    findings = watch_outputs(grounds, made, baseline(grounds, split))
    for finding in findings:
        grounds.reporter.say(f"  {finding.severity} {finding.code} {finding.name}: {finding.observed}")
    body = {
        "split": split,
        "checkpoint": weights.parent.name,
        "sha256": file_sha256(made),
        "beside": beside.digests_of(files),
        "findings": [f"{finding.code}: {finding.observed}" for finding in findings],
    }
    grounds.record(kinds.RUN_EVALUATED, body, run=run, about=("split",))
    return made


def _evaluate(
    grounds: Grounds,
    campaign: Campaign,
    out: Path,
    split: str,
    name: str,
    *,
    weights: Path | None,
    seed: int,
    placement: Placement = HERE,
) -> Work[tuple[Path, ...]]:
    twice, prompted = beside.wanted_of_base(campaign) if weights is None and split == "validation" else (0, 0)
    spec = EvaluationSpec(
        campaign=campaign.to_json(),
        campaign_folder=str(campaign.folder),
        corpus=str(grounds.corpus.folder.resolve()),
        base_digest=grounds.base.digest,
        weights=str(weights.resolve()) if weights else None,
        seed=seed,
        split=split,
        out=str(out.resolve()),
        twice=twice,
        prompted=prompted,
        guards=beside.guard_files(grounds.campaign) if split == "validation" else {},
    )
    if not all(path.exists() for path in spec.files):
        path = spec.write(out / f"{split}.spec.json")
        yield from follow(
            "testigo.evaluation.worker",
            path,
            progress=out / PROGRESS,
            step=f"evaluate {name}",
            reporter=grounds.reporter,
            placement=placement,
        )
    return spec.files


def pilot(grounds: Grounds) -> Verdict:
    """Every phase once, judged. A pilot is found again on the same platform with the same settings.

    Raises
    ------
    GateFailed
        With each finding that stops, its observation and its remedy.
    """
    folder, control = pilot_folder(grounds), planned_runs(grounds.campaign)[0]
    kept = (folder / "findings.json").exists() and judge_pilot(folder, grounds.campaign)
    if not kept or not kept.ok:
        # One that was killed starts anew; one that failed too: the disk or the GPU may be free by now.
        ended = [event.body for event in grounds.ledger.events(kinds.PILOT_FINISHED) if "evidence" in event.body]
        if folder.name in {body.get("fingerprint") for body in ended}:
            grounds.ledger.append(kinds.PILOT_REPEATED, {"fingerprint": folder.name})  # its digests hold no longer
        shutil.rmtree(folder, ignore_errors=True)
        spec = grounds.spec(control).write(folder)
        phases = folder / "phases.json"
        placement = measured_at(grounds)
        work = follow(
            "testigo.pilot.worker", spec, progress=phases, step="pilot", reporter=grounds.reporter, placement=placement
        )
        to_end(work)
    verdict = judge_pilot(folder, grounds.campaign)
    codes = sorted(finding.code for finding in verdict.findings)
    measured = memory_of(folder)
    told: dict[str, Any] = {} if measured is None else {"memory": measured.to_json()}
    told["evidence"] = evidence.digests(folder, evidence.OF_THE_PILOT)
    grounds.record(kinds.PILOT_FINISHED, {"fingerprint": folder.name, "ok": verdict.ok, "findings": codes, **told})
    for code, reason in grounds.campaign.waive.items():
        grounds.record(kinds.GATE_WAIVED, {"code": code, "reason": reason}, about=("code",))
    grounds.reporter.say(
        f"pilot: {'passed' if verdict.ok else 'failed'}. {len(verdict.passed)} checks passed, "
        f"{len(verdict.findings)} found something, {len(verdict.blind)} could not be made"
    )
    for finding in verdict.findings:
        grounds.reporter.say(f"  {finding.severity} {finding.code} {finding.name}: {finding.observed}")
    if not verdict.ok:
        raise GateFailed(problems=[problem(finding, folder) for finding in verdict.stops])
    return verdict


def pilot_folder(grounds: Grounds) -> Path:
    """Where the pilot of these settings on this platform lies."""
    from testigo.model.device import platform_description  # needs torch

    control = planned_runs(grounds.campaign)[0]
    defines = {**grounds.definition(control), "platform": platform_description()}
    if (launcher := grounds.campaign.machine.launcher) != "local":
        defines["launcher"] = launcher  # its nodes are another platform than this one
    return grounds.workspace.pilot(digest(defines)[:16])


def memory_of(folder: Path) -> Measured | None:
    """How a pilot's memory compares with its prediction; None where it did not come so far."""
    return measured_in(folder.parent, only=folder.name)


def asked_by(finding: Finding) -> str:
    """What a gate expects: its code and name, and the sentence of its rule."""
    promise = promise_of(finding.code)
    return f"gate {finding.code} {finding.name} to pass{f': {promise}' if promise else ''}"


def problem(finding: Finding, where: Path) -> Problem:
    """A finding that stops, as an error of four parts."""
    on = "\n" if "\n" in finding.remedy else " "
    return Problem(
        expected=asked_by(finding),
        found=finding.observed,
        where=f"phase {finding.phase}; the evidence is in {where}",
        action=f"{finding.remedy}{on}(testigo explain {finding.code}; or waive it with a reason)",
    )


def phases_of(folder: Path) -> list[dict[str, Any]]:
    """The pilot's phase table."""
    phases: list[dict[str, Any]] = json.loads((folder / "phases.json").read_text(encoding="utf-8"))["phases"]
    return phases

"""What every step stands on: campaign, workspace, ledger, and what follows from them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from testigo.campaign import Campaign, PlannedRun, Workspace, planned_runs, run_definition, run_id
from testigo.campaign.registration import register
from testigo.campaign.withdrawn import way_on
from testigo.conductor import beside
from testigo.corpus import Corpus, build
from testigo.disk import read_lines
from testigo.dossier import evidence
from testigo.errors import VerificationFailed
from testigo.ledger import Ledger, kinds
from testigo.model.base import BaseFiles, base_of
from testigo.tasks import Task, task_for
from testigo.training.progress import ENDED_WELL
from testigo.training.spec import RunSpec
from testigo.training.start import Reporter


@dataclass
class Grounds:
    """One campaign in its workspace."""

    campaign: Campaign
    workspace: Workspace
    ledger: Ledger
    reporter: Reporter

    @cached_property
    def task(self) -> Task:
        """What a row asks and how an answer is scored."""
        return task_for(self.campaign)

    @cached_property
    def base(self) -> BaseFiles:
        """The base on this disk, with its digest."""
        return base_of(self.campaign)

    @cached_property
    def corpus(self) -> Corpus:
        """The rows: read, cleaned, split, sealed; recorded once."""
        corpus = build(self.campaign, self.workspace.corpus, lambda row: self.task.problems(row.fields))
        told = {"rows": corpus.counts, "evidence": evidence.digest_of_manifest(corpus.manifest)}
        self.record(kinds.CORPUS_BUILT, {"fingerprint": corpus.fingerprint, **told})
        counts = ", ".join(f"{n} {split}" for split, n in corpus.counts.items())
        self.reporter.say(f"corpus {corpus.fingerprint[:12]}: {counts} rows ({corpus.note})")
        return corpus

    def spec(self, planned: PlannedRun) -> RunSpec:
        """The frozen spec of a planned run."""
        return RunSpec(
            run_id=run_id(planned, corpus=self.corpus.fingerprint, base=self.base.digest),
            variant=planned.variant,
            seed=planned.seed,
            campaign=planned.campaign.to_json(),
            campaign_folder=str(self.campaign.folder),
            corpus=str(self.corpus.folder.resolve()),
            base_digest=self.base.digest,
        )

    def definition(self, planned: PlannedRun) -> dict[str, Any]:
        """What makes a run the run that it is."""
        return run_definition(planned, corpus=self.corpus.fingerprint, base=self.base.digest)

    def best_weights(self, planned: PlannedRun) -> Path | None:
        """The trained tensors of a run's best checkpoint; None when the run did not end well.

        Raises
        ------
        VerificationFailed
            When a byte of it has changed.
        """
        from testigo.training.checkpoint import fault_of  # needs torch

        spec = self.spec(planned)
        state = next((run.state for run in self.ledger.runs() if run.id == spec.run_id), "planned")
        if state not in ENDED_WELL:
            return None
        folder = self.workspace.run(spec.run_id)
        losses = [
            (float(x["validation_loss"]), x["update"])
            for x in read_lines(folder / "steps.jsonl")
            if "validation_loss" in x
        ]
        best = folder / "checkpoints" / f"{min(losses)[1]:06d}"
        if fault := fault_of(best):
            raise VerificationFailed(
                expected="the run's best checkpoint as it was written",
                found=fault,
                where=str(best),
                action="restore the file from a copy, or declare the run invalid and train with a new seed",
            )
        return best / "weights.safetensors"

    def progress_of(self, run: str) -> tuple[int | None, float | None]:
        """How far a run is, and the seconds of its last attempt alone, read off its journal."""
        folder = self.workspace.run(run)
        lines = read_lines(folder / "steps.jsonl")
        if not lines:
            return None, None
        resumed = folder / "resume.json"
        since = json.loads(resumed.read_text(encoding="utf-8"))["from_update"] if resumed.exists() else 0
        own = [line["seconds"] for line in lines if line["update"] > since]
        return max(line["update"] for line in lines), sum(own)

    def evidence_of(self, run: str) -> dict[str, Any]:
        """Digests of what a run wrote so far: its end keeps them, so that nothing of it is changed later unseen."""
        return evidence.digests(self.workspace.run(run), evidence.OF_A_RUN)

    def way_on(self) -> str:
        """What leads to a run of the control where none is there to be compared; see `testigo.campaign.withdrawn`."""
        planned = [self.spec(planned).run_id for planned in planned_runs(self.campaign)]
        return way_on(self.ledger.runs(), planned, self.campaign.path.name)

    def register(self, reason: str | None = None) -> str:
        """Freeze campaign, rows and base in the ledger, or amend the freeze; see `testigo.campaign.registration`."""
        contents = {"the corpus": self.corpus.fingerprint, "the base": self.base.digest}
        contents |= {f"the guard {name}": digest for name, digest in beside.guard_digests(self.campaign).items()}
        runs = [self.spec(planned).run_id for planned in planned_runs(self.campaign)]
        return register(self.campaign, self.ledger, reason=reason, contents=contents, runs=runs)

    def record(self, kind: str, body: dict[str, Any], *, run: str | None = None, about: tuple[str, ...] = ()) -> bool:
        """Append an event, unless the last of its kind about the same run and values of `about` already says so.

        Returns whether this is news.
        """
        known = [
            event
            for event in self.ledger.events(kind=kind)
            if event.run == run and all(event.body.get(name) == body[name] for name in about)
        ]
        is_news = not known or known[-1].body != body
        if is_news:
            self.ledger.append(kind, body, run=run)
        return is_news

"""The pilot on a Trainer, from top to bottom: look at the rows, run each phase once, put everything back, judge."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from testigo.attach import backward, checkpoint, data, forward, update, validation
from testigo.attach import trainer as about
from testigo.attach.bench import MOST_ROWS, Bench, StepFailed, set_up
from testigo.attach.bench import longest as longest_of
from testigo.attach.keeping import everything_kept
from testigo.attach.report import Report
from testigo.attach.validation import EvalLoss
from testigo.errors import TestigoError
from testigo.gates import gate_rules
from testigo.gates.backward import BackwardEvidence
from testigo.gates.data import DataEvidence
from testigo.gates.export import ExportEvidence
from testigo.gates.forward import ForwardEvidence
from testigo.gates.memory import MemoryEvidence
from testigo.gates.overfit import OverfitEvidence
from testigo.gates.resume import ResumeEvidence
from testigo.gates.trainer import TrainerEvidence
from testigo.gates.trainer_remedies import for_trainers
from testigo.gates.trainer_resume import CheckpointEvidence
from testigo.gates.update import UpdateEvidence
from testigo.gates.validation import ValidationEvidence
from testigo.model.device import platform_description
from testigo.pilot.phases import OutOfMemory, Phases
from testigo.rules import NotChecked, Rule, Verdict, judge

PHASES = ("data", "forward", "backward", "update-1", "update-2", "overfit", "validation", "export", "resume")
_OF_OVERFITTING = ("U121", "U122", "U123", "U124")
_COLLECTED = (
    DataEvidence,
    ForwardEvidence,
    BackwardEvidence,
    UpdateEvidence,
    OverfitEvidence,
    ValidationEvidence,
    MemoryEvidence,
    TrainerEvidence,
    ExportEvidence,
    ResumeEvidence,
    CheckpointEvidence,
)


def pilot(
    trainer: Any,
    *,
    trained: Sequence[str] | None = None,
    limits: Mapping[str, Mapping[str, Any]] | None = None,
    waive: Mapping[str, str] | None = None,
    resume_from_checkpoint: str | bool | None = None,
) -> Report:
    """Go through the phases of a training once, on a Trainer as you built it, and say what is wrong.

    Nothing is written, and model, optimizer, random states, gradients, modes and counters are afterwards as they were,
    so that a training after the pilot is the same, bit for bit on a CPU, as without it.

    Parameters
    ----------
    trainer
        A `transformers.Trainer` or `trl.SFTTrainer`, before `train()`.
    trained
        Patterns of the names of parameters that are meant to be trained, such as `["*norm*"]`. Without it an adapter's
        settings say so.
    limits
        Other limits of rules, by code: `{"E103": {"minimum": 0.0}}`.
    waive
        Written reasons, by code, for findings that are known and accepted.
    resume_from_checkpoint
        What you will give to `train()`: a folder, or True for the last one. It is read and compared, not loaded.
        Without it `args.resume_from_checkpoint` counts.

    Raises
    ------
    TestigoError
        When it is not a Trainer, or one of several processes, or when the checkpoint is not there.

    Examples
    --------
    >>> report = testigo.pilot(trainer)  # doctest: +SKIP
    >>> print(report)  # doctest: +SKIP
    >>> report.raise_if_stopped()  # doctest: +SKIP
    """
    _must_be_usable(trainer)
    run = _Run(declared=trained, resume_from=checkpoint.folder_of(trainer, resume_from_checkpoint))
    with everything_kept(trainer) as kept:
        run.go(trainer, kept)
    rules = [rule for rule in gate_rules() if issubclass(rule.evidence, _COLLECTED)]
    verdict = judge(rules, [*run.evidence, *run.phases.memory], limits=limits, waivers=waive)
    verdict = replace(
        verdict,
        findings=for_trainers(verdict.findings),
        not_checked=tuple(replace(one, why=run.reason(one, rules)) for one in verdict.not_checked),
    )
    return Report(verdict, tuple(run.table(verdict)), platform_description())


class _Run:
    """The phases of one pilot, what they found, and why some could not be run."""

    def __init__(self, declared: Sequence[str] | None, resume_from: Path | None) -> None:
        self.resume_from = resume_from
        self.declared = None if declared is None else tuple(declared)
        self.phases = Phases()
        self.evidence: list[object] = []
        self.failed_step = ""
        self.unchecked: dict[str, str] = {}
        before = "the rows were split before the Trainer saw them"
        self.why = {f"no {name} was collected": before for name in ("SplitEvidence", "DuplicateEvidence")}

    def go(self, trainer: Any, kept: Any) -> None:
        """Every phase in order; a phase that cannot run does not keep the next from running."""
        benches: list[Bench] = []
        with self._phase("data", f"up to {MOST_ROWS} rows of each data set"):
            benches.append(set_up(trainer, kept))
        if benches and benches[0].train.rows:
            self._go_through(trainer, benches[0])
        else:
            self.evidence.append(TrainerEvidence(failed_step=self.failed_step))
            why = self.unchecked.get("data", "no row of the training data set could be looked at")
            self.why |= {f"no {kind.__name__} was collected": why for kind in _COLLECTED}
        for phase, why in self.unchecked.items():
            self.why[f"no {phase.capitalize()}Evidence was collected"] = why

    def _go_through(self, trainer: Any, bench: Bench) -> None:
        eval_loss: list[EvalLoss | None] = [None]
        with self._phase("forward", _inputs("short rows", bench.sample)):
            self.evidence.append(forward.collect(bench))
        if bench.trained:
            with self._phase("backward", _inputs("longest training rows", bench.worst), bench.worst):
                backward.worst_case(bench)
        self._collect("backward", lambda: backward.collect(bench, self.declared))
        self._update(trainer, bench)
        bench.back_to_start()
        with self._phase("overfit", f"{update.OVERFIT_ROWS} short rows by heart"):
            learned = update.overfit(bench)
            self.evidence += [learned] if learned is not None else []
        bench.back_to_start()
        self.why["no OverfitEvidence was collected"] = "learning two rows by heart says nothing about this model"
        if any(split.rows for split in bench.evaluation):
            longest = tuple(row for split in bench.evaluation for row in longest_of(split))
            with self._phase("validation", _inputs("longest validation rows", longest), longest):
                validation.worst_case(bench)
                evidence, eval_loss[0] = validation.collect(bench)
                self.evidence.append(evidence)
        else:
            self.unchecked["validation"] = "the Trainer has no eval_dataset"
        self._collect("data", lambda: data.collect(bench))
        self._about_the_trainer(trainer, bench, eval_loss[0])

    def _update(self, trainer: Any, bench: Bench) -> None:
        """The first and the second update, each measured apart: the first allocates the optimizer's state."""
        inputs, ids = _inputs("short rows, the highest learning rate", bench.sample), tuple(r.id for r in bench.sample)
        try:
            with self._failures("update"):
                measured = partial(self.phases.measure, inputs=inputs, rows=ids)
                self.evidence.append(update.collect(bench, trainer.get_train_dataloader(), measured))
        except OutOfMemory as failure:
            self.unchecked["update"] = f"memory ran out in {failure}"

    def _about_the_trainer(self, trainer: Any, bench: Bench, eval_loss: EvalLoss | None) -> None:
        """What would be saved, what would be gone on from, and the Trainer's own settings."""
        loader, lost = trainer.get_train_dataloader(), list[tuple[str, ...]]()
        with self._phase("export", "names and bytes of what would be saved"):
            lost.append(about.lost_at_saving(bench))
            self.evidence.append(about.disk(bench, loader))
        if self.resume_from is not None:
            with self._phase("resume", f"{self.resume_from.name}, read and not loaded"):
                self.evidence += checkpoint.collect(bench, self.resume_from, loader)
        else:
            self.unchecked["resume"] = "no checkpoint was named"
        self._collect(
            "data",
            lambda: about.collect(
                bench,
                loader,
                eval_loss=eval_loss,
                declared_by_user=self.declared is not None,
                trained_not_saved=lost[0] if lost else None,
                failed_step=self.failed_step,
            ),
        )

    @contextlib.contextmanager
    def _phase(self, name: str, inputs: str, rows: Sequence[Any] = ()) -> Iterator[None]:
        ids, tokens = tuple(row.id for row in rows), max((row.size for row in rows), default=None)
        try:
            with self.phases.measure(name, inputs, rows=ids, tokens=tokens), self._failures(name):
                yield
        except OutOfMemory:
            self.unchecked[name] = f"memory ran out in {name}"

    @contextlib.contextmanager
    def _failures(self, name: str) -> Iterator[None]:
        try:
            yield
        except StepFailed as failure:
            self.failed_step = self.failed_step or f"{name}: {failure}"
            self.unchecked[name] = f"the Trainer's step failed in {name}"
        except (torch.OutOfMemoryError, MemoryError, OutOfMemory):
            raise
        except Exception as error:
            # What the pilot cannot read in an unusual trainer is no fault of the training.
            self.unchecked[name] = f"{name} could not be measured: {type(error).__name__}: {error}"

    def _collect(self, name: str, collect: Callable[[], object]) -> None:
        with self._failures(name):
            self.evidence.append(collect())

    def reason(self, one: NotChecked, rules: Sequence[Rule]) -> str:
        """Why a rule could not look, in the words of this pilot."""
        evidence = next(rule.evidence for rule in rules if rule.code == one.code)
        if evidence is ExportEvidence:
            return "the pilot of a Trainer does not save or load"
        if evidence in (ResumeEvidence, CheckpointEvidence) and self.resume_from is None:
            return "no checkpoint to go on from was named"
        if evidence is ResumeEvidence:
            return "the pilot of a Trainer reads the checkpoint and does not go on from it"
        return self.why.get(one.why, one.why)

    def table(self, verdict: Verdict) -> Iterator[dict[str, Any]]:
        """One row a phase, in order, those that were not reached too."""
        rows = {row.phase: row.to_json() for row in self.phases.rows}
        for phase in PHASES:
            own = [f for f in verdict.findings if _of_phase(f.phase, f.code, phase)]
            word, why = "passed", self.unchecked.get(phase, self.unchecked.get(phase.partition("-")[0]))
            if any(f in verdict.stops for f in own):
                word = "failed"
            elif why or phase not in rows:
                word = "could not be checked"
            elif own:
                word = "warned" if any(f.severity != "note" for f in own) else "passed"
            row = rows.get(phase, {"phase": phase, "inputs": "not run"})
            yield {**row, "inputs": f"{row['inputs']} ({why})" if why else row["inputs"], "verdict": word}


def _of_phase(finding_phase: str, code: str, phase: str) -> bool:
    if code in _OF_OVERFITTING:
        return phase == "overfit"
    return finding_phase == phase.partition("-")[0]


def _inputs(what: str, rows: Sequence[Any]) -> str:
    return f"{len(rows)} {what}, up to {max((row.size for row in rows), default=0)} tokens"


def _must_be_usable(trainer: Any) -> None:
    needed = ("training_step", "prediction_step", "get_train_dataloader", "create_optimizer", "accelerator", "model")
    lacking = [name for name in needed if not hasattr(trainer, name)]
    if lacking:
        raise TestigoError(
            expected="a transformers.Trainer or a trl.SFTTrainer",
            found=f"{type(trainer).__name__}, without {', '.join(lacking)}",
            where="testigo.pilot(trainer)",
            action="give the trainer that `train()` would be called on",
        )
    if trainer.accelerator.num_processes > 1 or trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        raise TestigoError(
            expected="one process that holds the whole model",
            found=f"{trainer.accelerator.num_processes} processes, {trainer.accelerator.distributed_type}",
            where="testigo.pilot(trainer)",
            action="run the pilot once in a single process before the distributed launch",
        )
    if trainer.train_dataset is None:
        raise TestigoError(
            expected="a Trainer with a train_dataset",
            found="none",
            where="testigo.pilot(trainer)",
            action="give the Trainer the rows that it will be trained on",
        )

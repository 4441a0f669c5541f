"""The watch on a Trainer: its diagnoses live, without changing the training."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from typing import Any

import psutil
from transformers import TrainerCallback
from transformers.loss.loss_utils import LOSS_MAPPING, ForSequenceClassificationLoss, ForTokenClassification

from testigo.attach.taps import Taps, trainer_that_calls
from testigo.counting import counted
from testigo.gates.trainer_remedies import for_trainers
from testigo.model.bare import bare
from testigo.rules import Finding, NotChecked, by_reason
from testigo.watch import Watcher

logger = logging.getLogger("testigo.watch")

#: Fast updates wait for each other, at most so many and so long [seconds], since code that is used rarely runs
#: several times slower. An update with something that is not a number never waits.
MOST_WAITING, MOST_SECONDS = 50, 1.0
#: A longer schedule is not computed ahead.
MOST_PLANNED = 1_000_000


class Watch(TrainerCallback):
    """A callback that says what goes wrong in a training, while it runs.

    ``trainer.add_callback(testigo.Watch())``. It sees each update's own loss, NaN included, before the Trainer takes
    means of several. It draws no random number and writes to nothing of the training: losses with and without it are
    the same, bit for bit. Findings are logged by the logger "testigo.watch" and kept in `findings`.

    Parameters
    ----------
    stop
        Stop the training at a finding that stops (NaN, divergence, nothing learned), and save no checkpoint of that
        update. Only in a run of one process.
    limits
        Other limits of rules, by code: `{"T104": {"spreads": 8}}`.
    """

    def __init__(self, *, stop: bool = False, limits: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self.findings: list[tuple[int, Finding]] = []
        """Update and finding, in the order in which they were found."""
        self.not_checked: tuple[NotChecked, ...] = ()
        """At the end of a training: the rules that could not be judged by then, and why."""
        self._stop = stop
        self._limits = limits
        self._watcher: Watcher | None = None
        self._taps: Taps | None = None
        self._rate: float | None = None
        self._began = self._fed = 0.0
        self._waiting: list[dict[str, Any]] = []
        self._trainer: Any = None
        self._logged: dict[str, float] = {}
        self._process = psutil.Process()

    def on_train_begin(self, args: Any, state: Any, control: Any, **around: Any) -> None:
        """A training begins, or goes on after a resume."""
        self._close()
        trainer = trainer_that_calls(self)
        self._taps = None if trainer is None else Taps(trainer)
        self._watcher = Watcher(
            limits=self._limits,
            planned_learning_rates=_planned(around.get("lr_scheduler"), state.max_steps),
        )
        self._trainer = trainer
        if self._stop and args.world_size > 1:
            logger.warning("testigo.Watch(stop=True) only tells: in a run of several processes it stops none")
        self._began = time.perf_counter()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **around: Any) -> None:
        """The learning rate that this update uses."""
        optimizer = around.get("optimizer")
        self._rate = float(optimizer.param_groups[0]["lr"]) if optimizer is not None else None

    def on_step_end(self, args: Any, state: Any, control: Any, **around: Any) -> None:
        """An update is done."""
        if self._taps is None or self._watcher is None:
            return
        now = time.perf_counter()
        step = self._taps.update()
        step["update"], step["learning_rate"], step["epoch"] = state.global_step, self._rate, state.epoch
        step["seconds"] = now - self._began
        self._began = now
        self._waiting.append(step)
        if self._trainer is not None:  # after its first forward pass a model says what kind of classes it has
            self._watcher.know(vocabulary_size=_n_choices(around.get("model"), self._trainer))
            self._trainer = None
        if len(self._waiting) >= MOST_WAITING or now - self._fed > MOST_SECONDS or _is_event(step):
            step["resident_bytes"] = self._process.memory_info().rss
            self._feed_waiting(args, control)
            self._fed = now

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **around: Any) -> None:
        """Where the Trainer itself cannot be seen, its log is better than nothing."""
        if self._taps is None and self._watcher is not None and logs and "loss" in logs:
            step = {"update": state.global_step, "loss": logs["loss"], "learning_rate": logs.get("learning_rate")}
            step = {**step, "gradient_norm": logs.get("grad_norm"), "epoch": state.epoch}
            self._feed(step, args=args, control=control)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **around: Any) -> None:
        """A validation is done; one with a batch that is not finite is not finite, whatever was left out."""
        self._feed_waiting(args, control)
        if self._watcher is None or not metrics:
            return
        loss = next((value for name, value in metrics.items() if name.endswith("_loss")), None)
        bad = 0 if self._taps is None else self._taps.bad_evaluations()
        if loss is not None and state.global_step > 0:
            step = {"update": state.global_step, "validation_loss": math.nan if bad else float(loss)}
            self._feed(step, args=args, control=control)
        self._began = time.perf_counter()

    def on_train_end(self, args: Any, state: Any, control: Any, **around: Any) -> None:
        """The training ended."""
        self._feed_waiting(args, control)
        if self._watcher is not None:
            n_updates, n_found = state.global_step, len(self.findings)
            logger.info("testigo.Watch: %s, %s", counted(n_updates, "update"), counted(n_found, "finding"))
            self.not_checked = self._watcher.not_checked()
            for why, codes in by_reason(self.not_checked).items():
                logger.info("testigo.Watch: could not be checked, %s: %s", why, ", ".join(codes))
        self._close()

    def _feed_waiting(self, args: Any, control: Any) -> None:
        """Diagnose the updates that wait."""
        waiting, self._waiting = self._waiting, []
        if waiting and self._watcher is not None:
            self._feed(*waiting, args=args, control=control)

    def _feed(self, *steps: Mapping[str, Any], args: Any, control: Any) -> None:
        assert self._watcher is not None
        try:
            new = self._watcher.feed(*steps)
            if not new:
                return
            new = for_trainers(new)
        except Exception:
            # A tool that watches must not end what it watches.
            logger.exception("testigo.Watch failed and is switched off; the training goes on")
            self._close()
            return
        update = int(steps[-1]["update"])
        for finding in new:
            self.findings.append((update, finding))
            level = logging.INFO if finding.severity == "note" else logging.WARNING
            logger.log(level, "%s", _words(finding))
        if self._stop and args.world_size == 1 and any(finding.severity == "stop" for finding in new):
            control.should_training_stop = True
            control.should_save = False

    def _close(self) -> None:
        if self._taps is not None:
            self._taps.close()
        self._taps = self._watcher = None


def _is_event(step: Mapping[str, Any]) -> bool:
    """Whether something happened that must be told at once: not a number, nothing at all, a skipped update."""
    loss, norm = step["loss"], step["gradient_norm"]
    if loss is None or norm is None:
        return bool(step["skipped"])
    return step["skipped"] or not math.isfinite(loss + norm) or (loss == 0.0 and norm == 0.0)


def _words(finding: Finding) -> str:
    return f"{finding.code} {finding.name} ({finding.severity}): {finding.observed}. To do: {finding.remedy}"


def _planned(scheduler: Any, n_updates: int) -> list[float] | None:
    """The learning rate of each update, computed from the schedule's own function, without stepping it."""
    functions, bases = getattr(scheduler, "lr_lambdas", None), getattr(scheduler, "base_lrs", None)
    if not functions or not bases or not 0 < n_updates <= MOST_PLANNED:
        return None
    return [float(bases[0]) * float(functions[0](update)) for update in range(n_updates)]


def _n_choices(model: Any, trainer: Any) -> int | None:
    """Tokens or classes, where the loss is the library's own over one of them; None where guessing has another loss."""
    if trainer.compute_loss_func is not None or trainer.label_smoother is not None:
        return None
    inner = bare(model)
    configuration: Any = getattr(inner, "config", None)
    if getattr(trainer, "_loss_shifts_labels", False):
        return getattr(configuration, "vocab_size", None)
    loss = LOSS_MAPPING.get(getattr(inner, "loss_type", None))
    if loss is ForTokenClassification or (
        loss is ForSequenceClassificationLoss
        and getattr(configuration, "problem_type", None) == "single_label_classification"
    ):
        return int(configuration.num_labels)
    return None

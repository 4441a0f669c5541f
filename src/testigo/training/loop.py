"""A run from its first update to its end, told in order."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from testigo.campaign import Campaign
from testigo.encoding import AnyRow, Batch, LabelledRow, pack
from testigo.model.adapter import trained_parameters
from testigo.model.device import memory_now
from testigo.model.layout import layout_of
from testigo.model.losses import token_losses
from testigo.model.prefix import prefix_of
from testigo.model.sharding import is_sharded, synchronise_gradients
from testigo.rules import Finding, judge, load_user_rules
from testigo.training import checkpoint, optimizer
from testigo.training.by_hand import CAUSE, is_asked
from testigo.training.journal import Journal
from testigo.training.loss import NOTHING, SplitLoss, n_choices, row_losses, split_loss
from testigo.training.order import Order, seed_of
from testigo.training.progress import Outcome, Progress, Stopped
from testigo.training.proofs import drift_of, told_of_passed_over, unlike_record
from testigo.training.replay import trace_origin
from testigo.training.replicas import ALONE, Counts, Part, Replicas
from testigo.training.samples import Samples
from testigo.training.saving import Saver
from testigo.training.soundness import PassedOver, newest_sound, set_aside
from testigo.watch import Origin, Watcher, all_rules

# A scaler that skips this many updates in a row has met a divergence, not an overflow: from the default scale of 2**16
# twenty halvings end below 1, where no gradient of a sound model overflows.
MAX_SKIPS_IN_A_ROW = 20
HOLD_SECONDS = 0.05
"""Between two looks at a checkpoint that holds the training."""


@dataclass
class Session:
    """All that one run holds in its hands.

    The loop draws nothing from the data's random state: rows, their order and the seed of each microbatch are pure
    functions of the run's seed and the update's number. So a session that restores a checkpoint is the same run.
    """

    settings: Campaign
    seed: int
    model: Any
    rows: Sequence[AnyRow]
    validation_rows: Sequence[AnyRow]
    order: Order
    lay: Callable[[Sequence[AnyRow]], Batch]
    device: torch.device
    folder: Path
    progress: Progress = field(default_factory=Progress)
    saved_update: int | None = None
    seconds_before: float = 0.0
    stop_requested: Callable[[], bool] = lambda: False
    replicas: Replicas = ALONE
    samples: Samples | None = None
    origin: Origin | None = None
    run_id: str = ""

    def __post_init__(self) -> None:
        training = self.settings.training
        self.parameters: dict[str, nn.Parameter] = trained_parameters(self.model)
        self.optimizer = optimizer.build_optimizer(
            self.parameters, learning_rate=training.learning_rate, weight_decay=training.weight_decay
        )
        self.scaler = optimizer.gradient_scaler(self.settings.model.precision, self.device)
        self.warmup = optimizer.warmup_updates(training.schedule.warmup, self.order.n_updates)
        self.layout = layout_of(
            self.settings, self.model, self.rows, self.validation_rows, sharded=is_sharded(self.parameters.values())
        )
        self.journal = Journal(self.folder)
        self.recorded: dict[int, dict[str, Any]] = {}
        self.checkpoints = self.folder / "checkpoints"
        self.saver = Saver(self.checkpoints, keep=training.checkpoint.keep, run=self.run_id)
        if self.samples is not None:
            self.samples.on_batch = lambda n_done: self._heed()

    # ---- one update -------------------------------------------------------------------------------------------

    def packs_of(self, update: int) -> list[Batch]:
        """The microbatches of an update, on the device; among several processes those of this one."""
        return [part.pack for part in self.parts_of(update)]

    def parts_of(self, update: int) -> list[Part]:
        """The microbatches of an update that this process computes."""
        epochs = self.order.epochs_of(update)
        rows = [self._varied(index, epochs[index].pop(0)) for index in self.order.rows_of(update)]
        groups = self.layout.of_update(rows, processes=self.replicas.n)
        shared = self.replicas.share(groups.rows)
        return [Part(number, self.lay_out(own, groups.before), counts) for number, own, counts in shared]

    def lay_out(self, rows: Sequence[AnyRow], before: int = 0) -> Batch:
        """Rows in the campaign's layout, on the device; without leading tokens that stand in a cache."""
        laid = pack(rows, before=before) if before else self.lay(rows)  # type: ignore[arg-type]
        return laid.to(self.device)

    def _varied(self, index: int, epoch: int) -> AnyRow:
        """A training row; with augmentation, as this epoch sees it."""
        row = self.rows[index]
        if self.settings.training.augment is None or not isinstance(row, LabelledRow):
            return row
        return replace(row, variation=(self.seed, epoch))

    def learning_rate(self, update: int) -> float:
        """A pure function of the update's number."""
        training = self.settings.training
        return optimizer.learning_rate_at(
            update,
            peak=training.learning_rate,
            kind=training.schedule.kind,
            warmup_updates=self.warmup,
            n_updates=self.order.n_updates,
        )

    def backward(self, packs: Sequence[Batch], *, update: int) -> tuple[float, dict[str, float]]:
        """The gradient of some microbatches that are a whole update.

        Returns the loss [nats per supervised token] and each row's own.
        """
        parts = [Part(number, pack) for number, pack in enumerate(packs)]
        measured = self.accumulate(parts, n_supervised=sum(pack.n_supervised for pack in packs), update=update)
        return measured.nats_per_token, measured.rows

    def accumulate(self, parts: Sequence[Part], *, n_supervised: int, update: int) -> SplitLoss:
        """Accumulate the gradient of an update: the sum of token losses over all its supervised tokens.

        Parameters
        ----------
        n_supervised
            Of the whole update, over all processes.
        """
        measured = NOTHING
        torch.manual_seed(seed_of(self.seed, update, "prefix"))
        with optimizer.autocast(self.settings.model.precision, self.device):
            prefix = prefix_of(self.model, [part.pack for part in parts])
        for part in parts:
            self._heed()
            torch.manual_seed(seed_of(self.seed, update, part.number))
            if self.replicas.n > 1:  # the walk over all modules is for shards alone
                synchronise_gradients(self.model, part is parts[-1])
            with optimizer.autocast(self.settings.model.precision, self.device):
                losses = token_losses(self.model, part.pack, prefix)
            loss = losses.sum() / n_supervised
            self.scaler.scale(loss if part.counts else 0 * loss).backward()
            if part.counts:
                nats = float(losses.detach().double().sum())
                measured += SplitLoss(nats, part.pack.n_supervised, row_losses(losses, part.pack))
            del losses, loss  # or their graph would stay while the next pack goes forward
        if prefix is not None:
            prefix.backward()
        return measured

    def step(self, update: int) -> dict[str, Any]:
        """One update; its line in the journal. A non-finite loss or gradient leaves the weights untouched."""
        began = time.perf_counter()
        parts = self.parts_of(update)
        dealt = [count for own in self.replicas.gathered(Counts.of(parts)) for count in own]
        counts = sorted(dealt, key=lambda count: count.number)
        n_supervised = sum(count.supervised_tokens for count in counts)
        rate = self.learning_rate(update)
        optimizer.set_learning_rate(self.optimizer, rate)
        self.optimizer.zero_grad(set_to_none=True)
        own = self.accumulate(parts, n_supervised=n_supervised, update=update)
        measured = sum(self.replicas.gathered(own), NOTHING)
        loss = measured.nats_per_token
        self.replicas.add_gradients(self.parameters.values())
        if self.scaler.is_enabled():
            self.scaler.unscale_(self.optimizer)
        maximum = self.settings.training.clip
        norm = optimizer.clip(list(self.parameters.values()), maximum)
        scale = self.scaler.get_scale()
        if self.scaler.is_enabled():
            self.scaler.step(self.optimizer)
            self.scaler.update()
        elif math.isfinite(loss) and math.isfinite(norm):
            self.optimizer.step()
        skipped = self.scaler.is_enabled() and self.scaler.get_scale() < scale
        progress = self.progress
        progress.update = update
        progress.skips_in_a_row = progress.skips_in_a_row + 1 if skipped else 0
        progress.supervised_tokens += n_supervised
        rows = [row_id for count in counts for row_id in count.rows]  # a row comes twice where two epochs meet
        progress.examples += len(rows)
        elapsed = time.perf_counter() - began
        progress.seconds += elapsed
        return {
            "update": update,
            "loss": loss,
            "learning_rate": rate,
            "gradient_norm": norm,
            "clipped": maximum is not None and norm > maximum,
            "supervised_tokens": n_supervised,
            "tokens": sum(count.tokens for count in counts),
            "examples": len(rows),
            "seconds": elapsed,
            **memory_now().to_json(),
            "rows": rows,
            "row_losses": measured.rows,
            "skipped": skipped,
            "epoch": self.order.epoch_after(update),
        }

    # ---- between updates --------------------------------------------------------------------------------------

    def validate(self) -> dict[str, Any]:
        """Token-weighted loss of the validation split; its line in the journal."""
        began = time.perf_counter()
        groups = self.layout.of_validation(self.validation_rows, self.settings.evaluation.batch_size)
        shared = self.replicas.share(groups.rows)
        precision = optimizer.autocast(self.settings.model.precision, self.device)
        packs = (self._heeded(rows, groups.before) for _, rows, _ in shared)
        counts = [counts for _, _, counts in shared]
        own = split_loss(self.model, packs, counts=counts, autocast=precision)
        measured = sum(self.replicas.gathered(own), NOTHING)
        progress, loss = self.progress, measured.nats_per_token
        elapsed = time.perf_counter() - began
        progress.seconds += elapsed
        return {
            "update": progress.update,
            "validation_loss": loss,
            "validation_tokens": measured.n_tokens,
            "seconds": elapsed,
        }

    def save(self) -> None:
        """A checkpoint of this moment, whole on the disk when this returns."""
        self.begin_save()
        self.saver.finish()

    def begin_save(self) -> None:
        """A checkpoint of this moment, whatever the number of processes; it is written while the training goes on."""
        # What lies on another device is copied when it is gathered, and has to be.
        copied = self.saver.has_room_for_a_copy(self._checkpoint_bytes()) or self.device.type != "cpu"
        began = time.perf_counter()
        if self.replicas.is_first or is_sharded(self.parameters.values()):  # shards are gathered by all at once
            weights = checkpoint.weight_tensors(self.parameters, copied=copied)
            moments = checkpoint.optimizer_tensors(self.parameters, self.optimizer, copied=copied)
        if self.replicas.is_first:
            state = {"progress": asdict(self.progress), "scaler": self.scaler.state_dict()}
            update, best = self.progress.update, self.progress.best_update
            self.saver.begin(update, weights, moments, state, best, copied=copied)
        self.saver.seconds += time.perf_counter() - began
        self.saved_update = self.progress.update

    def _checkpoint_bytes(self) -> int:
        return sum(3 * p.numel() * p.element_size() for p in self.parameters.values())  # AdamW keeps two moments

    def resume(self, attempt: int) -> tuple[PassedOver, ...]:
        """Go back to the newest whole checkpoint, or to the very start. Returns the checkpoints passed over."""
        if self.replicas.is_first:
            checkpoint.settle(self.checkpoints)
        self.replicas.wait()
        found, passed_over = newest_sound(self.checkpoints, self.run_id, self.scaler.state_dict())
        if found is not None:
            checkpoint.restore(found, self.parameters, self.optimizer)
            self.progress = Progress.from_json(found.state["progress"])
            self.saved_update = found.update
            self.seconds_before = self.progress.seconds
            if self.scaler.is_enabled():
                self.scaler.load_state_dict(found.state["scaler"])
        self.replicas.wait()  # until each has read what the first now sets aside
        if not self.replicas.is_first:
            return passed_over
        aside = self.journal.cut_after(self.progress.update, attempt)
        self.recorded = {line["update"]: line for line in aside if "loss" in line}
        set_aside(self.checkpoints, passed_over)
        if passed_over:
            self._record(told_of_passed_over(passed_over))
        return passed_over

    # ---- the run ----------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Train until the plan is done, a rule stops the run, or somebody asks to stop."""
        with self.saver:
            return self._run()

    def _run(self) -> Outcome:
        watcher, progress = self._watcher(), self.progress
        self._forecast()
        self.model.train()
        if self.samples is not None:
            with suppress(Stopped):
                progress.seconds += self.samples.begin(self.model, progress.update)
        while progress.update < self.order.n_updates or progress.owes_validation:
            if ended := self._patience_ended():
                return Outcome("stopped-early", ended)
            if self._asked_to_stop():
                if self.saved_update != progress.update or progress.owes_validation:
                    self.begin_save()
                return Outcome("interrupted", "asked to stop")
            with suppress(Stopped):  # what was begun is left; the next look at the signal saves what was done before
                outcome = self._validated(watcher) if progress.owes_validation else self._updated(watcher)
                if outcome:
                    return outcome
        return Outcome("completed", f"{self.order.n_updates} updates")

    def _updated(self, watcher: Watcher) -> Outcome | None:
        """One update, what is found in it, and its checkpoint where no validation comes first."""
        line = self.step(self.progress.update + 1)
        outcome = self._diverged(line) or self._drifted() or self._unlike_record(line)
        stops = self._told(line, partial(watcher.feed, line))
        if outcome or stops:
            self._trace(line)
            return outcome or Outcome("diverged", f"{stops[0].code} {stops[0].name}: {stops[0].observed}")
        every = self.settings.training.validate_every
        self.progress.owes_validation = self._is_last() or bool(every and self.progress.update % every == 0)
        if not self.progress.owes_validation and self._is_due():
            self.begin_save()
        return None

    def _validated(self, watcher: Watcher) -> Outcome | None:
        """The validation after an update, and its checkpoint."""
        progress = self.progress
        line = self.validate()
        found = self._sample(line)
        self._told(line, partial(watcher.feed, line), found)
        if not math.isfinite(line["validation_loss"]):
            return Outcome("diverged", f"the validation loss is {line['validation_loss']} at update {progress.update}")
        progress.weigh(line["validation_loss"])
        progress.owes_validation = False
        last = self._is_last()
        if progress.best_update == progress.update or last or self._patience_ended() or self._is_due():
            self.begin_save()
        return Outcome("stopped-early", CAUSE) if last and progress.update < self.order.n_updates else None

    def _is_last(self) -> bool:
        """Whether this update ends the run: the plan is done, or a person has asked for it."""
        return self.replicas.any(is_asked(self.folder)) or self.progress.update == self.order.n_updates

    def _is_due(self) -> bool:
        every = checkpoint.due_every(self.settings.training.checkpoint.every, self.order.n_updates)
        return self.progress.update % every == 0

    def _forecast(self) -> None:
        """Whether the disk holds what this run will keep; waits for room where it does not."""
        if self.replicas.is_first:
            self.saver.forecast(self._checkpoint_bytes(), self.order.n_updates - self.progress.update)

    def _asked_to_stop(self) -> bool:
        """Whether somebody asked one of the processes to stop; all of them wait here while a checkpoint holds them."""
        while True:
            holds = self.replicas.is_first and self.saver.holds_the_training
            seen = self.replicas.gathered((self.stop_requested(), holds))
            if any(stop for stop, _ in seen):
                return True
            if not any(held for _, held in seen):
                return False
            time.sleep(HOLD_SECONDS)

    def _heed(self) -> None:
        """In the middle of an update or a validation: a process that is alone leaves it when it was asked to stop."""
        if self.replicas.n == 1 and self.stop_requested():
            raise Stopped

    def _heeded(self, rows: Sequence[AnyRow], before: int) -> Batch:
        self._heed()
        return self.lay_out(rows, before)

    def _watcher(self) -> Watcher:
        """A watcher that has seen what the run's earlier attempts wrote."""
        files = tuple(self.settings.folder / file for file in self.settings.rules.files)
        watcher = Watcher(
            rules=(*all_rules(), *load_user_rules(files)),
            limits=self.settings.rules.limits,
            planned_learning_rates=[self.learning_rate(u) for u in range(1, self.order.n_updates + 1)],
            vocabulary_size=n_choices(self.model, self.settings),
        )
        watcher.replay(self.journal.steps())
        return watcher

    def _told(
        self, line: dict[str, Any], judged: Callable[[], Sequence[Finding]], also: Sequence[Finding] = ()
    ) -> list[Finding]:
        """Write a line and what is found in it, once; what stops is known to every process."""
        stops: list[Finding] = []
        if self.replicas.is_first:
            self.journal.step(line)
            stops = self._record((*judged(), *also))
        return self.replicas.from_first(stops)

    def _drifted(self) -> Outcome | None:
        """Replicated weights are compared by their digests from time to time."""
        update = self.progress.update
        finding = drift_of(self.replicas, self.parameters, update)
        if finding is None:
            return None
        if self.replicas.is_first:
            self._record([finding])
        return Outcome("invalid", f"{finding.code} {finding.name} at update {update}: {finding.observed}")

    def _unlike_record(self, line: dict[str, Any]) -> Outcome | None:
        """The first update that an earlier attempt had made after its last checkpoint is held against what it wrote."""
        update, found = line["update"], None
        if self.replicas.is_first and (recorded := self.recorded.get(update)):
            stops = self._record(unlike_record(recorded, line, self.settings.rules.limits))
            found = f"{stops[0].code} {stops[0].name}: {stops[0].observed}" if stops else None
            self.recorded = {}
        found = self.replicas.from_first(found)
        return Outcome("invalid", found) if found else None

    def _record(self, findings: Sequence[Any]) -> list[Any]:
        for finding in findings:
            self.journal.finding(finding, self.progress.update)
        return [f for f in findings if f.severity == "stop" and f.code not in self.settings.waive]

    def _diverged(self, line: dict[str, Any]) -> Outcome | None:
        """A non-finite loss or gradient ends the run; under fp16 an overflow that the scaler skipped does not."""
        update = line["update"]
        if line["skipped"] and math.isfinite(line["loss"]):
            if self.progress.skips_in_a_row >= MAX_SKIPS_IN_A_ROW:
                return Outcome("diverged", f"{MAX_SKIPS_IN_A_ROW} updates in a row overflowed, up to update {update}")
            return None
        for name in ("loss", "gradient_norm"):
            if not math.isfinite(line[name]):
                return Outcome("diverged", f"the {name.replace('_', ' ')} is {line[name]} at update {update}")
        return None

    def _sample(self, line: dict[str, Any]) -> tuple[Finding, ...]:
        """Outputs to the fixed prompts; their time is counted as part of the validation."""
        if self.samples is None or not math.isfinite(line["validation_loss"]):
            return ()
        found, seconds = self.samples.take(self.model, self.progress.update)
        line["seconds"] += seconds
        self.progress.seconds += seconds
        return found

    def _trace(self, line: dict[str, Any]) -> None:
        """Where the numbers that are not finite came from, by one replayed update."""
        if self.replicas.n == 1 and not (math.isfinite(line["loss"]) and math.isfinite(line["gradient_norm"])):
            self.origin = trace_origin(self, line["update"])
            self._record(judge(all_rules(), [self.origin]).findings)

    def _patience_ended(self) -> str | None:
        stop = self.settings.training.stop
        if stop is None or self.progress.worse_validations < stop.patience:
            return None
        return (
            f"{stop.metric} has not improved for {stop.patience} validations; "
            f"the best was {self.progress.best_loss:.4f} at update {self.progress.best_update}"
        )

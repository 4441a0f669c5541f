"""What the phases work on: the Trainer's own step, its own collator, and a few rows chosen for what they show."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import nn

from testigo.attach.keeping import Kept
from testigo.attach.rows import SeenRow, Split, see

#: Rows that are looked at in each data set, evenly spread, the longest among them.
MOST_ROWS = 256
#: Up to so many rows, lengths of all of them are compared to find the longest.
MOST_LENGTHS = 20_000
N_SAMPLE = 4


class StepFailed(Exception):
    """The Trainer's own step raised an error."""


@dataclass
class Bench:
    """Shared by all phases."""

    trainer: Any
    kept: Kept
    train: Split
    evaluation: tuple[Split, ...]
    run: set[str] = field(default_factory=set)
    """Ids of rows that went through the model at full length."""
    loss_shift: int | None = None
    """Places that the loss moves the labels by; known after the forward phase."""
    is_cross_entropy: bool = False
    """Whether the Trainer's loss is the mean cross-entropy of the labels; known after the forward phase."""
    schedule_fits: bool | None = None
    """Whether the user's schedule changes the user's optimizer; None where the Trainer builds one of them."""
    n_outputs: int | None = None
    """Classes that the cross-entropy chooses from: the vocabulary, or a classifier's; known after the forward phase."""
    is_repeatable: bool = True
    """Whether evaluating twice gives the same; known after the forward phase."""

    @property
    def model(self) -> Any:
        """The model as the Trainer trains it."""
        return self.trainer.model_wrapped

    @property
    def args(self) -> Any:
        """The Trainer's arguments."""
        return self.trainer.args

    @cached_property
    def trained(self) -> dict[str, nn.Parameter]:
        """Parameters that ask for a gradient, by name."""
        return {name: p for name, p in self.trainer.model.named_parameters() if p.requires_grad}

    @cached_property
    def precision(self) -> str:
        """In which numbers the model computes."""
        kinds = {p.dtype for p in self.trainer.model.parameters() if p.is_floating_point()}
        if self.args.fp16 or torch.float16 in kinds:
            return "fp16"
        return "bf16" if self.args.bf16 or torch.bfloat16 in kinds else "fp32"

    @property
    def shift(self) -> int:
        """Labels at the front that the loss never sees."""
        return self.loss_shift or 0

    @cached_property
    def sample(self) -> tuple[SeenRow, ...]:
        """A few short rows with as different numbers of labels as there are."""
        return _different(self.train.rows)

    @cached_property
    def worst(self) -> tuple[SeenRow, ...]:
        """The longest training rows that were looked at, as many as a microbatch holds."""
        return longest(self.train)

    def evaluated(self, batch: Mapping[str, Any]) -> float:
        """The loss of a batch by the Trainer's own evaluation step, in evaluation mode."""
        with self.evaluating(), guarded(), torch.no_grad():
            loss, _, _ = self.trainer.prediction_step(self.model, dict(batch), True)
        return float("nan") if loss is None else float(loss)

    def logits(self, batch: Mapping[str, Any]) -> torch.Tensor | None:
        """Raw logits of a batch in double precision on the CPU; None where the model gives none."""
        inputs = self.trainer._prepare_inputs({k: v for k, v in batch.items() if k not in ("labels", "label")})
        with self.evaluating(), torch.no_grad(), self.trainer.compute_loss_context_manager():
            try:
                outputs = self.model(**inputs)
            except (TypeError, ValueError, AttributeError, KeyError):
                return None  # a model that cannot do without labels
        logits = outputs.get("logits") if isinstance(outputs, Mapping) else getattr(outputs, "logits", None)
        return logits.detach().double().cpu() if isinstance(logits, torch.Tensor) else None

    def step(self, batches: Sequence[Mapping[str, Any]], *, training: bool) -> float:
        """Forward and backward of one update, as the Trainer's loop does it; its loss. Gradients add up.

        Without `training` the model stays in evaluation mode, so that no dropout hides a difference.
        """
        trainer = self.trainer
        with guarded(), contextlib.ExitStack() as stack:
            if not training:
                stack.enter_context(self.evaluating())
                stack.enter_context(_staying_in_its_mode(self.model))
            copies = [{k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in b.items()} for b in batches]
            samples, n_items = trainer.get_batch_samples(iter(copies), len(copies), self.args.device)
            trainer.current_gradient_accumulation_steps = len(samples)
            trainer.accelerator.gradient_state._set_sync_gradients(True)
            return sum(float(trainer.training_step(self.model, inputs, n_items)) for inputs in samples)

    def gradients(self) -> dict[str, torch.Tensor]:
        """Copies of the gradients of trained parameters that there are, by name."""
        return {name: p.grad.detach().clone() for name, p in self.trained.items() if p.grad is not None}

    def changed(self) -> tuple[str, ...]:
        """Names of trained parameters that are not as they were found."""
        return tuple(name for name, p in self.trained.items() if self.kept.changed(p))

    def now(self) -> tuple[str, ...]:
        """What the trained parameters and buffers are like, to be compared with a later time."""
        model = self.trainer.model
        tensors = [*self.trained.items(), *model.named_buffers()]
        return tuple(
            f"{name} {float(tensor.detach().double().sum())!r}"
            for name, tensor in tensors
            if self.kept.has(tensor) and self.kept.changed(tensor)
        )

    def back_to_start(self) -> None:
        """Trained weights as they were found; the optimizer keeps its state, as in the middle of a run."""
        with torch.no_grad():
            for p in self.trained.values():
                p.copy_(self.kept.copies[id(p)])

    def empty_gradients(self) -> None:
        """As the Trainer's loop does it after each update."""
        self.model.zero_grad()

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Evaluation mode; each module's former mode comes back."""
        modes = [(module, module.training) for module in self.model.modules()]
        self.model.eval()
        try:
            yield
        finally:
            for module, mode in modes:
                module.training = mode


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """An error of the Trainer's own parts is told apart from one of the pilot's."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:
        raise StepFailed(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}") from error


def set_up(trainer: Any, kept: Kept) -> Bench:
    """Do what `trainer.train()` does before its first step, and look at the rows."""
    with guarded():
        loader = trainer.get_train_dataloader()
    train = _split("train", trainer.train_dataset, loader, trainer.args.per_device_train_batch_size)
    evaluation = []
    datasets = trainer.eval_dataset if isinstance(trainer.eval_dataset, dict) else {"": trainer.eval_dataset}
    for name, dataset in datasets.items():
        if dataset is not None:
            own = trainer.get_eval_dataloader(dataset)
            label = f"validation {name}".strip()
            evaluation.append(_split(label, dataset, own, trainer.args.per_device_eval_batch_size))
    if trainer.args.activation_checkpointing:
        enable_checkpointing(trainer)
    fits = _schedule_fits(trainer)
    if trainer._created_lr_scheduler:
        trainer.lr_scheduler = None
    trainer.create_optimizer()
    trainer.model_wrapped, trainer.optimizer = trainer.accelerator.prepare(trainer.model, trainer.optimizer)
    trainer.create_scheduler(num_training_steps=planned_updates(trainer, loader) or 1000)
    return Bench(trainer, kept, train, tuple(evaluation), schedule_fits=fits)


def _schedule_fits(trainer: Any) -> bool | None:
    optimizer, own = trainer.optimizer, getattr(trainer.lr_scheduler, "optimizer", None)
    if optimizer is None or own is None or trainer._created_lr_scheduler:
        return None
    while hasattr(optimizer, "optimizer"):  # accelerate's wrapper
        optimizer = optimizer.optimizer
    while hasattr(own, "optimizer"):
        own = own.optimizer
    return optimizer is own


def enable_checkpointing(trainer: Any) -> None:
    """Activation checkpointing as the Trainer's settings say, which the Trainer itself switches on in `train()`."""
    settings = dict(trainer.args.activation_checkpointing_kwargs or {})
    layout = {name: settings.pop(name) for name in ("every_n_layers", "offload") if name in settings}
    if hasattr(trainer.model, "activation_checkpointing_enable"):
        trainer.model.activation_checkpointing_enable(activation_checkpointing_kwargs=settings or None, **layout)


def planned_updates(trainer: Any, loader: Any) -> int | None:
    """Updates that the run is planned for; None for a stream without `max_steps`."""
    if trainer.args.max_steps > 0:
        return int(trainer.args.max_steps)
    try:
        n_batches = len(loader)
    except TypeError:
        return None
    a_pass = max(math.ceil(n_batches / trainer.args.gradient_accumulation_steps), 1)
    return math.ceil(trainer.args.num_train_epochs * a_pass)


def longest(split: Split) -> tuple[SeenRow, ...]:
    """The longest rows that were looked at, as many as a batch holds."""
    return tuple(sorted(split.rows, key=lambda row: (-row.size, row.index))[: split.batch_size])


def _different(rows: Sequence[SeenRow]) -> tuple[SeenRow, ...]:
    short = sorted(rows, key=lambda row: (row.size, row.index))[: max(len(rows) // 2, N_SAMPLE)]
    ordered = sorted(short, key=lambda row: (row.n_supervised(1), row.index))
    some = [row for row in ordered if row.n_supervised(1)] or ordered
    last = len(some) - 1
    places = [round(last * k / (N_SAMPLE - 1)) for k in range(N_SAMPLE)]
    return tuple(some[place] for place in dict.fromkeys(places))


def _split(name: str, dataset: Any, loader: Any, batch_size: int) -> Split:
    collate = loader.collate_fn
    held = getattr(loader, "dataset", dataset)
    if hasattr(dataset, "__len__") and hasattr(held, "__getitem__"):
        n_rows = len(held)

        def fetch(index: int) -> Any:
            return copy.deepcopy(held[index])  # collators may take rows to pieces

        indices = _spread(n_rows, _longest_index(held))
    else:
        n_rows = None
        items = _first_of_stream(dataset)

        def fetch(index: int) -> Any:
            return copy.deepcopy(items[index])

        indices = list(range(len(items)))
    rows = []
    for index in indices:
        item = fetch(index)
        own = copy.deepcopy(item)
        with guarded():
            batch = collate([item])
        rows.append(see(name, index, own, batch))
    return Split(name, n_rows, max(int(batch_size), 1), fetch, collate, tuple(rows))


def _first_of_stream(dataset: Any) -> list[Any]:
    """The first rows of a stream, without using up the stream itself."""
    if hasattr(dataset, "__next__"):
        return []  # what can be read only once belongs to the training
    try:
        stream = copy.deepcopy(dataset)
    except Exception:
        return []
    return list(itertools.islice(iter(stream), MOST_ROWS))


def _spread(n_rows: int, longest_index: int | None) -> list[int]:
    if n_rows <= MOST_ROWS:
        return list(range(n_rows))
    spread = {round(k * (n_rows - 1) / (MOST_ROWS - 1)) for k in range(MOST_ROWS)}
    return sorted(spread | ({longest_index} if longest_index is not None else set()))


def _longest_index(dataset: Any) -> int | None:
    """The index of the longest row of a tokenised `datasets.Dataset`, from its lengths alone."""
    columns = getattr(dataset, "column_names", None)
    if not columns or "input_ids" not in columns or not MOST_ROWS < len(dataset) <= MOST_LENGTHS:
        return None
    import pyarrow.compute

    table = dataset.select_columns(["input_ids"]).with_format("arrow")[:]
    lengths = pyarrow.compute.list_value_length(table["input_ids"]).to_pylist()
    return max(range(len(lengths)), key=lambda index: lengths[index] or 0)


@contextlib.contextmanager
def _staying_in_its_mode(model: nn.Module) -> Iterator[None]:
    """`model.train()`, which a training step calls first, changes nothing."""
    model.__dict__["train"] = lambda mode=True: model
    try:
        yield
    finally:
        del model.__dict__["train"]


def relative_error(a: Mapping[str, torch.Tensor], b: Mapping[str, torch.Tensor]) -> float | None:
    """Size of the difference of two gradients over the size of the second; None where there is none."""
    if not b or set(a) != set(b):
        return None
    difference = sum(float((a[name] - b[name]).double().square().sum()) for name in b)
    size = sum(float(b[name].double().square().sum()) for name in b)
    return math.sqrt(difference / size) if size else None

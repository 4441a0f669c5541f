"""What is seen of a Trainer beside its batches, losses and gradients: its settings, its schedule, what it saves."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from testigo.attach import data, labels
from testigo.attach.bench import Bench, planned_updates
from testigo.attach.validation import EvalLoss
from testigo.gates.export import ExportEvidence
from testigo.gates.trainer import TrainerEvidence

#: Updates of a schedule that are looked at, evenly spread.
MOST_PLANNED = 2000


def collect(
    bench: Bench,
    loader: Any,
    *,
    eval_loss: EvalLoss | None,
    declared_by_user: bool,
    trained_not_saved: tuple[str, ...] | None,
    failed_step: str,
) -> TrainerEvidence:
    """The evidence for the rules that only a Trainer needs."""
    trainer, model = bench.trainer, bench.trainer.model
    empty, marks = data.assistant_mask_empty(bench)
    data_names, model_names = data.class_names(bench)
    runs = labels.runs_of_classes(bench.train.rows, _loading_order(trainer, loader))
    pictures = [row.picture for split in (bench.train, *bench.evaluation) for row in split.rows if row.picture]
    ended = data.answers_ended(bench)
    rate, peak = _rates(trainer, loader)
    n_trained = sum(p.numel() for p in bench.trained.values())
    return TrainerEvidence(
        n_rows=len(bench.train.rows),
        labels_shifted=labels.labels_shifted(bench.train.rows),
        labels_own_share=labels.labels_own_share(bench.train.rows),
        loss_shift=bench.loss_shift,
        assistant_mask_empty=empty,
        template_marks_assistant=marks,
        class_names_data=data_names,
        class_names_model=model_names,
        adapter=hasattr(model, "peft_config"),
        declared_by_user=declared_by_user,
        trained_matrices=sum(p.dim() > 1 for p in bench.trained.values()),
        trained_vectors=sum(p.dim() < 2 for p in bench.trained.values()),
        frozen=tuple(n for n, p in model.named_parameters() if not p.requires_grad),
        trained_share=n_trained / max(sum(p.numel() for p in model.parameters()), 1),
        eval_loss_of_batches=None if eval_loss is None else eval_loss.of_batches,
        eval_loss_of_tokens=None if eval_loss is None else eval_loss.of_tokens,
        failed_step=failed_step,
        class_runs=None if runs is None else runs[0],
        class_runs_expected=None if runs is None else runs[1],
        class_runs_spread=None if runs is None else runs[2],
        pixel_range=(min(p[0] for p in pictures), max(p[1] for p in pictures)) if pictures else None,
        pixel_spread=max((p[2] for p in pictures), default=None),
        n_answers=None if ended is None else ended[0],
        n_answers_ended=None if ended is None else ended[1],
        n_batches=_length(loader),
        learning_rate=rate,
        peak_learning_rate=peak,
        schedule_is_the_optimizers=bench.schedule_fits,
        decayed_vectors=_decayed_vectors(trainer.optimizer),
        adapter_inside_adapter=_is_nested(model),
        trained_not_saved=trained_not_saved,
        recomputes_reentrantly=_is_reentrant(trainer.args),
        searches_unused=trainer.args.ddp_find_unused_parameters is True,
    )


def _is_reentrant(arguments: Any) -> bool:
    """As the settings say; transformers' own default is the other kind."""
    return bool(arguments.activation_checkpointing) and bool(
        (arguments.activation_checkpointing_kwargs or {}).get("use_reentrant")
    )


def lost_at_saving(bench: Bench) -> tuple[str, ...]:
    """Trained tensors that the adapter's file would not hold; empty without an adapter, which saves everything."""
    model = bench.trainer.model
    if not hasattr(model, "peft_config") or not bench.trained:
        return ()
    from peft import get_peft_model_state_dict

    held = get_peft_model_state_dict(model, save_embedding_layers=False).values()
    saved = {value.data_ptr() for value in held}
    return tuple(name for name, p in bench.trained.items() if p.data_ptr() not in saved)


def disk(bench: Bench, loader: Any) -> ExportEvidence:
    """Room for the checkpoints of the run."""
    args, model = bench.args, bench.trainer.model
    if str(getattr(args.save_strategy, "value", args.save_strategy)) == "no":
        return ExportEvidence()
    saved = bench.trained.values() if hasattr(model, "peft_config") else list(model.parameters())
    moments = 0 if args.save_only_model else 2 * sum(_bytes(bench.trained.values()))
    planned = planned_updates(bench.trainer, loader) or 0
    every = args.save_steps if args.save_steps >= 1 else max(math.ceil(args.save_steps * planned), 1)
    kept = args.save_total_limit or max(planned // max(int(every), 1), 1)
    return ExportEvidence(
        free_disk_bytes=shutil.disk_usage(_existing(Path(args.output_dir))).free,
        checkpoint_bytes=sum(_bytes(saved)) + moments,
        checkpoints_kept=int(kept),
    )


def _bytes(tensors: Iterable[torch.Tensor]) -> list[int]:
    return [tensor.numel() * tensor.element_size() for tensor in tensors]


def _existing(folder: Path) -> Path:
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    return folder


def _length(loader: Any) -> int | None:
    try:
        return len(loader)
    except TypeError:
        return None


def _loading_order(trainer: Any, loader: Any) -> Sequence[int] | None:
    """Indices of rows in the order of the first epoch; None for a stream, whose order is its own."""
    sampler = getattr(loader, "batch_sampler", None)
    if sampler is None or not hasattr(trainer.train_dataset, "__len__"):
        return None
    return [index for batch in sampler for index in batch]


def _rates(trainer: Any, loader: Any) -> tuple[float | None, float | None]:
    """What the schedule is a share of, and the highest learning rate that it plans."""
    scheduler = trainer.lr_scheduler
    functions, bases = getattr(scheduler, "lr_lambdas", None), getattr(scheduler, "base_lrs", None)
    planned = planned_updates(trainer, loader)
    if not functions or not bases or not planned:
        return None, None
    n = min(planned, MOST_PLANNED)
    updates = sorted({round(k * (planned - 1) / max(n - 1, 1)) for k in range(n)})
    best = max(range(len(bases)), key=lambda k: float(bases[k]))
    return float(bases[best]), max(float(bases[best]) * float(functions[best](update)) for update in updates)


def _decayed_vectors(optimizer: Any) -> int:
    return sum(p.dim() < 2 for group in optimizer.param_groups if group.get("weight_decay") for p in group["params"])


def _is_nested(model: Any) -> bool:
    """Whether a model with an adapter lies inside a model with an adapter."""
    if not hasattr(model, "peft_config"):
        return False
    from peft import PeftModel

    return sum(isinstance(module, PeftModel) for module in model.modules()) > 1

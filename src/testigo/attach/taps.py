"""Reads a Trainer's raw numbers, before its filter for NaN and its means, without touching a single one of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch


def trainer_that_calls(callback: Any) -> Any | None:
    """The Trainer whose callbacks hold this one, among the functions that are being run.

    A callback is not told which Trainer calls it, and the loss that it is told is a mean from which NaN was left out.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        candidate = frame.f_locals.get("self")
        handler = getattr(candidate, "callback_handler", None)
        if any(own is callback for own in getattr(handler, "callbacks", ())):
            return candidate
        frame = frame.f_back
    return None


class Taps:
    """Keeps what a Trainer's own methods return. They are called as before, with the same arguments, once."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._loss: Any = None
        self._norm: Any = None
        self._n_items: Any = None
        self._n_tokens = 0
        self._bad_evaluations = 0
        self._own: list[str] = []
        self._tap("training_step", self._after_training_step)
        self._tap("prediction_step", self._after_prediction_step)
        self._tap("_get_grad_norm", self._after_norm)

    def update(self) -> dict[str, Any]:
        """What the update that ends now showed; empties the taps."""
        # With accelerate's scaler an overflowed update is skipped, and its gradient norm is no news.
        accelerator = self._trainer.accelerator
        numbers = {
            "loss": None if self._loss is None else float(self._loss),
            "gradient_norm": None if self._norm is None else float(self._norm),
            "skipped": accelerator.scaler is not None and accelerator.optimizer_step_was_skipped,
            "supervised_tokens": self._n_items,  # a number or a tensor of one
            "tokens": self._n_tokens or None,
        }
        self._loss, self._norm, self._n_items, self._n_tokens = None, None, None, 0
        return numbers

    def bad_evaluations(self) -> int:
        """Evaluation batches since the last call whose loss was not finite; the Trainer leaves them out."""
        count, self._bad_evaluations = self._bad_evaluations, 0
        return count

    def close(self) -> None:
        """Give the Trainer its own methods back."""
        for name in self._own:
            self._trainer.__dict__.pop(name, None)
        self._own = []

    def _tap(self, name: str, keep: Callable[..., None]) -> None:
        method = getattr(self._trainer, name, None)
        if method is None or name in self._trainer.__dict__:
            return  # another library, or an earlier start of this run, sits there already

        def tapped(*arguments: Any, **named: Any) -> Any:
            result = method(*arguments, **named)
            keep(result, *arguments, **named)
            return result

        self._trainer.__dict__[name] = tapped
        self._own.append(name)

    def _after_training_step(
        self, loss: Any, model: Any = None, inputs: Any = None, num_items_in_batch: Any = None, **_: Any
    ) -> None:
        # On a device the number is asked for once an update, since each question waits for it.
        own = loss.item() if loss.is_cpu else loss.detach().float()
        self._loss = own if self._loss is None else self._loss + own
        self._n_items = num_items_in_batch
        try:
            ids = inputs["input_ids"]
        except (TypeError, LookupError):
            return  # a batch without tokens, such as images
        if isinstance(ids, torch.Tensor):
            self._n_tokens += ids.numel()

    def _after_prediction_step(self, result: Any, *_: Any, **__: Any) -> None:
        loss = result[0]
        if isinstance(loss, torch.Tensor):
            self._bad_evaluations += not bool(torch.isfinite(loss).all())

    def _after_norm(self, norm: Any, *_: Any, **__: Any) -> None:
        self._norm = norm

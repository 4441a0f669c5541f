"""An update that was not finite, replayed once from the last good state: which operation, module and rows it came from.

Weights are untouched by an update that was not finite, so the model in memory is the last good state, and the rows and
random states of an update are functions of its number: the replay is the same update again, only slower and observed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.module_tracker import ModuleTracker

from testigo.model.losses import token_losses
from testigo.training import optimizer
from testigo.training.order import seed_of
from testigo.watch import Origin

if TYPE_CHECKING:
    from testigo.training.loop import Session

#: More rows are not replayed one by one.
MOST_ROWS = 64
# What these return is not computed: memory as it was, or the constant that they were asked for.
_NOT_COMPUTED = ("empty", "full", "fill", "scalar_tensor", "where", "resize", "constant", "lift_fresh")


class FirstNotFinite(TorchDispatchMode):
    """Remembers the first operation that gives NaN or infinity although its inputs have none.

    Minus infinity is how masks are written: in an operation's inputs it is let pass, and in its output where it came
    from them or was asked for.
    """

    def __init__(self, tracker: ModuleTracker) -> None:
        super().__init__()
        self._tracker = tracker
        self.found: tuple[str, str, bool] | None = None
        """Operation, module, and whether it was in the backward pass."""
        self.spread: tuple[str, str, bool] | None = None
        """The first operation that gives one from inputs that already had one."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.found is not None:
            return function(*args, **kwargs)
        name = str(function).rpartition(".")[0] or str(function)
        before = [_state(leaf) for leaf in tree_leaves((args, kwargs))]
        result = function(*args, **kwargs)
        if any(part in name for part in _NOT_COMPUTED):
            return result
        after = [_state(leaf) for leaf in tree_leaves(result)]
        bad = any(state == "bad" for state in after) or ("mask" in after and "mask" not in before)
        if bad and "bad" not in before:
            self.found = (name, *self._place())
        elif bad and self.spread is None:
            self.spread = (name, *self._place())
        return result

    def _place(self) -> tuple[str, bool]:
        inner = max((name for name in self._tracker.parents if name != "Global"), key=_depth, default="")
        return inner.partition(".")[2] or inner, bool(self._tracker.is_bw)


def trace_origin(session: Session, update: int) -> Origin:
    """Replay an update, and each of its rows alone. Gradients are dropped; weights and moments are not touched."""
    sick = tuple(
        name
        for name, tensor in (*session.model.named_parameters(), *session.model.named_buffers())
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all())
    )
    rows = session.order.rows_of(update)
    try:
        for number, pack in enumerate(session.packs_of(update)):
            operation, module, is_backward, is_finite = _observed(session, pack, seed_of(session.seed, update, number))
            if not is_finite:
                return Origin(
                    update=update,
                    microbatch=number,
                    rows=() if sick else _alone(session, rows, seed_of(session.seed, update, number)),
                    n_rows=len(rows),
                    module=module,
                    operation=operation,
                    is_backward=is_backward,
                    sick_parameters=sick,
                )
    finally:
        session.optimizer.zero_grad(set_to_none=True)
    return Origin(update=update, n_rows=len(rows), sick_parameters=sick)


def _observed(session: Session, pack: Any, seed: int) -> tuple[str, str, bool, bool]:
    """Operation, module, whether backward, and whether loss and gradient of this microbatch are finite."""
    with ModuleTracker() as tracker, FirstNotFinite(tracker) as watched:
        is_finite = _is_finite(session, pack, seed)
    operation, module, is_backward = watched.found or watched.spread or ("", "", False)
    return operation, module, is_backward, is_finite


def _alone(session: Session, rows: Sequence[int], seed: int) -> tuple[str, ...]:
    """Ids of the rows that alone give a loss or a gradient that is not finite."""
    unique = list(dict.fromkeys(rows))[:MOST_ROWS]
    bad = [at for at in unique if not _is_finite(session, session.lay_out([session.rows[at]]), seed)]
    return tuple(session.rows[at].id for at in bad)


def _is_finite(session: Session, pack: Any, seed: int) -> bool:
    session.optimizer.zero_grad(set_to_none=True)
    torch.manual_seed(seed)
    with optimizer.autocast(session.settings.model.precision, session.device):
        losses = token_losses(session.model, pack)
    session.scaler.scale(losses.sum() / max(pack.n_supervised, 1)).backward()
    gradients = [p.grad for p in session.parameters.values() if p.grad is not None]
    return bool(torch.isfinite(losses).all()) and all(bool(torch.isfinite(grad).all()) for grad in gradients)


def _state(value: Any) -> str:
    """`bad` where a tensor holds NaN or infinity, `mask` where it holds minus infinity alone."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.numel() == 0:
        return ""
    if bool(torch.isfinite(value).all()):
        return ""
    return "bad" if bool((torch.isnan(value) | (value == torch.inf)).any()) else "mask"


def _depth(name: str) -> int:
    return name.count(".")

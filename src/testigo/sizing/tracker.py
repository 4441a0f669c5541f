"""Every live storage, each once, with its kind: the memory of a piece of work, whether its tensors are fake or real."""

from __future__ import annotations

import contextlib
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.weak import WeakIdKeyDictionary

Kind = Literal["weights", "gradients", "optimizer_state", "activations", "logits", "cache", "other"]
KINDS: tuple[Kind, ...] = ("weights", "gradients", "optimizer_state", "activations", "logits", "cache", "other")

CUDA_BLOCK_BYTES = 512
"""To what CUDA's allocator rounds each block up: `kMinBlockSize` in torch's c10/cuda/CUDACachingAllocator.cpp."""


@dataclass
class _Block:
    """One storage. Its kind may become known only later: a gradient is one once it hangs on a parameter."""

    n_bytes: int
    kind: Kind


@dataclass(frozen=True)
class Peak:
    """The most bytes alive at one moment, and what they were."""

    n_bytes: int
    by_kind: Mapping[Kind, int]


@dataclass
class _Span:
    """A stretch of the log."""

    start: int
    stop: int | None = None


@dataclass
class Log:
    """What came and went, in order; read only at the end, when every block's kind is known."""

    events: list[tuple[_Block, int]] = field(default_factory=list)
    spans: dict[str, list[_Span]] = field(default_factory=dict)

    def peaks(self) -> dict[str, Peak]:
        """The peak of each named phase, in the order of their first appearance."""
        return {name: self._peak(spans) for name, spans in self.spans.items()}

    def _peak(self, spans: Iterable[_Span]) -> Peak:
        best, best_at = -1, 0
        levels = self._levels()
        for span in spans:
            stop = len(self.events) if span.stop is None else span.stop
            for at in range(span.start, stop + 1):  # the level before the first event belongs to the phase
                if levels[at] > best:
                    best, best_at = levels[at], at
        by_kind: Counter[Kind] = Counter()
        for block, sign in self.events[:best_at]:
            by_kind[block.kind] += sign * block.n_bytes
        return Peak(best, {kind: by_kind[kind] for kind in KINDS if by_kind[kind]})

    def _levels(self) -> list[int]:
        levels = [0]
        for block, sign in self.events:
            levels.append(levels[-1] + sign * block.n_bytes)
        return levels


class Tracker(TorchDispatchMode):
    """Follows storages while it is on.

    Parameters
    ----------
    block_bytes
        What each storage is rounded up to: `CUDA_BLOCK_BYTES` for a GPU, 1 for bytes as asked for.
    vocabulary_size
        A tensor whose last side is this long counts as logits.
    """

    def __init__(self, *, block_bytes: int, vocabulary_size: int) -> None:
        super().__init__()
        self.log = Log()
        self._live: Any = WeakIdKeyDictionary()
        self._block_bytes = block_bytes
        self._vocabulary_size = vocabulary_size
        self._default: Kind = "other"

    def hold(self, tensors: Iterable[torch.Tensor], kind: Kind) -> None:
        """Tensors that were there before, or whose kind has just become known."""
        for tensor in tensors:
            self._see(tensor, kind).kind = kind

    @contextlib.contextmanager
    def phase(self, name: str, *, making: Kind) -> Iterator[None]:
        """What happens inside belongs to this phase, and new tensors are of this kind unless they show another."""
        span, before = _Span(len(self.log.events)), self._default
        self.log.spans.setdefault(name, []).append(span)
        self._default = making
        try:
            yield
        finally:
            self._default = before
            span.stop = len(self.log.events)

    def _see(self, tensor: torch.Tensor, kind: Kind) -> _Block:
        storage = tensor.untyped_storage()
        known = self._live.get(storage)
        if known is not None:
            return known
        block = _Block(-(-storage.nbytes() // self._block_bytes) * self._block_bytes, kind)
        self._live[storage] = block
        self.log.events.append((block, 1))
        weakref.finalize(storage, self.log.events.append, (block, -1)).atexit = False
        return block

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and look at what it made."""
        result = function(*args, **(kwargs or {}))
        for value in tree_iter(result):
            if isinstance(value, torch.Tensor):
                is_logits = self._default == "activations" and value.shape[-1:] == (self._vocabulary_size,)
                self._see(value, "logits" if is_logits else self._default)
        return result

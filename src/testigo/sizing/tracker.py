"""Every live storage, each once, with its kind: the memory of a piece of work, whether its tensors are fake or real."""

from __future__ import annotations

import contextlib
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.weak import WeakIdKeyDictionary

Kind = Literal["weights", "gradients", "optimizer_state", "activations", "logits", "cache", "exchange", "other"]
KINDS: tuple[Kind, ...] = (
    "weights",
    "gradients",
    "optimizer_state",
    "activations",
    "logits",
    "cache",
    "exchange",
    "other",
)
"""`exchange` is what processes send each other: weights gathered for a block, gradients summed."""

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

    def beside(self, kind: Kind, n_bytes: int) -> Peak:
        """The same moment with more of one kind there all the time."""
        if not n_bytes:
            return self
        return Peak(self.n_bytes + n_bytes, {**self.by_kind, kind: self.by_kind.get(kind, 0) + n_bytes})


@dataclass
class _Span:
    """A stretch of the log."""

    start: int
    stop: int | None = None


@dataclass
class Log:
    """What came and went [bytes], in order; read only at the end, when every block's kind is known."""

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
        for block, change in self.events[:best_at]:
            by_kind[block.kind] += change
        return Peak(best, {kind: by_kind[kind] for kind in KINDS if by_kind[kind]})

    def _levels(self) -> list[int]:
        levels = [0]
        for _, change in self.events:
            levels.append(levels[-1] + change)
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
        self._is_blind = False

    def hold(self, tensors: Iterable[torch.Tensor], kind: Kind) -> None:
        """Tensors that were there before, or whose kind has just become known."""
        for tensor in tensors:
            own = tensor.to_local() if isinstance(tensor, DTensor) else tensor
            self._see(own, kind).kind = kind

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
        block = _Block(self._rounded(storage.nbytes()), kind)
        self._live[storage] = block
        self._change(block, block.n_bytes)
        weakref.finalize(storage, lambda: self._change(block, -block.n_bytes)).atexit = False
        return block

    def _rounded(self, n_bytes: int) -> int:
        return -(-n_bytes // self._block_bytes) * self._block_bytes

    def _change(self, block: _Block, n_bytes: int) -> None:
        self.log.events.append((block, n_bytes))

    @contextlib.contextmanager
    def seeing_shards(self) -> Iterator[None]:
        """See storages that are emptied and filled again in place, as FSDP does with gathered weights.

        And do not see what DTensor makes to learn an operation's shape: with real tensors that takes no memory.
        """
        original = torch.UntypedStorage.resize_
        asking = ShardingPropagator._propagate_tensor_meta_non_cached

        def resize(storage: torch.UntypedStorage, n_bytes: int) -> Any:
            result = original(storage, n_bytes)
            block = self._live.get(storage)
            if block is not None:
                before, block.n_bytes, block.kind = block.n_bytes, self._rounded(n_bytes), "exchange"
                self._change(block, block.n_bytes - before)
            return result

        def ask(*arguments: Any) -> Any:
            with self._blind():
                return asking(*arguments)

        torch.UntypedStorage.resize_ = resize  # type: ignore[method-assign, assignment]
        ShardingPropagator._propagate_tensor_meta_non_cached = ask  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            torch.UntypedStorage.resize_ = original  # type: ignore[method-assign]
            ShardingPropagator._propagate_tensor_meta_non_cached = asking  # type: ignore[method-assign]

    @contextlib.contextmanager
    def _blind(self) -> Iterator[None]:
        before, self._is_blind = self._is_blind, True
        try:
            yield
        finally:
            self._is_blind = before

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and look at what it made."""
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # it takes itself apart, and its parts come here
        result = function(*args, **(kwargs or {}))
        if self._is_blind:
            return result
        sends = function.namespace in _SENDING
        for value in tree_iter(result):
            if isinstance(value, torch.Tensor):
                is_logits = self._default == "activations" and value.shape[-1:] == (self._vocabulary_size,)
                kind: Kind = "exchange" if sends else "logits" if is_logits else self._default
                self._see(value, kind)
        return result


_SENDING = frozenset({"fsdp", "c10d", "_c10d_functional"})
"""Namespaces of torch's operations between processes."""

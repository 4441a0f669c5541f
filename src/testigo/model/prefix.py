"""What all rows of an update begin with, computed once for all its packs: forwards into a cache, backwards at the end.

Each pack reads copies of the cached keys and values that collect its gradient; when all packs are through, what was
collected goes back through the prefix once. The gradient is that of the rows alone, whatever the size of the packs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from testigo.encoding import Pack
from testigo.model.cache import empty_cache, with_cache


class SharedPrefix:
    """The keys and values of some leading ids, with the gradient that packs leave on them.

    Parameters
    ----------
    is_own
        Of one pack alone, whose own backward pass then goes through it.
    """

    def __init__(self, model: Any, ids: torch.Tensor, *, is_own: bool = False) -> None:
        self._model = model
        cache = empty_cache(model)
        model(input_ids=ids[None], logits_to_keep=1, **with_cache(model, cache))
        self._made = [(layer.keys, layer.values) for layer in cache.layers]
        # Gradients of many packs add up: in fp32, whatever the numbers that the model computes in.
        self._read = self._made if is_own else [(_collecting(keys), _collecting(values)) for keys, values in self._made]

    @property
    def kept(self) -> list[torch.Tensor]:
        """The keys and values of each layer that packs read, in one list."""
        return [tensor for pair in self._read for tensor in pair]

    def cache(self) -> DynamicCache:
        """A cache for one pack, which fills it further."""
        cache = empty_cache(self._model)
        for number, (made, read) in enumerate(zip(self._made, self._read, strict=True)):
            cache.update(*(tensor.to(own.dtype) for tensor, own in zip(read, made, strict=True)), number)
        return cache

    def backward(self) -> None:
        """Send what the packs left back through the prefix."""
        made = [tensor for pair in self._made for tensor in pair]
        left = [tensor.grad for tensor in self.kept]
        both = [(own, grad.to(own.dtype)) for own, grad in zip(made, left, strict=True) if grad is not None]
        if both:
            torch.autograd.backward([own for own, _ in both], [grad for _, grad in both])


def _collecting(made: torch.Tensor) -> torch.Tensor:
    return made.detach().float().requires_grad_(torch.is_grad_enabled())


def prefix_of(model: Any, packs: Sequence[Any]) -> SharedPrefix | None:
    """The prefix that the packs of an update leave out, computed; None where they leave out nothing."""
    ids = next((pack.before for pack in packs if isinstance(pack, Pack) and pack.before is not None), None)
    return None if ids is None else SharedPrefix(model, ids)

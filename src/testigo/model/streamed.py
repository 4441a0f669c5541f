"""The loss of many tokens without many logits: they are made in pieces under a budget, and gone before the next.

A vocabulary of 128,000 makes 0.5 MB of logits a token, and a loss holds them three times. Where the head is frozen, as
under an adapter, each piece's gradient with respect to what the head reads is taken at once: nothing is computed twice
(known from fused losses such as Liger's, arXiv 2410.10989); where it is trained, pieces are computed again backwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.fsdp import FSDPModule
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from testigo.model.bare import bare

#: The most logits that are held at once, in fp32 [bytes].
LOGITS_BYTES = 16 * 2**20

Head = Callable[[torch.Tensor], torch.Tensor]


def streamed_losses(
    model: Any, inputs: dict[str, Any], places: torch.Tensor, targets: torch.Tensor, *, most_bytes: int = LOGITS_BYTES
) -> torch.Tensor:
    """(S,) the loss of each target [nats], where the model reads one sequence.

    Parameters
    ----------
    inputs
        What the model reads, without `logits_to_keep`.
    places
        (S,) places whose next token is a target.
    """
    inner = bare(model)
    read = _read(model, inner.get_decoder(), inputs | {"logits_to_keep": places[:0]})
    hidden = read.last_hidden_state[0, places]  # (S, hidden)
    head = _head_of(inner, read)
    n = piece_of(inner.config.get_text_config().vocab_size, most_bytes)
    is_trained = any(p.requires_grad for p in inner.get_output_embeddings().parameters())
    pieces = []
    for some, own in zip(hidden.split(n), targets.split(n), strict=True):
        if not (torch.is_grad_enabled() and hidden.requires_grad):
            pieces.append(_losses(head, some, own))
        elif is_trained:
            pieces.append(checkpoint(_losses, head, some, own, use_reentrant=False))
        else:
            pieces.append(_Taken.apply(head, some, own))
    return torch.cat(pieces) if pieces else hidden.new_zeros(0)


def piece_of(vocabulary_size: int, most_bytes: int = LOGITS_BYTES) -> int:
    """How many targets a piece has."""
    return max(most_bytes // (4 * vocabulary_size), 1)


def _read(model: Any, decoder: Any, inputs: dict[str, Any]) -> Any:
    """What the decoder gives when the whole model is called, for no logits at all."""
    given: list[Any] = []
    handle = decoder.register_forward_hook(lambda module, read, made: given.append(made))
    try:
        model(**inputs)
    finally:
        handle.remove()
    return given[0]


def can_stream(model: Any) -> bool:
    """Sharded weights are gathered by the whole model's own call, and by no part of it."""
    inner = bare(model)
    return not isinstance(model, FSDPModule) and not isinstance(inner, FSDPModule) and hasattr(inner, "get_decoder")


def _losses(head: Head, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return cross_entropy(head(hidden), targets, reduction="none")


class _Taken(torch.autograd.Function):
    """Losses whose gradient is taken while their logits are there."""

    @staticmethod
    def forward(ctx: Any, head: Head, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        own = hidden.detach().requires_grad_()
        with torch.enable_grad():
            losses = _losses(head, own, targets)
            (gradient,) = torch.autograd.grad(losses.sum(), own)
        ctx.save_for_backward(gradient)
        return losses.detach()

    @staticmethod
    def backward(ctx: Any, *given: torch.Tensor) -> tuple[None, torch.Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return None, (gradient * given[0][:, None]).to(gradient.dtype), None


def _head_of(inner: Any, read: Any) -> Head:
    """(S, hidden) -> (S, vocabulary) in fp32, by the model's own call: some scale or cap what their head gives."""
    decoder = inner.get_decoder()
    shell = {name: value for name, value in read.items() if name != "last_hidden_state" and value is not None}

    def head(hidden: torch.Tensor) -> torch.Tensor:
        given = type(read)(last_hidden_state=hidden[None], **shell)
        decoder.forward = lambda *_, **__: given  # on this object alone: the class keeps its own
        try:
            logits: torch.Tensor = inner(input_ids=torch.zeros((1, 1), dtype=torch.long, device=hidden.device)).logits
        finally:
            del decoder.forward
        return logits[0].float()

    return head

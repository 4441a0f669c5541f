"""Which place of a pack sees which, as a model's own attention takes it."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from testigo.encoding import Pack


def mask_for(model: Any, pack: Pack) -> Any:
    """The mask of a pack: for fused attention, eager attention or FlexAttention, and with the layers' windows.

    Eager attention adds its mask, where the fused kinds take truth values: a True would count as 1 there. FlexAttention
    takes blocks, so that what nobody sees is not computed.
    """
    if pack.until is None:
        return pack.attention_mask
    configuration = model.config.get_text_config()
    window = window_of(model)
    if window is None or pack.longest <= window:
        return _of_kind(model, pack, None)
    kinds = set(getattr(configuration, "layer_types", None) or ["sliding_attention"])
    if kinds == {"sliding_attention"}:
        return _of_kind(model, pack, window)
    return {kind: _of_kind(model, pack, window if kind == "sliding_attention" else None) for kind in sorted(kinds)}


def window_of(model: Any) -> int | None:
    """How far back the layers see that have a window [tokens]; None where all see everything."""
    configuration = model.config.get_text_config()
    window = getattr(configuration, "sliding_window", None)
    kinds = getattr(configuration, "layer_types", None)
    if not window or getattr(configuration, "use_sliding_window", True) is False:
        return None
    return None if kinds is not None and "sliding_attention" not in kinds else int(window)


def block_mask(pack: Pack, window: int | None = None) -> BlockMask:
    """A pack's mask in blocks, from one number a place; nothing of T × T is kept."""
    until, n_before = pack.until, pack.n_before
    assert until is not None
    n = len(until)
    positions = _positions(pack)

    def sees(batch: Any, head: Any, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        own = key - n_before
        here = (own < 0) | ((own <= query) & (query < until[own.clamp(min=0)]))
        return here if window is None else here & (positions[n_before + query] - positions[key] < window)

    return create_block_mask(sees, None, None, n, n_before + n, device=until.device)


def _of_kind(model: Any, pack: Pack, window: int | None) -> Any:
    kind = getattr(model.config, "_attn_implementation", None)
    if kind == "flex_attention":
        return block_mask(pack, window)
    mask = pack.attention_mask
    if window is not None:
        positions = _positions(pack)
        mask = mask & (positions[pack.n_before :, None] - positions[None, :] < window)
    if kind != "eager":
        return mask
    return torch.zeros(mask.shape, dtype=model.dtype, device=mask.device).masked_fill(
        ~mask, torch.finfo(model.dtype).min
    )


def _positions(pack: Pack) -> torch.Tensor:
    """(P + T,) the position of each place that is seen."""
    own = pack.position_ids[0]
    return torch.cat([torch.arange(pack.n_before, device=own.device), own])

"""Greedy generation for many prompts: their common prefix is computed once, finished rows leave the batch at once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from transformers import DynamicCache

from testigo.encoding.pack import common_prefix
from testigo.model.cache import empty_cache, places_of, with_cache


@dataclass(frozen=True)
class Generated:
    """What the model wrote after one prompt, without the token that ended it."""

    token_ids: tuple[int, ...]
    stop: Literal["end", "length"]


def decode_all(
    model: Any,
    prompts: Sequence[Sequence[int]],
    *,
    stop_ids: Sequence[int],
    max_new_tokens: int,
    batch_size: int,
    on_batch: Callable[[int], object] = lambda n_done: None,
    agree: Callable[[torch.Tensor], torch.Tensor] = lambda tokens: tokens,
) -> tuple[Generated, ...]:
    """Greedy answers in the order of the prompts.

    Prompts are sorted by length, so that a batch holds alike ones. The cache of the common prefix is computed once for
    all batches. An answer also ends, by `length`, where the model has no more places; it is empty where the prompt
    alone takes them all.

    Parameters
    ----------
    prompts
        Ids, each at least one token long.
    on_batch
        Called with the number of rows done so far.
    agree
        The tokens chosen at each step, as all processes that hold a share of the weights shall have them: one that
        ended a row earlier would leave the others waiting.
    """
    room = {k: min(max_new_tokens, places_of(model) - len(prompt)) for k, prompt in enumerate(prompts)}
    order = sorted((k for k in room if room[k] > 0), key=lambda k: (len(prompts[k]), k))
    answers = {k: Generated((), "length") for k in room if room[k] <= 0}
    if not order:
        return tuple(answers.values())
    device = model.get_input_embeddings().weight.device
    n_prefix = min(common_prefix([tuple(prompts[k]) for k in order]), len(prompts[order[0]]) - 1)
    prefix = None
    if n_prefix:
        prefix = empty_cache(model)
        ids = torch.tensor([prompts[order[0]][:n_prefix]], device=device)
        model(input_ids=ids, logits_to_keep=1, **with_cache(model, prefix))
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        rests = [list(prompts[k][n_prefix:]) for k in chosen]
        limits = [room[k] for k in chosen]
        answers |= zip(chosen, _decode(model, prefix, n_prefix, rests, set(stop_ids), limits, agree), strict=True)
        on_batch(len(answers))
    return tuple(answers[k] for k in range(len(prompts)))


def _decode(
    model: Any,
    prefix: DynamicCache | None,
    n_prefix: int,
    rests: list[list[int]],
    stop_ids: set[int],
    limits: list[int],
    agree: Callable[[torch.Tensor], torch.Tensor],
) -> list[Generated]:
    """One batch, each row up to its own limit [tokens].

    Prompts are padded on the right; what is padding is known by the attention mask alone.
    """
    device = model.get_input_embeddings().weight.device
    n_rows, longest = len(rests), max(map(len, rests))
    if prefix is None:
        cache = empty_cache(model)
    else:
        cache = copy.deepcopy(prefix)
        cache.batch_repeat_interleave(n_rows)
    ids = torch.zeros((n_rows, longest), dtype=torch.long)
    mask = torch.ones((n_rows, n_prefix + longest), dtype=torch.long)
    for number, rest in enumerate(rests):
        ids[number, : len(rest)] = torch.tensor(rest)
        mask[number, n_prefix + len(rest) :] = 0
    lengths = torch.tensor([len(rest) for rest in rests])
    positions = n_prefix + torch.arange(longest).expand(n_rows, longest)
    last_places, row_of = torch.unique(lengths - 1, return_inverse=True)
    logits = model(
        input_ids=ids.to(device),
        attention_mask=mask.to(device),
        position_ids=positions.to(device),
        logits_to_keep=last_places.to(device),
        **with_cache(model, cache),
    ).logits  # (rows, last places, vocabulary)
    tokens = agree(logits[torch.arange(n_rows), row_of.to(device)].argmax(-1).cpu())  # (rows,)
    written: list[list[int]] = [[] for _ in rests]
    ended = [False] * n_rows
    alive = list(range(n_rows))
    for count in range(max(limits)):
        going = []
        for place, number in enumerate(alive):
            token = int(tokens[place])
            if token in stop_ids:
                ended[number] = True
            else:
                written[number].append(token)
                if len(written[number]) < limits[number]:
                    going.append(place)
        if not going:
            break
        if len(going) < len(alive):
            kept = torch.tensor(going)
            cache.batch_select_indices(kept.to(device))
            tokens, mask, lengths = tokens[kept], mask[kept], lengths[kept]
            alive = [alive[place] for place in going]
        mask = torch.cat([mask, torch.ones((len(alive), 1), dtype=torch.long)], dim=1)
        logits = model(
            input_ids=tokens[:, None].to(device),
            attention_mask=mask.to(device),
            position_ids=(n_prefix + lengths + count)[:, None].to(device),
            **with_cache(model, cache),
        ).logits
        tokens = agree(logits[:, -1].argmax(-1).cpu())
    return [Generated(tuple(ids), "end" if end else "length") for ids, end in zip(written, ended, strict=True)]

"""Greedy generation for many prompts: their common prefix is computed and kept once, and no slot stands idle.

A row that is done leaves at once and the next prompt takes its slot (`shared_attention.py`). Models whose layers keep
anything else than keys and values of every place, and passes in mixed precision, go batch by batch, from which finished
rows leave.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.distributed.fsdp import FSDPModule
from transformers import DynamicCache

from testigo.encoding import common_prefix
from testigo.evaluation.shared_attention import Slots, is_plain, last_logits
from testigo.model.bare import bare
from testigo.model.cache import empty_cache, places_of, with_cache

#: How far the logits of the two ways may be apart, relative to the largest, in fp32 and in half precision.
MOST_APART = {torch.float32: 1e-4, torch.bfloat16: 0.05, torch.float16: 0.01}

#: Rows that are written at once, in batches: beyond it a step's logits and activations weigh more than what is won.
MOST_BATCHES = 4


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

    Prompts are sorted by length, so that those that are read together are alike. The cache of the common prefix is
    computed once for all. An answer also ends, by `length`, where the model has no more places; it is empty where the
    prompt alone takes them all.

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
    reader = _Reader(model, prefix, n_prefix, agree)
    asked = [_Asked(k, tuple(prompts[k][n_prefix:]), room[k]) for k in order]
    if reader.has_slots(asked):
        return _in_slots(reader, asked, set(stop_ids), batch_size, answers, on_batch)
    for start in range(0, len(order), batch_size):
        chosen = asked[start : start + batch_size]
        answers |= zip((one.number for one in chosen), _decode(reader, chosen, set(stop_ids)), strict=True)
        on_batch(len(answers))
    return tuple(answers[k] for k in range(len(prompts)))


@dataclass(frozen=True)
class _Asked:
    """One prompt: its number, what of it stands behind the common prefix, and the most tokens of its answer."""

    number: int
    rest: tuple[int, ...]
    limit: int


@dataclass
class _Read:
    """Some prompts that were read: the first token of each answer, and the cache that they share."""

    tokens: torch.Tensor
    cache: DynamicCache
    mask: torch.Tensor
    lengths: torch.Tensor


@dataclass(frozen=True)
class _Reader:
    """A model and what it has read of the prefix that all prompts share."""

    model: Any
    prefix: DynamicCache | None
    n_prefix: int
    agree: Callable[[torch.Tensor], torch.Tensor]

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.get_input_embeddings().weight.device

    def read(self, rests: Sequence[Sequence[int]]) -> _Read:
        """One pass over some prompts, padded on the right; what is padding is known by the attention mask alone."""
        n_rows, longest = len(rests), max(map(len, rests))
        if self.prefix is None:
            cache = empty_cache(self.model)
        else:
            cache = copy.deepcopy(self.prefix)
            cache.batch_repeat_interleave(n_rows)
        ids = torch.zeros((n_rows, longest), dtype=torch.long)
        mask = torch.ones((n_rows, self.n_prefix + longest), dtype=torch.long)
        for number, rest in enumerate(rests):
            ids[number, : len(rest)] = torch.tensor(rest)
            mask[number, self.n_prefix + len(rest) :] = 0
        lengths = torch.tensor([len(rest) for rest in rests])
        positions = self.n_prefix + torch.arange(longest).expand(n_rows, longest)
        last_places, row_of = torch.unique(lengths - 1, return_inverse=True)
        logits = self.model(
            input_ids=ids.to(self.device),
            attention_mask=mask.to(self.device),
            position_ids=positions.to(self.device),
            logits_to_keep=last_places.to(self.device),
            **with_cache(self.model, cache),
        ).logits  # (rows, last places, vocabulary)
        tokens = self.chosen(logits[torch.arange(n_rows), row_of.to(self.device)])
        return _Read(tokens, cache, mask, lengths)

    def chosen(self, logits: torch.Tensor) -> torch.Tensor:
        """(rows,) the likeliest token of each."""
        return self.agree(logits.argmax(-1).cpu())

    def next_logits(self, read: _Read, count: int) -> torch.Tensor:
        """(rows, vocabulary) after one more token of each row, by the usual cache."""
        n_rows = len(read.tokens)
        read.mask = torch.cat([read.mask, torch.ones((n_rows, 1), dtype=torch.long)], dim=1)
        return self.model(
            input_ids=read.tokens[:, None].to(self.device),
            attention_mask=read.mask.to(self.device),
            position_ids=(self.n_prefix + read.lengths + count)[:, None].to(self.device),
            **with_cache(self.model, read.cache),
        ).logits[:, -1]

    def next_in_slots(self, slots: Slots, tokens: Sequence[int]) -> torch.Tensor:
        """(rows, vocabulary) after one more token of each row in its slot."""
        positions = self.n_prefix + slots.n_filled[: len(tokens)]
        (name,) = with_cache(self.model, slots).keys() - {"use_cache"}
        return last_logits(self.model, slots, tokens, positions, name)

    def has_slots(self, asked: Sequence[_Asked]) -> bool:
        """Whether slots give the logits of the usual way; tried on one more token of two rows, so never assumed."""
        inner = bare(self.model)
        if isinstance(self.model, FSDPModule) or not getattr(inner, "_supports_attention_backend", False):
            return False  # the processes of one model go the same way without having to agree on it
        if torch.is_autocast_enabled(self.device.type) or not is_plain(empty_cache(self.model)):
            return False
        if max(one.limit for one in asked) == 1:  # every answer ends with the pass that reads its prompt
            return False
        some = [asked[0].rest, asked[-1].rest]
        read = self.read(some)
        slots = Slots(self.prefix, 2, max(map(len, some)) + 1, read.cache)
        for slot, rest in enumerate(some):
            slots.put(slot, read.cache, slot, self.n_prefix, len(rest))
        own, usual = self.next_in_slots(slots, read.tokens.tolist()), self.next_logits(read, 0)
        apart = float((own.float() - usual.float()).abs().max())
        return apart <= MOST_APART.get(usual.dtype, 0.0) * float(usual.float().abs().max())


def _in_slots(
    reader: _Reader,
    asked: Sequence[_Asked],
    stop_ids: set[int],
    batch_size: int,
    answers: dict[int, Generated],
    on_batch: Callable[[int], object],
) -> tuple[Generated, ...]:
    """Every prompt in the next free slot, the longest first; some slots are filled at once, in one pass."""
    waiting, n_all = sorted(asked, key=lambda one: (len(one.rest), one.number)), len(asked) + len(answers)
    longest = max(len(one.rest) for one in asked)
    n_places = max(len(one.rest) + one.limit for one in asked)
    n_slots, n_read = room_of(len(asked), batch_size, reader.n_prefix + longest, n_places)
    slots: Slots | None = None
    alive: list[tuple[_Asked, list[int]]] = []

    def is_done(one: _Asked, written: list[int], token: int) -> bool:
        if token not in stop_ids:
            written.append(token)
            if len(written) < one.limit:
                return False
        answers[one.number] = Generated(tuple(written), "end" if token in stop_ids else "length")
        return True

    n_told = -1
    while waiting or alive:
        if len(answers) > n_told:
            on_batch(n_told := len(answers))
        while waiting and (len(alive) + n_read <= n_slots or not alive):
            chosen = [waiting.pop() for _ in range(min(n_read, len(waiting)))]
            read = reader.read([one.rest for one in chosen])
            if slots is None:  # asked so, since an empty cache counts as false
                slots = Slots(reader.prefix, n_slots, n_places, read.cache)
            for row, one in enumerate(chosen):
                written: list[int] = []
                if not is_done(one, written, int(read.tokens[row])):
                    slots.put(len(alive), read.cache, row, reader.n_prefix, len(one.rest))
                    alive.append((one, written))
        if not alive:
            continue
        assert slots is not None
        tokens = reader.chosen(reader.next_in_slots(slots, [written[-1] for _, written in alive])).tolist()
        for slot in reversed(range(len(alive))):
            if is_done(*alive[slot], tokens[slot]):
                last = alive.pop()
                if slot < len(alive):
                    slots.move(len(alive), slot)
                    alive[slot] = last
    on_batch(len(answers))
    return tuple(answers[k] for k in range(n_all))


def room_of(n_asked: int, batch_size: int, n_read_places: int, n_own_places: int) -> tuple[int, int]:
    """How many rows are written at once, and how many prompts are read in one pass.

    A batch whose prompts are read in one pass holds each with the prefix, and its slot. Fewer read at once leave that
    memory to more slots: a token of 64 rows takes a processor twice as long as one of 16 (docs/decisions/0007).

    Parameters
    ----------
    n_read_places, n_own_places
        Of the longest prompt with the prefix; of a slot.
    """
    if n_asked <= batch_size:
        return n_asked, n_asked
    n_read = max(batch_size // 4, 1)
    more = (batch_size - n_read) * n_read_places // n_own_places
    return min(batch_size + more, MOST_BATCHES * batch_size, n_asked), n_read


def _decode(reader: _Reader, asked: Sequence[_Asked], stop_ids: set[int]) -> list[Generated]:
    """One batch, each row up to its own limit [tokens]."""
    read = reader.read([one.rest for one in asked])
    limits = [one.limit for one in asked]
    written: list[list[int]] = [[] for _ in asked]
    ended = [False] * len(asked)
    alive = list(range(len(asked)))
    for count in range(max(limits)):
        going = []
        for place, number in enumerate(alive):
            token = int(read.tokens[place])
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
            read.cache.batch_select_indices(kept.to(reader.device))
            read.tokens, read.mask, read.lengths = read.tokens[kept], read.mask[kept], read.lengths[kept]
            alive = [alive[place] for place in going]
        read.tokens = reader.chosen(reader.next_logits(read, count))
    return [Generated(tuple(ids), "end" if end else "length") for ids, end in zip(written, ended, strict=True)]

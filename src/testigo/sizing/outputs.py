"""What generation and export do to memory, done once with fake tensors.

These lines follow `testigo.evaluation` and `testigo.model.export`: what stays alive how long is the point here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache

from testigo.campaign import Campaign
from testigo.model.adapter import trained_parameters
from testigo.model.cache import empty_cache, with_cache
from testigo.model.losses import supervised_logits
from testigo.sizing.lengths import Inputs, RowLength
from testigo.sizing.passes import lay_for_a_head
from testigo.sizing.tracker import Tracker


@dataclass
class Outputs:
    """A model's answers to one set of inputs, watched by a tracker that is on."""

    campaign: Campaign
    inputs: Inputs
    model: Any
    tracker: Tracker

    def generate(self, phase: str = "evaluation", n_rows: int | None = None) -> None:
        """The largest batch of generation: its prompts, and the last token with the cache at its longest.

        Parameters
        ----------
        n_rows
            How many of the longest; None: a whole batch.
        """
        self.model.eval()
        rows = self.inputs.validation[-n_rows:] if n_rows else self.inputs.validation
        if self.inputs.n_classes:
            self._classify(phase, rows)
            return
        n_prefix = min(self.inputs.n_shared, min(row.n_prompt for row in rows) - 1)
        rests = [row.n_prompt - n_prefix for row in rows]
        with torch.no_grad():
            cache = empty_cache(self.model)
            with self.tracker.phase(phase, making="activations"):
                if n_prefix:
                    ids = torch.zeros((1, n_prefix), dtype=torch.long)
                    self.model(input_ids=ids, logits_to_keep=1, **with_cache(self.model, cache))
                    self._hold_cache(cache)
                    prefix, cache = cache, self._copied(cache)
                    self._hold_cache(cache)
                    cache.batch_repeat_interleave(len(rows))
                    self._hold_cache(cache)
                tokens = self._read(cache, n_prefix, rests)
            n_between = max(self.campaign.evaluation.max_new_tokens - 2, 0)
            self._lengthen(cache, n_between)
            with self.tracker.phase(phase, making="activations"):
                self._next(cache, tokens, n_before=n_prefix + max(rests) + n_between)
            if n_prefix:
                del prefix  # it stays for the next batch until here

    def _read(self, cache: DynamicCache, n_prefix: int, rests: Sequence[int]) -> torch.Tensor:
        n_rows, longest = len(rests), max(rests)
        # The loop keeps logits at the place of every different length, for every row.
        n_places = len(set(rests))
        logits = self.model(
            input_ids=torch.zeros((n_rows, longest), dtype=torch.long),
            attention_mask=torch.ones((n_rows, n_prefix + longest), dtype=torch.long),
            position_ids=n_prefix + torch.arange(longest).expand(n_rows, longest),
            logits_to_keep=torch.arange(n_places),
            **with_cache(self.model, cache),
        ).logits  # (rows, places, vocabulary)
        self._hold_cache(cache)
        return logits[:, 0].argmax(-1)  # (rows,)

    def _next(self, cache: DynamicCache, tokens: torch.Tensor, *, n_before: int) -> None:
        n_rows = len(tokens)
        logits = self.model(
            input_ids=tokens[:, None],
            attention_mask=torch.ones((n_rows, n_before + 1), dtype=torch.long),
            position_ids=torch.full((n_rows, 1), n_before),
            **with_cache(self.model, cache),
        ).logits
        self._hold_cache(cache)
        logits[:, -1].argmax(-1)

    def export(self) -> None:
        """Trained weights looked at for NaN, and the longest prompt as a control input: all its logits are kept."""
        self.model.eval()
        n_prompt = self.inputs.longest.n_prompt
        with self.tracker.phase("export", making="other"):
            for parameter in trained_parameters(self.model).values():
                torch.isfinite(parameter).all()
        if self.inputs.n_classes:
            self._classify("export", [self.inputs.longest])
            return
        with torch.no_grad():
            cache = empty_cache(self.model)
            with self.tracker.phase("export", making="activations"):
                ids = torch.zeros((1, n_prompt), dtype=torch.long)
                logits = self.model(input_ids=ids, **with_cache(self.model, cache)).logits[0, -1].float()
                self._hold_cache(cache)
                logits.argmax()
            self._lengthen(cache, self.campaign.evaluation.max_new_tokens - 2)
            with self.tracker.phase("export", making="activations"):
                self.model(input_ids=torch.zeros((1, 1), dtype=torch.long), **with_cache(self.model, cache))
                self._hold_cache(cache)

    def _classify(self, phase: str, rows: Sequence[RowLength]) -> None:
        """One forward pass before a class head."""
        with torch.no_grad(), self.tracker.phase(phase, making="activations"):
            batch = lay_for_a_head(self.campaign, self.inputs, self.tracker, rows)
            supervised_logits(self.model, batch).double().softmax(-1)

    def _copied(self, cache: DynamicCache) -> DynamicCache:
        """As the loop's deep copy, which fake tensors do not survive."""
        copied = empty_cache(self.model)
        for number, layer in enumerate(cache.layers):
            copied.update(layer.keys.clone(), layer.values.clone(), number)
        return copied

    def _lengthen(self, cache: DynamicCache, n_tokens: int) -> None:
        """The tokens between the first and the last one, without going through them."""
        if n_tokens <= 0:
            return
        for number, layer in enumerate(cache.layers):
            if layer.keys is None or layer.keys.ndim != 4:
                continue
            n_rows, n_heads, _, size = layer.keys.shape
            new = torch.zeros((n_rows, n_heads, n_tokens, size), dtype=layer.keys.dtype)
            wide = torch.zeros((n_rows, n_heads, n_tokens, layer.values.shape[-1]), dtype=layer.values.dtype)
            cache.update(new, wide, number)
        self._hold_cache(cache)

    def _hold_cache(self, cache: DynamicCache) -> None:
        kept = [t for layer in cache.layers for t in (layer.keys, layer.values) if isinstance(t, torch.Tensor)]
        self.tracker.hold(kept, "cache")

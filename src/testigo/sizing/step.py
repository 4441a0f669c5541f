"""What a campaign does to memory, done once with fake tensors: the loop's update, validation, generation and export.

These lines follow `testigo.training` and `testigo.evaluation`, which lie above this room: what stays alive how long is
the point here, so names are let go where the loop lets them go. A test holds both against each other.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from transformers import DynamicCache

from testigo.campaign import Campaign
from testigo.encoding import Batch, Labelled, lay_out
from testigo.model.adapter import trained_parameters
from testigo.sizing.lengths import Inputs, RowLength
from testigo.sizing.tracker import Tracker


class _Pick(torch.autograd.Function):
    """`logits[places]`, whose gradient torch writes in place for real tensors, and into one more copy for fake ones."""

    @staticmethod
    def forward(context: Any, logits: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """(N, vocabulary) to (S, vocabulary)."""
        context.shape = logits.shape
        context.save_for_backward(places)
        return logits[places]

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """(S, vocabulary) to (N, vocabulary)."""
        (places,), (gradient,) = context.saved_tensors, gradients
        whole = torch.zeros(context.shape, dtype=gradient.dtype)
        whole[places] = gradient
        return whole, None


@dataclass
class Rehearsal:
    """One campaign's work on one set of inputs, watched by a tracker that is on."""

    campaign: Campaign
    inputs: Inputs
    model: Any
    tracker: Tracker

    def hold_model(self) -> None:
        """Weights and buffers, which are there from loading on."""
        with self.tracker.phase("load", making="weights"):
            self.tracker.hold((*self.model.parameters(), *self.model.buffers()), "weights")

    # ---- training ---------------------------------------------------------------------------------------------

    def train(self, *, foreach: bool) -> None:
        """Two updates, since moments appear with the first; then a validation, as the loop does.

        Parameters
        ----------
        foreach
            Whether AdamW works on all tensors at once, as torch chooses on a GPU, or one by one, as on a CPU.
        """
        self._begin()
        parameters = trained_parameters(self.model)
        optimizer = torch.optim.AdamW(parameters.values(), lr=1e-4, foreach=foreach)
        for name in ("update-1", "update-2"):
            with self.tracker.phase(name, making="other"):
                self._update(parameters, optimizer)
        with self.tracker.phase("validation", making="other"):
            self._validate()

    def train_microbatch(self) -> None:
        """The longest microbatch of a later update: gradients of earlier ones and the moments are there already."""
        self._begin()
        parameters = trained_parameters(self.model)
        moments = [torch.zeros_like(p) for p in parameters.values() for _ in ("mean", "square")]
        self.tracker.hold(moments, "optimizer_state")
        packs = [self._lay_out(rows) for rows in self.inputs.microbatches]
        if len(packs) > 1:
            for parameter in parameters.values():
                parameter.grad = torch.zeros_like(parameter)
        self._forward_backward(packs[-1], parameters, sum(pack.n_supervised for pack in packs))

    def _begin(self) -> None:
        self.model.train()
        if self.campaign.training.activation_checkpointing:
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})

    def _update(self, parameters: dict[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
        # The loop lays all packs of an update first and goes through them from the shortest to the longest.
        packs = [self._lay_out(rows) for rows in self.inputs.microbatches]
        optimizer.zero_grad(set_to_none=True)
        n_supervised = sum(pack.n_supervised for pack in packs)
        # Every microbatch after the first finds the gradients there; so the first and the longest show all there is.
        for pack in packs if len(packs) < 3 else (packs[0], packs[-1]):
            self._forward_backward(pack, parameters, n_supervised)
        maximum = self.campaign.training.clip
        with self.tracker.phase("step", making="other"):
            torch.nn.utils.clip_grad_norm_(parameters.values(), math.inf if maximum is None else maximum)
            optimizer.step()
            moments = (value for state in optimizer.state.values() for value in state.values())
            self.tracker.hold((value for value in moments if isinstance(value, torch.Tensor)), "optimizer_state")

    def _forward_backward(self, pack: Batch, parameters: dict[str, torch.nn.Parameter], n_supervised: int) -> None:
        with self.tracker.phase("forward", making="activations"), self._precision():
            losses = self._losses(pack)
        with self.tracker.phase("backward", making="activations"):
            (losses.sum() / n_supervised).backward()
            self.tracker.hold((p.grad for p in parameters.values() if p.grad is not None), "gradients")
            losses.detach().double().sum()

    def _validate(self) -> None:
        self.model.eval()
        with torch.no_grad(), self.tracker.phase("validation", making="activations"):
            pack = self._lay_out(self.inputs.validation)
            with self._precision():
                losses = self._losses(pack)
            losses.double().sum()

    def _lay_out(self, rows: Sequence[RowLength]) -> Batch:
        if self.inputs.n_classes:
            batch = self.inputs.before_a_head(rows)
            self.tracker.hold((*batch.inputs.values(), batch.targets, batch.owner), "other")
            return batch
        pack = lay_out(self.inputs.encoded(rows), self.campaign.encoding.layout, pad_id=0)
        self.tracker.hold((value for value in vars(pack).values() if isinstance(value, torch.Tensor)), "other")
        return pack

    def _losses(self, pack: Batch) -> torch.Tensor:
        return cross_entropy(self._logits(pack), pack.targets, reduction="none")

    def _logits(self, pack: Batch) -> torch.Tensor:
        if isinstance(pack, Labelled):
            chosen: torch.Tensor = self.model(**pack.inputs).logits  # (B, classes)
            return chosen.float()
        inputs = {
            "input_ids": pack.input_ids,
            "position_ids": pack.position_ids,
            "attention_mask": pack.attention_mask,
            "use_cache": False,
        }
        if pack.input_ids.shape[0] == 1:
            logits = self.model(**inputs, logits_to_keep=pack.places).logits[0]  # (S, vocabulary)
        else:
            logits = _Pick.apply(self.model(**inputs).logits.flatten(0, 1), pack.places)  # (S, vocabulary)
        return logits.float()

    @contextlib.contextmanager
    def _precision(self) -> Iterator[None]:
        precision = self.campaign.model.precision
        if precision == "fp32":
            yield
            return
        # Fake tensors are the CPU's, and the CPU casts to bf16 alone in all places; fp16 has the same size.
        with torch.autocast("cpu", dtype=torch.bfloat16):
            yield

    # ---- processes of their own -------------------------------------------------------------------------------

    def generate(self) -> None:
        """The largest batch of generation: its prompts, and the last token with the cache at its longest."""
        self.model.eval()
        rows = self.inputs.validation
        if self.inputs.n_classes:
            self._classify("evaluation", rows)
            return
        n_prefix = min(self.inputs.n_shared, min(row.n_prompt for row in rows) - 1)
        rests = [row.n_prompt - n_prefix for row in rows]
        with torch.no_grad():
            cache = self._new_cache()
            with self.tracker.phase("evaluation", making="activations"):
                if n_prefix:
                    ids = torch.zeros((1, n_prefix), dtype=torch.long)
                    self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
                    self._hold_cache(cache)
                    prefix, cache = cache, self._copied(cache)
                    self._hold_cache(cache)
                    cache.batch_repeat_interleave(len(rows))
                    self._hold_cache(cache)
                tokens = self._read(cache, n_prefix, rests)
            n_between = max(self.campaign.evaluation.max_new_tokens - 2, 0)
            self._lengthen(cache, n_between)
            with self.tracker.phase("evaluation", making="activations"):
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
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=torch.arange(n_places),
        ).logits  # (rows, places, vocabulary)
        self._hold_cache(cache)
        return logits[:, 0].argmax(-1)  # (rows,)

    def _next(self, cache: DynamicCache, tokens: torch.Tensor, *, n_before: int) -> None:
        n_rows = len(tokens)
        logits = self.model(
            input_ids=tokens[:, None],
            attention_mask=torch.ones((n_rows, n_before + 1), dtype=torch.long),
            position_ids=torch.full((n_rows, 1), n_before),
            past_key_values=cache,
            use_cache=True,
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
            cache = self._new_cache()
            with self.tracker.phase("export", making="activations"):
                ids = torch.zeros((1, n_prompt), dtype=torch.long)
                logits = self.model(input_ids=ids, past_key_values=cache, use_cache=True).logits[0, -1].float()
                self._hold_cache(cache)
                logits.argmax()
            self._lengthen(cache, self.campaign.evaluation.max_new_tokens - 2)
            with self.tracker.phase("export", making="activations"):
                self.model(input_ids=torch.zeros((1, 1), dtype=torch.long), past_key_values=cache, use_cache=True)
                self._hold_cache(cache)

    def _classify(self, phase: str, rows: Sequence[RowLength]) -> None:
        """One forward pass before a class head."""
        with torch.no_grad(), self.tracker.phase(phase, making="activations"):
            self._logits(self._lay_out(rows)).double().softmax(-1)

    def _new_cache(self) -> DynamicCache:
        return DynamicCache(config=self.model.config.get_text_config())

    def _copied(self, cache: DynamicCache) -> DynamicCache:
        """As the loop's deep copy, which fake tensors do not survive."""
        copied = self._new_cache()
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

"""What training does to memory, done once with fake tensors: the loop's update, validation and checkpoint.

These lines follow `testigo.training.loop`, which lies above this room: what stays alive how long is the point here, so
names are let go where the loop lets them go. How rows are laid out, what they share and their losses are the very lines
of the loop (`testigo.model`). A test holds both against each other.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from testigo.campaign import Campaign
from testigo.encoding import Batch
from testigo.model.activations import checkpoint_activations
from testigo.model.adapter import trained_parameters
from testigo.model.layout import Layout
from testigo.model.prefix import SharedPrefix, prefix_of
from testigo.model.sharding import is_sharded, synchronise_gradients, whole
from testigo.sizing.few_bits import largest_in_full
from testigo.sizing.lengths import Inputs
from testigo.sizing.outputs import Outputs
from testigo.sizing.passes import Update, lay_update, lay_validation, layout_for, losses_of, precision_of, shortened
from testigo.sizing.processes import gathered
from testigo.sizing.tracker import Tracker


@dataclass
class Step:
    """One campaign's training on one set of inputs, watched by a tracker that is on."""

    campaign: Campaign
    inputs: Inputs
    model: Any
    tracker: Tracker
    layout: Layout = field(init=False)

    def hold_model(self) -> None:
        """Weights and buffers, which are there from loading on."""
        with self.tracker.phase("load", making="weights"):
            self.tracker.hold((*self.model.parameters(), *self.model.buffers()), "weights")
            size = largest_in_full(self.model)
            if size is not None:  # each layer is there in full until it is packed
                self.tracker.hold([torch.empty(size, dtype=self.model.dtype)], "weights")

    def train(self, *, foreach: bool) -> None:
        """An update, and the optimizer's step of the next; then validation and a checkpoint, as the loop does.

        The passes of the second update differ from those of the first by the moments that are there then, and by
        nothing else: they are not run again (`rehearse` adds the moments; a test runs both).

        Parameters
        ----------
        foreach
            Whether AdamW works on all tensors at once, as torch chooses on a GPU, or one by one, as on a CPU.
        """
        self.begin()
        parameters = trained_parameters(self.model)
        optimizer = torch.optim.AdamW(parameters.values(), lr=1e-4, foreach=foreach)
        update = lay_update(self.campaign, self.inputs, self.layout, self.tracker)
        self.pass_through(parameters, update)
        gc.collect()  # FSDP's hooks leave circles
        self.move("step-1", parameters, optimizer)
        self.move("step", parameters, optimizer)
        del update
        self.validate()
        self._save(parameters, optimizer)
        self._merge()

    def train_later(self, *, foreach: bool) -> None:
        """The longest microbatch of a later update, its step, and a validation.

        Gradients of earlier microbatches and the moments are there from the start. With shards they are not: there the
        first microbatch is run too.
        """
        self.begin()
        parameters = trained_parameters(self.model)
        optimizer = torch.optim.AdamW(parameters.values(), lr=1e-4, foreach=foreach)
        for parameter in parameters.values():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        moments = (value for state in optimizer.state.values() for value in state.values())
        self.tracker.hold((value for value in moments if isinstance(value, torch.Tensor)), "optimizer_state")
        update = lay_update(self.campaign, self.inputs, self.layout, self.tracker)
        is_first = len(update.packs) == 1
        if is_first or is_sharded(parameters.values()):
            optimizer.zero_grad(set_to_none=True)
        self.tracker.hold((p.grad for p in parameters.values() if p.grad is not None), "gradients")
        self.pass_through(parameters, update, only_last=not is_first and not is_sharded(parameters.values()))
        self.move("step", parameters, optimizer)
        del update
        self.validate(samples=False)

    def begin(self) -> None:
        """Training mode, with activation checkpointing where it is asked for."""
        self.model.train()
        if self.campaign.training.activation_checkpointing:
            checkpoint_activations(self.model)
        self.layout = layout_for(self.campaign, self.inputs, self.model)

    def pass_through(
        self, parameters: dict[str, torch.nn.Parameter], update: Update, *, only_last: bool = False
    ) -> None:
        """Forward and backward of an update's microbatches, the gradients summed over the processes.

        Parameters
        ----------
        only_last
            Of several; gradients of the others are there.
        """
        # The loop lays all packs of an update first and goes through them from the shortest to the longest.
        packs = update.packs
        n_supervised = sum(pack.n_supervised for pack in packs)
        prefix = self._prefix(packs, with_gradients=only_last)
        # Every microbatch after the first finds the gradients there; so the first and the longest show all there is.
        chosen = packs[-1:] if only_last else packs if len(packs) < 3 else [packs[0], packs[-1]]
        for pack in chosen:
            if self.campaign.machine.processes > 1:
                synchronise_gradients(self.model, pack is chosen[-1])
            self._forward_backward(pack, prefix, parameters, n_supervised)
        if prefix is not None:
            with self.tracker.phase("backward", making="activations"):
                prefix.backward()
        if self.campaign.machine.processes > 1:
            with self.tracker.phase("backward", making="exchange"):
                plain = [p.grad for p in parameters.values() if p.grad is not None and not isinstance(p.grad, DTensor)]
                for dtype in {gradient.dtype for gradient in plain}:
                    torch.cat([gradient.reshape(-1) for gradient in plain if gradient.dtype == dtype])

    def move(self, phase: str, parameters: dict[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
        """Clip, and one step of the optimizer."""
        maximum = self.campaign.training.clip
        with self.tracker.phase(phase, making="other"):
            torch.nn.utils.clip_grad_norm_(parameters.values(), math.inf if maximum is None else maximum)
            optimizer.step()
            moments = (value for state in optimizer.state.values() for value in state.values())
            self.tracker.hold((value for value in moments if isinstance(value, torch.Tensor)), "optimizer_state")

    def _prefix(self, packs: Sequence[Batch], *, with_gradients: bool = False) -> SharedPrefix | None:
        """What the packs leave out, computed; with the gradients that earlier packs left on it."""
        with self.tracker.phase("forward", making="activations"):
            with precision_of(self.campaign):
                prefix = prefix_of(self.model, packs)
            if prefix is not None:
                self.tracker.hold(prefix.kept, "cache")
                for kept in prefix.kept if with_gradients else ():
                    kept.grad = torch.zeros_like(kept)
        return prefix

    def _forward_backward(
        self, batch: Batch, prefix: SharedPrefix | None, parameters: dict[str, torch.nn.Parameter], n_supervised: int
    ) -> None:
        with self.tracker.phase("forward", making="activations"), precision_of(self.campaign):
            pack, _rest = shortened(self.model, batch)
            losses = losses_of(self.model, pack, prefix)
        with self.tracker.phase("backward", making="activations"):
            (losses.sum() / n_supervised).backward()
            self.tracker.hold((p.grad for p in parameters.values() if p.grad is not None), "gradients")
            losses.detach().double().sum()
        self._hold_gathered()

    def _hold_gathered(self) -> None:
        if self.campaign.machine.strategy == "fsdp":
            held = gathered(self.model)
            self.tracker.hold(held.weights, "exchange")
            self.tracker.hold(held.gradients, "gradients")

    def validate(self, *, samples: bool = True) -> None:
        """The longest validation rows, beside gradients and moments; then the outputs to the fixed prompts."""
        self.model.eval()
        with torch.no_grad(), self.tracker.phase("validation", making="activations"):
            batch = lay_validation(self.campaign, self.inputs, self.layout, self.tracker)
            with precision_of(self.campaign):
                prefix = prefix_of(self.model, [batch])
                pack, _rest = shortened(self.model, batch)
                losses = losses_of(self.model, pack, prefix)
            losses.double().sum()
        del batch, pack, losses, prefix, _rest
        self._hold_gathered()
        evaluation = self.campaign.evaluation
        n_samples = min(evaluation.samples, evaluation.batch_size)
        if not (samples and n_samples) or self.inputs.n_classes or is_sharded(self.model.parameters()):
            return
        with precision_of(self.campaign):
            Outputs(self.campaign, self.inputs, self.model, self.tracker).generate("samples", n_samples)

    def _save(self, parameters: dict[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
        """A checkpoint: copies go to the main memory; shards are made whole one by one on the device."""
        with self.tracker.phase("save", making="exchange"), torch.no_grad():
            moments = (value for state in optimizer.state.values() for value in state.values())
            for tensor in (*parameters.values(), *moments):
                if isinstance(tensor, torch.Tensor):
                    whole(tensor.detach())

    def _merge(self) -> None:
        """The adapter merged into the base, as the pilot's last check does; beside gradients and moments."""
        if not hasattr(self.model, "merge_adapter") or is_sharded(self.model.parameters()):
            return
        if self.campaign.model.quantise is not None:
            return  # an adapter is never merged into weights in few bits
        with self.tracker.phase("merge", making="other"), torch.no_grad():
            self.model.merge_adapter()

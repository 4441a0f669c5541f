"""Ways out when memory does not suffice: declared changes of a campaign, and what each changes in the experiment.

Rows are never cut: that would change what is learned. Sharding over processes is a way out on machines with several
devices; it is offered where the campaign already runs in several processes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from testigo.campaign.campaign import Campaign
from testigo.campaign.sections import MOST_ROWS


@dataclass(frozen=True)
class WayOut:
    """One change that saves memory.

    Attributes
    ----------
    set
        Dotted key -> value, as a variant sets it.
    changes
        What it changes in the experiment, in words.
    for_all
        Whether it must be changed in the file, for baseline and runs alike: a variant keeps the evaluation.
    """

    name: str
    set: Mapping[str, Any]
    changes: str
    for_all: bool = False

    @property
    def keeps_gradient(self) -> bool:
        """Whether training learns exactly the same."""
        return all(key.startswith("training.") for key in self.set)

    def as_yaml(self, because: str) -> str:
        """A line to paste: below `variants:`, or into the file itself."""
        pairs = ", ".join(f"{key}: {json.dumps(value)}" for key, value in self.set.items())
        if self.for_all:
            return f"{pairs}  # in the file itself; {self.changes}"
        return f"- {{name: {self.name}, set: {{{pairs}}}, because: {because}}}  # {self.changes}"


def ways_out(campaign: Campaign, phase: str) -> tuple[WayOut, ...]:
    """What can be tried when memory ran out in a phase of the pilot, gentlest first; () where nothing helps."""
    if phase in ("validation", "evaluation"):
        return tuple(_in_evaluation(campaign))
    if phase in ("load", "data", "export", "merge"):
        return tuple(_for_weights(campaign))
    return (*_in_training(campaign), *_for_weights(campaign), *_for_both(campaign))


def _in_training(campaign: Campaign) -> Iterator[WayOut]:
    training = campaign.training
    same = f"{training.microbatch * training.accumulation * campaign.machine.processes} examples per update as before"
    half = {"training.microbatch": training.microbatch // 2, "training.accumulation": training.accumulation * 2}
    recompute = {"training.activation_checkpointing": True}
    can_halve = training.microbatch % 2 == 0 and 2 * training.accumulation <= MOST_ROWS
    can_recompute = not training.activation_checkpointing
    if can_halve:
        yield WayOut("half-microbatch", half, f"the same gradient, {same}; somewhat slower")
    if can_recompute:
        # one more forward pass, which is about a third of a step: Chen et al. 2016, arXiv 1604.06174
        yield WayOut("checkpointing", recompute, f"the same gradient, {same}; about a third more time")
    if can_halve and can_recompute:
        yield WayOut("half-and-checkpointing", half | recompute, f"the same gradient, {same}; both slower")


def _in_evaluation(campaign: Campaign) -> Iterator[WayOut]:
    size = campaign.evaluation.batch_size
    if size > 1:
        half = {"evaluation.batch_size": size // 2}
        yield WayOut("half-batch", half, "the same outputs up to rounding; slower", for_all=True)


def _for_weights(campaign: Campaign) -> Iterator[WayOut]:
    if campaign.model.precision == "fp32" and campaign.model.adapter.method == "lora":
        changes = "other rounding, so another experiment; the frozen base takes half; needs hardware with bf16"
        yield WayOut("bf16", {"model.precision": "bf16"}, changes)
    if _can_be_quantised(campaign):
        changes = "another base to start from, so another experiment; frozen weights of 4 bits; testigo[quantised]"
        yield WayOut("four-bits", {"model.quantise": "4bit"}, changes)


def _for_both(campaign: Campaign) -> Iterator[WayOut]:
    if _can_be_quantised(campaign) and not campaign.training.activation_checkpointing:
        both = {"model.quantise": "4bit", "training.activation_checkpointing": True}
        changes = "another base to start from, so another experiment; frozen weights of 4 bits; about a third more time"
        yield WayOut("four-bits-and-checkpointing", both, changes)


def _can_be_quantised(campaign: Campaign) -> bool:
    model, task = campaign.model, campaign.task
    answers_by_head = task.kind == "image-classification" or (task.kind == "classification" and task.answer == "head")
    fits = model.adapter.method == "lora" and not model.adapter.save_modules and campaign.machine.strategy != "fsdp"
    return fits and model.quantise is None and not answers_by_head

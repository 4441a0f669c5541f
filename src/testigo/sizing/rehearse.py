"""The peaks of all phases of a campaign for one set of inputs, by a run with fake tensors."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from typing import Any, Literal, cast

from torch._subclasses.fake_tensor import FakeTensorMode

from testigo.campaign import Campaign
from testigo.errors import ModelError
from testigo.model.adapter import trained_parameters
from testigo.model.sharding import shard
from testigo.sizing.architecture import make_fake, shape
from testigo.sizing.formula import most_tokens
from testigo.sizing.lengths import Inputs
from testigo.sizing.outputs import Outputs
from testigo.sizing.processes import fake_processes
from testigo.sizing.step import Step
from testigo.sizing.tracker import CUDA_BLOCK_BYTES, Peak, Tracker

MOST_TOKENS_AT_ONCE = 2**20
"""More tokens in one pass are counted by formula: a pack of as many has a mask of 1 TiB."""

PHASES = (
    "load",
    "forward",
    "backward",
    "step",
    "update-1",
    "update-2",
    "validation",
    "samples",
    "save",
    "merge",
    "evaluation",
    "export",
)
"""In the order of a campaign; an update is forward, backward and the optimizer's step. Evaluation and export are
processes of their own, without an optimizer."""

Part = Literal["train", "later", "evaluate"]


def rehearse(
    campaign: Campaign,
    configuration: Any,
    inputs: Inputs,
    *,
    parts: Sequence[Part] = ("train", "evaluate"),
    block_bytes: int = CUDA_BLOCK_BYTES,
    foreach: bool = True,
) -> dict[str, Peak]:
    """The peak of each phase, in one process of those that the campaign asks for.

    Parameters
    ----------
    parts
        `train` is two whole updates, a validation, a checkpoint and a merge; `later` the longest microbatch of a later
        update, its step and a validation; `evaluate` is generation and export.
    block_bytes, foreach
        How the device rounds a block up, and whether AdamW works on all tensors at once: a GPU's by default.

    Raises
    ------
    ModelError
        When the architecture cannot be run without values, or more tokens go through it at once than are followed.
    """
    n_tokens = most_tokens(campaign, inputs)
    if inputs.pixels is None and n_tokens > MOST_TOKENS_AT_ONCE:
        raise ModelError(
            expected=f"at most {MOST_TOKENS_AT_ONCE:,} tokens at once, so that their memory can be followed",
            found=f"{n_tokens:,} tokens go through it at once",
            where=f"training.microbatch: {campaign.training.microbatch}",
            action="lower training.microbatch or evaluation.batch_size",
        )
    peaks: dict[str, Peak] = {}
    for part in parts:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # libraries announce coming names; the user can do nothing about it
            try:
                peaks = _run(campaign, configuration, inputs, part, block_bytes, foreach) | peaks
            except _UNTRACEABLE as error:
                raise ModelError(
                    expected="an architecture that runs without values, so that its memory can be followed",
                    found=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no words'}",
                    where=f"model.base: {campaign.model.base}, {part}",
                    action="let `testigo pilot` measure this base on the machine itself",
                ) from error
    return {phase: peaks[phase] for phase in PHASES if phase in peaks}


_UNTRACEABLE = (NotImplementedError, RuntimeError, TypeError, AttributeError, IndexError, KeyError, ValueError)


def _run(
    campaign: Campaign, configuration: Any, inputs: Inputs, part: Part, block_bytes: int, foreach: bool
) -> dict[str, Peak]:
    model = shape(campaign, configuration, adapted=True, n_classes=inputs.n_classes)
    vocabulary_size = inputs.n_classes or cast(Any, model).get_input_embeddings().weight.shape[0]
    tracker = Tracker(block_bytes=block_bytes, vocabulary_size=vocabulary_size)
    with contextlib.ExitStack() as stack:
        mesh = None
        if part != "evaluate" and campaign.machine.strategy == "fsdp" and campaign.machine.processes > 1:
            mesh = stack.enter_context(fake_processes(campaign.machine.processes))
            stack.enter_context(tracker.seeing_shards())
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        make_fake(model)
        if mesh is not None:
            shard(model, trained_parameters(model).values(), mesh)
        step = Step(campaign, inputs, model, tracker)
        step.hold_model()
        stack.enter_context(tracker)
        if part == "train":
            step.train(foreach=foreach)
        elif part == "later":
            step.train_later(foreach=foreach)
        else:
            outputs = Outputs(campaign, inputs, model, tracker)
            outputs.generate()
            outputs.export()
    peaks = tracker.log.peaks()
    if part == "later":
        of_update = (peaks[phase] for phase in ("forward", "backward", "step"))
        peaks["update-2"] = max(of_update, key=lambda peak: peak.n_bytes)
    return _of_two_updates(peaks) if part == "train" else peaks


def _of_two_updates(peaks: dict[str, Peak]) -> dict[str, Peak]:
    """The first update's passes and both steps make two updates: the second's passes find the moments there too."""
    passes = [peaks["forward"], peaks["backward"]]
    moments = peaks["step"].by_kind.get("optimizer_state", 0)
    second = [peak.beside("optimizer_state", moments) for peak in passes]
    peaks["forward"], peaks["backward"] = second
    peaks["update-1"] = max(*passes, peaks.pop("step-1"), key=lambda peak: peak.n_bytes)
    peaks["update-2"] = max(*second, peaks["step"], key=lambda peak: peak.n_bytes)
    return peaks

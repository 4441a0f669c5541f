"""The peaks of all phases of a campaign for one set of inputs, by a run with fake tensors."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from torch._subclasses.fake_tensor import FakeTensorMode

from testigo.campaign import Campaign
from testigo.errors import ModelError
from testigo.sizing.architecture import make_fake, shape
from testigo.sizing.lengths import Inputs
from testigo.sizing.step import Rehearsal
from testigo.sizing.tracker import CUDA_BLOCK_BYTES, Peak, Tracker

PHASES = ("load", "forward", "backward", "step", "update-1", "update-2", "validation", "evaluation", "export")
"""In the order of a campaign; an update is forward, backward and the optimizer's step. Evaluation and export are
processes of their own, without an optimizer."""

Part = Literal["train", "microbatch", "evaluate"]


def rehearse(
    campaign: Campaign,
    configuration: Any,
    inputs: Inputs,
    *,
    parts: Sequence[Part] = ("train", "evaluate"),
    block_bytes: int = CUDA_BLOCK_BYTES,
    foreach: bool = True,
) -> dict[str, Peak]:
    """The peak of each phase.

    Parameters
    ----------
    parts
        `train` is two whole updates and a validation; `microbatch` only one forward and backward pass as in a later
        update, which takes a quarter of the time; `evaluate` is generation and export.
    block_bytes, foreach
        How the device rounds a block up, and whether AdamW works on all tensors at once: a GPU's by default.

    Raises
    ------
    ModelError
        When the architecture cannot be run without values.
    """
    peaks: dict[str, Peak] = {}
    for part in parts:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # libraries announce coming names; the user can do nothing about it
            peaks = dict(_run(campaign, configuration, inputs, part, block_bytes, foreach)) | peaks
    return {phase: peaks[phase] for phase in PHASES if phase in peaks}


def _run(
    campaign: Campaign, configuration: Any, inputs: Inputs, part: Part, block_bytes: int, foreach: bool
) -> Mapping[str, Peak]:
    model = shape(campaign, configuration, adapted=True, n_classes=inputs.n_classes)
    vocabulary_size = inputs.n_classes or cast(Any, model).get_input_embeddings().weight.shape[0]
    tracker = Tracker(block_bytes=block_bytes, vocabulary_size=vocabulary_size)
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            make_fake(model)
            work = Rehearsal(campaign, inputs, model, tracker)
            work.hold_model()
            with tracker:
                if part == "train":
                    work.train(foreach=foreach)
                elif part == "microbatch":
                    work.train_microbatch()
                else:
                    work.generate()
                    work.export()
    except (NotImplementedError, RuntimeError, TypeError) as error:
        raise ModelError(
            expected="an architecture that runs without values, so that its memory can be followed",
            found=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no words'}",
            where=f"model.base: {campaign.model.base}, {part}",
            action="let `testigo pilot` measure this base on the machine itself",
        ) from error
    return tracker.log.peaks()

"""Faults between the settings of `training`: how long it is, when it validates, and whether a stop can ever happen."""

from __future__ import annotations

from collections.abc import Iterator

from testigo.campaign.fault import Fault
from testigo.campaign.known import Known


def training_faults(known: Known) -> Iterator[Fault]:
    """All faults between the settings of the training."""
    yield from _length_of_training(known)
    yield from _validation_while_training(known)


def _length_of_training(known: Known) -> Iterator[Fault]:
    if "training.updates" not in known or "training.epochs" not in known:
        return
    updates, epochs = known("training.updates"), known("training.epochs")
    if updates is None and epochs is None:
        yield Fault(
            ("training",),
            "`updates` or `epochs` in `training`",
            "neither",
            "add `updates: 200`, or `epochs: 3`",
            "key",
        )
    if updates is not None and epochs is not None:
        yield Fault(
            ("training", "epochs"),
            "either `updates` or `epochs`",
            "both",
            "keep one; in a variant, set the other to null",
            "key",
        )


def _validation_while_training(known: Known) -> Iterator[Fault]:
    every, updates = known("training.validate_every"), known("training.updates")
    if known("training.stop") is not None and "training.validate_every" in known and every is None:
        yield Fault(
            ("training", "stop"),
            "`validate_every` beside `stop`: patience counts validations",
            "no `validate_every`",
            "add `validate_every: 20` to `training`, or remove `stop`",
            "key",
        )
    patience = known("training.stop.patience") if known("training.stop") is not None else None
    if all(isinstance(one, int) for one in (every, updates, patience)) and every <= updates:
        validations = -(-updates // every)
        if patience >= validations:
            yield Fault(
                ("training", "stop", "patience"),
                f"fewer than the {validations} validations of {updates} updates, one every {every}",
                f"{patience}: this stop could never happen",
                "lower it, validate more often, or remove `stop`",
            )
    if isinstance(every, int) and isinstance(updates, int) and every > updates:
        yield Fault(
            ("training", "validate_every"),
            f"at most {updates}, the number of updates",
            f"{every}: no validation would ever run",
            "lower it, or remove it to validate at the end only",
        )

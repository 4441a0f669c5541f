"""Outputs that are all the same."""

from __future__ import annotations

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.outputs import Outputs


@rule("O102", "same-output-for-all", "warn", phase="outputs")
def outputs_differ(outputs: Outputs, at_least: int = 8) -> Finding | Passed:
    """Different inputs have different outputs.

    Why it matters: a model that writes the same for every input has learned the commonest target and reads nothing.

    What to do: not tested, likeliest first: the input is missing in the prompt, so look with `testigo show`;
    `training.learning_rate` too high; too few `training.updates`, or one target far more frequent than all others.

    Source: mode collapse to the marginal; fewer than eight outputs may be equal by chance. Rows that all have one
    target, and rows that the base already answers all alike, are let pass.
    """
    if len(outputs.every) < at_least:
        raise CannotCheck(f"fewer than {at_least} outputs")
    kinds = {output.text for output in outputs.every}
    targets = {output.target for output in outputs.every}
    seen = f"{len(kinds)} different outputs for {len(outputs.every)} rows"
    if len(kinds) > 1 or (len(targets) == 1 and None not in targets):
        return passed(seen)
    base = [outputs.base_of(output) for output in outputs.every]
    if outputs.before is not None and len({one.text for one in base if one is not None}) <= 1:
        return passed(f"{seen}, as the base has")
    return found(f"{seen}: {outputs.every[0].text[:60]!r}")

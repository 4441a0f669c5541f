"""Outputs without a word."""

from __future__ import annotations

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.outputs import Output, Outputs


@rule("O112", "empty-output", "warn", phase="outputs")
def outputs_say_something(outputs: Outputs, share: float = 0.02) -> Finding | Passed:
    """Outputs are not empty.

    Why it matters: a model that ends before its first word has learned that ending is always right.

    What to do: not tested, likeliest first: rows whose target is empty, so set `data.clean: [drop-empty]`; a prompt
    that already holds the end of the turn, so look with `testigo show`; a `training.learning_rate` too high.

    Source: an empty output scores zero by every metric but one that counts missing text as right. Rows whose target is
    empty, and on the fixed prompts of a validation those that the base leaves empty, are let pass; and 2 % of all.
    """
    if not outputs.every:
        raise CannotCheck("there are no outputs")

    def is_empty(output: Output | None) -> bool:
        return output is not None and not output.text.strip()

    sick = [
        output
        for output in outputs.written
        if is_empty(output)
        and (output.target is None or output.target.strip())
        and not is_empty(outputs.base_of(output))
    ]
    seen = f"{len(sick)} of {len(outputs.every)} outputs are empty"
    if len(sick) <= share * len(outputs.every):
        return passed(seen)
    return found(seen, rows=[output.row for output in sick])

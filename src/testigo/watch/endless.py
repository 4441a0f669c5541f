"""Outputs that never end."""

from __future__ import annotations

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.outputs import Output, Outputs, period

_END = (
    "Cause, tested: these outputs are longer than their targets, so the limit is not what cuts them. Not tested, "
    "likeliest first: the turn's end is not learned (E107) or does not stop (E108); too few `training.updates`."
)
_LIMIT = (
    "Cause, tested: the targets of these rows are longer than what was written up to the limit. Raise "
    "`evaluation.max_new_tokens`; as an amendment where the campaign is frozen."
)


@rule("O113", "never-ends", "warn", phase="outputs")
def outputs_end(outputs: Outputs, share: float = 0.1) -> Finding | Passed:
    """Outputs end by themselves.

    Why it matters: what is cut at the limit is rarely right, scores low for its length, and takes the longest time.

    What to do: not tested, likeliest first: the turn's end is not learned (E107) or does not stop (E108); a low
    `evaluation.max_new_tokens`.

    Source: outputs cut at the limit that do not repeat themselves (those are O101's). Where targets are known they tell
    the two causes apart: an output that is longer than its target does not know how to end; a target longer than the
    output shows that the limit is too low. One in ten is let pass, and on the fixed prompts of a validation each one
    that the base does not end either.
    """
    if not outputs.every:
        raise CannotCheck("there are no outputs")
    cut = [output for output in outputs.written if _is_cut(output) and not _was_cut(outputs.base_of(output))]
    seen = f"{len(cut)} of {len(outputs.every)} outputs are cut at the limit"
    if len(cut) <= share * len(outputs.every):
        return passed(seen)
    known = [output for output in cut if output.target is not None]
    longer = [output for output in known if len(output.text) > len(output.target or "")]
    if known:
        seen += f"; {len(longer)} are longer than their target, {len(known) - len(longer)} are not"
    remedy = "" if len(known) < len(cut) else _END if len(longer) * 2 > len(known) else _LIMIT
    return found(seen, rows=[output.row for output in cut], remedy=remedy)


def _is_cut(output: Output) -> bool:
    return output.at_limit and not period(output.pieces)


def _was_cut(base: Output | None) -> bool:
    return base is not None and base.at_limit

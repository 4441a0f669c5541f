"""Outputs that repeat one phrase until they are cut off."""

from __future__ import annotations

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.outputs import Output, Outputs, period


@rule("O101", "repeats-itself", "warn", phase="outputs")
def outputs_do_not_loop(outputs: Outputs, times: int = 4, share: float = 0.02) -> Finding | Passed:
    """Outputs do not repeat one phrase until they are cut off.

    Why it matters: a loop is never a right answer, and costs the longest time.

    What to do: not tested, likeliest first: the turn's end is not learned (E107) or does not stop (E108); too many
    `training.epochs` or a `training.learning_rate` too high when it came with training; rows whose targets repeat
    themselves. A higher `evaluation.max_new_tokens` does not help, and a repetition penalty hides it.

    Source: Holtzman et al. 2020, "The curious case of neural text degeneration". Found is an output, cut at its limit,
    whose second half is one phrase, at least four times over; 2 % of the outputs are let pass, and on the fixed prompts
    of a validation each one that the base already answers with a loop.
    """
    if not outputs.every:
        raise CannotCheck("there are no outputs")

    def loops(output: Output | None) -> bool:
        return output is not None and output.at_limit and period(output.pieces, times) > 0

    new = [output for output in outputs.written if loops(output) and not loops(outputs.base_of(output))]
    seen = f"{len(new)} of {len(outputs.every)} outputs repeat one phrase to the limit"
    if outputs.before is not None:
        old = sum(loops(output) and loops(outputs.base_of(output)) for output in outputs.written)
        seen += f" where the base does not ({old} where it does)"
    if len(new) <= share * len(outputs.every):
        return passed(seen)
    return found(f"{seen}: {new[0].text[-60:]!r}", rows=[output.row for output in new])

"""What the model writes: outputs that repeat themselves, or are all the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule


@dataclass(frozen=True)
class Outputs:
    """The outputs of one evaluation, or of the fixed prompts at one validation."""

    rows: tuple[str, ...]
    """Ids of the rows."""
    texts: tuple[str, ...]
    """What was written for each."""
    pieces: tuple[tuple[int | str, ...], ...]
    """The same as token ids, or as words where ids are not known."""
    at_limit: tuple[bool, ...]
    """Whether the output was cut at the longest length allowed."""

    @classmethod
    def from_lines(cls, lines: Iterable[Mapping[str, Any]]) -> Outputs:
        """Outputs of prediction lines: "row", "output", and where they are known "token_ids" and "stop"."""
        every = list(lines)
        return cls(
            rows=tuple(str(line["row"]) for line in every),
            texts=tuple(str(line["output"]) for line in every),
            pieces=tuple(tuple(line.get("token_ids") or line["output"].split()) for line in every),
            at_limit=tuple(line.get("stop") == "length" for line in every),
        )


@rule("O101", "repeats-itself", "warn", phase="outputs")
def outputs_do_not_loop(outputs: Outputs, times: int = 4, share: float = 0.02) -> Finding | Passed:
    """Outputs do not repeat one phrase until they are cut off.

    Why it matters: a loop is never a right answer, and costs the longest time.

    What to do: see that the turn's end is learned (E107) and stops (E108); fewer `training.epochs` or a lower
    `training.learning_rate` when it came with training; a higher `evaluation.max_new_tokens` does not help.

    Source: Holtzman et al. 2020, "The curious case of neural text degeneration". Found is an output, cut at its limit,
    whose second half is one phrase, at least four times over; 2 % of the outputs are let pass.
    """
    if not outputs.rows:
        raise CannotCheck("there are no outputs")
    every = zip(outputs.rows, outputs.pieces, outputs.at_limit, strict=True)
    loops = [row for row, pieces, cut in every if cut and _period(pieces, times)]
    seen = f"{len(loops)} of {len(outputs.rows)} outputs repeat one phrase to the limit"
    return found(seen, rows=loops) if len(loops) > share * len(outputs.rows) else passed(seen)


@rule("O102", "same-output-for-all", "warn", phase="outputs")
def outputs_differ(outputs: Outputs, at_least: int = 8) -> Finding | Passed:
    """Different inputs have different outputs.

    Why it matters: a model that writes the same for every input has learned the commonest target and reads nothing.

    What to do: look at prompts with `testigo show`, the input may be missing; lower `training.learning_rate`; nothing
    when all rows of the set truly have one target.

    Source: mode collapse to the marginal; fewer than eight outputs may be equal by chance.
    """
    if len(outputs.rows) < at_least:
        raise CannotCheck(f"fewer than {at_least} outputs")
    kinds = len(set(outputs.texts))
    seen = f"{kinds} different outputs for {len(outputs.rows)} rows"
    return found(f"{seen}: {outputs.texts[0][:60]!r}") if kinds == 1 else passed(seen)


def _period(pieces: Sequence[int | str], times: int) -> int:
    """The shortest period with which at least the second half repeats so many times; 0 when there is none."""
    n = len(pieces)
    for period in range(1, n // times + 1):
        same = 0
        while same < n - period and pieces[n - 1 - same] == pieces[n - 1 - same - period]:
            same += 1
        if same + period >= max(times * period, n / 2, 8):
            return period
    return 0

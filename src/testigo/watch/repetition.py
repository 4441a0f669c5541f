"""Outputs that end, and say the same again and again before they do."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.outputs import Output, Outputs, period, words


@rule("O111", "repetitive", "warn", phase="outputs")
def outputs_do_not_repeat_phrases(
    outputs: Outputs, repeated: float = 0.5, ratio: float = 2.4, share: float = 0.02
) -> Finding | Passed:
    """Outputs do not consist of phrases that come again and again.

    Why it matters: a model that degenerates repeats itself before it loops to the limit; scores that look for words in
    the output do not see it.

    What to do: not tested, likeliest first: too many `training.epochs` or a `training.learning_rate` too high; targets
    that repeat themselves, so look at rows with `testigo show --raw 10`; a base that does so by itself, so compare with
    the baseline's outputs.

    Source: the share of 4-grams that occurred before (seq-rep-4, Welleck et al. 2020, arXiv 1908.04319: text of people
    has 0.6 %, degenerate text 40 % and more), together with zlib's compression ratio above 2.4, the limit at which
    Whisper calls its own output degenerate (Radford et al. 2022). An output is let pass whose target or whose base's
    output repeats itself at least half as much; where neither is known both limits are higher (0.6 and 5), since lists
    and JSON repeat their form.
    """
    if not outputs.every:
        raise CannotCheck("there are no outputs")
    if not any(len(words(output.text)) >= 24 for output in outputs.written):
        raise CannotCheck("no output is as long as 24 words")
    sick = [output for output in outputs.written if _is_repetitive(output, outputs.base_of(output), repeated, ratio)]
    seen = f"{len(sick)} of {len(outputs.every)} outputs repeat their phrases"
    if len(sick) <= share * len(outputs.every):
        return passed(seen)
    worst = max(sick, key=lambda output: repeated_share(words(output.text)))
    seen += f"; {repeated_share(words(worst.text)):.0%} of the 4-grams of {worst.row} came before: {worst.text[:60]!r}"
    return found(seen, rows=[output.row for output in sick])


def repeated_share(pieces: Sequence[str], n: int = 4) -> float:
    """The share of n-grams that occurred before in the same output; 0 of an output too short to say."""
    total = len(pieces) - n + 1
    if total < 20:
        return 0.0
    return 1 - len({tuple(pieces[at : at + n]) for at in range(total)}) / total


def compression_ratio(text: str) -> float:
    """Bytes of a text for each byte of its compressed form; 1 of a text too short to say."""
    raw = text.encode()
    return len(raw) / len(zlib.compress(raw, 9)) if len(raw) >= 100 else 1.0


def _is_repetitive(output: Output, base: Output | None, repeated: float, ratio: float) -> bool:
    own = repeated_share(words(output.text))
    if own <= repeated or (output.at_limit and period(output.pieces)):  # a loop to the limit is O101's
        return False
    others = [] if output.target is None else [output.target]
    others += [] if base is None else [base.text]
    if any(repeated_share(words(other)) >= own / 2 for other in others):
        return False
    if not others:
        repeated, ratio = max(repeated, 0.6), max(ratio, 5.0)
    return own > repeated and compression_ratio(output.text) > ratio

"""What the record keeps in English, told again in the reader's language.

Other rooms write verdicts, states, causes and inputs as English words, and the JSON twin keeps them so. Those that are
fixed are listed here, with a place for what varies. A text that is not listed, such as what a rule observed, stays as
it was written, and the page marks it as English.
"""

from __future__ import annotations

import re
from functools import cache

from markupsafe import Markup

from testigo.dossier.language import _, from_rules, later, spoken
from testigo.dossier.units import written

WORDS = (
    # verdicts of the judgement, of phases and of findings
    later("shown"),
    later("refuted"),
    later("not decided"),
    later("kept"),
    later("broken"),
    later("undecidable"),
    later("rose"),
    later("fell"),
    later("passed"),
    later("failed"),
    later("warned"),
    later("waived"),
    later("could not be checked"),
    later("stop"),
    later("warn"),
    later("note"),
    # states of a run
    later("planned"),
    later("running"),
    later("completed"),
    later("stopped-early"),
    later("diverged"),
    later("out-of-memory"),
    later("gate-failed"),
    later("interrupted"),
    later("invalid"),
    # splits and phases
    later("train"),
    later("validation"),
    later("test"),
    later("load"),
    later("data"),
    later("forward"),
    later("gradients"),
    later("backward"),
    later("update-1"),
    later("update-2"),
    later("overfit"),
    later("export"),
    later("resume"),
    later("merge"),
    later("save"),
    later("load alone"),
    later("forward alone"),
    later("update-1 alone"),
    later("update-2 alone"),
    later("backward alone"),
    later("resume alone"),
    # tests and intervals
    later("exact McNemar"),
    later("exact sign-flip of rows"),
    later("exact sign-flip of group sums"),
    later("Monte-Carlo sign-flip of rows"),
    later("Monte-Carlo sign-flip of group sums"),
    later("Tango score"),
    later("exact randomisation of rows"),
    later("exact randomisation of group outputs"),
    later("approximate randomisation of rows"),
    later("approximate randomisation of group outputs"),
    later("jackknife t over rows"),
    later("jackknife t over groups"),
    later("t over rows"),
    later("t over groups"),
    later("BCa bootstrap over rows"),
    later("BCa bootstrap over groups"),
    later("rule of three over rows"),
    later("rule of three over groups"),
    # the data
    later("a person looked and confirmed them"),
    later("nobody looked: --yes answered"),
    later("nobody looked: there was no terminal to ask on"),
    later("a person"),
    later("empty input or target"),
    later("copy of row …"),
    later("copy of evaluation row …"),
    later("near copy of evaluation row …"),
    later("evaluation row … with words added or left out"),
    later("overlapping with evaluation row …"),
    later("another target than row … with the same input"),
    later("exact"),
    later("near"),
    later("with words added"),
    later("overlapping"),
    later("with a passage in common"),
    later("conflicts"),
    later("left training"),
    later("no field …"),
    later("rows added later move none"),
    later("cuts fitted to these rows"),
    later("something lies in more than one split: see the gate D144"),
    later("single rows"),
    later("a file"),
    # pieces of the plan
    later("pilot"),
    later("baseline"),
    later("resume reserve"),
    later("sealed test"),
    later("export and fresh reading"),
    later("measured by a pilot there"),
    # history
    later("no reason recorded"),
    later("nothing: no result had been seen"),
    later("the baseline's result"),
    later("the pilot"),
    later("1 finished run"),
    later("1 evaluated run"),
    later("a comparison"),
    later("the sealed test"),
    # phases' inputs
    later("adapter and control inputs, in a fresh process"),
    later("adapter merged into the base, and not"),
    later("a checkpoint, read back"),
    later("updates in fresh processes"),
    later("not reached"),
    # why a run ended
    later("asked to stop"),
    later("asked to stop before the first update"),
    later("loss"),
    later("gradient norm"),
    later("validation loss"),
    # platform
    later("system"),
    later("device"),
    later("devices"),
    later("threads"),
    later("cpu capability"),
)
"""Whole texts."""

PATTERNS = (
    later("{who} looked and confirmed them, after training had begun"),
    later("{who} looked and confirmed them"),
    later("{kind}, between given files"),
    later("groups of {field}"),
    later("near-duplicates from {x} on joined"),
    later("seed {n}"),
    later("evaluation: {variant}, seed {n}"),
    later("{variant}, seed {n}"),
    later("estimate from the pilot on {gpu}"),
    later("no estimate: the table has no row for {device}"),
    later("whole units ({unit}) by {field}"),
    later("by time ({field}): validation from {validation}, test from {test}"),
    later("embargo of {x} before each"),
    later("compared afterwards: none of {n} ids and {m} groups lies in two splits"),
    later("within the embargo of {x} days before {date}"),
    later("older than {date}, and its {unit} goes on into {split}"),
    later("the sealed test, opened {n} times"),
    later("{n} finished runs"),
    later("{n} evaluated runs"),
    later("{n} comparisons"),
    later("{n} rows of the plan"),
    later("{n} + {m} rows"),
    later("{n} short rows, six ways"),
    later("{n} short rows, three ways"),
    later("{n} short rows by heart"),
    later("{n} longest rows (up to {m} tokens)"),
    later("{n} updates, stopped after {m}, in a fresh process"),
    later("{what}, {n} processes"),
    later("{n} updates"),
    later("the {what} is {value} at update {n}"),
    later("{n} updates in a row overflowed, up to update {m}"),
    later("{metric} has not improved for {n} validations; the best was {x} at update {m}"),
    later("process {pid} on {host} ended without a word"),
    later("the worker ended by {how}; its last words are in {log}"),
    later("update {n}: {cause}"),
    later("{reason} (it was {state})"),
    later("{where}: claimed {claimed}, found {found}"),
    later("event {n} ({kind}, {time}) was changed: its content does not fit its digest"),
    later("event {n} ({kind}, {time}) was changed: it is not as Testigo writes"),
)
"""Texts with a place for what varies: `n` and `m` are whole numbers, `x` is any number, the others are words."""

WHY = (
    later("no {record} was collected"),
    later("its premise {code} does not hold"),
    later("its premise {code} could not be checked"),
)
"""Why a rule could not be checked, whatever the rule."""

_LEFT_OUT = re.compile(r"(?<=\[…)([\d,]+) characters left out(?=…\])")
_SHAPES = {"n": r"\d[\d,]*", "m": r"\d[\d,]*", "x": r"-?\d[\d,.]*"}


def told(text: str) -> str:
    """The text in the language that is spoken; as it is where it has no translation."""
    return _told(text) or text


def shown(text: str) -> str | Markup:
    """As `told`, for the page: what stays in English is marked as such."""
    return _told(text) or (in_english(text) if " " in text else text)  # one word is a name, of no language


def in_english(text: str) -> str | Markup:
    """An English text, marked as such on a page in another language."""
    return text if spoken() == "en" or not text else Markup('<span lang="en">{}</span>').format(text)


def of_a_rule(text: str, ours: object) -> str | Markup:
    """What a rule says. Ours have a catalogue, but for what they observed; a user's own speak as they were written."""
    return (from_rules(text) or in_english(text)) if ours else text


def told_rule(text: str) -> str:
    """The split rule, part by part."""
    return _("; ").join(_shares(part) or told(part) for part in text.split("; "))


def told_known(text: str) -> str:
    """What was known before an amendment, part by part."""
    return ", ".join(told(part) for part in re.split(r", (?!opened)", text))


def told_change(text: str) -> str:
    """A change of the campaign file: keys and values stay, `unset` is a word of ours."""
    key, colon, rest = text.partition(": ")
    before, arrow, after = rest.partition(" → ")
    if not colon or not arrow:
        return text
    values = [_("unset") if value == "unset" else value for value in (before, after)]
    return f"{key}: {' → '.join(values)}"


def told_reason(text: str) -> str:
    """A reason that somebody gave stays as it was given; that there is none is a word of ours."""
    return _(text) if text == "no reason recorded" else text


def told_place(text: str) -> str:
    """A dropped row and its place: `o900 at orders.jsonl:421`."""
    row, at, place = text.rpartition(" at ")
    return _("{row} at {place}", row=row, place=place) if at else text


def told_elision(text: str) -> str:
    """An example's text with its `[…2,900 characters left out…]` in the reader's language."""
    return _LEFT_OUT.sub(lambda match: _("{n} characters left out", n=written(match.group(1))), text)


def told_why(text: str, ours: object) -> str | Markup:
    """Why a rule could not be checked: two reasons are those of all rules."""
    return _matched(text, WHY) or of_a_rule(text, ours)


def _told(text: str) -> str | None:
    if spoken() == "en":
        return text
    return _(text) if text in WORDS else _matched(text, PATTERNS)


def _matched(text: str, patterns: tuple[str, ...]) -> str | None:
    for pattern in patterns:
        match = _shape(pattern).fullmatch(text)
        if match:
            found = match.groupdict()
            return _(pattern, **{name: _value(name, value) for name, value in found.items()})
    return None


def _value(name: str, text: str) -> str:
    return written(text) if name in _SHAPES else told(text)


@cache
def _shape(pattern: str) -> re.Pattern[str]:
    """The pattern as an expression that finds its values."""
    pieces = re.split(r"\{(\w+)\}", pattern)
    shape = [
        f"(?P<{piece}>{_SHAPES.get(piece, '.+?')})" if i % 2 else re.escape(piece) for i, piece in enumerate(pieces)
    ]
    return re.compile("".join(shape), re.DOTALL)


def _shares(text: str) -> str | None:
    """`test 0.15, train 0.7, validation a file`: the shares of a split rule."""
    parts = [re.fullmatch(r"(train|validation|test) (a file|[\d.]+)", part) for part in text.split(", ")]
    if not all(parts):
        return None
    return ", ".join(
        f"{told(part[1])} {told(part[2]) if part[2] == 'a file' else written(part[2])}" for part in parts if part
    )

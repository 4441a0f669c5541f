"""Outputs that copy training rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule

WINDOW = 8
_WORD = re.compile(r"\w+")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Copied:
    """The longest span that an output shares with a training row and not with its own row."""

    row: str
    training_row: str
    n_words: int
    n_foreign: int
    """Distinct words of the span that stand nowhere in the output's own input and target."""
    excerpt: str


@dataclass(frozen=True)
class Copies:
    """What outputs share with the training rows."""

    n_outputs: int
    n_training_rows: int
    spans: tuple[Copied, ...]
    """The longest of each output; of those that have one."""


@rule("O114", "copies-training-row", "warn", phase="outputs")
def outputs_are_their_own(copies: Copies, words: int = 13, foreign: int = 6, share: float = 0.01) -> Finding | Passed:
    """Outputs do not copy passages of training rows.

    Why it matters: what a model learned by heart it may tell to anybody, and an answer that belongs to another row is
    wrong however fluent it is.

    What to do: not tested, likeliest first: fewer `training.epochs`; rows that come many times, so set
    `data.duplicates.exact: drop` and look at near copies; a lower `model.adapter.rank`; keep personal data out of
    `data.source`.

    Source: 13 words in a row are no chance (the 13-grams of Brown et al. 2020, appendix C); Carlini et al. 2022, arXiv
    2202.07646, for what is learned by heart. Words of the row's own input and target are no copy: six distinct words of
    the span must stand in neither. Passages that more than three training rows share are the form of the task.
    """
    if copies.n_outputs == 0 or copies.n_training_rows == 0:
        raise CannotCheck("there are no outputs or no training rows")
    bad = [span for span in copies.spans if span.n_words >= words and span.n_foreign >= foreign]
    longest = max((span.n_words for span in copies.spans), default=0)
    seen = f"{len(bad)} of {copies.n_outputs} outputs share {words} words or more with one of "
    seen += f"{copies.n_training_rows} training rows and not with their own; the longest span has {longest} words"
    if len(bad) <= share * copies.n_outputs:
        return passed(seen)
    worst = max(bad, key=lambda span: span.n_words)
    return found(f"{seen}: {worst.row} has {worst.excerpt!r} of {worst.training_row}", rows=[span.row for span in bad])


def find_copies(
    outputs: Mapping[str, str], own: Mapping[str, str], training: Iterable[tuple[str, str]], *, most_rows: int = 3
) -> Copies:
    """The longest span of each output that stands in a training row, and not in the output's own row.

    The index is over the outputs, which are few: hashes of all windows of eight words. Training rows are read once, one
    after the other, so that memory does not grow with them.

    Parameters
    ----------
    outputs
        Row id -> what was written.
    own
        Row id -> the row's own input and target; a span in them is no copy.
    training
        Id and text of each training row.
    most_rows
        Windows that more training rows than this share belong to the form of the task.
    """
    number: dict[str, int] = {}
    ids = {row: _numbers(text, number, grow=True) for row, text in outputs.items()}
    windows = {row: _hashes(values) for row, values in ids.items()}
    every = np.unique(np.concatenate([*windows.values(), np.empty(0, np.uint64)]))
    counts, first = np.zeros(len(every), np.int64), np.full(len(every), -1, np.int64)
    names: list[str] = []
    n_rows = 0
    for name, text in training:
        n_rows += 1
        hits = _places(every, _hashes(_numbers(text, number, grow=False)))
        if len(hits):
            counts[hits] += 1
            first[hits] = np.where(first[hits] < 0, len(names), first[hits])
            names.append(name)
    spans = []
    for row, hashes in windows.items():
        at = np.searchsorted(every, hashes)
        own_hashes = _hashes(_numbers(own.get(row, ""), number, grow=False))
        source = np.where((counts[at] > 0) & (counts[at] <= most_rows), first[at], -1)
        source = np.where(np.isin(hashes, own_hashes), -1, source)
        span = _longest(source)
        if span is not None:
            start, n_windows = span
            n_words = n_windows + WINDOW - 1
            words = list(_WORD.finditer(outputs[row]))[start : start + n_words]
            known = {word.casefold() for word in _WORD.findall(own.get(row, ""))}
            foreign = {word.group().casefold() for word in words} - known
            excerpt = outputs[row][words[0].start() : words[-1].end()]
            spans.append(Copied(row, names[int(source[start])], n_words, len(foreign), excerpt[:120]))
    return Copies(len(outputs), n_rows, tuple(spans))


def _numbers(text: str, number: dict[str, int], *, grow: bool) -> npt.NDArray[np.int64]:
    """A text as numbers of words; a word that no output has is 0."""
    words = [word.casefold() for word in _WORD.findall(text)]
    if grow:
        for word in words:
            number.setdefault(word, len(number) + 1)
    return np.array([number.get(word, 0) for word in words], dtype=np.int64)


def _hashes(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """A polynomial hash of each window of words, modulo 2^64; windows with an unknown word are left out.

    Two of a million windows fall together once in ten million indexes.
    """
    if len(numbers) < WINDOW:
        return np.empty(0, np.uint64)
    values = numbers.astype(np.uint64) * np.uint64(0xD1B54A32D192ED03)
    values ^= values >> np.uint64(29)
    hashes = np.zeros(len(numbers) - WINDOW + 1, np.uint64)
    known = np.ones(len(hashes), dtype=bool)
    for offset in range(WINDOW):
        hashes = hashes * _FACTOR + values[offset : offset + len(hashes)]
        known &= numbers[offset : offset + len(hashes)] > 0
    return hashes[known]


def _places(every: npt.NDArray[np.uint64], hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.intp]:
    """Where these hashes stand in a sorted array, each once; those that do not are left out."""
    if len(every) == 0 or len(hashes) == 0:
        return np.empty(0, np.intp)
    hashes = np.unique(hashes)
    at = np.searchsorted(every, hashes)
    at[at == len(every)] = 0
    found_at: npt.NDArray[np.intp] = at[every[at] == hashes]
    return found_at


def _longest(source: npt.NDArray[np.int64]) -> tuple[int, int] | None:
    """Start and length of the longest run of windows from one training row."""
    best, start = (0, 0), 0
    for at in range(len(source)):
        if at and source[at] != source[at - 1]:
            start = at
        if source[at] >= 0 and at + 1 - start > best[1]:
            best = (start, at + 1 - start)
    return best if best[1] else None

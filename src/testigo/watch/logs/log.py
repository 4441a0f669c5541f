"""What a log told, in the words of a curve; and the names that other tools give to the same things."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testigo.errors import DataError, Problem
from testigo.watch.curve import Curve

NAMES: dict[str, tuple[str, ...]] = {
    "update": ("step", "global_step", "update", "iteration", "iter", "steps", "updates", "_step"),
    "loss": ("loss", "train_loss", "training_loss", "loss_train", "train_loss_step", "nll_loss", "lm_loss"),
    "validation_loss": (
        "eval_loss", "validation_loss", "val_loss", "valid_loss", "loss_eval", "loss_val", "dev_loss",
    ),
    "learning_rate": ("learning_rate", "lr", "train_learning_rate", "train_lr", "lr_adamw"),
    "gradient_norm": ("gradient_norm", "grad_norm", "train_grad_norm", "gnorm", "total_norm", "grad_norm_total"),
    "epoch": ("epoch", "train_epoch", "epochs"),
    "tokens": ("tokens", "n_tokens", "train_tokens", "tokens_per_step"),
    "supervised_tokens": ("supervised_tokens",),
    "seconds": ("seconds", "step_time", "time_per_step", "iter_time", "train_step_time", "seconds_per_step"),
    "resident_bytes": ("resident_bytes",),
    "allocated_bytes": ("allocated_bytes",),
    "skipped": ("skipped", "overflow"),
    "validation_tokens": ("validation_tokens",),
}  # fmt: skip
"""Our word for a column -> the names that tools give it, the commonest first."""
RUNNING = {
    "tokens": ("num_tokens", "num_input_tokens_seen", "tokens_seen", "train_num_tokens", "consumed_tokens"),
    "seconds": ("wall_time", "elapsed_seconds", "_runtime", "elapsed", "timestamp", "_timestamp"),
}
"""Columns that count from the start; their differences are what an update took."""


def _names(value: Any) -> list[str] | None:
    return value if isinstance(value, list) and all(isinstance(name, str) for name in value) else None


def _losses(value: Any) -> dict[str, float] | None:
    """Those that are no numbers are words in a journal."""
    try:
        return {str(row): float(loss) for row, loss in value.items()}
    except (AttributeError, TypeError, ValueError, OverflowError):
        return None


_KNOWN_AS_IS: dict[str, Callable[[Any], Any]] = {
    "rows": _names,
    "row_losses": _losses,
    "clipped": lambda value: value if isinstance(value, bool) else None,
    "examples": lambda value: value if type(value) is int else None,
}
"""Columns of our own journal, and what they hold there: another tool's column of the same name is not looked at."""


@dataclass(frozen=True)
class Log:
    """The steps of a run, as lines that `Curve.from_steps` and `Watcher.feed` take."""

    source: str
    """What was read, in words."""
    path: Path
    steps: tuple[Mapping[str, Any], ...]
    columns: Mapping[str, str] = field(default_factory=dict)
    """Our word -> the log's own name of the column."""
    ignored: tuple[str, ...] = ()
    """Columns that no rule looks at."""
    vocabulary_size: int | None = None

    @property
    def updates(self) -> list[int]:
        """Numbers of the updates that have a training loss."""
        return [int(step["update"]) for step in self.steps if "validation_loss" not in step]

    @property
    def n_validations(self) -> int:
        """How many validations there are."""
        return len(self.steps) - len(self.updates)

    def curve(self, **about: Any) -> Curve:
        """The whole run."""
        return Curve.from_steps(self.steps, since=-1, **about)  # some tools count from 0


def plain(name: str) -> str:
    """A column's name without case, punctuation and the prefixes that dashboards add."""
    return re.sub(r"[^a-z0-9_]+", "_", name.strip().casefold()).strip()


def log_of(
    source: str, path: Path, lines: Sequence[Mapping[str, Any]], *, above: int = 0, vocabulary_size: int | None = None
) -> Log:
    """A log of lines with any column names; `above` is how many lines of the file lie above the first.

    Raises
    ------
    DataError
        When no column is a loss, or when values are not numbers; all bad values at once.
    """
    names = list(dict.fromkeys(name for line in lines for name in line))
    columns, running = _matched(names, NAMES), _matched(names, RUNNING)
    running = {word: name for word, name in running.items() if word not in columns}
    if "loss" not in columns and "validation_loss" not in columns:
        raise DataError(
            expected=f"a column with the training loss, such as {', '.join(NAMES['loss'][:3])}",
            found=f"{len(lines)} lines with {', '.join(map(str, names[:12])) or 'no columns'}",
            where=str(path),
            action="rename the column, or export the log again with the loss of each step",
        )
    problems: list[Problem] = []
    steps: dict[tuple[int, bool], dict[str, Any]] = {}
    before: dict[str, tuple[int, float]] = {}
    for number, line in enumerate(lines, 1):
        values = {
            word: _value(line.get(name), word, name, path, above + number, problems) for word, name in columns.items()
        }
        place = values.pop("update", None)
        update = number if place is None else int(place)
        for word, name in running.items():
            now = _value(line.get(name), word, name, path, above + number, problems)
            if now is not None and update > before.get(word, (0, 0.0))[0]:
                if word in before:
                    values[word] = (now - before[word][1]) / (update - before[word][0])
                before[word] = (update, now)
        kept = {
            word: own for word, of in _KNOWN_AS_IS.items() if line.get(word) and (own := of(line[word])) is not None
        }
        for made in _steps(update, values, kept):
            steps[update, "validation_loss" in made] = made
    if problems:
        raise DataError(problems=problems[:20])
    ordered = tuple(steps[key] for key in sorted(steps))
    used = {*columns.values(), *running.values(), *_KNOWN_AS_IS}
    ignored = tuple(str(name) for name in names if name not in used)
    return Log(source, path, ordered, {**columns, **running}, ignored, vocabulary_size)


def _steps(update: int, values: dict[str, Any], kept: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    validation = values.pop("validation_loss", None)
    tokens = values.pop("validation_tokens", None)
    if values.get("loss") is not None:
        yield {"update": update, **{word: value for word, value in values.items() if value is not None}, **kept}
    if validation is not None:
        yield {"update": update, "validation_loss": validation, "validation_tokens": tokens}


def _matched(names: Sequence[str], wanted: Mapping[str, Sequence[str]]) -> dict[str, str]:
    by_plain: dict[str, str] = {}
    for name in names:
        by_plain.setdefault(plain(name), name)
    matched = {}
    for word, known in wanted.items():
        for other in known:
            if other in by_plain:
                matched[word] = by_plain[other]
                break
    return matched


def _value(
    value: Any, word: str, name: str, path: Path, number: int, problems: list[Problem]
) -> float | None:  # fmt: skip
    """A number; None where there is none. NaN and infinity are numbers here, written in any way."""
    if value is None or value == "":
        return None
    if str(value).casefold() in ("true", "false"):
        return float(str(value).casefold() == "true")
    try:
        made = float(value)
        if word == "update" and not math.isfinite(made):
            raise ValueError
        return made
    except (TypeError, ValueError, OverflowError):
        problems.append(
            Problem(
                expected="a number",
                found=f"{value!r}"[:80],
                where=f"{path}, line {number}, column {name}",
                action="mend the value, or leave it empty",
            )
        )
        return None

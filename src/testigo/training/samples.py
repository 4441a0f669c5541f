"""What the model writes to a few fixed prompts at each validation, kept over the run and held against the base."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testigo.corpus import Row
from testigo.disk import append, read_lines, write_atomically
from testigo.evaluation.predict import predict
from testigo.rules import Finding, judge, load_user_rules
from testigo.training import optimizer
from testigo.training.replicas import ALONE, Replicas
from testigo.watch import Guarded, Outputs, all_rules

FILE = "samples.jsonl"


def fixed_prompts(rows: Iterable[Row], n: int) -> tuple[Row, ...]:
    """The same rows in every run of a corpus: by the hash of their ids, the categories in turns."""
    by_category: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: hashlib.sha256(row.id.encode()).digest()):
        by_category.setdefault(row.category, []).append(row)
    queues = [by_category[name] for name in sorted(by_category)]
    turns = [queue[at] for at in range(max(map(len, queues), default=0)) for queue in queues if at < len(queue)]
    return tuple(turns[:n])


@dataclass
class Samples:
    """Greedy outputs to fixed validation prompts. Nothing here draws a random number or touches a weight.

    Where weights are sharded, all processes compute them together and the first writes.
    """

    rows: Sequence[Row]
    encoder: Any
    settings: Any
    folder: Path
    device: Any
    replicas: Replicas = ALONE
    on_batch: Callable[[int], object] = lambda n_done: None
    _told: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        files = tuple(self.settings.folder / file for file in self.settings.rules.files)
        every = (*all_rules(), *load_user_rules(files))
        self._rules = [rule for rule in every if rule.evidence in (Outputs, Guarded)]
        self._margins = {guard.metric: guard.within for guard in self.settings.hypothesis.keep}

    @property
    def path(self) -> Path:
        """One line a prompt and validation: a prediction line with its update."""
        return self.folder / FILE

    def begin(self, model: Any, update: int) -> float:
        """The outputs of the untouched base, at update 0; seconds that it took.

        A run that goes on keeps those that it has, and knows what it has already told.
        """
        self._told = {line["code"] for line in read_lines(self.folder / "findings.jsonl")}
        if not self.rows or update > 0 or self.replicas.from_first(len(self._base()) == len(self.rows)):
            return 0.0
        if self.replicas.is_first:
            write_atomically(self.path, "")
        return self._take(model, 0)[1]

    def take(self, model: Any, update: int) -> tuple[tuple[Finding, ...], float]:
        """Outputs at this validation: what is newly found in them, and the seconds that it took."""
        if not self.rows:
            return (), 0.0
        lines, seconds = self._take(model, update)
        base = self._base() if self.replicas.is_first else []
        if len(base) < len(self.rows):  # a run that began before samples were kept: nothing to hold them against
            return (), seconds
        evidence = [Outputs.from_lines(lines, base), *Guarded.of(self._margins, base, lines, update=update)]
        verdict = judge(self._rules, evidence, limits=self.settings.rules.limits)
        new = tuple(finding for finding in verdict.findings if finding.code not in self._told)
        self._told |= {finding.code for finding in new}
        return new, seconds

    def _take(self, model: Any, update: int) -> tuple[list[dict[str, Any]], float]:
        began = time.perf_counter()
        evaluation = self.settings.evaluation
        with optimizer.autocast(self.settings.model.precision, self.device):
            predictions = predict(
                model,
                self.encoder,
                self.rows,
                max_new_tokens=evaluation.max_new_tokens,
                batch_size=evaluation.batch_size,
                agree=self.replicas.from_first,
                on_batch=self.on_batch,
            )
        fields = ("row", "output", "target", "stop", "token_ids", "scores")
        lines = [
            {"update": update} | {name: getattr(one, name) for name in fields if hasattr(one, name)}
            for one in predictions
        ]
        if self.replicas.is_first:
            append(self.path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        return lines, time.perf_counter() - began

    def _base(self) -> list[dict[str, Any]]:
        return [line for line in read_lines(self.path) if line["update"] == 0]

"""`trainer_state.json`, which a transformers Trainer writes beside each checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testigo.watch.logs.log import Log, log_of


def is_trainer_state(document: Any) -> bool:
    """Whether a JSON document is one."""
    return isinstance(document, Mapping) and isinstance(document.get("log_history"), list)


def read_trainer_state(path: Path, document: Mapping[str, Any]) -> Log:
    """Its log: means of the training loss over `logging_steps`, and evaluations.

    The summary that the Trainer adds at the end is left out: its `train_loss` is a mean of the whole run.
    """
    history = [line for line in document["log_history"] if isinstance(line, Mapping)]
    lines = [line for line in history if "train_runtime" not in line]
    source = f"trainer_state.json of a transformers Trainer at step {document.get('global_step', '?')}"
    return log_of(source, path, lines, vocabulary_size=_vocabulary_size(path.parent))


def _vocabulary_size(folder: Path) -> int | None:
    """Of the model saved beside it, where a whole one is."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        size = config.get("vocab_size") or config.get("text_config", {}).get("vocab_size")
        return int(size) if size else None
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None

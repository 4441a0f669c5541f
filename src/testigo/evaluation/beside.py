"""What is measured beside the task: the loss of general text, and of targets that are asked for without their inputs.

Forward passes alone, of at most sixty short texts, so that the cost stays small whatever the corpus.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from testigo.corpus import Corpus, Row
from testigo.encoding import Encoder
from testigo.evaluation.prediction import LOSSES

#: Rows of each split that are asked for without their inputs, and tokens of a text that are looked at.
MOST_ROWS, MOST_TOKENS = 24, 128
_WORD = re.compile(r"\w+")


def passages() -> dict[str, str]:
    """Name -> text of the general passages that come with Testigo: prose of five languages, code, numbers, facts."""
    text = files("testigo.evaluation").joinpath("general.txt").read_text(encoding="utf-8")
    parts = re.split(r"^# (.+)\n", text, flags=re.MULTILINE)[1:]
    return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def measure_beside(model: Any, encoder: Encoder, corpus: Corpus) -> dict[str, dict[str, float]]:
    """Losses in nats per token: of each general passage, and of targets of training and validation rows by row id.

    Targets stand after a prompt whose input is empty: what is known of them was learned by heart.
    """
    model.eval()
    frame = encoder.frame
    start = _start_ids(frame.tokenizer)
    empty = frame.prompt_ids([{"role": "user", "content": ""}])
    rare = _rarest(corpus.rows("train"), encoder, MOST_ROWS * 2 // 3)
    train = {row.id: row for row in (*rare, *_by_hash(corpus.rows("train"), MOST_ROWS - len(rare)))}
    others = {row.id: row for row in _by_hash(corpus.rows("validation"), MOST_ROWS)}
    with torch.no_grad():
        return {
            "general": {name: _loss(model, start, _ids(encoder, text)) for name, text in passages().items()},
            "train": {name: _recall(model, encoder, empty, row) for name, row in train.items()},
            "validation": {name: _recall(model, encoder, empty, row) for name, row in others.items()},
        }


def read_beside(folder: Path) -> dict[str, dict[str, float]]:
    """What was measured beside an evaluation; empty where nothing was."""
    path = folder / LOSSES
    if not path.is_file():
        return {}
    document = json.loads(path.read_text(encoding="utf-8"))
    return {part: {name: float(loss) for name, loss in losses.items()} for part, losses in document.items()}


def _recall(model: Any, encoder: Encoder, empty: Sequence[int], row: Row) -> float:
    return _loss(model, empty, _ids(encoder, encoder.task.target(row.fields)))


def _ids(encoder: Encoder, text: str) -> tuple[int, ...]:
    return tuple(encoder.frame.tokenizer(text, add_special_tokens=False)["input_ids"])


def _loss(model: Any, before: Sequence[int], ids: Sequence[int]) -> float:
    """The mean loss of ids after others [nats per token]; NaN of none. The first of a text without a start is free."""
    if not before:
        before, ids = ids[:1], ids[1:]
    room = int(getattr(model.config, "max_position_embeddings", None) or 1 << 20) - len(before)
    ids = list(ids[: min(MOST_TOKENS, room)])
    if not ids or room <= 0:
        return math.nan
    device = model.get_input_embeddings().weight.device
    tokens = torch.tensor([[*before, *ids]], device=device)
    logits = model(input_ids=tokens, use_cache=False).logits[0, len(before) - 1 : -1]  # (ids, vocabulary)
    return float(cross_entropy(logits.float(), tokens[0, len(before) :]))


def _start_ids(tokenizer: Any) -> tuple[int, ...]:
    """What the tokenizer itself puts before a text, such as a beginning-of-sequence token."""
    ids, plain = tokenizer("a")["input_ids"], tokenizer("a", add_special_tokens=False)["input_ids"]
    return tuple(ids[: ids.index(plain[0])]) if plain and plain[0] in ids else ()


def _by_hash(rows: Sequence[Row], n: int) -> list[Row]:
    return sorted(rows, key=lambda row: hashlib.sha256(row.id.encode()).digest())[: max(n, 0)]


def _rarest(rows: Sequence[Row], encoder: Encoder, n: int) -> list[Row]:
    """Rows whose targets have the rarest words: these can only be known by heart."""
    words = {row.id: set(_WORD.findall(encoder.task.target(row.fields).casefold())) for row in rows}
    counts = Counter(word for own in words.values() for word in own)

    def rarity(row: Row) -> float:
        own = words[row.id]
        return sum(math.log(len(rows) / counts[word]) for word in own) / len(own) if own else 0.0

    return sorted(rows, key=lambda row: (-rarity(row), row.id))[:n]

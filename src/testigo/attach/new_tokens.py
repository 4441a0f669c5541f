"""Tokens that were added to the base's tokenizer, and whether their embedding is trained."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from testigo.attach.bench import Bench
from testigo.model.tying import input_embedding


def frozen_new_tokens(bench: Bench) -> tuple[str, ...] | None:
    """Added tokens that occur in rows and whose embedding is not trained; None where the base cannot be read.

    The base's own tokenizer is read from where this one came from: a folder, or the local cache. Nothing is fetched.
    """
    tokenizer = bench.trainer.processing_class
    name = getattr(tokenizer, "name_or_path", "")
    if not name or not hasattr(tokenizer, "get_vocab"):
        return None
    before = _vocabulary(str(name))
    if before is None:
        return None
    added = {token: number for token, number in tokenizer.get_vocab().items() if token not in before}
    seen = {number for row in bench.train.rows for number in row.ids}
    used = {token: number for token, number in added.items() if number in seen}
    return tuple(token for token, number in used.items() if not _is_trained(bench, number))


@lru_cache(maxsize=4)
def _vocabulary(name: str) -> frozenset[str] | None:
    from transformers import AutoTokenizer

    try:
        return frozenset(AutoTokenizer.from_pretrained(name, local_files_only=True).get_vocab())
    except Exception:  # no folder, no cache, a kind of file that this version cannot read
        return None


def _is_trained(bench: Bench, token: int) -> bool:
    """Whether some tensor of the embedding that holds this token asks for a gradient."""
    part = input_embedding(bench.trainer.model)
    if part is None:
        return True
    for name, parameter in part.named_parameters():
        if not parameter.requires_grad:
            continue
        if "trainable_tokens_delta" not in name:
            return True
        if token in _indices_of_deltas(part):
            return True
    return False


def _indices_of_deltas(part: Any) -> set[int]:
    """Tokens whose rows peft trains apart."""
    indices: set[int] = set()
    for module in part.modules():
        of_adapters = getattr(module, "token_indices", None)
        if isinstance(of_adapters, dict):
            indices.update(int(token) for tokens in of_adapters.values() for token in tokens)
    return indices

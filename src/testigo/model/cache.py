"""How a model is handed its cache of keys and values, whatever the version of transformers calls it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from transformers import DynamicCache

from testigo.model.bare import bare


def empty_cache(model: Any) -> DynamicCache:
    """A cache that fits the model's layers."""
    return DynamicCache(config=model.config.get_text_config())


def places_of(model: Any) -> int:
    """How many tokens a model can take, prompt and answer together."""
    return int(getattr(model.config.get_text_config(), "max_position_embeddings", None) or sys.maxsize)


def with_cache(model: Any, cache: DynamicCache) -> dict[str, Any]:
    """The keywords of a forward pass that reads and fills a cache.

    transformers 5.24 renamed `past_key_values` to `cache`, and drops the old name in 5.40.
    """
    return {_name_of_cache(bare(model).__class__.forward): cache, "use_cache": True}


@lru_cache
def _name_of_cache(forward: Callable[..., Any]) -> str:
    return "cache" if "cache" in inspect.signature(forward).parameters else "past_key_values"

"""The encoder that fits a base: from its tokenizer and configuration, with or without weights in memory."""

from __future__ import annotations

from typing import Any

from testigo.campaign import Campaign
from testigo.encoding import Encoder, Frame
from testigo.model.load import Loaded
from testigo.tasks import task_for

_NO_LIMIT = 1 << 20


def encoder_of(settings: Campaign, loaded: Loaded) -> Encoder:
    """The one encoder of a campaign, for training and evaluation alike."""
    generation = getattr(loaded.model, "generation_config", None)
    return encoder_for(settings, loaded.tokenizer, loaded.model.config, generation)


def encoder_for(settings: Campaign, tokenizer: Any, config: Any, generation: Any = None) -> Encoder:
    """The encoder from tokenizer and configuration alone, without weights.

    The longest row is what the campaign says, and never more than the base can take.
    """
    eos = getattr(generation, "eos_token_id", None)
    stops = tuple(eos) if isinstance(eos, list) else () if eos is None else (int(eos),)
    model_maximum = int(getattr(config, "max_position_embeddings", None) or _NO_LIMIT)
    own = settings.encoding.maximum_length
    return Encoder(
        frame=Frame(tokenizer, stops, settings.encoding.template_options),
        task=task_for(settings),
        maximum_length=min(own, model_maximum) if own else model_maximum,
        longer=settings.encoding.longer,
        reserve=settings.evaluation.max_new_tokens,
        input_field=settings.task.input,
        turns=settings.encoding.turns,
        tools=settings.encoding.tools,
    )

"""The encoder that fits a base: from its tokenizer or image processor and configuration, with or without weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from testigo.campaign import Campaign
from testigo.corpus import Row
from testigo.encoding import AnyEncoder, ClassEncoder, Encoder, Frame, ImageEncoder
from testigo.model.load import Loaded, pad_id_of
from testigo.tasks import is_answered_by_head, task_for

_NO_LIMIT = 1 << 20


def encoder_of(settings: Campaign, loaded: Loaded, images: Path | None = None) -> AnyEncoder:
    """The one encoder of a campaign, for training and evaluation alike.

    Parameters
    ----------
    images
        The folder of the corpus, which keeps the images that its rows name.
    """
    generation = getattr(loaded.model, "generation_config", None)
    reader = loaded.tokenizer if loaded.processor is None else loaded.processor
    return encoder_for(settings, reader, loaded.model.config, generation, labels=loaded.labels, images=images)


def encoder_for(
    settings: Campaign,
    reader: Any,
    config: Any,
    generation: Any = None,
    *,
    labels: tuple[str, ...] = (),
    images: Path | None = None,
) -> AnyEncoder:
    """The encoder from tokenizer (or image processor) and configuration alone, without weights.

    The longest row is what the campaign says, and never more than the base can take.
    """
    task = task_for(settings, labels)
    if settings.task.kind == "image-classification":
        augment, channels = settings.training.augment, int(getattr(config, "num_channels", 3))
        return ImageEncoder(reader, task, settings.task.input, images, augment, channels)
    config = config.get_text_config()
    model_maximum = int(getattr(config, "max_position_embeddings", None) or _NO_LIMIT)
    own = settings.encoding.maximum_length
    if is_answered_by_head(settings):
        # Some encoders keep places back (RoBERTa two of 514): their tokenizer knows how many a text may take.
        model_maximum = min(model_maximum, int(min(getattr(reader, "model_max_length", _NO_LIMIT), _NO_LIMIT)))
        longest = min(own, model_maximum) if own else model_maximum
        return ClassEncoder(reader, task, longest, settings.encoding.longer, pad_id_of(reader))
    eos = getattr(generation, "eos_token_id", None)
    stops = tuple(eos) if isinstance(eos, list) else () if eos is None else (int(eos),)
    return Encoder(
        frame=Frame(reader, stops, settings.encoding.template_options),
        task=task,
        maximum_length=min(own, model_maximum) if own else model_maximum,
        longer=settings.encoding.longer,
        reserve=settings.evaluation.max_new_tokens,
        input_field=settings.task.input,
        turns=settings.encoding.turns,
        tools=settings.encoding.tools,
    )


def control_input(encoder: AnyEncoder, row: Row) -> Any:
    """What an export is tried with: the ids of a row's prompt, or its picture."""
    if isinstance(encoder, ImageEncoder):
        return encoder.opened(row.fields[encoder.input_field])
    return encoder.prompt_ids(row.fields)

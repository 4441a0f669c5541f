"""The answer where an architecture cannot be run without values: counted, not followed, and labelled so.

Activations follow Korthikanti et al. 2022 (arXiv 2205.05198, sections 4.1 and 5): of each layer about 17 values a token
and hidden unit are kept for the backward pass (34 bytes in 16 bits) when attention is fused, and one when all else is
computed again. What an unusual architecture keeps beyond that is not in it.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from testigo.campaign import Campaign
from testigo.model.adapter import trained_parameters
from testigo.model.streamed import LOGITS_BYTES as MOST_LOGITS_BYTES
from testigo.sizing.architecture import shape
from testigo.sizing.lengths import Inputs, RowLength
from testigo.sizing.tracker import Kind, Peak

KEPT_PER_LAYER = 17
"""Values kept of each layer, a token and hidden unit."""
LOGITS_BYTES = 12
"""Bytes of a logit while its loss is computed: itself in fp32, its logarithm, its gradient."""


def by_formula(campaign: Campaign, configuration: Any, inputs: Inputs) -> dict[str, Peak]:
    """The peak of each phase of one process."""
    model = shape(campaign, configuration, adapted=True, n_classes=inputs.n_classes)
    text = configuration.get_text_config()
    width = 4 if campaign.model.precision == "fp32" else 2
    n_shards = campaign.machine.processes if campaign.machine.strategy == "fsdp" else 1
    own = trained_parameters(model)
    all_weights = sum(t.numel() * t.element_size() for t in (*model.parameters(), *model.buffers()))
    trained = sum(p.numel() * p.element_size() for p in own.values())
    is_full = len(own) == sum(1 for _ in model.parameters())
    weights = all_weights // n_shards if is_full else (all_weights - trained) // n_shards + trained
    gradients = trained // n_shards if is_full else trained
    state: dict[Kind, int] = {"weights": weights, "gradients": gradients, "optimizer_state": 2 * gradients}
    rows = inputs.microbatches[-1]
    n_tokens, mask = _tokens(campaign, inputs, rows), _mask(campaign, inputs, rows)
    n_layers, hidden = _count(text, "num_hidden_layers"), _count(text, "hidden_size")
    one_layer = KEPT_PER_LAYER * width * hidden * n_tokens
    kept = n_layers * one_layer
    if campaign.training.activation_checkpointing:
        kept = n_layers * width * hidden * n_tokens + one_layer
    logits = _logits(campaign, model, inputs, rows)
    passes: dict[Kind, int] = state | {"activations": kept, "logits": logits, "other": mask}
    vocabulary = _logits(campaign, model, inputs, inputs.validation)
    heads = _count(text, "num_key_value_heads") or _count(text, "num_attention_heads")
    per_head = getattr(text, "head_dim", None) or hidden // max(_count(text, "num_attention_heads"), 1)
    longest = inputs.longest.n_prompt + campaign.evaluation.max_new_tokens
    cache = 2 * n_layers * heads * per_head * width * longest * len(inputs.validation)
    seen = _tokens(campaign, inputs, inputs.validation) * hidden * width * 4
    found: dict[str, dict[Kind, int]] = {
        "load": {"weights": weights},
        "forward": passes,
        "backward": passes,
        "step": state | {"other": gradients},
        "update-1": passes,
        "update-2": passes,
        "validation": state
        | {"activations": seen, "logits": vocabulary, "other": _mask(campaign, inputs, inputs.validation)},
        "save": state,
        "evaluation": {"weights": all_weights, "activations": seen, **({} if inputs.n_classes else {"cache": cache})},
        "export": {"weights": all_weights},
    }
    return {name: Peak(sum(kinds.values()), {k: n for k, n in kinds.items() if n}) for name, kinds in found.items()}


def _count(text: Any, name: str) -> int:
    return int(getattr(text, name, None) or 0)


def most_tokens(campaign: Campaign, inputs: Inputs) -> int:
    """The most tokens that go through the model at once in training and validation."""
    return max(_tokens(campaign, inputs, rows) for rows in (inputs.microbatches[-1], inputs.validation))


def _mask(campaign: Campaign, inputs: Inputs, rows: tuple[RowLength, ...]) -> int:
    """Which place of a pack sees which: a byte each."""
    return _tokens(campaign, inputs, rows) ** 2 if _is_packed(campaign, inputs) else 0


def _is_packed(campaign: Campaign, inputs: Inputs) -> bool:
    return campaign.encoding.layout == "packed" and not inputs.n_classes


def _tokens(campaign: Campaign, inputs: Inputs, rows: tuple[RowLength, ...]) -> int:
    if inputs.pixels is not None:
        return len(rows) * inputs.pixels[-1] * inputs.pixels[-2] // 64  # as patches of 8 × 8 at least
    if not _is_packed(campaign, inputs):
        return len(rows) * max(row.n_tokens for row in rows)
    return inputs.n_shared + sum(row.n_tokens - inputs.n_shared for row in rows)


def _logits(campaign: Campaign, model: nn.Module, inputs: Inputs, rows: tuple[RowLength, ...]) -> int:
    if inputs.n_classes:
        return len(rows) * inputs.n_classes * LOGITS_BYTES
    embedding: Any = model.get_input_embeddings()  # type: ignore[operator]
    n = sum(row.n_supervised for row in rows) * embedding.weight.shape[0]
    in_pieces = _is_packed(campaign, inputs) and campaign.machine.strategy != "fsdp"
    return LOGITS_BYTES * (min(n, MOST_LOGITS_BYTES // 4) if in_pieces else n)

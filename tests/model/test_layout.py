"""How the rows of an update are laid out changes no gradient: bins, trees, a cached prefix, losses in pieces."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tiny import gradients, made_row, relative_error
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, Gemma3TextConfig, MistralConfig

from testigo.encoding import EncodedRow, n_laid, pack
from testigo.model.activations import checkpoint_activations
from testigo.model.layout import Layout, layout_of
from testigo.model.losses import supervised_logits, token_losses
from testigo.model.prefix import prefix_of
from testigo.model.streamed import streamed_losses
from testigo.training.loss import split_loss

if TYPE_CHECKING:
    from pathlib import Path

    from tiny import Tiny

HEAD = tuple(range(20, 100))
DOCUMENT = tuple(range(100, 130))
ROWS = [
    made_row("a", (*HEAD, *DOCUMENT, 61, 62), (70, 71)),
    made_row("b", (*HEAD, *DOCUMENT, 63), (72, 73, 74, 75, 76, 77, 78)),
    made_row("c", (*HEAD, 61), (79,)),
    made_row("d", (*HEAD, 62, 63, 64, 65, 66, 67, 68, 69, 70), (80, 81, 82)),
    EncodedRow(
        "e", "", (*HEAD, *DOCUMENT, 61, 62, 70, 71, 64, 65, 90, 91), 112, ((112, 114), (116, 118))
    ),  # goes on from a
    made_row("f", (*HEAD, *DOCUMENT, 61, 62), (70, 71)),  # twice the same
]
NARROW = 16


def gemma(**changes: Any) -> Any:
    return Gemma3TextConfig(
        vocab_size=200, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, layer_types=["sliding_attention", "full_attention"], **changes,
    )  # fmt: skip


@pytest.fixture(scope="module")
def models(tiny: Tiny) -> dict[str, Any]:
    made = {kind: AutoModelForCausalLM.from_pretrained(tiny.folder / kind) for kind in ("llama", "gpt2", "qwen2")}
    torch.manual_seed(0)
    for name, configuration in {
        "gemma3": gemma(sliding_window=512, final_logit_softcapping=5.0),
        "gemma3 narrow": gemma(sliding_window=NARROW),
        "mistral narrow": MistralConfig(
            vocab_size=200, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, sliding_window=NARROW,
        ),
    }.items():  # fmt: skip
        made[name] = AutoModelForCausalLM.from_config(configuration)
    return made


KINDS = ["llama", "gpt2", "qwen2", "gemma3"]


def adapted(model: Any) -> Any:
    torch.manual_seed(1)
    made = get_peft_model(copy.deepcopy(model), LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM",
                                                           fan_in_fan_out=hasattr(model.config, "n_embd")))  # fmt: skip
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0.0, 0.1)
    return made


def whole_logits_gradient(model: Any, rows: list[EncodedRow]) -> dict[str, torch.Tensor]:
    """Each row alone, with all of its logits at once."""
    model.zero_grad()
    for row in rows:
        batch = pack([row])
        cross_entropy(supervised_logits(model, batch), batch.targets, reduction="sum").backward()
    return gradients(model)


def laid_out_gradient(model: Any, rows: list[EncodedRow], layout: Layout) -> tuple[dict[str, torch.Tensor], int, int]:
    model.zero_grad()
    groups = layout.of_update(rows)
    packs = [pack(own, before=groups.before) for own in groups.rows]
    prefix = prefix_of(model, packs)
    for own in packs:
        token_losses(model, own, prefix).sum().backward()
    if prefix is not None:
        prefix.backward()
    return gradients(model), len(packs), groups.before


@pytest.mark.parametrize("with_adapter", [False, True], ids=["whole", "adapter"])
@pytest.mark.parametrize("kind", KINDS)
def test_neither_packs_nor_trees_nor_a_cached_prefix_change_the_gradient(
    models: dict[str, Any], kind: str, with_adapter: bool
) -> None:
    model = adapted(models[kind]) if with_adapter else models[kind]
    alone = whole_logits_gradient(model, ROWS)
    for budget, cached in ((1000, False), (125, False), (125, True), (1, True), (1, False)):
        made, n_packs, before = laid_out_gradient(model, ROWS, Layout(2, budget, cached))
        assert relative_error(made, alone) < 1e-5
        assert n_packs == {1000: 1, 125: n_packs, 1: len(ROWS)}[budget]
        assert before == (len(HEAD) if cached else 0)


@pytest.mark.parametrize("kind", ["gemma3 narrow", "mistral narrow"])
def test_layers_with_a_window_narrower_than_the_rows_see_as_far_in_a_pack_as_alone(
    models: dict[str, Any], kind: str
) -> None:
    model = models[kind]
    alone = torch.zeros(0)
    for row in ROWS:
        labels = torch.full((1, row.n_tokens), -100)
        for begin, end in row.supervised_spans:
            labels[0, begin:end] = torch.tensor(row.ids[begin:end])
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([row.ids])).logits[0, :-1]
        own = cross_entropy(logits, labels[0, 1:], reduction="none", ignore_index=-100)
        alone = torch.cat([alone, own[labels[0, 1:] != -100]])
    with torch.no_grad():
        assert torch.allclose(token_losses(model, pack(ROWS)), alone, atol=1e-5)


def test_a_window_narrower_than_the_rows_keeps_packs_from_a_cache(tiny: Tiny, models: dict[str, Any]) -> None:
    settings = tiny.campaign()
    assert layout_of(settings, models["llama"], ROWS).can_cache
    assert layout_of(settings, models["gemma3"], ROWS).can_cache
    assert not layout_of(settings, models["mistral narrow"], ROWS).can_cache
    assert not layout_of(tiny.campaign({"training.activation_checkpointing": True}), models["llama"], ROWS).can_cache


@pytest.mark.parametrize("with_adapter", [False, True], ids=["whole", "adapter"])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_in_pieces_are_the_losses_of_all_logits(models: dict[str, Any], kind: str, with_adapter: bool) -> None:
    model = adapted(models[kind]) if with_adapter else models[kind]
    batch = pack(ROWS)
    whole = cross_entropy(supervised_logits(model, batch), batch.targets, reduction="none")
    model.zero_grad()
    whole.sum().backward()
    expected = gradients(model)
    inputs = {
        "input_ids": batch.input_ids, "position_ids": batch.position_ids, "attention_mask": batch.attention_mask,
        "use_cache": False,
    }  # fmt: skip
    for n_at_once in (1, 3, 1000):
        model.zero_grad()
        most = 4 * n_at_once * model.config.vocab_size
        losses = streamed_losses(model, inputs, batch.places, batch.targets, most_bytes=most)
        assert torch.allclose(losses, whole, atol=1e-5)
        losses.sum().backward()
        assert relative_error(gradients(model), expected) < 1e-5


def test_activations_computed_twice_give_the_same_gradient_in_a_tree(models: dict[str, Any]) -> None:
    model = adapted(models["llama"])
    model.train()
    alone = whole_logits_gradient(model, ROWS)
    checkpoint_activations(model)
    made, _, _ = laid_out_gradient(model, ROWS, Layout(2, 125, can_cache=False))
    assert relative_error(made, alone) < 1e-5


def test_a_pack_holds_at_most_what_the_longest_rows_take(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path, {"training.microbatch": 2, "training.accumulation": 6})
    longest = sorted(run.rows, key=lambda row: (-row.n_tokens, row.id))[:2]
    budget = n_laid(longest)
    assert run.layout.most_tokens == budget
    for update in (1, 2, 3):
        packs = run.packs_of(update)
        assert all(own.n_tokens + own.n_before <= budget for own in packs)
        assert len(packs) <= 6
        rows = sorted(row_id for own in packs for row_id in own.row_ids)
        assert rows == sorted(run.rows[k].id for k in run.order.rows_of(update))  # nothing crosses an update


def test_the_budget_changes_no_loss_and_no_gradient_of_a_run(tiny: Tiny, tmp_path: Path) -> None:
    made = []
    for number, size in enumerate((1, 2, 4, 12)):
        changes = {"training.microbatch": size, "training.accumulation": 12 // size}
        run = tiny.session(tmp_path / str(number), changes)
        run.model.train()
        line = run.step(1)
        made.append((line["loss"], line["gradient_norm"], sorted(line["rows"])))
    assert len({tuple(rows) for _, _, rows in made}) == 1
    assert [loss for loss, _, _ in made] == pytest.approx([made[0][0]] * 4, rel=1e-6)
    assert [norm for _, norm, _ in made] == pytest.approx([made[0][1]] * 4, rel=1e-5)


def test_what_all_validation_rows_share_is_computed_once_and_changes_no_loss(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path, {"evaluation.batch_size": 2})
    assert run.layout.of_validation(run.validation_rows, 2).before >= 20
    with_cache = run.validate()["validation_loss"]
    run.layout = replace(run.layout, can_cache=False)
    assert run.validate()["validation_loss"] == pytest.approx(with_cache, rel=1e-6)
    alone = split_loss(run.model, [run.lay_out([row]) for row in run.validation_rows])
    assert with_cache == pytest.approx(alone.nats_per_token, rel=1e-6)

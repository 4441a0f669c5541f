"""Each fault trains without an error, and is named; its healthy twin, of the same parts, is silent."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from datasets import ClassLabel, Dataset, Features, Sequence, Value
from torch.nn.functional import dropout
from torch.utils.checkpoint import checkpoint
from transformers import (
    DataCollatorForLanguageModeling,
    GPT2Config,
    GPT2ForSequenceClassification,
    LlamaForCausalLM,
    Trainer,
    get_linear_schedule_with_warmup,
)

import testigo


class OldSignature(LlamaForCausalLM):
    """Takes no further keywords, so the Trainer cannot tell it how many tokens the update has."""

    def forward(self, input_ids: Any = None, attention_mask: Any = None, labels: Any = None) -> Any:  # type: ignore[override]
        return super().forward(input_ids=input_ids, attention_mask=attention_mask, labels=labels)


class NoisyHead(torch.nn.Linear):
    """Dropout that does not ask whether the model is trained."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(dropout(x, 0.5, training=True))


class Stubborn(torch.nn.Dropout):
    """Stays in training mode whatever it is told."""

    def train(self, mode: bool = True) -> Stubborn:
        self.training = True
        return self


def without_labels(rows: Dataset) -> Dataset:
    return rows.map(lambda row: {"labels": [-100] * len(row["labels"])})


def shifted(rows: Dataset) -> Dataset:
    return rows.map(lambda row: {"labels": [*row["labels"][1:], -100]})


def learns_padding(pad: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    """Labels are a copy of the ids, padding and all."""

    def collate(rows: Any) -> dict[str, Any]:
        batch = pad(rows)
        return {**batch, "labels": batch["input_ids"].clone()}

    return collate


def two_labels_cut(rows: Dataset) -> Dataset:
    """In two rows the answer was cut away."""
    return rows.map(lambda row, k: row if k > 1 else {"labels": [-100] * len(row["labels"])}, with_indices=True)


# --- the faults: (codes that must be found, sick, healthy) ---------------------------------------------------------


def c02(shop: Any, sick: bool) -> Trainer:
    return shop.trainer(OldSignature(shop.llama().config) if sick else shop.llama(), gradient_accumulation_steps=4)


def c02_of_gpt2(shop: Any, sick: bool) -> Trainer:
    model = shop.gpt2()
    if sick:
        model.accepts_loss_kwargs = False
    return shop.trainer(model, gradient_accumulation_steps=2)


def c07(shop: Any, sick: bool) -> Trainer:
    rows = shop.chat_rows(shop.tokenizer())
    return shop.trainer(rows=without_labels(rows) if sick else rows)


def c08(shop: Any, sick: bool) -> Trainer:
    rows = shop.chat_rows(shop.tokenizer())
    return shop.trainer(rows=two_labels_cut(rows) if sick else rows)


def c12(shop: Any, sick: bool) -> Trainer:
    tokenizer = shop.tokenizer(template=shop.unmarked_template) if sick else shop.tokenizer()
    return shop.trainer(tokenizer=tokenizer, rows=shop.chat_rows(tokenizer))


def c14(shop: Any, sick: bool) -> Trainer:
    tokenizer = shop.tokenizer(pad="<|end|>" if sick else "<|pad|>")
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    return shop.trainer(tokenizer=tokenizer, rows=shop.chat_rows(tokenizer).remove_columns("labels"), collator=collator)


def c14_masked_by_place(shop: Any, sick: bool) -> Trainer:
    tokenizer = shop.tokenizer(pad="<|end|>")
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False) if sick else shop.Pad(tokenizer.pad_token_id)
    rows = shop.chat_rows(tokenizer).remove_columns("labels") if sick else shop.chat_rows(tokenizer)
    return shop.trainer(tokenizer=tokenizer, rows=rows, collator=collator)


def c14_mask_of_ids(shop: Any, sick: bool) -> Trainer:
    """The attention mask is made from the padding's id, and labels from the attention mask."""
    tokenizer = shop.tokenizer(pad="<|end|>")
    pad = shop.Pad(tokenizer.pad_token_id)

    def collate(rows: Any) -> dict[str, Any]:
        batch = pad(rows)
        mask = (batch["input_ids"] != tokenizer.pad_token_id).long() if sick else batch["attention_mask"]
        return {**batch, "attention_mask": mask, "labels": batch["labels"].masked_fill(mask == 0, -100)}

    return shop.trainer(tokenizer=tokenizer, rows=shop.chat_rows(tokenizer), collator=collate)


def c18(shop: Any, sick: bool) -> Trainer:
    tokenizer = shop.tokenizer(pad="<|end|>")
    pad = shop.Pad(tokenizer.pad_token_id)
    rows = shop.chat_rows(tokenizer, mask=False)
    return shop.trainer(tokenizer=tokenizer, rows=rows, collator=learns_padding(pad) if sick else pad)


def c21(shop: Any, sick: bool) -> Trainer:
    rows = shop.chat_rows(shop.tokenizer())
    return shop.trainer(rows=shifted(rows) if sick else rows)


def c21_of_gpt2(shop: Any, sick: bool) -> Trainer:
    rows = shop.chat_rows(shop.tokenizer(), mask=False)
    return shop.trainer(shop.gpt2(), rows=shifted(rows) if sick else rows)


def never_shifted(shop: Any, sick: bool) -> Trainer:
    def loss(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
        logits = outputs.logits if sick else outputs.logits[:, :-1]
        wanted = labels if sick else labels[:, 1:]
        total = torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="sum")
        return total / (num_items_in_batch if num_items_in_batch is not None else (wanted != -100).sum())

    return shop.trainer(more={"compute_loss_func": loss}, gradient_accumulation_steps=2)


def c24(shop: Any, sick: bool) -> Trainer:
    model = shop.llama()
    if sick:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        return shop.trainer(shop.lora(model), optimizers=(optimizer, None))
    adapted = shop.lora(model)
    own = [p for p in adapted.parameters() if p.requires_grad]
    return shop.trainer(adapted, optimizers=(torch.optim.AdamW(own, lr=1e-3), None))


def a_part_not_in_the_optimizer(shop: Any, sick: bool) -> Trainer:
    model = shop.gpt2()
    own = [p for name, p in model.named_parameters() if not (sick and "mlp" in name)]
    return shop.trainer(model, optimizers=(torch.optim.AdamW(own, lr=1e-3), None))


def c25(shop: Any, sick: bool) -> Trainer:
    model = shop.lora(shop.llama())
    if sick:
        for p in model.parameters():
            p.requires_grad = False
    return shop.trainer(model)


def c26(shop: Any, sick: bool) -> Trainer:
    model = shop.llama()
    if sick:
        for name, p in model.named_parameters():
            p.requires_grad = "norm" in name
    return shop.trainer(model)


def half_of_the_adapter_frozen(shop: Any, sick: bool) -> Trainer:
    model = shop.lora(shop.llama())
    for name, p in model.named_parameters():
        if sick and "layers.1" in name:
            p.requires_grad = False
    return shop.trainer(model)


def c23(shop: Any, sick: bool) -> Trainer:
    """Checkpointing of the user's own; the trained head keeps the loss differentiable, so nothing raises."""
    model = shop.lora(shop.llama(), modules_to_save=["lm_head"])
    for layer in model.base_model.model.model.layers:
        run = layer.forward
        layer.forward = lambda x, run=run, **others: checkpoint(partial(run, **others), x, use_reentrant=sick)
    return shop.trainer(model)


def c29(shop: Any, sick: bool) -> Trainer:
    model = shop.llama()
    if sick:
        head = NoisyHead(32, 400, bias=False)
        head.weight = model.lm_head.weight
        model.lm_head = head
    return shop.trainer(model, evaluation=shop.validation_rows())


def c29_by_mode(shop: Any, sick: bool) -> Trainer:
    model = shop.gpt2(resid_pdrop=0.1)
    if sick:
        model.transformer.drop = Stubborn(0.3)
    return shop.trainer(model, evaluation=shop.validation_rows())


def c27(shop: Any, sick: bool) -> Trainer:
    model = shop.llama()
    if sick:
        model.zero_grad = lambda set_to_none=True: None  # type: ignore[method-assign]
    return shop.trainer(model)


def gradients_of_the_wrong_sign(shop: Any, sick: bool) -> Trainer:
    model = shop.llama()
    for p in model.parameters():
        if sick:
            p.register_hook(torch.neg)
    return shop.trainer(model)


def c44(shop: Any, sick: bool) -> Trainer:
    rows = shop.chat_rows(shop.tokenizer(), 30)
    return shop.trainer(rows=rows.select(range(24)), evaluation=rows.select(range(20 if sick else 24, 30)))


def c49(shop: Any, sick: bool, **arguments: Any) -> Trainer:
    tokenizer = shop.tokenizer()
    names = ["food", "furniture", "other"]
    order = ["other", "food", "furniture"] if sick else names
    config = GPT2Config(vocab_size=400, n_positions=128, n_embd=32, n_layer=2, n_head=2, pad_token_id=0,
                        bos_token_id=1, eos_token_id=1, id2label=dict(enumerate(order)),
                        label2id={name: k for k, name in enumerate(order)})  # fmt: skip
    torch.manual_seed(0)
    features = Features({"input_ids": Sequence(Value("int64")), "label": ClassLabel(names=names)})
    ids = [tokenizer(text)["input_ids"] for text, _ in shop.sentences(18)]
    rows = Dataset.from_dict({"input_ids": ids, "label": [k % 3 for k in range(18)]}, features=features)

    def collate(items: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        width = max(len(item["input_ids"]) for item in items)
        padded = [item["input_ids"] + [0] * (width - len(item["input_ids"])) for item in items]
        ids = torch.tensor(padded)
        labels = torch.tensor([item["label"] for item in items])
        return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}

    return shop.trainer(GPT2ForSequenceClassification(config), rows=rows, collator=collate, **arguments)


def accumulation_adds_up(shop: Any, sick: bool) -> Trainer:
    """This model takes further keywords and does not use them: its loss is not divided by the accumulation steps."""
    return c49(shop, False, gradient_accumulation_steps=2 if sick else 1)


def schedule_in_microbatches(shop: Any, sick: bool) -> Trainer:
    model = shop.llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = get_linear_schedule_with_warmup(optimizer, 1, 16 if sick else 4)
    return shop.trainer(model, optimizers=(optimizer, scheduler), gradient_accumulation_steps=4)


def two_begins(shop: Any, sick: bool) -> Trainer:
    tokenizer = shop.tokenizer()
    tokenizer.bos_token = "<|user|>"
    rows = shop.chat_rows(tokenizer)
    if sick:
        rows = rows.map(lambda r: {"input_ids": [2, *r["input_ids"]], "labels": [-100, *r["labels"]]})
    return shop.trainer(tokenizer=tokenizer, rows=rows)


def mask_over_padding(shop: Any, sick: bool) -> Trainer:
    pad = shop.Pad(shop.tokenizer().pad_token_id)

    def collate(rows: Any) -> dict[str, Any]:
        batch = pad(rows)
        return {**batch, "attention_mask": torch.ones_like(batch["input_ids"])} if sick else batch

    return shop.trainer(collator=collate)


def ends_twice(shop: Any, sick: bool) -> Trainer:
    """The template closes the turn, and so did the row's own text."""
    rows = shop.chat_rows(shop.tokenizer())
    if sick:
        rows = rows.map(lambda r: {"input_ids": [*r["input_ids"], 1], "labels": [*r["labels"], 1]})
    return shop.trainer(rows=rows)


def c22_of_an_untrained_row(shop: Any, sick: bool) -> Trainer:
    """The base never saw the template's mark: its row of the frozen embedding is a copy of a spare one."""
    model = shop.llama()
    if sick:
        with torch.no_grad():
            model.model.embed_tokens.weight[3] = model.model.embed_tokens.weight[399]
    return shop.trainer(shop.lora(model))


def c22_of_a_row_of_zeros(shop: Any, sick: bool) -> Trainer:
    """The same with zeros; in the healthy twin the embedding is trained, so that they do not stay."""
    model = shop.llama()
    with torch.no_grad():
        model.model.embed_tokens.weight[3] = 0.0
    return shop.trainer(shop.lora(model, modules_to_save=None if sick else ["embed_tokens"]))


FAULTS: list[tuple[set[str], Callable[[Any, bool], Trainer]]] = [
    ({"B108", "B109"}, c02),
    ({"B108"}, c02_of_gpt2),
    ({"E102"}, c07),
    ({"E102"}, c08),
    ({"E202"}, c12),
    ({"E107"}, c14),
    ({"E107"}, c14_masked_by_place),
    ({"E107", "E127"}, c14_mask_of_ids),
    ({"E127"}, mask_over_padding),
    ({"E126"}, ends_twice),
    ({"E123"}, c22_of_an_untrained_row),
    ({"E123"}, c22_of_a_row_of_zeros),
    ({"E111"}, c18),
    ({"E201"}, c21),
    ({"E201"}, c21_of_gpt2),
    ({"E201"}, never_shifted),
    ({"U101"}, c24),
    ({"U102"}, a_part_not_in_the_optimizer),
    ({"B101"}, c25),
    ({"B201"}, c26),
    ({"B102"}, half_of_the_adapter_frozen),
    ({"B103"}, c23),
    ({"F112"}, c29),
    ({"V101", "F112"}, c29_by_mode),
    ({"B110"}, c27),
    ({"U122"}, gradients_of_the_wrong_sign),
    ({"D103"}, c44),
    ({"D201"}, c49),
    ({"B108"}, accumulation_adds_up),
    ({"U110"}, schedule_in_microbatches),
    ({"E109"}, two_begins),
]


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize(("codes", "build"), FAULTS, ids=lambda value: getattr(value, "__name__", None))
def test_a_planted_fault_is_named_and_its_healthy_twin_is_silent(
    codes: set[str], build: Callable[[Any, bool], Trainer], shop: Any
) -> None:
    sick, healthy = testigo.pilot(build(shop, True)), testigo.pilot(build(shop, False))

    assert codes <= {finding.code for finding in sick.findings}, sick.table()
    assert not sick.ok
    assert [f for f in healthy.findings if f.severity != "note"] == [], healthy.table()
    assert not [one for one in healthy.not_checked if "could not be measured" in one.why], healthy.table()

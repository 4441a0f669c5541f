"""Faults in labels: masked, shifted, cut, or on the padding."""

from __future__ import annotations

from typing import Any

import torch
from datasets import Dataset
from transformers import DataCollatorForLanguageModeling

from silent_errors.record import planted


def _without(labels: list[int]) -> list[int]:
    return [-100] * len(labels)


@planted("every label is masked", source="C07; https://github.com/huggingface/trl/issues/6668", codes="E102 F102")
def every_label_masked(shop: Any, sick: bool) -> Any:
    rows = shop.chat_rows(shop.tokenizer())
    return shop.trainer(rows=rows.map(lambda row: {"labels": _without(row["labels"])}) if sick else rows)


@planted("the answers of two rows were cut away", source="C08", codes="E102")
def two_answers_cut_away(shop: Any, sick: bool) -> Any:
    rows = shop.chat_rows(shop.tokenizer())
    cut = rows.map(lambda row, k: row if k > 1 else {"labels": _without(row["labels"])}, with_indices=True)
    return shop.trainer(rows=cut if sick else rows)


@planted(
    "the response marker does not occur in the rendered text",
    source="C09; https://github.com/unslothai/unsloth/issues/2771",
    codes="E102",
)
def marker_that_does_not_occur(shop: Any, sick: bool) -> Any:
    tokenizer = shop.tokenizer()
    marker = tokenizer("### Response:" if sick else "<|bot|>")["input_ids"]

    def after_marker(row: dict[str, Any]) -> dict[str, Any]:
        ids = row["input_ids"]
        ends = [t + len(marker) for t in range(len(ids)) if ids[t : t + len(marker)] == marker]
        start = ends[-1] if ends else len(ids)
        return {"labels": [-100] * start + ids[start:]}

    return shop.trainer(rows=shop.chat_rows(tokenizer).map(after_marker))


@planted("a chat template without generation marks", source="C12", codes="E202")
def template_without_marks(shop: Any, sick: bool) -> Any:
    tokenizer = shop.tokenizer(template=shop.unmarked_template) if sick else shop.tokenizer()
    return shop.trainer(tokenizer=tokenizer, rows=shop.chat_rows(tokenizer))


@planted(
    "padding is masked by its id, and the padding is the EOS token",
    source="C14; https://github.com/mlabonne/llm-course/issues/33",
    codes="E107",
)
def padding_masked_by_id(shop: Any, sick: bool) -> Any:
    tokenizer = shop.tokenizer(pad="<|end|>" if sick else "<|pad|>")
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    return shop.trainer(tokenizer=tokenizer, rows=shop.chat_rows(tokenizer).remove_columns("labels"), collator=collator)


@planted(
    "a collator that masks by id instead of by place, with pad = EOS",
    source="C14; https://github.com/unslothai/unsloth/issues/416",
    codes="E107",
)
def masked_by_id_not_place(shop: Any, sick: bool) -> Any:
    tokenizer = shop.tokenizer(pad="<|end|>")
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False) if sick else shop.Pad(tokenizer.pad_token_id)
    rows = shop.chat_rows(tokenizer).remove_columns("labels") if sick else shop.chat_rows(tokenizer)
    return shop.trainer(tokenizer=tokenizer, rows=rows, collator=collator)


@planted("the attention mask is made from the padding's id, and labels from it", source="C14", codes="E107 E127")
def mask_made_from_ids(shop: Any, sick: bool) -> Any:
    tokenizer = shop.tokenizer(pad="<|end|>")
    pad = shop.Pad(tokenizer.pad_token_id)

    def collate(rows: Any) -> dict[str, Any]:
        batch = pad(rows)
        mask = (batch["input_ids"] != tokenizer.pad_token_id).long() if sick else batch["attention_mask"]
        return {**batch, "attention_mask": mask, "labels": batch["labels"].masked_fill(mask == 0, -100)}

    return shop.trainer(tokenizer=tokenizer, rows=shop.chat_rows(tokenizer), collator=collate)


@planted("labels are the inputs, padding and all", source="C18", codes="E111")
def padding_is_learned(shop: Any, sick: bool) -> Any:
    tokenizer = shop.tokenizer(pad="<|end|>")
    pad = shop.Pad(tokenizer.pad_token_id)

    def collate(rows: Any) -> dict[str, Any]:
        batch = pad(rows)
        return {**batch, "labels": batch["input_ids"].clone()} if sick else batch

    return shop.trainer(tokenizer=tokenizer, rows=shop.chat_rows(tokenizer, mask=False), collator=collate)


def _shifted(rows: Dataset) -> Dataset:
    return rows.map(lambda row: {"labels": [*row["labels"][1:], -100]})


@planted("the attention mask shows the padding too", source="C18", codes="E127")
def mask_over_padding(shop: Any, sick: bool) -> Any:
    pad = shop.Pad(shop.tokenizer().pad_token_id)

    def collate(rows: Any) -> dict[str, Any]:
        batch = pad(rows)
        return {**batch, "attention_mask": torch.ones_like(batch["input_ids"])} if sick else batch

    return shop.trainer(collator=collate)


@planted("the template closes the turn, and so did the row's own text", source="C11", codes="E126")
def ends_twice(shop: Any, sick: bool) -> Any:
    rows = shop.chat_rows(shop.tokenizer())
    twice = rows.map(lambda row: {"input_ids": [*row["input_ids"], 1], "labels": [*row["labels"], 1]})
    return shop.trainer(rows=twice if sick else rows)


@planted("labels are shifted before a model that shifts them again", source="C21", codes="E201")
def shifted_twice(shop: Any, sick: bool) -> Any:
    rows = shop.chat_rows(shop.tokenizer())
    return shop.trainer(rows=_shifted(rows) if sick else rows)


@planted("labels are shifted before GPT-2, whose class does not say that it shifts", source="C21", codes="E201")
def shifted_twice_in_gpt2(shop: Any, sick: bool) -> Any:
    rows = shop.chat_rows(shop.tokenizer(), mask=False)
    return shop.trainer(shop.gpt2(), rows=_shifted(rows) if sick else rows)


@planted("an own loss never shifts the labels: the model learns to copy", source="C21", codes="E201")
def never_shifted(shop: Any, sick: bool) -> Any:
    def loss(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
        logits = outputs.logits if sick else outputs.logits[:, :-1]
        wanted = labels if sick else labels[:, 1:]
        total = torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="sum")
        return total / (num_items_in_batch if num_items_in_batch is not None else (wanted != -100).sum())

    return shop.trainer(more={"compute_loss_func": loss}, gradient_accumulation_steps=2)


@planted(
    "no row ends with the token that ends an answer",
    source="https://github.com/unslothai/unsloth/issues/419",
    codes="E205",
)
def answers_without_end(shop: Any, sick: bool) -> Any:
    rows = shop.chat_rows(shop.tokenizer())
    cut = rows.map(lambda row: {"input_ids": row["input_ids"][:-1], "labels": row["labels"][:-1]})
    return shop.trainer(rows=cut if sick else rows)


@planted(
    "the tokenizer's truncation cuts the ends of the longest answers",
    source="C08; https://github.com/huggingface/trl/issues/6668",
    codes="E113",
)
def own_truncation_cuts_answers(shop: Any, sick: bool) -> Any:
    most = 44 if sick else 512
    rows = shop.chat_rows(shop.tokenizer())
    return shop.trainer(rows=rows.map(lambda row: {key: row[key][:most] for key in ("input_ids", "labels")}))


@planted("the labels of each row are another row's", source="a join that lost its order", codes="E206")
def labels_of_another_row(shop: Any, sick: bool) -> Any:
    rows = shop.chat_rows(shop.tokenizer(), mask=False)
    by_length = sorted(rows, key=lambda row: len(row["input_ids"]))

    def taken(k: int) -> dict[str, Any]:
        own, other = by_length[k], by_length[(k + 7) % len(by_length)]["input_ids"]
        n = len(own["input_ids"])
        return {"input_ids": own["input_ids"], "labels": (other * 4)[:n] if sick else own["labels"]}

    return shop.trainer(rows=Dataset.from_list([taken(k) for k in range(len(by_length))]))


@planted(
    "the chat template ends turns with a token that does not stop generation",
    source="C11; https://github.com/unslothai/unsloth/issues/5386",
    codes="E108",
)
def turn_end_does_not_stop(shop: Any, sick: bool) -> Any:
    tokenizer = shop.tokenizer()
    model = shop.llama()
    if sick:
        tokenizer.eos_token = "<|user|>"
        model.config.eos_token_id = model.generation_config.eos_token_id = 2
    return shop.trainer(model, tokenizer=tokenizer)

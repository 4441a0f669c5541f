"""Faults in rows and in how they are laid into batches."""

from __future__ import annotations

from typing import Any

import torch
from datasets import ClassLabel, Dataset, Features, Sequence, Value
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    GPT2Config,
    GPT2ForSequenceClassification,
    ViTConfig,
    ViTForImageClassification,
    default_data_collator,
)

from silent_errors.record import planted

SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}


@planted("validation rows lie among the training rows", source="C44", codes="D103")
def validation_among_training(shop: Any, sick: bool) -> Any:
    rows = shop.chat_rows(shop.tokenizer(), 30)
    return shop.trainer(rows=rows.select(range(24)), evaluation=rows.select(range(20 if sick else 24, 30)))


@planted("the same question with two answers", source="a corpus joined from two sources", codes="D105")
def same_question_two_answers(shop: Any, sick: bool) -> Any:
    tokenizer = shop.tokenizer()
    rows = list(shop.chat_rows(tokenizer))
    if sick:
        for k in range(4):
            answer = tokenizer("not today")["input_ids"]
            start = next(t for t, label in enumerate(rows[k]["labels"]) if label != -100)
            ids = [*rows[k]["input_ids"][:start], *answer, 1]
            rows.append({"input_ids": ids, "labels": [-100] * start + ids[start:]})
    return shop.trainer(rows=Dataset.from_list(rows))


@planted(
    "the template writes BOS and the tokenizer adds another",
    source="C15; https://github.com/OpenRLHF/OpenRLHF/issues/393",
    codes="E109",
)
def two_begins(shop: Any, sick: bool) -> Any:
    tokenizer = shop.tokenizer()
    tokenizer.bos_token = "<|user|>"
    rows = shop.chat_rows(tokenizer)
    if sick:
        rows = rows.map(lambda r: {"input_ids": [2, *r["input_ids"]], "labels": [-100, *r["labels"]]})
    return shop.trainer(tokenizer=tokenizer, rows=rows)


@planted("left padding without an attention mask", source="C14, padding by position", codes="F105")
def left_padding_without_mask(shop: Any, sick: bool) -> Any:
    def collate(rows: Any) -> dict[str, torch.Tensor]:
        width = max(len(row["input_ids"]) for row in rows)
        lacking = [width - len(row["input_ids"]) for row in rows]
        batch = {
            key: torch.tensor([[fill] * n + row[key] for n, row in zip(lacking, rows, strict=True)])
            for key, fill in (("input_ids", 0), ("labels", -100))
        }
        mask = torch.tensor([[0] * n + [1] * (width - n) for n in lacking])
        return batch if sick else {**batch, "attention_mask": mask}

    return shop.trainer(shop.taught(), collator=collate)


def _classes(shop: Any, n: int, names: list[str]) -> Dataset:
    tokenizer = shop.tokenizer()
    features = Features({"input_ids": Sequence(Value("int64")), "label": ClassLabel(names=names)})
    ids = [tokenizer(text)["input_ids"] for text, _ in shop.sentences(n)]
    return Dataset.from_dict({"input_ids": ids, "label": [k % len(names) for k in range(n)]}, features=features)


def _bert(shop: Any, n_classes: int = 3) -> Any:
    torch.manual_seed(0)
    config = BertConfig(**SHAPE, vocab_size=400, max_position_embeddings=128, pad_token_id=0, num_labels=n_classes,
                        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)  # fmt: skip
    return BertForSequenceClassification(config)


@planted("a classifier whose collator forgets the attention mask", source="C14, padding by position", codes="F105")
def classifier_without_mask(shop: Any, sick: bool) -> Any:
    pad = DataCollatorWithPadding(shop.tokenizer())

    def collate(rows: Any) -> dict[str, torch.Tensor]:
        batch = dict(pad([{key: row[key] for key in ("input_ids", "label")} for row in rows]))
        return {key: value for key, value in batch.items() if not (sick and key == "attention_mask")}

    return shop.trainer(_bert(shop), rows=_classes(shop, 24, ["a", "b", "c"]), collator=collate)


@planted("class names stand in another order than the model's outputs", source="C49", codes="D201")
def other_order_of_classes(shop: Any, sick: bool, **arguments: Any) -> Any:
    names = ["food", "furniture", "other"]
    order = ["other", "food", "furniture"] if sick else names
    config = GPT2Config(vocab_size=400, n_positions=128, n_embd=32, n_layer=2, n_head=2, pad_token_id=0,
                        bos_token_id=1, eos_token_id=1, id2label=dict(enumerate(order)),
                        label2id={name: k for k, name in enumerate(order)})  # fmt: skip
    torch.manual_seed(0)

    def collate(items: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        width = max(len(item["input_ids"]) for item in items)
        ids = torch.tensor([item["input_ids"] + [0] * (width - len(item["input_ids"])) for item in items])
        labels = torch.tensor([item["label"] for item in items])
        return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}

    model = GPT2ForSequenceClassification(config)
    return shop.trainer(model, rows=_classes(shop, 18, names), collator=collate, **arguments)


@planted(
    "accumulation with a model that takes loss keywords and ignores them",
    source="https://github.com/huggingface/transformers/issues/37766",
    codes="B108",
)
def accumulation_adds_up(shop: Any, sick: bool) -> Any:
    return other_order_of_classes(shop, False, gradient_accumulation_steps=2 if sick else 1)


@planted("rows sorted by class, in the data set's order", source="a file that was sorted by its label", codes="D202")
def rows_sorted_by_class(shop: Any, sick: bool) -> Any:
    rows = _classes(shop, 48, ["a", "b", "c"])
    pad = DataCollatorWithPadding(shop.tokenizer())
    return shop.trainer(
        _bert(shop), rows=rows.sort("label"), collator=pad, train_sampling_strategy="sequential" if sick else "random"
    )


def _pictures(values: torch.Tensor, shop: Any) -> Any:
    torch.manual_seed(0)
    model = ViTForImageClassification(ViTConfig(**SHAPE, image_size=16, patch_size=8, num_labels=4))
    rows = [{"pixel_values": value.tolist(), "labels": k % 4} for k, value in enumerate(values)]
    return shop.trainer(model, rows=Dataset.from_list(rows).with_format("torch"), collator=default_data_collator)


@planted(
    "pictures of 0 to 255 that nobody normalised",
    source="pictures of 8 bits that went round the image processor",
    codes="E203",
)
def pictures_not_normalised(shop: Any, sick: bool) -> Any:
    raw = torch.randint(0, 256, (16, 3, 16, 16), generator=torch.Generator().manual_seed(0)).float()
    return _pictures(raw if sick else (raw / 255 - 0.5) / 0.5, shop)


@planted(
    "pictures rescaled twice: all of them are one colour",
    source="an image processor on pictures that were 0 to 1 already",
    codes="E203",
)
def pictures_rescaled_twice(shop: Any, sick: bool) -> Any:
    raw = torch.randint(0, 256, (16, 3, 16, 16), generator=torch.Generator().manual_seed(0)).float()
    return _pictures((raw / 255 / (255 if sick else 1) - 0.5) / 0.5, shop)


@planted("fewer rows than a batch, and the last batch is dropped: nothing runs", source="C32", codes="U204")
def nothing_to_run(shop: Any, sick: bool) -> Any:
    rows = shop.chat_rows(shop.tokenizer()).select(range(6))
    return shop.trainer(rows=rows, per_device_train_batch_size=8, dataloader_drop_last=sick)


@planted(
    "a new token whose embedding is frozen", source="C22; https://github.com/huggingface/peft/pull/1147", codes="B112"
)
def new_token_frozen(shop: Any, sick: bool) -> Any:
    folder = shop.base()
    tokenizer = shop.tokenizer_of(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|order|>"]})
    model = shop.model_of(folder)
    model.resize_token_embeddings(len(tokenizer))
    new = tokenizer.convert_tokens_to_ids("<|order|>")
    rows = shop.chat_rows(tokenizer).map(
        lambda row: {"input_ids": [new, *row["input_ids"]], "labels": [-100, *row["labels"]]}
    )
    settings = {} if sick else {"trainable_token_indices": {"embed_tokens": [new]}}
    return shop.trainer(shop.lora(model, **settings), tokenizer=tokenizer, rows=rows)

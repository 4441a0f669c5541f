"""The same kinds of faults in trl.SFTTrainer, which prepares the rows itself."""

from __future__ import annotations

from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import DataCollatorForLanguageModeling

from silent_errors.record import planted

ADAPTER = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}


@planted("rows whose answer lies beyond max_length are dropped without a word", source="C08", codes="E114",
         loop="SFTTrainer")  # fmt: skip
def rows_dropped(shop: Any, sick: bool) -> Any:
    return shop.sft(max_length=22 if sick else 128)


@planted(
    "answers that max_length cuts",
    source="C08; https://github.com/huggingface/trl/issues/6668",
    codes="E113",
    loop="SFTTrainer",
)
def answers_cut(shop: Any, sick: bool) -> Any:
    return shop.sft(max_length=40 if sick else 128)


@planted(
    "flattened rows that see their neighbours",
    source="C20; https://github.com/axolotl-ai-cloud/axolotl/pull/3796",
    codes="F106",
    loop="SFTTrainer",
)
def neighbours_seen(shop: Any, sick: bool) -> Any:
    """Rows in one line are kept apart by their positions, but not where an attention mask says that all are one."""
    trainer = shop.sft(padding_free=True, max_length=None)
    inner = trainer.data_collator

    def with_a_mask(items: Any) -> dict[str, Any]:
        batch = inner(items)
        kept = {name: batch[name] for name in ("input_ids", "labels", "position_ids")}
        return {**kept, "attention_mask": torch.ones_like(batch["input_ids"])}

    if sick:
        trainer.data_collator = with_a_mask
    return trainer


@planted(
    "a collator that masks by id instead of by place, with pad = EOS",
    source="C14; https://github.com/unslothai/unsloth/issues/416",
    codes="E107",
    loop="SFTTrainer",
)
def sft_masked_by_id(shop: Any, sick: bool) -> Any:
    tokenizer = shop.tokenizer(pad="<|end|>")
    rows = shop.chat_rows(tokenizer).remove_columns("labels")
    by_id = DataCollatorForLanguageModeling(tokenizer, mlm=False)

    def collate(items: Any) -> Any:
        return by_id([{"input_ids": item["input_ids"]} for item in items])

    return shop.sft(rows, tokenizer=tokenizer, collator=collate if sick else None)


@planted(
    "an optimizer that was built before the adapter",
    source="C24; https://github.com/adapter-hub/adapters/issues/260",
    codes="U101",
    loop="SFTTrainer",
)
def sft_optimizer_before_adapter(shop: Any, sick: bool) -> Any:
    model = shop.llama()
    optimizers = (torch.optim.AdamW(model.parameters(), lr=1e-3), None) if sick else (None, None)
    return shop.sft(model=model, peft_config=LoraConfig(**ADAPTER), optimizers=optimizers)


@planted(
    "an adapter that was loaded frozen",
    source="C25; https://github.com/huggingface/trl/issues/6700",
    codes="B101",
    loop="SFTTrainer",
)
def sft_adapter_loaded_frozen(shop: Any, sick: bool) -> Any:
    model = shop.lora(shop.llama())
    if sick:
        for p in model.parameters():
            p.requires_grad = False
        model.enable_input_require_grads()
    return shop.sft(model=model)


@planted(
    "the template writes BOS and the tokenizer adds another",
    source="C15; https://github.com/huggingface/trl/issues/1400",
    codes="E109",
    loop="SFTTrainer",
)
def sft_two_begins(shop: Any, sick: bool) -> Any:
    """The chat is rendered to text first; the tokenizer then adds a BOS of its own to it."""
    from tokenizers.processors import TemplateProcessing

    tokenizer = shop.tokenizer()
    tokenizer.add_special_tokens({"bos_token": "<|user|>"})
    if sick:
        tokenizer._tokenizer.post_processor = TemplateProcessing(single="<|user|> $A", special_tokens=[("<|user|>", 2)])
    texts = [f"<|user|>{question}<|end|><|bot|>{answer}" for question, answer in shop.sentences(24)]
    return shop.sft(Dataset.from_dict({"text": texts}), tokenizer=tokenizer)


@planted("validation rows lie among the training rows", source="C44", codes="D103", loop="SFTTrainer")
def sft_validation_among_training(shop: Any, sick: bool) -> Any:
    rows = shop.prompt_rows(30)
    return shop.sft(rows.select(range(24)), evaluation=rows.select(range(20 if sick else 24, 30)))


@planted(
    "a new token whose embedding is frozen",
    source="C22; https://github.com/huggingface/peft/pull/1147",
    codes="B112",
    loop="SFTTrainer",
)
def sft_new_token_frozen(shop: Any, sick: bool) -> Any:
    folder = shop.base()
    tokenizer = shop.tokenizer_of(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|order|>"]})
    model = shop.model_of(folder)
    model.resize_token_embeddings(len(tokenizer))
    new = tokenizer.convert_tokens_to_ids("<|order|>")
    rows = shop.prompt_rows().map(
        lambda row: {"prompt": [{"role": "user", "content": "<|order|>" + row["prompt"][0]["content"]}]}
    )
    settings = {} if sick else {"trainable_token_indices": {"embed_tokens": [new]}}
    return shop.sft(rows, model=model, tokenizer=tokenizer, peft_config=LoraConfig(**ADAPTER, **settings))


@planted("a warm-up longer than the run", source="warmup_steps copied from a longer run", codes="U201",
         loop="SFTTrainer")  # fmt: skip
def sft_warm_up_longer_than_the_run(shop: Any, sick: bool) -> Any:
    return shop.sft(warmup_steps=1000 if sick else 2, max_steps=20)


@planted("every label is masked", source="C07; https://github.com/huggingface/trl/issues/6668", codes="E102",
         loop="SFTTrainer")  # fmt: skip
def sft_every_label_masked(shop: Any, sick: bool) -> Any:
    rows = shop.chat_rows(shop.tokenizer())
    bare = rows.map(lambda row: {"labels": [-100] * len(row["labels"])})
    return shop.sft(bare if sick else rows, dataset_kwargs={"skip_prepare_dataset": True})

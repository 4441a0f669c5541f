"""Many kinds of healthy trainings: no stop, no warning, and no phase that the pilot could not measure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as tf
from datasets import Dataset, IterableDataset
from peft import LoraConfig

import testigo

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::DeprecationWarning")

ADAPTER = {"r": 4, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES = {**SHAPE, "vocab_size": 400, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": 1}
ENCODER = {**SIZES, "max_position_embeddings": 128}


def qwen(shop: Any) -> Any:
    model = tf.Qwen2ForCausalLM(tf.Qwen2Config(**SIZES, num_key_value_heads=2))
    return shop.trainer(model, gradient_accumulation_steps=4, evaluation=shop.validation_rows())


def gemma_with_lora(shop: Any) -> Any:
    model = tf.GemmaForCausalLM(tf.GemmaConfig(**SIZES, num_key_value_heads=1, head_dim=16))
    return shop.trainer(shop.lora(model), evaluation=shop.validation_rows())


def mixtral(shop: Any) -> Any:
    config = tf.MixtralConfig(**SIZES, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2)
    config.output_router_logits = True
    return shop.trainer(tf.MixtralForCausalLM(config), gradient_accumulation_steps=2)


def masked_language_model(shop: Any) -> Any:
    tokenizer = shop.tokenizer()
    tokenizer.mask_token = "<|user|>"
    collator = tf.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.3)
    rows = shop.chat_rows(tokenizer, 30).remove_columns("labels")
    model = tf.BertForMaskedLM(tf.BertConfig(**ENCODER))
    train, validation = rows.select(range(24)), rows.select(range(24, 30))
    return shop.trainer(model, tokenizer=tokenizer, rows=train, collator=collator, evaluation=validation,
                        gradient_accumulation_steps=2)  # fmt: skip


def classification(shop: Any) -> Any:
    tokenizer = shop.tokenizer()
    rows = [
        {"input_ids": tokenizer(text)["input_ids"], "label": k % 3} for k, (text, _) in enumerate(shop.sentences(30))
    ]
    model = tf.BertForSequenceClassification(tf.BertConfig(**ENCODER, num_labels=3))
    data = Dataset.from_list(rows)
    return shop.trainer(model, rows=data.select(range(24)), evaluation=data.select(range(24, 30)),
                        collator=tf.DataCollatorWithPadding(tokenizer))  # fmt: skip


def regression(shop: Any) -> Any:
    tokenizer = shop.tokenizer()
    rows = [
        {"input_ids": tokenizer(text)["input_ids"], "label": k / 10} for k, (text, _) in enumerate(shop.sentences(24))
    ]
    model = tf.BertForSequenceClassification(tf.BertConfig(**ENCODER, num_labels=1, problem_type="regression"))
    return shop.trainer(model, rows=Dataset.from_list(rows), collator=tf.DataCollatorWithPadding(tokenizer))


def images(shop: Any) -> Any:
    config = tf.ViTConfig(**SHAPE, image_size=16, patch_size=8, num_labels=4)
    rows = [{"pixel_values": torch.randn(3, 16, 16).tolist(), "labels": k % 4} for k in range(20)]
    data = Dataset.from_list(rows).with_format("torch")
    model, train, validation = tf.ViTForImageClassification(config), data.select(range(16)), data.select(range(16, 20))
    return shop.trainer(model, rows=train, collator=tf.default_data_collator, evaluation=validation,
                        gradient_accumulation_steps=2)  # fmt: skip


def sequence_to_sequence(shop: Any) -> Any:
    tokenizer = shop.tokenizer()
    rows = [
        {"input_ids": tokenizer(q)["input_ids"], "labels": [*tokenizer(a)["input_ids"], 1]}
        for q, a in shop.sentences(24)
    ]
    config = tf.T5Config(vocab_size=400, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, pad_token_id=0,
                         eos_token_id=1, decoder_start_token_id=0)  # fmt: skip
    model = tf.T5ForConditionalGeneration(config)
    return shop.trainer(model, rows=Dataset.from_list(rows), collator=tf.DataCollatorForSeq2Seq(tokenizer),
                        gradient_accumulation_steps=2)  # fmt: skip


def padded_on_the_left(shop: Any) -> Any:
    def collate(rows: Any) -> dict[str, torch.Tensor]:
        width = max(len(row["input_ids"]) for row in rows)
        lacking = [width - len(row["input_ids"]) for row in rows]
        ids = [[0] * n + row["input_ids"] for n, row in zip(lacking, rows, strict=True)]
        labels = [[-100] * n + row["labels"] for n, row in zip(lacking, rows, strict=True)]
        mask = [[0] * n + [1] * (width - n) for n in lacking]
        return {"input_ids": torch.tensor(ids), "labels": torch.tensor(labels), "attention_mask": torch.tensor(mask)}

    return shop.trainer(collator=collate)


def blocks_of_joined_text(shop: Any) -> Any:
    text = [token for row in shop.chat_rows(shop.tokenizer()) for token in row["input_ids"]]
    blocks = [text[k : k + 64] for k in range(0, len(text) - 64, 64)]
    return shop.trainer(rows=Dataset.from_list([{"input_ids": block, "labels": block} for block in blocks]))


def stream(shop: Any) -> Any:
    rows = list(shop.chat_rows(shop.tokenizer()))
    return shop.trainer(rows=IterableDataset.from_generator(lambda: iter([dict(row) for row in rows])))


def bf16_by_autocast(shop: Any) -> Any:
    return shop.trainer(bf16=True, gradient_accumulation_steps=2, evaluation=shop.validation_rows())


def label_smoothing(shop: Any) -> Any:
    return shop.trainer(label_smoothing_factor=0.1, gradient_accumulation_steps=2, evaluation=shop.validation_rows())


def long_warm_up(shop: Any) -> Any:
    return shop.trainer(max_steps=1000, warmup_steps=500, lr_scheduler_type="cosine")


def several_validation_sets(shop: Any) -> Any:
    rows = shop.validation_rows()
    return shop.trainer(evaluation={"long": rows, "short": rows.select(range(3))})


def plain_lists(shop: Any) -> Any:
    return shop.trainer(rows=[dict(row) for row in shop.chat_rows(shop.tokenizer())])


def frozen_embedding(shop: Any) -> Any:
    model = shop.llama()
    model.get_input_embeddings().requires_grad_(False)
    return shop.trainer(model)


def adafactor_on_tied_weights(shop: Any) -> Any:
    return shop.trainer(shop.llama(tie_word_embeddings=True), optim="adafactor")


def dora_with_saved_head(shop: Any) -> Any:
    return shop.trainer(shop.lora(shop.llama(), use_dora=True, modules_to_save=["lm_head"]))


def tiny_learning_rate(shop: Any) -> Any:
    return shop.trainer(learning_rate=1e-6, max_grad_norm=0.0)


def noise_on_embeddings(shop: Any) -> Any:
    return shop.trainer(neftune_noise_alpha=5.0, activation_checkpointing=True)


def gpt2_with_dropout(shop: Any) -> Any:
    return shop.trainer(shop.gpt2(), gradient_accumulation_steps=4, evaluation=shop.validation_rows())


def llama_lora_checkpointing(shop: Any) -> Any:
    return shop.trainer(shop.lora(shop.llama(), lora_dropout=0.1), activation_checkpointing=True,
                        gradient_accumulation_steps=2, evaluation=shop.validation_rows())  # fmt: skip


def tied_llama_lora(shop: Any) -> Any:
    return shop.trainer(shop.lora(shop.llama(tie_word_embeddings=True)), evaluation=shop.validation_rows())


def qwen3_lora(shop: Any) -> Any:
    model = tf.Qwen3ForCausalLM(tf.Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=16))
    return shop.trainer(shop.lora(model), gradient_accumulation_steps=4, evaluation=shop.validation_rows())


def gemma3(shop: Any) -> Any:
    config = tf.Gemma3TextConfig(**SIZES, num_key_value_heads=1, head_dim=16, sliding_window=32)
    return shop.trainer(tf.Gemma3ForCausalLM(config), gradient_accumulation_steps=2)


def bert_lora(shop: Any) -> Any:
    trainer = classification(shop)
    model = tf.BertForSequenceClassification(tf.BertConfig(**ENCODER, num_labels=3))
    adapted = shop.lora(model, task_type="SEQ_CLS")
    return shop.trainer(adapted, rows=trainer.train_dataset, collator=trainer.data_collator)


def pictures_lora(shop: Any) -> Any:
    rows = images(shop).train_dataset
    model = tf.ViTForImageClassification(tf.ViTConfig(**SHAPE, image_size=16, patch_size=8, num_labels=4))
    adapted = shop.lora(model, task_type=None, target_modules=["q_proj", "v_proj"], modules_to_save=["classifier"])
    return shop.trainer(adapted, rows=rows, collator=tf.default_data_collator)


def pure_bf16(shop: Any) -> Any:
    return shop.trainer(shop.llama().to(torch.bfloat16), learning_rate=5e-3, evaluation=shop.validation_rows())


def high_learning_rate(shop: Any) -> Any:
    return shop.trainer(learning_rate=2e-2, warmup_steps=1, lr_scheduler_type="cosine")


def pretrained_base(shop: Any) -> Any:
    return shop.trainer(shop.taught(), evaluation=shop.validation_rows(), learning_rate=1e-5)


def base_from_a_folder(shop: Any) -> Any:
    folder = shop.base()
    return shop.trainer(shop.lora(shop.model_of(folder)), tokenizer=shop.tokenizer_of(folder))


def saved_often(shop: Any) -> Any:
    return shop.trainer(save_strategy="steps", save_steps=1, save_total_limit=2)


def sgd(shop: Any) -> Any:
    return shop.trainer(optim="sgd", learning_rate=0.1)


CHATML = (
    "{% for m in messages %}{{ '<|user|>' + m['role'] + '\\n' }}{% if m['role'] == 'assistant' %}{% generation %}"
    "{{ m['content'] + '<|end|>' }}{% endgeneration %}{% else %}{{ m['content'] + '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|user|>assistant\\n' }}{% endif %}"
)
INST = (
    "{% for m in messages %}{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}"
    "{% else %}{% generation %}{{ ' ' + m['content'] + '<|end|>' }}{% endgeneration %}{% endif %}{% endfor %}"
)


def chatml(shop: Any) -> Any:
    tokenizer = shop.tokenizer(template=CHATML)
    return shop.trainer(tokenizer=tokenizer, rows=shop.chat_rows(tokenizer), evaluation=shop.validation_rows())


def inst_marks(shop: Any) -> Any:
    tokenizer = shop.tokenizer(template=INST)
    return shop.trainer(shop.lora(shop.llama()), tokenizer=tokenizer, rows=shop.chat_rows(tokenizer))


def sft_prompts(shop: Any) -> Any:
    return shop.sft()


def _conversations(shop: Any) -> Any:
    rows = shop.prompt_rows()
    return rows.map(lambda row: {"messages": row["prompt"] + row["completion"]}).select_columns(["messages"])


def sft_assistant_only(shop: Any) -> Any:
    return shop.sft(_conversations(shop), assistant_only_loss=True)


def sft_text(shop: Any) -> Any:
    return shop.sft(Dataset.from_dict({"text": [f"{question} {answer}" for question, answer in shop.sentences(24)]}))


def sft_lora(shop: Any) -> Any:
    return shop.sft(peft_config=LoraConfig(**ADAPTER), evaluation=shop.prompt_rows(30).select(range(24, 30)))


def sft_accumulation(shop: Any) -> Any:
    return shop.sft(gradient_accumulation_steps=4)


def sft_packed(shop: Any) -> Any:
    return shop.sft(packing=True, packing_strategy="bfd", max_length=64)


def sft_blocks(shop: Any) -> Any:
    texts = [f"{question} {answer}" for question, answer in shop.sentences(24)]
    return shop.sft(Dataset.from_dict({"text": texts}), packing=True, packing_strategy="wrapped", max_length=64)


def sft_padding_free(shop: Any) -> Any:
    return shop.sft(padding_free=True, max_length=None, gradient_accumulation_steps=2)


def sft_lora_checkpointing(shop: Any) -> Any:
    return shop.sft(peft_config=LoraConfig(**ADAPTER), activation_checkpointing=True, gradient_accumulation_steps=2)


def sft_qwen2_of_several_turns(shop: Any) -> Any:
    model = tf.Qwen2ForCausalLM(tf.Qwen2Config(**SIZES, num_key_value_heads=2))
    turns = list(_conversations(shop)["messages"])
    rows = [{"messages": [*turns[k], *turns[(k + 5) % len(turns)]]} for k in range(len(turns))]
    return shop.sft(Dataset.from_list(rows), model=model, assistant_only_loss=True, max_length=256)


def sft_bf16_by_autocast(shop: Any) -> Any:
    return shop.sft(bf16=True)


HEALTHY = [
    qwen, gemma_with_lora, mixtral, masked_language_model, classification, regression, images, sequence_to_sequence,
    padded_on_the_left, blocks_of_joined_text, stream, bf16_by_autocast, label_smoothing, long_warm_up,
    several_validation_sets, plain_lists, frozen_embedding, adafactor_on_tied_weights, dora_with_saved_head,
    tiny_learning_rate, noise_on_embeddings, gpt2_with_dropout, llama_lora_checkpointing, tied_llama_lora, qwen3_lora,
    gemma3, bert_lora, pictures_lora, pure_bf16, high_learning_rate, pretrained_base, base_from_a_folder, saved_often,
    sgd, chatml, inst_marks, sft_prompts, sft_assistant_only, sft_text, sft_lora, sft_accumulation, sft_packed,
    sft_blocks, sft_padding_free, sft_lora_checkpointing, sft_qwen2_of_several_turns, sft_bf16_by_autocast,
]  # fmt: skip


@pytest.mark.parametrize("build", HEALTHY, ids=lambda build: build.__name__)
def test_a_healthy_training_has_neither_stop_nor_warning(build: Callable[[Any], Any], shop: Any) -> None:
    torch.manual_seed(4)

    report = testigo.pilot(build(shop))

    assert [(f.code, f.observed) for f in report.findings if f.severity != "note"] == []
    assert [one for one in report.not_checked if "could not be measured" in one.why] == []
    assert report.ok


WATCHED = [qwen, llama_lora_checkpointing, gpt2_with_dropout, classification, high_learning_rate, sft_prompts, sft_lora]


@pytest.mark.parametrize("build", WATCHED, ids=lambda build: build.__name__)
def test_a_healthy_training_has_no_finding_of_the_watch(build: Callable[[Any], Any], shop: Any) -> None:
    torch.manual_seed(4)
    trainer, watch = build(shop), testigo.Watch(stop=True)
    trainer.args.max_steps = 30
    trainer.add_callback(watch)

    trainer.train()

    assert [(update, finding.code, finding.observed) for update, finding in watch.findings] == []
    assert trainer.state.global_step == 30

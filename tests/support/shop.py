"""A workshop for Trainers as users build them: tiny models from configurations, a tiny tokenizer, real chat rows."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

THINGS = ("bread", "milk", "green tea", "two lamps", "a chair", "paper and ink", "salt", "a red bicycle", "rice")
PLACES = ("Lisbon", "Madrid", "Lyon", "Porto", "Ghent")
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}<|end|>"
    "{% else %}<|bot|>{% generation %}{{ m.content }}<|end|>{% endgeneration %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|bot|>{% endif %}"
)
UNMARKED = TEMPLATE.replace("{% generation %}", "").replace("{% endgeneration %}", "")


def sentences(n: int) -> list[tuple[str, str]]:
    """Questions and answers of different lengths."""
    draw = random.Random(0)
    rows = []
    for k in range(n):
        things = draw.sample(THINGS, draw.randint(1, 6))
        place = draw.choice(PLACES)
        rows.append((f"Order {k} from {place}: please send {', '.join(things)}.", f"{place}: {'; '.join(things)}"))
    return rows


@cache
def tokenizer_file() -> str:
    """A byte-level BPE tokenizer of some 400 tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|pad|>", "<|end|>", "<|user|>", "<|bot|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text for row in sentences(200) for text in row], trainer)
    return str(tokenizer.to_str())


def make_tokenizer(*, pad: str = "<|pad|>", template: str = TEMPLATE) -> PreTrainedTokenizerFast:
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(tokenizer_file()), eos_token="<|end|>", pad_token=pad, padding_side="right"
    )
    tokenizer.chat_template = template
    return tokenizer


def messages(question: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def chat_rows(tokenizer: Any, n: int = 24, *, mask: bool = True) -> Dataset:
    """Token ids with labels on the assistant's words, by the template's own marks."""
    rows = []
    for question, answer in sentences(n):
        chat = messages(question, answer)
        out = tokenizer.apply_chat_template(chat, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        ids, marked = list(out["input_ids"]), list(out["assistant_masks"])
        labels = [i if m or not mask else -100 for i, m in zip(ids, marked, strict=True)]
        rows.append({"input_ids": ids, "labels": labels})
    return Dataset.from_list(rows)


class Pad:
    """A right-padding collator: labels are ignored where there is no token."""

    def __init__(self, pad_id: int) -> None:
        self.pad_id = pad_id

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        width = max(len(row["input_ids"]) for row in rows)
        fill = {"input_ids": self.pad_id, "labels": -100}
        batch = {
            key: torch.tensor([list(row[key]) + [value] * (width - len(row[key])) for row in rows])
            for key, value in fill.items()
        }
        batch["attention_mask"] = torch.tensor(
            [[1] * len(row["input_ids"]) + [0] * (width - len(row["input_ids"])) for row in rows]
        )
        return batch


def llama(**settings: Any) -> LlamaForCausalLM:
    set_seed(1)
    sizes = {
        "vocab_size": 400,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    return LlamaForCausalLM(
        LlamaConfig(
            num_key_value_heads=2, max_position_embeddings=256, pad_token_id=0, bos_token_id=None,
            eos_token_id=1, **{**sizes, **settings},
        )
    )  # fmt: skip


def gpt2(**settings: Any) -> GPT2LMHeadModel:
    set_seed(1)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=400, n_positions=256, n_embd=32, n_layer=2, n_head=2, pad_token_id=0, bos_token_id=1,
            eos_token_id=1, **settings,
        )
    )  # fmt: skip


def lora(model: nn.Module, **settings: Any) -> Any:
    set_seed(2)
    chosen = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear", "task_type": "CAUSAL_LM", **settings}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing.*", category=FutureWarning)
        return get_peft_model(model, LoraConfig(**chosen))


@cache
def _taught_weights() -> dict[str, torch.Tensor]:
    model = llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    rows, pad = list(chat_rows(make_tokenizer(), mask=False)), Pad(0)
    for update in range(60):
        batch = pad(rows[(update % 3) * 8 : (update % 3) * 8 + 8])
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return {name: value.clone() for name, value in model.state_dict().items()}


def taught() -> LlamaForCausalLM:
    """A model that knows the rows: far better than guessing, as a pretrained base is."""
    model = llama()
    model.load_state_dict(_taught_weights())
    return model


def prompt_rows(n: int = 24) -> Dataset:
    """A prompt and a completion a row, in chat form, as TRL takes them."""
    rows = [
        {
            "prompt": [{"role": "user", "content": question}],
            "completion": [{"role": "assistant", "content": answer}],
        }
        for question, answer in sentences(n)
    ]
    return Dataset.from_list(rows)


class Workshop:
    """The parts above, and a Trainer as users build it; every part can be another one."""

    Pad = Pad
    unmarked_template = UNMARKED
    sentences = staticmethod(sentences)
    tokenizer = staticmethod(make_tokenizer)
    chat_rows = staticmethod(chat_rows)
    llama = staticmethod(llama)
    gpt2 = staticmethod(gpt2)
    lora = staticmethod(lora)
    taught = staticmethod(taught)
    prompt_rows = staticmethod(prompt_rows)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def arguments(self, **arguments: Any) -> dict[str, Any]:
        return {
            "output_dir": str(self.folder / "out"),
            "per_device_train_batch_size": 2,
            "per_device_eval_batch_size": 2,
            "max_steps": 4,
            "learning_rate": 1e-3,
            "report_to": "none",
            "save_strategy": "no",
            "logging_steps": 1,
            "use_cpu": True,
            "dataloader_pin_memory": False,
            "disable_tqdm": True,
            "seed": 3,
            **arguments,
        }

    def base(self) -> Path:
        """A base on disk with its tokenizer, as users download one."""
        folder = self.folder / "base"
        llama().save_pretrained(folder)
        make_tokenizer().save_pretrained(folder)
        return folder

    def tokenizer_of(self, folder: Path) -> Any:
        return AutoTokenizer.from_pretrained(folder)

    def model_of(self, folder: Path) -> Any:
        return AutoModelForCausalLM.from_pretrained(folder)

    def validation_rows(self) -> Dataset:
        return chat_rows(make_tokenizer(), 34).select(range(24, 34))

    def trainer(
        self,
        model: nn.Module | None = None,
        *,
        kind: type[Trainer] = Trainer,
        tokenizer: Any = None,
        rows: Any = None,
        collator: Any = None,
        evaluation: Any = None,
        optimizers: Any = (None, None),
        more: dict[str, Any] | None = None,
        **arguments: Any,
    ) -> Trainer:
        tokenizer = tokenizer or make_tokenizer()
        return kind(
            model=model if model is not None else llama(),
            args=TrainingArguments(**self.arguments(**arguments)),
            train_dataset=rows if rows is not None else chat_rows(tokenizer),
            eval_dataset=evaluation,
            data_collator=collator or Pad(tokenizer.pad_token_id),
            processing_class=tokenizer,
            optimizers=optimizers,
            **(more or {}),
        )

    def sft(
        self,
        rows: Dataset | None = None,
        *,
        model: Any = None,
        peft_config: Any = None,
        tokenizer: Any = None,
        evaluation: Any = None,
        optimizers: Any = (None, None),
        collator: Any = None,
        **arguments: Any,
    ) -> Any:
        """The same with `trl.SFTTrainer`, which prepares the rows itself."""
        from trl import SFTConfig, SFTTrainer

        return SFTTrainer(
            model=model if model is not None else llama(),
            args=SFTConfig(**self.arguments(**{"max_length": 128, **arguments})),
            train_dataset=rows if rows is not None else prompt_rows(),
            eval_dataset=evaluation,
            processing_class=tokenizer or make_tokenizer(),
            peft_config=peft_config,
            optimizers=optimizers,
            data_collator=collator,
        )

"""Small tokenizers and templates of the families that people fine-tune, each with its family's own peculiarities.

Templates are marked with `{% generation %}`: the library's own mask over these marks is what Testigo's turns, which it
finds without them, are held against.
"""

from __future__ import annotations

import json
import string
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

TEXTS = [
    "Hello, how many pens do you want? I want 3 pens and 12 apples, please be quick.",
    "We deliver on Monday; the price is 4.50 euros. Grüße aus Köln, mañana será otro día, café à la crème.",
    '{"name": "get_weather", "arguments": {"city": "Lisbon", "unit": "celsius"}} system user assistant model tool',
    "The answer is forty two. Thank you very much, see you soon, goodbye. \n\n - one\n - two\n",
    " ".join(string.ascii_letters + string.digits + string.punctuation),
] * 3

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# A default system message, as SmolLM2 and Qwen2.5 insert it.
DEFAULTS = "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}" + CHATML
# Calls between tags, tools in the system message, as Hermes and Qwen2.5 write them; results come as a user's turn.
HERMES = (
    "{% if tools %}{{ '<|im_start|>system\n' }}"
    "{% if messages[0].role == 'system' %}{{ messages[0].content + '\n\n' }}{% endif %}"
    "{{ '# Tools\n' }}{% for tool in tools %}{{ tool | tojson }}{{ '\n' }}{% endfor %}{{ '<|im_end|>\n' }}"
    "{% elif messages[0].role == 'system' %}"
    "{{ '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}{% if m.role == 'user' %}{{ '<|im_start|>user\n' + m.content + '<|im_end|>\n' }}"
    "{% elif m.role == 'tool' %}"
    "{{ '<|im_start|>user\n<tool_response>\n' + m.content + '\n</tool_response><|im_end|>\n' }}"
    "{% elif m.role == 'assistant' %}{{ '<|im_start|>assistant\n' }}{% generation %}{{ m.content or '' }}"
    "{% for call in m.tool_calls or [] %}{{ '\n' if m.content else '' }}"
    '{{ \'<tool_call>\n{"name": "\' + call.function.name + \'", "arguments": \' }}'
    "{{ call.function.arguments | tojson }}"
    "{{ '}\n</tool_call>' }}{% endfor %}{{ '<|im_end|>' }}{% endgeneration %}{{ '\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# An empty block of thoughts before the last answer, which earlier answers do not have, as Qwen3 writes it.
THINKS = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if m.role == 'assistant' %}{% set parts = m.content.split('</think>') %}"
    "{% generation %}{% if loop.last %}"
    "{{ '<think>\n' + (parts[0].split('<think>')[-1].strip('\n') if parts | length > 1 else '') }}"
    "{{ '\n</think>\n\n' }}{% endif %}"
    "{{ parts[-1].lstrip('\n') + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% if enable_thinking is defined and enable_thinking is false %}"
    "{{ '<think>\n\n</think>\n\n' }}{% endif %}{% endif %}"
)
# Thoughts opened by the generation prompt and dropped from every answer, as R1's distillates do.
DROPS = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}"
    "{{ '<|bot|>' }}{% generation %}{{ m.content.split('</think>')[-1] + eos_token }}{% endgeneration %}"
    "{% else %}{{ '<|user|>' + m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|bot|><think>\n' }}{% endif %}"
)
HEADERS = (
    "{{ bos_token }}{% for m in messages %}{{ '<|start|>' + m.role + '<|stop|>\n\n' }}"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content | trim + '<|eot|>' }}{% endgeneration %}"
    "{% else %}{{ m.content | trim + '<|eot|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant<|stop|>\n\n' }}{% endif %}"
)
DATED = HEADERS.replace(
    "{{ bos_token }}",
    "{{ bos_token + 'Today Date: ' + (date_string if date_string is defined else strftime_now('%d %b %Y')) + '\n' }}",
)
# No system message; the assistant is called the model, as Gemma has it.
GEMMA = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}"
    "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' }}"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content | trim + '<end_of_turn>' }}{% endgeneration %}"
    "{% else %}{{ m.content | trim + '<end_of_turn>' }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
# `[INST]` as plain text, the system message within the first question, as Llama 2 has it.
INST = (
    "{% if messages[0].role == 'system' %}{% set system = '<<SYS>>\n' + messages[0].content + '\n<</SYS>>\n\n' %}"
    "{% set said = messages[1:] %}{% else %}{% set system = '' %}{% set said = messages %}{% endif %}"
    "{% for m in said %}{% if m.role == 'user' %}"
    "{{ bos_token + '[INST] ' + (system if loop.first else '') + m.content | trim + ' [/INST]' }}"
    "{% else %}{% generation %}{{ ' ' + m.content | trim + ' ' + eos_token }}{% endgeneration %}{% endif %}{% endfor %}"
)
# The system message moves to the last question; calls have a mark of their own, as Mistral has it.
MISTRAL = (
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set said = messages[1:] %}"
    "{% else %}{% set system = '' %}{% set said = messages %}{% endif %}{{ bos_token }}"
    "{% for m in said %}{% if m.role == 'user' %}"
    "{% if loop.last and tools %}{{ '[AVAILABLE_TOOLS] ' }}{{ tools | tojson }}{{ '[/AVAILABLE_TOOLS]' }}{% endif %}"
    "{{ '[INST] ' + (system + '\n\n' if loop.last and system else '') + m.content + '[/INST]' }}"
    "{% elif m.role == 'tool' %}{{ '[TOOL_RESULTS] ' + m.content + '[/TOOL_RESULTS]' }}"
    "{% else %}{% generation %}{% if m.tool_calls %}{{ '[TOOL_CALLS] [' }}{% for call in m.tool_calls %}"
    "{{ {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}"
    "{{ ', ' if not loop.last else '' }}{% endfor %}{{ ']' }}{% else %}{{ ' ' + m.content | trim }}{% endif %}"
    "{{ eos_token }}{% endgeneration %}{% endif %}{% endfor %}"
)
# The end of text stands after the whole conversation, behind the end of the last turn, as Phi-3 has it.
PHI = (
    "{% for m in messages %}{{ '<|' + m.role + '|>\n' }}"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|end|>' }}{% endgeneration %}"
    "{% else %}{{ m.content + '<|end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"
)
# Marks in plain text and no end at all.
PLAIN = (
    "{% for m in messages %}{{ '### ' + m.role + ':\n' }}"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"
    "{% else %}{{ m.content }}{% endif %}{{ '\n\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '### assistant:\n' }}{% endif %}"
)
ZEPHYR = (
    "{% for m in messages %}{{ '<|' + m.role + '|>\n' }}"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content + eos_token }}{% endgeneration %}"
    "{% else %}{{ m.content + eos_token }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)


@dataclass(frozen=True)
class Family:
    """How one family's tokenizer and template are made."""

    kind: str
    template: str | None
    special: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()
    """Added tokens that are no marks."""
    bos: str | None = None
    eos: str = "<|im_end|>"
    has_system: bool = True
    turns: bool = True
    """Whether earlier turns can be proved."""


FAMILIES = {
    "chatml": Family("bytes", CHATML, ("<|im_start|>", "<|im_end|>")),
    "default-system": Family("bytes", DEFAULTS, ("<|im_start|>", "<|im_end|>")),
    "hermes": Family("qwen", HERMES, ("<|im_start|>", "<|im_end|>"), ("<tool_call>", "</tool_call>")),
    "qwen3": Family("qwen", THINKS, ("<|im_start|>", "<|im_end|>"), ("<think>", "</think>"), turns=False),
    "llama3": Family("qwen", HEADERS, ("<|bos|>", "<|start|>", "<|stop|>", "<|eot|>"), bos="<|bos|>", eos="<|eot|>"),
    "gemma": Family(
        "pieces", GEMMA, ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"), bos="<bos>", eos="<eos>",
        has_system=False,
    ),
    "llama2": Family("dummy", INST, ("<s>", "</s>"), bos="<s>", eos="</s>"),
    "mistral": Family(
        "dummy",
        MISTRAL,
        ("<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
         "[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
        bos="<s>", eos="</s>", turns=False,
    ),
    "phi3": Family("dummy", PHI, ("<s>", "<|endoftext|>", "<|user|>", "<|system|>", "<|assistant|>", "<|end|>"),
                   bos="<s>", eos="<|endoftext|>"),
    "zephyr": Family("dummy", ZEPHYR, ("<s>", "</s>"), bos="<s>", eos="</s>"),
    "plain-marks": Family("bytes", PLAIN, ("<|endoftext|>",), eos="<|endoftext|>", turns=False),
    "no-template": Family("bytes", None, ("<|endoftext|>",), eos="<|endoftext|>", turns=False),
    "unigram": Family("unigram", ZEPHYR, ("<s>", "</s>"), bos="<s>", eos="</s>"),
}  # fmt: skip


def tokenizer(name: str, *, template: str | None = None, **changes: Any) -> PreTrainedTokenizerFast:
    """A family's tokenizer of some 500 ids with its template, or with another one."""
    family = FAMILIES[name]
    own = Tokenizer.from_str(_trained(family.kind, family.special, family.plain))
    unknown = "<unk>" if own.token_to_id("<unk>") is not None else None
    names = {"bos_token": family.bos, "eos_token": family.eos, "pad_token": family.eos, "unk_token": unknown, **changes}
    fast = PreTrainedTokenizerFast(tokenizer_object=own, **{key: value for key, value in names.items() if value})
    fast.chat_template = template or family.template
    return fast


@lru_cache
def _trained(kind: str, special: tuple[str, ...], plain: tuple[str, ...]) -> str:
    own = {"bytes": _bytes, "qwen": _qwen, "pieces": _pieces, "dummy": _dummy, "unigram": _unigram}[kind](special)
    own.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in special])
    own.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in plain])
    return str(own.to_str())


def _bytes(special: tuple[str, ...]) -> Tokenizer:
    """As GPT-2's."""
    own = Tokenizer(models.BPE())
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    own.train_from_iterator(
        TEXTS,
        trainers.BpeTrainer(
            vocab_size=400, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False
        ),
    )
    return own


def _qwen(special: tuple[str, ...]) -> Tokenizer:
    """NFC, digits one by one, line ends with the white space before them."""
    own = _bytes(special)
    own.normalizer = normalizers.NFC()
    words = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    own.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(words), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return own


def _pieces(special: tuple[str, ...]) -> Tokenizer:
    """SentencePiece BPE with bytes to fall back on and without a space in front, as Gemma's."""
    own = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    own.normalizer = normalizers.Replace(" ", "▁")
    own.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    bytes_ = [f"<0x{number:02X}>" for number in range(256)]
    own.train_from_iterator(
        TEXTS[:4],
        trainers.BpeTrainer(
            vocab_size=620, special_tokens=["<unk>", *special, *bytes_], show_progress=False, max_token_length=8
        ),
    )
    # The trainer takes bytes as special tokens alone; in a real vocabulary they are ordinary ones.
    plain = json.loads(own.to_str())
    plain["added_tokens"] = [token for token in plain["added_tokens"] if token["content"] not in bytes_]
    return Tokenizer.from_str(json.dumps(plain))


def _dummy(special: tuple[str, ...]) -> Tokenizer:
    """The same with a space in front of every text, and a beginning that the tokenizer adds by itself: Llama 2's."""
    own = _pieces(special)
    own.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    own.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    bos = special[0]
    own.post_processor = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, own.token_to_id(bos))])
    return own


def _unigram(special: tuple[str, ...]) -> Tokenizer:
    """SentencePiece's unigram model with NFKC and nothing to fall back on, as T5's and XLM-R's."""
    own = Tokenizer(models.Unigram())
    own.normalizer = normalizers.NFKC()
    own.pre_tokenizer = pre_tokenizers.Metaspace()
    own.decoder = decoders.Metaspace()
    own.train_from_iterator(
        TEXTS,
        trainers.UnigramTrainer(
            vocab_size=300, special_tokens=["<unk>", *special], unk_token="<unk>", show_progress=False
        ),
    )  # fmt: skip
    return own

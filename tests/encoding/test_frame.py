"""How turns are framed, for templates of many kinds."""

from __future__ import annotations

import pytest
from tiny import CHATML, row_of, tokenizer
from tokenizers import processors

from testigo.encoding import Encoder, Frame
from testigo.errors import EncodingError
from testigo.tasks.generation import Generation

MESSAGES = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "How many pens?"}]

INST = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m['role'] == 'assistant' %}{{ ' ' + m['content'] + eos_token }}"
    "{% else %}{{ '[INST] ' + m['content'] + ' [/INST]' }}{% endif %}{% endfor %}"
)
STRIPS = CHATML.replace("+ m['content'] +", "+ (m['content'] | trim) +")
MARKS = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
LATE_MARK = CHATML.replace("+ '<|im_end|>\n' }}{% endfor %}", "+ '\n###<|im_end|>\n' }}{% endfor %}")
NO_MARK = (
    "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)


def with_bos(words):
    """The tokenizer puts a beginning-of-sequence token in front by itself, as Llama's does."""
    bos = words.bos_token
    words.backend_tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, words.bos_token_id)]),
        ]
    )
    assert words("x")["input_ids"][0] == words.bos_token_id
    return words


def encoder(frame: Frame, **settings: object) -> Encoder:
    return Encoder(frame, Generation("email", "order", "Be short."), 256, input_field="email", **settings)


def test_the_prompt_is_the_templates_own_generation_prompt() -> None:
    words = tokenizer()
    own = words.apply_chat_template(MESSAGES, add_generation_prompt=True, return_dict=False)
    assert Frame(words).prompt_ids(MESSAGES) == tuple(own)


@pytest.mark.parametrize(
    ("template", "eos", "extra", "end"),
    [
        (CHATML, "<|im_end|>", (), ["<|im_end|>"]),
        (CHATML, "<|endoftext|>", (), ["<|im_end|>"]),
        (STRIPS, "<|im_end|>", (), ["<|im_end|>"]),
        (INST, "<|im_end|>", (), ["<|im_end|>"]),
        (MARKS, "<|endoftext|>", ("<|user|>", "<|system|>", "<|assistant|>", "<|end|>"), ["<|end|>"]),
        (LATE_MARK, "<|endoftext|>", (), ["Ċ", "#", "#", "#", "<|im_end|>"]),
        (NO_MARK, "<|endoftext|>", (), ["<|endoftext|>"]),
        (None, "<|endoftext|>", (), ["<|endoftext|>"]),
    ],
)
def test_the_end_of_a_turn_is_what_the_template_writes(
    template: str | None, eos: str, extra: tuple[str, ...], end: list[str]
) -> None:
    words = tokenizer(template=template, eos=eos, extra=extra)
    frame = Frame(words)
    assert words.convert_ids_to_tokens(list(frame.turn_end_ids)) == end


def test_a_turn_that_ends_with_another_token_than_eos_is_learned_and_stops_generation() -> None:  # C11
    words = tokenizer(eos="<|endoftext|>")
    frame = Frame(words, extra_stop_ids=(7,))
    row = encoder(frame).encode(row_of("r", email="3 pens", order="pens: 3"))
    assert row.ids[-1] == words.convert_tokens_to_ids("<|im_end|>") != words.eos_token_id
    assert row.ids[-1] in row.ids[row.n_prompt :]
    assert set(frame.stop_ids) == {row.ids[-1], words.eos_token_id, 7}


@pytest.mark.parametrize("template", [CHATML, STRIPS, INST, MARKS, LATE_MARK, NO_MARK, None])
def test_the_answer_and_its_end_count_and_nothing_of_the_question(template: str | None) -> None:
    extra = ("<|user|>", "<|system|>", "<|assistant|>", "<|end|>") if template == MARKS else ()
    frame = Frame(tokenizer(template=template, eos="<|endoftext|>", extra=extra))
    row = encoder(frame).encode(row_of("r", email="We want 3 pens", order="café, 3 ; pens"))
    counted = frame.text_of(row.ids[row.n_prompt :])
    assert counted == frame.template.around[0] + "café, 3 ; pens" + frame.text_of(frame.turn_end_ids)
    assert frame.answer_of(row.ids[row.n_prompt :]) == frame.answer_of(row.ids[row.n_prompt : -1]) == "café, 3 ; pens"
    assert "We want 3 pens" in frame.text_of(row.ids[: row.n_prompt])


def test_a_target_keeps_its_white_space_under_a_template_that_strips() -> None:
    frame = Frame(tokenizer(template=STRIPS))
    row = encoder(frame).encode(row_of("r", email="  3 pens ", order=" pens: 3\n"))
    assert frame.text_of(row.ids[row.n_prompt : -1]) == " pens: 3\n"


@pytest.mark.parametrize("template", [INST, None])
def test_the_beginning_comes_once_where_template_and_tokenizer_both_put_it(template: str | None) -> None:  # C15
    frame = Frame(with_bos(tokenizer(template=template, bos="<|im_start|>")))
    ids = frame.prompt_ids(MESSAGES)
    assert frame.leading_bos(ids) == frame.bos_expected == 1
    assert frame.leading_bos(ids[1:]) == 0


def test_no_beginning_is_expected_where_nobody_puts_one() -> None:
    assert Frame(tokenizer(template=NO_MARK)).bos_expected == 0
    assert Frame(tokenizer(template=NO_MARK, bos=None)).bos_expected == 0


def test_the_end_that_a_tokenizer_adds_does_not_stand_before_the_answer() -> None:
    words = tokenizer(template=None)
    end = (words.eos_token, words.eos_token_id)
    start = (words.bos_token, words.bos_token_id)
    words.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{start[0]} $A {end[0]}", special_tokens=[start, end]
    )
    ids = Frame(words).prompt_ids(MESSAGES)
    assert ids[0] == words.bos_token_id
    assert words.eos_token_id not in ids


def test_a_tokenizer_without_any_end_is_refused() -> None:
    with pytest.raises(EncodingError, match="a token that ends an answer"):
        _ = Frame(tokenizer(template=None, eos=None)).turn_end_ids


def test_a_template_that_loses_the_answer_is_refused() -> None:
    deaf = "{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] }}{% endif %}{% endfor %}"
    with pytest.raises(EncodingError, match="writes the assistant's words"):
        _ = Frame(tokenizer(template=deaf)).turn_end_ids


def test_text_comes_back_letter_for_letter_whatever_the_tokenizer_cleans_up() -> None:
    words = tokenizer()
    words.clean_up_tokenization_spaces = True
    frame = Frame(words)
    text = '{"a" : [1 , 2 ] , "b" : "don \'t ." }'
    framed = frame.encode(MESSAGES, {"role": "assistant", "content": text})
    ((begin, _),) = framed.spans
    assert frame.answer_of(framed.ids[begin:]) == text

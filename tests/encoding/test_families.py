"""Turns and prompts over the families of tokenizers and templates that people fine-tune."""

from __future__ import annotations

import re
from typing import Any

import families
import pytest
from families import FAMILIES, tokenizer

from testigo.encoding import Frame
from testigo.errors import EncodingError

SYSTEM = {"role": "system", "content": "Be short."}
ANSWER = "You are welcome, café."
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Lisbon"}}}],
}
WITH_TURNS = [name for name, family in FAMILIES.items() if family.turns]


def asks(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def says(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def conversation(name: str) -> list[dict[str, str]]:
    said = [asks("How many pens?"), says("I want 3 pens."), asks("Apples, please?\n\n- one"), says("12 apples")]
    return [*([SYSTEM] if FAMILIES[name].has_system else []), *said, asks("Thank you very much")]


def spoken(frame: Frame, framed: Any) -> list[str]:
    return [frame.answer_of(framed.ids[begin:end]) for begin, end in framed.spans]


# C10, C12
@pytest.mark.parametrize("name", WITH_TURNS)
def test_every_turn_of_the_assistant_counts_with_its_end_and_nothing_else(name: str) -> None:
    frame, messages = Frame(tokenizer(name)), conversation(name)
    framed = frame.encode(messages, says(ANSWER))
    counted = {place for begin, end in framed.spans for place in range(begin, end)}
    rest = frame.text_of([token for place, token in enumerate(framed.ids) if place not in counted])
    assert len(framed.spans) == 3
    assert all(framed.ids[end - 1] == frame.turn_end_id for _, end in framed.spans)
    assert all(asked["content"] in rest for asked in messages if asked["role"] == "user")
    assert spoken(frame, framed) == ["I want 3 pens.", "12 apples", ANSWER]


@pytest.mark.parametrize("name", WITH_TURNS)
def test_turns_are_the_ones_that_the_templates_author_marks(name: str) -> None:
    """The library's mask over `{% generation %}` is made in another way, from characters' offsets."""
    words, messages = tokenizer(name), conversation(name)
    theirs = words.apply_chat_template(
        [*messages, says(ANSWER)], tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    framed = Frame(words).encode(messages, says(ANSWER))
    ours = [any(begin <= place < end for begin, end in framed.spans) for place in range(len(framed.ids))]
    n = len(framed.ids)
    assert theirs["input_ids"][:n] == list(framed.ids)
    assert theirs["assistant_masks"][:n] == ours
    assert not any(theirs["assistant_masks"][n:])


@pytest.mark.parametrize("name", WITH_TURNS)
def test_turns_need_no_marks_of_the_templates_author(name: str) -> None:  # C12
    words = tokenizer(name)
    marked = Frame(words).encode(conversation(name), says(ANSWER))
    words.chat_template = re.sub(r"\{% (end)?generation %\}", "", words.chat_template)
    assert Frame(words).encode(conversation(name), says(ANSWER)) == marked


@pytest.mark.parametrize("name", WITH_TURNS)
def test_the_prompt_of_every_turn_is_the_one_that_evaluation_asks_with(name: str) -> None:
    frame, messages = Frame(tokenizer(name)), conversation(name)
    framed = frame.encode(messages, says(ANSWER))
    places = [place for place, message in enumerate([*messages, says("")]) if message["role"] == "assistant"]
    for place, (begin, _) in zip(places, framed.spans, strict=True):
        assert frame.prompt_ids(messages[:place]) == framed.ids[:begin]


@pytest.mark.parametrize("name", FAMILIES)
def test_the_last_turn_alone_counts_in_every_family_where_that_is_declared(name: str) -> None:
    frame, messages = Frame(tokenizer(name)), conversation(name)
    framed = frame.encode(messages, says(ANSWER), which="last")
    ((begin, end),) = framed.spans
    assert end == len(framed.ids)
    assert framed.ids[:begin] == frame.prompt_ids(messages, which="last")
    assert framed.ids[-1] == frame.turn_end_id
    assert spoken(frame, framed) == [ANSWER]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_beginning_stands_once_in_front(name: str) -> None:  # C15
    frame = Frame(tokenizer(name))
    framed = frame.encode([asks("How many pens?")], says(ANSWER))
    assert frame.leading_bos(framed.ids) == frame.bos_expected == int("bos_token" in (FAMILIES[name].template or ""))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("qwen3", "other words for message 3 once the conversation went on"),
        ("mistral", "does not stand before the answer in"),
        ("plain-marks", "none after the assistant's words at message 3"),
        ("no-template", "a tokenizer without one"),
    ],
)
def test_turns_that_cannot_be_proved_are_refused_with_the_rendered_text(name: str, why: str) -> None:  # C09, C12
    with pytest.raises(EncodingError) as refused:
        Frame(tokenizer(name)).encode(conversation(name), says(ANSWER))
    (problem,) = refused.value.problems
    assert why in problem.found
    assert "How many pens?" in problem.found or name == "no-template"
    assert "encoding.turns: last" in problem.action


def test_a_generation_prompt_that_no_rendered_answer_follows_is_refused_with_the_text() -> None:  # C09
    words = tokenizer("phi3", template=families.DROPS.replace("<|bot|>", "<|assistant|>"))
    with pytest.raises(EncodingError) as refused:
        Frame(words).encode([asks("How many pens?")], says("3 pens"))
    (problem,) = refused.value.problems
    assert "<|assistant|><think>\\n" in problem.found
    assert "'<s><|user|>How many pens?<|assistant|>3 pens<|endoftext|>'" in problem.found
    words.chat_template = words.chat_template.replace("<|assistant|><think>\n", "<|assistant|>")
    assert Frame(words).encode([asks("How many pens?")], says("3 pens")).spans  # the healthy twin


def test_a_template_that_drops_what_is_to_be_learned_is_refused() -> None:
    words = tokenizer("phi3", template=families.DROPS.replace("<|bot|>", "<|assistant|>").replace("<think>\n", ""))
    frame = Frame(words)
    with pytest.raises(EncodingError, match="writes the assistant's words as they are"):
        frame.encode([asks("How many pens?")], says("<think>two and one</think>3 pens"))


def test_a_template_that_refuses_a_system_message_says_so_in_its_own_words() -> None:
    with pytest.raises(EncodingError) as refused:
        Frame(tokenizer("gemma")).encode([SYSTEM, asks("How many pens?")], says("3"))
    (problem,) = refused.value.problems
    assert "System role not supported" in problem.found
    assert "system, user" in problem.found
    assert "`task.system`" in problem.action


def test_a_greeting_that_nothing_asked_for_is_refused_and_one_after_a_system_message_is_learned() -> None:
    greeting, frame = [says("Good morning!"), asks("How many pens?")], Frame(tokenizer("chatml"))
    with pytest.raises(EncodingError, match=r"encoding\.turns: last"):
        frame.encode(greeting, says("3"))
    assert spoken(frame, frame.encode(greeting, says("3"), which="last")) == ["3"]
    assert spoken(frame, frame.encode([SYSTEM, *greeting], says("3"))) == ["Good morning!", "3"]


# --- what stands between a generation prompt and an answer ----------------------------------------------------------


def test_an_empty_block_of_thoughts_is_learned_and_left_out_of_the_output() -> None:
    frame = Frame(tokenizer("qwen3"))
    framed = frame.encode([asks("How many pens?")], says("3 pens"))
    ((begin, _),) = framed.spans
    learned = framed.ids[begin:]
    assert frame.text_of(framed.ids[:begin]).endswith("<|im_start|>assistant\n")
    assert frame.text_of(learned) == "<think>\n\n</think>\n\n3 pens<|im_end|>"
    assert frame.answer_of(learned[:-1]) == "3 pens"


def test_thoughts_that_a_model_writes_are_not_its_answer() -> None:
    frame = Frame(tokenizer("qwen3"))
    ids = frame.tokenizer("<think>\ntwo and one\n</think>\n\n3 pens")["input_ids"]
    assert frame.answer_of(ids) == "3 pens"
    assert frame.answer_of(ids, with_thoughts=True) == "<think>\ntwo and one\n</think>\n\n3 pens"
    assert frame.answer_of(frame.tokenizer("3 pens")["input_ids"]) == "3 pens"


def test_an_option_of_the_template_holds_in_the_prompt_and_in_what_is_learned() -> None:
    words = tokenizer("qwen3")
    frame = Frame(words, options={"enable_thinking": False})
    framed = frame.encode([asks("How many pens?")], says("3 pens"))
    ((begin, _),) = framed.spans
    assert frame.text_of(framed.ids[:begin]).endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert frame.text_of(framed.ids[begin:]) == "3 pens<|im_end|>"
    assert frame.prompt_ids([asks("How many pens?")]) == framed.ids[:begin]
    assert Frame(words).encode([asks("How many pens?")], says("3 pens")).ids == framed.ids  # only the border moved


def test_thoughts_of_the_row_are_learned_as_the_template_writes_them() -> None:
    frame = Frame(tokenizer("qwen3"))
    framed = frame.encode([asks("How many pens?")], says("<think>\ntwo and one\n</think>\n\n3 pens"))
    ((begin, _),) = framed.spans
    assert frame.text_of(framed.ids[begin:]) == "<think>\ntwo and one\n</think>\n\n3 pens<|im_end|>"


@pytest.mark.parametrize("name", ["llama2", "mistral"])
def test_a_space_before_the_answer_is_learned_and_left_out_of_the_output(name: str) -> None:
    frame = Frame(tokenizer(name))
    framed = frame.encode([asks("How many pens?")], says("I want 3 pens"))
    ((begin, _),) = framed.spans
    assert frame.template.lead == " "
    assert frame.answer_of(framed.ids[begin:-1]) == "I want 3 pens"
    whole = frame.template.conversation([asks("How many pens?"), says("I want 3 pens")])
    at_once = frame.tokenizer(whole, add_special_tokens=False)["input_ids"]
    assert tuple(at_once) == framed.ids, "as the model knows it: one space, in the answer's first token"


def test_the_end_behind_the_turns_end_is_not_learned() -> None:
    frame = Frame(tokenizer("phi3"))
    framed = frame.encode([asks("How many pens?")], says("3"))
    assert frame.text_of(framed.ids[-1:]) == "<|end|>"
    assert set(frame.stop_ids) == {frame.turn_end_id, frame.tokenizer.eos_token_id}  # C11


@pytest.mark.parametrize("system", [True, False])
def test_a_system_message_that_the_template_drops_once_answered_stays_in_the_prompt(system: bool) -> None:
    """Mistral's template writes the system message only while the last question waits for its answer."""
    frame = Frame(tokenizer("mistral"))
    asked = [*([SYSTEM] if system else []), asks("How many pens?")]
    framed = frame.encode(asked, says("3 pens"))
    ((begin, _),) = framed.spans
    assert framed.ids[:begin] == frame.prompt_ids(asked)
    assert ("Be short." in frame.text_of(framed.ids)) == system
    assert ("Be short." in frame.template.conversation([*asked, says("3 pens")])) is False
    assert frame.answer_of(framed.ids[begin:-1]) == "3 pens"


# --- tools ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("hermes", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Lisbon"}}\n</tool_call><|im_end|>'),
        ("mistral", '[TOOL_CALLS]  [{"name": "get_weather", "arguments": {"city": "Lisbon"}}]</s>'),
    ],
)
@pytest.mark.parametrize("system", [True, False])
def test_a_call_is_learned_as_the_template_writes_it(name: str, written: str, system: bool) -> None:
    frame = Frame(tokenizer(name))
    asked = [*([SYSTEM] if system else []), asks("How is the weather?")]
    framed = frame.encode(asked, CALL, TOOLS)
    ((begin, end),) = framed.spans
    prompt = frame.text_of(framed.ids[:begin])
    assert frame.text_of(framed.ids[begin:end]) == written
    assert framed.ids[:begin] == frame.prompt_ids(asked, TOOLS)
    assert "The weather of a city." in prompt
    assert ("Be short." in prompt) == system


def test_calls_and_answers_of_one_conversation_are_all_learned_and_results_are_not() -> None:
    frame = Frame(tokenizer("hermes"))
    asked = [SYSTEM, asks("How is the weather?"), CALL, {"role": "tool", "content": "22 degrees"}]
    framed = frame.encode(asked, says("It is 22."), TOOLS)
    learned = [frame.text_of(framed.ids[begin:end]) for begin, end in framed.spans]
    assert [text.count("get_weather") for text in learned] == [1, 0]
    assert learned[1] == "It is 22.<|im_end|>"
    assert not any("22 degrees" in text for text in learned)
    assert framed.ids[: framed.spans[1][0]] == frame.prompt_ids(asked, TOOLS)


def test_a_template_that_does_not_write_calls_is_refused_and_one_that_does_is_not() -> None:
    deaf, weather = Frame(tokenizer("hermes", template=families.CHATML)), [asks("How is the weather?")]
    with pytest.raises(EncodingError, match="'get_weather' is not in what the template writes"):
        deaf.encode(weather, CALL)
    with pytest.raises(EncodingError, match="a prompt without get_weather"):
        deaf.encode(weather, CALL, TOOLS)
    assert Frame(tokenizer("hermes")).encode([asks("How is the weather?")], CALL, TOOLS).spans


def test_the_date_is_asked_for_by_some_templates_and_can_be_declared() -> None:
    words = tokenizer("llama3", template=families.DATED)
    assert Frame(words).template.reads_clock
    dated = Frame(words, options={"date_string": "26 Jul 2024"})
    assert not dated.template.reads_clock
    assert "Today Date: 26 Jul 2024\n" in dated.prompt_text([asks("How many pens?")])
    always = Frame(
        tokenizer("llama3", template=families.DATED.replace("date_string if date_string is defined else ", "")),
        options={"date_string": "26 Jul 2024"},
    )
    assert "Today Date: 26 Jul 2024\n" in always.prompt_text([asks("How many pens?")])
    assert not Frame(tokenizer("llama3")).template.reads_clock

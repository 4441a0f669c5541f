"""Any text, any family: what is encoded, laid out and read back is the row, and what counts is what was said."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Any

import pytest
from families import FAMILIES, tokenizer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testigo.corpus import Row
from testigo.encoding import Encoder, Frame, lay_out
from testigo.tasks.chat import Chat

# Letters of several scripts, spaces of several kinds, pieces of marks; no control characters, which cleaning takes out.
words = st.text(
    alphabet=st.sampled_from("abzAZ019 .,;:!?'\"\n\t-_{}[]()<>|/\\éñüß日本語한😀\u0301\u00a0"), min_size=1, max_size=24
)
spoken = words.filter(str.strip)
conversations = st.lists(st.tuples(spoken, spoken), min_size=1, max_size=3)


@cache
def encoder(name: str) -> Encoder:
    return Encoder(Frame(tokenizer(name)), Chat("said"), 4096)


def row(name: str, turns: list[tuple[str, str]]) -> Row:
    said = [
        message
        for asked, answer in turns
        for message in ({"role": "user", "content": asked}, {"role": "assistant", "content": answer})
    ]
    return Row(name, name, "", {"said": said}, "")


@pytest.mark.parametrize("name", ["chatml", "llama3", "gemma", "llama2", "phi3"])
@given(chats=st.lists(conversations, min_size=1, max_size=3), layout=st.sampled_from(["packed", "padded"]))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_was_said_comes_back_from_the_tensors(name: str, chats: list[list[tuple[str, str]]], layout: Any) -> None:
    own = encoder(name)
    raw = [row(f"r{k}", turns) for k, turns in enumerate(chats)]
    rows, _ = own.encode_all(raw)
    batch = lay_out(rows, layout, pad_id=own.frame.turn_end_id)
    segment, ids = batch.segment.flatten(), batch.input_ids.flatten()
    for number, (encoded, turns) in enumerate(zip(rows, chats, strict=True)):
        own_places = segment == number + 1
        read = own_places if layout == "padded" else batch.attention_mask[0, 0, int(own_places.nonzero().max())]
        assert tuple(ids[read].tolist()) == encoded.ids
        targets = batch.targets[batch.owner == number].tolist()
        assert tuple(targets) == encoded.supervised_ids
        assert targets.count(own.frame.turn_end_id) == len(turns) == len(encoded.supervised_spans)
        assert encoded.ids[: encoded.n_before_answer] == own.prompt_ids(raw[number].fields)
        for (_, answer), (begin, end) in zip(turns, encoded.supervised_spans, strict=True):
            said = own.frame.answer_of(encoded.ids[begin : end - 1])
            assert composed(said.strip()) == composed(answer.strip())


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "unigram"])  # which rewrites texts by design
@given(asked=spoken, answer=spoken)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_answer_to_any_question_is_learned_letter_for_letter(name: str, asked: str, answer: str) -> None:
    own = encoder(name)
    source = row("r", [(asked, answer)])
    encoded = own.encode(source)
    assert encoded.ids[: encoded.n_prompt] == own.prompt_ids(source.fields)
    learned = encoded.supervised_ids
    assert learned[-1] == own.frame.turn_end_id
    assert composed(own.output_of(learned[:-1], source.fields).strip()) == composed(answer.strip())
    messages, message, tools = own.conversation(source.fields)
    said = "".join(own.frame.text_of(encoded.ids[own.frame.n_front :]).split())
    rendered = own.frame.template.prompt(messages, tools) + own.frame.template.around[0] + message["content"]
    assert composed(said).startswith(composed("".join(rendered.split())))


def composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)  # some tokenizers do

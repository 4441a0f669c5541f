"""Chats: what a conversation must be, what is asked, and what is scored."""

from __future__ import annotations

from typing import Any

import pytest

from testigo.tasks import Chat

HELP = Chat("messages", "  You help customers.  ")


def said(*turns: str) -> dict[str, Any]:
    """Messages of user and assistant in turn; `system:` in front of one makes it the system's."""
    roles = ("user", "assistant")
    messages: list[dict[str, Any]] = []
    for turn in turns:
        if turn.startswith("system:"):
            messages.append({"role": "system", "content": turn.removeprefix("system:")})
        else:
            spoken = sum(message["role"] in roles for message in messages)
            messages.append({"role": roles[spoken % 2], "content": turn})
    return {"messages": messages}


ROW = said("Where is my order?", "Which number?", "It is 17.", "It left on Monday.")


def test_all_but_the_last_turn_is_asked_and_the_last_is_the_target() -> None:
    assert HELP.problems(ROW) == []
    messages = HELP.messages(ROW)
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert messages[0]["content"] == "You help customers."
    assert HELP.target(ROW) == "It left on Monday."
    assert ROW["messages"][0] == {"role": "user", "content": "Where is my order?"}, "the row stays as it is"


def test_a_conversation_with_its_own_system_message_keeps_it() -> None:
    row = said("system:Be short.", "Hi", "Hello")
    assert HELP.messages(row)[0]["content"] == "Be short."
    assert len(HELP.messages(row)) == 2
    assert len(Chat("messages").messages(said("Hi", "Hello"))) == 1


def test_the_last_turn_is_scored_like_a_text() -> None:
    assert HELP.score(ROW, "It left  on Monday. ") == {"exact_match": 1.0, "token_f1": 1.0}
    assert HELP.score(ROW, "it left")["exact_match"] == 0.0
    assert 0 < HELP.score(ROW, "It left")["token_f1"] < 1
    assert HELP.score(ROW, "")["token_f1"] == 0.0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "is missing"),
        ({"messages": "Hi"}, "must be a list of messages, and is text"),
        ({"messages": []}, "holds no message"),
        ({"messages": ["Hi"]}, "message 1 of 'messages' must be an object with role and content"),
        ({"messages": [{"from": "human", "value": "Hi"}]}, "and has from, value"),
        ({"messages": [{"role": "human", "content": "Hi"}]}, "has the role 'human'"),
        ({"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}, "must be text, and is a list"),
        ({"messages": [{"role": "user", "content": " "}, {"role": "assistant", "content": "a"}]}, "is empty"),
        (said("Hi"), "the last message of 'messages' must be the assistant's words, and is of the user"),
        (said("Hi", " "), "and is of the assistant, without words"),
        (said("Hi", "Hello", "system:Now!", "Why?", "So."), "a system message stands first or nowhere"),
        ({"messages": [{"role": "assistant", "content": "Hello"}]}, "nobody asks anything"),
    ],
)
def test_a_row_that_is_no_conversation_is_told(fields: dict[str, Any], words: str) -> None:
    (told,) = HELP.problems(fields)
    assert words in told


def test_a_tool_may_be_called_on_the_way() -> None:
    row = said("Where is my order?", "", "", "It left on Monday.")
    row["messages"][1] = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "find"}}]}
    row["messages"][2] = {"role": "tool", "content": "left: Monday"}
    assert HELP.problems(row) == []
    assert [message["content"] for message in HELP.messages(row)][1:] == ["Where is my order?", "", "left: Monday"]
    assert HELP.messages(row)[2]["tool_calls"]
    row["messages"][1].pop("tool_calls")
    assert "must be text" in HELP.problems(row)[0]


def test_a_text_is_no_class() -> None:
    with pytest.raises(ValueError, match="no classes"):
        HELP.label_of(ROW)

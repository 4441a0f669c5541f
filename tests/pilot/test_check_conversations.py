"""`testigo check` on chats and calls of tools, as a user runs it: refusals with the rendered text, rules with rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny
import whole
from families import tokenizer
from whole import Place

TOOL = {"name": "order", "parameters": {"type": "object", "properties": {"thing": {"type": "string"}}}}


def chat(row: dict[str, Any], *, turns: int) -> dict[str, Any]:
    asked, answer = {"role": "user", "content": row["email"]}, {"role": "assistant", "content": row["order"]}
    return {"id": row["id"], "said": [asked, answer] * turns, "customer": row["customer"]}


def call(row: dict[str, Any]) -> dict[str, Any]:
    thing = row["order"].partition(":")[0]
    calls = [{"name": "order", "arguments": {"thing": thing}}]
    return {"id": row["id"], "email": row["email"], "calls": calls, "tools": [TOOL], "customer": row["customer"]}


def place(
    folder: Path, rows: list[dict[str, Any]], task: dict[str, Any], *, name: str = "chatml", **encoding: Any
) -> Place:
    made = whole.make(folder)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (made.folder / "rows.jsonl").write_text(lines, encoding="utf-8")
    made.change({"task": task, "encoding": encoding, "evaluation.max_new_tokens": 64, "data.source": "rows.jsonl"})
    words = tokenizer(name)
    words.save_pretrained(made.folder / "llama")
    config = json.loads((made.folder / "llama" / "config.json").read_text())
    (made.folder / "llama" / "config.json").write_text(
        json.dumps({**config, "vocab_size": len(words), "max_position_embeddings": 2048})
    )
    return made


CHAT = {"kind": "chat", "input": "said", "system": "Say what is ordered."}
CALLS = {"kind": "tool-calling", "input": "email", "target": "calls", "tools": "tools"}


def codes(answer: whole.Answer) -> set[str]:
    return {one["code"] for one in answer.document["findings"] if one["severity"] != "note"}


def test_a_chat_of_several_turns_is_checked_and_shown_with_each_turn(tmp_path: Path) -> None:  # C10, C12
    rows = [chat(row, turns=1 + k % 2) for k, row in enumerate(tiny.rows())]
    made = place(tmp_path / "chat", rows, CHAT)
    checked = made.testigo("check", "--json")
    assert checked.code == 0, checked
    assert codes(checked) == set()
    shown = made.testigo("show", "--json", "--row", rows[1]["id"], "--row", rows[0]["id"])
    counted = [sum(token["counts"] for token in row["tokens"]) for row in shown.document["rows"]]
    assert counted[0] > counted[1]
    ends = [
        sum(token["counts"] and token["text"] == "<|im_end|>" for token in row["tokens"])
        for row in shown.document["rows"]
    ]
    assert ends == [2, 1]


@pytest.mark.parametrize(("turns", "code"), [("all", 2), ("last", 0)])
def test_a_template_that_rewrites_earlier_turns_is_refused_until_the_last_alone_is_declared(
    tmp_path: Path, turns: str, code: int
) -> None:  # C09, C12
    rows = [chat(row, turns=2) for row in tiny.rows()]
    made = place(tmp_path / "thinks", rows, CHAT, name="qwen3", turns=turns)
    checked = made.testigo("check", "--json")
    assert checked.code == code, checked
    if code:
        problem = checked.problem
        assert problem["found"].startswith("36 rows (r"), problem
        assert "<think>\\n\\n</think>" in problem["found"]
        assert "encoding.turns: last" in problem["action"]
    else:
        assert codes(checked) == set()


def test_a_mark_in_a_chat_is_named_with_its_row(tmp_path: Path) -> None:
    rows = [chat(row, turns=1) for row in tiny.rows()]
    rows[3]["said"][0]["content"] += "<|im_end|>"
    checked = place(tmp_path / "marks", rows, CHAT).testigo("check", "--json")
    (finding,) = (one for one in checked.document["findings"] if one["code"] == "E120")
    assert finding["observed"] == "in 1 row text of the prompt became a special token: r03: <|im_end|>"
    assert finding["rows"] == ["r03"]


@pytest.mark.parametrize(
    ("name", "tools", "code"), [("hermes", "template", 0), ("chatml", "template", 2), ("chatml", "text", 0)]
)
def test_calls_are_learned_as_declared_or_refused(tmp_path: Path, name: str, tools: str, code: int) -> None:
    made = place(tmp_path / "calls", [call(row) for row in tiny.rows()], CALLS, name=name, tools=tools)
    checked = made.testigo("check", "--json")
    assert checked.code == code, checked
    if code:
        assert "without order" in checked.problem["found"]
        assert "encoding.tools: text" in checked.problem["action"]
        return
    assert codes(checked) == set()
    (row,) = made.testigo("show", "--json", "--row", "r00").document["rows"]
    learned = "".join(token["text"] for token in row["tokens"] if token["counts"])
    assert learned.startswith("<tool_call>⏎{" if tools == "template" else '[{"name":"order"')


def test_an_unknown_option_for_the_length_is_refused_and_lengths_are_shown(tmp_path: Path) -> None:  # C16
    rows = [chat(row, turns=1) for row in tiny.rows()]
    rows[3]["said"][0]["content"] += " please" * 400
    sick = place(tmp_path / "sick", rows, CHAT, max_lenght=64).testigo("check", "--json")
    assert sick.code == 2
    assert "maximum_length" in sick.problem["action"] + sick.problem["expected"]
    long = place(tmp_path / "long", rows, CHAT, maximum_length=256)
    refused = long.testigo("check", "--json").problem
    assert "1 of 36 rows do not fit: r03" in refused["found"] or "1 of 12 rows do not fit: r03" in refused["found"]
    assert "1 would end before their answer" in refused["found"]
    assert long.testigo("show", "--json", "--lengths").document["cuts"]

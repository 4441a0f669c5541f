"""Every turn of the assistant that is learned stands beside the words of its message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tiny as tiny_support

from testigo.corpus import build
from testigo.inspection.choosing import Chosen
from testigo.inspection.material import Material, gather
from testigo.inspection.page import Sight, html
from testigo.inspection.seeing import see_row
from testigo.tasks import task_for

if TYPE_CHECKING:
    from tiny import Tiny


def _talk(k: int) -> list[dict[str, Any]]:
    said = [
        ("user", f"we want {k} pens"),
        ("assistant", f" pens: {k}"),
        ("user", "please be quick"),
        ("assistant", "yes"),
    ]
    return [{"role": role, "content": words} for role, words in said]


@pytest.fixture
def chat(tiny: Tiny, tmp_path: Path) -> Material:
    (tmp_path / "llama").symlink_to(tiny.folder / "llama")
    lines = [{"id": f"r{k:02d}", "customer": f"c{k}", "talk": _talk(k)} for k in range(40)]
    (tmp_path / "orders.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    own = tiny_support.Tiny(tmp_path)
    campaign = own.campaign({"model.base": "path:llama", "task": {"kind": "chat", "input": "talk"}})
    task = task_for(campaign)
    corpus = build(campaign, lambda _: tmp_path / "corpus", lambda row: task.problems(row.fields))
    return gather(campaign, corpus, own.base())


def test_each_turn_is_told_beside_its_words(chat: Material) -> None:
    row = chat.rows("train")[0]
    seen = see_row(chat, Chosen("train", row))
    assert [turn.target for turn in seen.turns] == [row.fields["talk"][1]["content"], "yes"]
    assert [turn.agreement in ("same", "spaces") for turn in seen.turns] == [True, True]
    assert [turn.end for turn in seen.turns] == ["<|im_end|>", "<|im_end|>"]
    text = html(Sight(campaign="talk", facts=(), samples=(seen,)))
    assert "Turn 1: What is learned" in text
    assert "Turn 2: What is learned" in text

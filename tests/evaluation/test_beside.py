"""What is measured beside the task: general text, and targets without their inputs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from testigo.evaluation.beside import MOST_ROWS, measure_beside, passages, read_beside
from testigo.rules import Finding, judge
from testigo.watch import Recall, all_rules

if TYPE_CHECKING:
    from tiny import Tiny


def test_the_general_passages_are_few_short_and_varied() -> None:
    texts = passages()

    assert len(texts) == 12
    assert {"spanish prose", "portuguese prose", "french prose", "python", "arithmetic"} <= set(texts)
    assert all(100 < len(text) < 400 for text in texts.values())


def test_a_model_is_measured_without_a_trace_and_the_same_twice(tiny: Tiny) -> None:
    prepared = tiny.prepared()
    prepared.model.eval()
    state = torch.get_rng_state()

    first = measure_beside(prepared.model, prepared.encoder, prepared.corpus)
    again = measure_beside(prepared.model, prepared.encoder, prepared.corpus)

    assert first == again
    assert torch.equal(torch.get_rng_state(), state)
    assert set(first) == {"general", "train", "validation"}
    assert set(first["general"]) == set(passages())
    assert len(first["train"]) <= MOST_ROWS
    assert set(first["train"]) <= {row.id for row in prepared.corpus.rows("train")}
    assert all(math.isfinite(loss) for losses in first.values() for loss in losses.values())


# C47
def test_a_row_that_was_learned_by_heart_is_told_from_the_form_that_all_learned(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path, {"model.adapter": {"method": "full"}, "training.learning_rate": 5e-3})
    prepared = tiny.prepared({"model.adapter": {"method": "full"}})
    encoder, corpus, model = prepared.encoder, prepared.corpus, run.model
    before = measure_beside(model, encoder, corpus)
    canary = next(iter(before["train"]))
    target = next(row for row in corpus.rows("train") if row.id == canary)
    empty = encoder.frame.prompt_ids([{"role": "user", "content": ""}])
    answer = encoder.frame.tokenizer(encoder.task.target(target.fields), add_special_tokens=False)["input_ids"]
    ids = torch.tensor([[*empty, *answer]])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(60):
        logits = model(input_ids=ids).logits[0, len(empty) - 1 : -1]
        torch.nn.functional.cross_entropy(logits, ids[0, len(empty) :]).backward()
        optimizer.step()
        optimizer.zero_grad()

    now = measure_beside(model, encoder, corpus)

    recall = Recall(before["train"], now["train"], before["validation"], now["validation"])
    (finding,) = [f for f in judge(all_rules(), [recall]).findings if f.code == "O115"]
    assert isinstance(finding, Finding)
    assert finding.rows[0] == canary


def test_where_nothing_was_measured_nothing_is_read(tmp_path: Path) -> None:
    assert read_beside(tmp_path) == {}
    (tmp_path / "beside.json").write_text('{"general": {"a": NaN}}')
    assert math.isnan(read_beside(tmp_path)["general"]["a"])


@pytest.mark.parametrize("kind", ["gpt2", "qwen2"])
def test_other_models_are_measured_too(tiny: Tiny, kind: str) -> None:
    prepared = tiny.prepared({"model.base": f"path:{kind}"})

    measured = measure_beside(prepared.model, prepared.encoder, prepared.corpus)

    assert all(0 < loss < 20 for loss in measured["general"].values())

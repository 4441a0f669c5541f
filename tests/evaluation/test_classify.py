"""Classes of a split: one forward pass a batch, the same whatever the batch, with target and probabilities."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch

from testigo.evaluation.predict import lines, predict

if TYPE_CHECKING:
    from tiny import Tiny


@pytest.mark.parametrize("kind", ["bert", "llama", "vit"])
def test_outputs_are_the_likeliest_classes_whatever_the_batch(kind: str, texts: Tiny, images: Tiny) -> None:
    tiny = images if kind == "vit" else texts
    prepared = tiny.prepared({"model.base": f"path:{kind}"})
    rows = tiny.corpus.rows("validation")

    def made(size: int) -> tuple[Any, ...]:
        return predict(prepared.model, prepared.encoder, rows, max_new_tokens=0, batch_size=size)

    prepared.model.train()
    alone, many = made(1), made(5)
    assert prepared.model.training, "the former mode comes back"
    assert [p.row for p in many] == [row.id for row in rows]
    for one, other in zip(alone, many, strict=True):
        assert one.output == other.output == max(one.probabilities, key=one.probabilities.get)
        assert one.prompt_sha256 == other.prompt_sha256
        assert list(one.probabilities.values()) == pytest.approx(list(other.probabilities.values()), abs=1e-5)
        assert sum(one.probabilities.values()) == pytest.approx(1.0)
        assert (one.stop, one.token_ids) == ("class", ())
        assert one.scores == {"accuracy": float(one.output == one.target)}
    assert [p.target for p in many] == [prepared.encoder.task.target(row.fields) for row in rows]


def test_a_line_holds_target_and_probabilities_of_a_class_and_no_probabilities_of_a_text(
    texts: Tiny, tiny: Tiny
) -> None:
    prepared = texts.prepared()
    (line,) = lines(
        predict(prepared.model, prepared.encoder, texts.corpus.rows("validation")[:1], max_new_tokens=0, batch_size=1)
    ).splitlines()
    told = json.loads(line)
    assert set(told["probabilities"]) == {"billing", "delivery", "login"}
    assert told["target"] in told["probabilities"]
    written = tiny.prepared()
    with torch.no_grad():
        (line,) = lines(
            predict(written.model, written.encoder, tiny.corpus.rows("validation")[:1], max_new_tokens=1, batch_size=1)
        ).splitlines()
    assert "probabilities" not in json.loads(line)
    assert json.loads(line)["target"] == written.encoder.task.target(tiny.corpus.rows("validation")[0].fields)


def test_a_text_too_long_for_the_model_has_no_answer_and_counts_as_wrong(texts: Tiny) -> None:
    prepared = texts.prepared({"encoding.maximum_length": 64, "encoding.longer": "drop"})
    rows = texts.corpus.rows("validation")[:2]
    rows[0].fields["text"] += " please" * 200
    first, second = predict(prepared.model, prepared.encoder, rows, max_new_tokens=0, batch_size=2)
    assert (first.output, first.stop, first.scores) == ("", "length", {"accuracy": 0.0})
    assert second.stop == "class"

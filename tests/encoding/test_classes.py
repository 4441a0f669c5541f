"""What a class head reads: texts with their marks, padded; images opened, varied in training alone, made numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from tiny import row_of, tokenizer
from transformers import BertTokenizer

from testigo.campaign.sections import Augment
from testigo.encoding import ClassEncoder, LabelledRow
from testigo.encoding.augment import vary
from testigo.encoding.classes import UNKNOWN, pad_labelled
from testigo.errors import EncodingError
from testigo.tasks import Classification

if TYPE_CHECKING:
    from pathlib import Path

    from tiny import Tiny

TASK = Classification("text", "queue", ("a", "b"))


def encoder(maximum_length: int = 64, **settings: Any) -> ClassEncoder:
    return ClassEncoder(tokenizer(template=None, eos="<|endoftext|>"), TASK, maximum_length, **settings)


def test_a_text_keeps_the_tokenizers_own_marks(tmp_path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "my", "box"]
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    own = ClassEncoder(BertTokenizer(str(tmp_path / "vocab.txt")), TASK, 16)
    assert own.encode(row_of("r", text="my box", queue="b")) == LabelledRow("r", "", 1, (2, 5, 6, 3))


def test_padding_is_known_by_the_mask_whatever_its_id() -> None:
    rows = [LabelledRow("a", "", 1, (5, 6, 7)), LabelledRow("b", "", 0, (5,))]
    batch = pad_labelled(rows, pad_id=5)
    assert batch.inputs["input_ids"].tolist() == [[5, 6, 7], [5, 5, 5]]
    assert batch.inputs["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert (batch.targets.tolist(), batch.owner.tolist(), batch.row_ids) == ([1, 0], [0, 1], ("a", "b"))
    assert (batch.n_tokens, batch.n_supervised) == (6, 2)


def test_a_class_that_the_head_lacks_has_no_number() -> None:
    assert encoder().encode(row_of("r", text="x", queue="c")).label == UNKNOWN


def test_long_texts_are_refused_dropped_or_shortened_as_declared() -> None:
    rows = [row_of("short", text="my box", queue="a"), row_of("long", text="we want apples " * 30, queue="b")]
    with pytest.raises(EncodingError, match=r"1 of 2 rows do not fit: long"):
        encoder(12).encode_all(rows)
    kept, lengths = encoder(12, longer="drop").encode_all(rows)
    assert ([row.id for row in kept], lengths.dropped) == (["short"], ("long",))
    cut = encoder(12, longer="truncate")
    kept, lengths = cut.encode_all(rows)
    assert lengths.truncated_input == ("long",)
    assert kept[1].n_tokens == 12
    assert cut.prompt_ids(rows[1].fields) == kept[1].ids, "evaluation reads the same"


def test_a_fingerprint_changes_with_policy_and_classes() -> None:
    own = encoder()
    others = [encoder(63), encoder(longer="drop"), replace(own, task=replace(TASK, labels=("b", "a")))]
    assert len({one.fingerprint() for one in (own, *others)}) == 4


def test_an_image_is_the_processors_own_numbers_and_training_alone_varies_it(images: Tiny) -> None:
    prepared = images.prepared({"training.augment": {"flip": 1.0}})
    own: Any = prepared.encoder
    row = own.encode(prepared.rows("train")[0])
    picture = Image.open(images.folder / "images" / row.image["image"]).convert("RGB")
    expected = torch.as_tensor(own.processor(images=[picture], return_tensors="pt")["pixel_values"])
    assert torch.equal(own.lay_out([row]).inputs["pixel_values"], expected)
    mirrored = own.processor(images=[ImageOps.mirror(picture)], return_tensors="pt")["pixel_values"]
    varied = own.lay_out([replace(row, variation=(0, 0))]).inputs["pixel_values"]
    assert torch.equal(varied, torch.as_tensor(mirrored))


@pytest.mark.parametrize("way", [{"flip": 0.5}, {"rotate": 20}, {"shift": 0.3}, {"brightness": 0.5}])
def test_each_way_of_varying_is_repeatable_and_changes_something(way: dict[str, float]) -> None:
    picture = Image.fromarray(np.arange(300, dtype=np.uint8).reshape(10, 10, 3))
    augment = Augment.model_validate(way)

    def made(epoch: int, row: str = "r") -> bytes:
        return vary(picture, augment, seed=3, epoch=epoch, row=row).tobytes()

    assert [made(epoch) for epoch in range(8)] == [made(epoch) for epoch in range(8)]
    assert len({made(epoch) for epoch in range(8)}) > 1
    assert [made(epoch, "a") for epoch in range(8)] != [made(epoch, "b") for epoch in range(8)]
    assert vary(picture, Augment(), seed=3, epoch=0, row="r").tobytes() == picture.tobytes()


def test_switching_one_way_on_leaves_the_others_as_they_were() -> None:
    picture = Image.fromarray(np.arange(300, dtype=np.uint8).reshape(10, 10, 3))
    for epoch in range(8):
        mirrored = vary(picture, Augment(flip=0.5), seed=0, epoch=epoch, row="r")
        brighter = vary(picture, Augment(flip=0.5, brightness=1e-9), seed=0, epoch=epoch, row="r")
        assert np.abs(np.asarray(mirrored, int) - np.asarray(brighter, int)).max() <= 1

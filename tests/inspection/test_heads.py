"""Rows before a class head: the class that the tensors hold, and images before and after the transformation."""

from __future__ import annotations

import base64
import json
import re
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiny as tiny_support
import torch
from PIL import Image
from transformers import BertConfig, BertModel, ViTConfig, ViTImageProcessorPil, ViTModel

from testigo.conductor import Lines
from testigo.corpus import build
from testigo.encoding import LabelledRow
from testigo.inspection.choosing import Chosen, each_category
from testigo.inspection.images import restored
from testigo.inspection.lengths import measure
from testigo.inspection.material import Material, gather
from testigo.inspection.page import html
from testigo.inspection.seeing import see_row
from testigo.inspection.sights import first_microbatch, sight
from testigo.tasks import task_for

if TYPE_CHECKING:
    pass

COLOURS = {"red": (220, 20, 30), "green": (10, 200, 40)}


def _material(folder: Path, changes: dict[str, Any]) -> Material:
    own = tiny_support.Tiny(folder)
    campaign = own.campaign(changes)
    task = task_for(campaign)
    corpus = build(campaign, lambda _: folder / "corpus", lambda row: task.problems(row.fields))
    return gather(campaign, corpus, own.base("base"))


@pytest.fixture
def images(tmp_path: Path) -> Material:
    """Forty pictures of two colours, one of them turned by its EXIF, before a tiny ViT."""
    for k in range(40):
        name = list(COLOURS)[k % 2]
        place = tmp_path / "pictures" / name / f"{k:02d}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        picture = Image.new("RGB", (12, 8), COLOURS[name])
        picture.putpixel((k % 12, k % 8), (255, 255, 255))
        exif = Image.Exif()
        exif[0x0112] = 6 if k == 0 else 1
        picture.save(place, exif=exif)
    processor = ViTImageProcessorPil(size={"height": 16, "width": 16}, image_mean=[0.5] * 3, image_std=[0.25] * 3)
    processor.save_pretrained(tmp_path / "base")
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    ViTModel(ViTConfig(image_size=16, patch_size=8, **shape)).save_pretrained(tmp_path / "base")
    return _material(
        tmp_path,
        {
            "task": {"kind": "image-classification", "input": "image", "target": "label"},
            "evaluation": {"batch_size": 4},
            "hypothesis": {"improve": {"metric": "accuracy", "by": 0.1}},
            "data.source": "pictures",
            "data.group": None,
            "data.duplicates": {"exact": "report", "near": None},
            "model.base": "path:base",
            "training.augment": {"flip": 1.0},
        },
    )


def test_an_image_is_told_by_its_file_and_by_its_tensor(images: Material) -> None:
    for chosen in each_category(images, 3):
        row = images.encoded(chosen.row)
        seen = see_row(images, chosen)
        assert isinstance(row, LabelledRow)
        assert seen.image is not None
        values = images.encoder.lay_out([row]).inputs["pixel_values"][0]
        assert seen.image.shape == tuple(values.shape) == (3, 16, 16)
        assert (seen.image.low, seen.image.high) == pytest.approx((float(values.min()), float(values.max())))
        assert seen.image.mean == pytest.approx(float(values.mean()), abs=1e-5)
        assert {seen.image.width, seen.image.height} == {8, 12}
        (turn,) = seen.turns
        assert (turn.kind, turn.agreement, turn.learned) == ("class", "class", chosen.row.fields["label"])
        assert _opened(seen.image.varied).size == _opened(seen.image.before).size


def test_with_mean_and_spread_taken_back_the_picture_has_its_colours_again(images: Material) -> None:
    for chosen in each_category(images):
        seen = see_row(images, chosen)
        assert seen.image is not None
        middle = np.asarray(_opened(seen.image.restored)).reshape(-1, 3)
        assert np.median(middle, axis=0) == pytest.approx(COLOURS[chosen.row.fields["label"]], abs=2)
        values = images.encoder.lay_out([images.encoded(chosen.row)]).inputs["pixel_values"][0].numpy()
        back = restored(values, images.encoder.processor)  # (C, H, W)
        assert np.median(back.reshape(3, -1), axis=1) == pytest.approx(COLOURS[chosen.row.fields["label"]], abs=0.5)


def _opened(address: str) -> Image.Image:
    kind, _, content = address.partition(",")
    assert kind in ("data:image/png;base64", "data:image/jpeg;base64")
    return Image.open(BytesIO(base64.b64decode(content))).convert("RGB")


def test_the_page_shows_images_and_says_nothing_of_tokens(images: Material, tmp_path: Path) -> None:
    text = html(sight(images, each_category(images), folder=tmp_path, reporter=Lines()))
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    sources = re.findall(r'<img src="([^"]{0,40})', text)
    assert len(sources) == 2 * 4
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert len(re.findall(r'<img src="[^"]+" alt="[^"]+"', text)) == len(sources)
    assert "count in the loss" not in text
    assert 'id="lengths"' not in text
    assert "The class that is learned is the row&#39;s own" in text


def test_a_class_that_the_tensors_hold_falsely_is_told(images: Material) -> None:
    chosen = each_category(images)[0]
    true = images.encoded(chosen.row)
    images._encoded[chosen.row.id] = type(true)(**{**true.__dict__, "label": 1 - true.label})
    (turn,) = see_row(images, chosen).turns
    assert turn.agreement == "other class"
    assert {turn.learned, turn.target} == set(COLOURS)


@pytest.fixture
def texts(tmp_path: Path) -> Material:
    """The e-mails by their office before a tiny BERT."""
    words = tiny_support.tokenizer()
    words.save_pretrained(tmp_path / "base")
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    BertModel(BertConfig(vocab_size=len(words), **shape)).save_pretrained(tmp_path / "base")
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in tiny_support.rows())
    (tmp_path / "orders.jsonl").write_text(lines, encoding="utf-8")
    return _material(
        tmp_path,
        {
            "task": {"kind": "classification", "input": "email", "target": "domain"},
            "evaluation": {"batch_size": 4},
            "hypothesis": {"improve": {"metric": "accuracy", "by": 0.1}},
            "model.base": "path:base",
        },
    )


def test_a_text_before_a_head_has_tokens_none_of_which_counts(texts: Material) -> None:
    chosen = Chosen("train", texts.rows("train")[0])
    seen = see_row(texts, chosen)
    batch = texts.encoder.lay_out([texts.encoded(chosen.row)])
    assert [token.id for token in seen.tokens] == batch.inputs["input_ids"][0].tolist()
    assert seen.n_counting == 0
    assert seen.turns[0].learned == chosen.row.fields["domain"] == texts.encoder.task.labels[int(batch.targets[0])]
    assert sum(len(rows) for rows in measure(texts).rows.values()) == sum(
        len(texts.rows(split)) for split in ("train", "validation")
    )


def test_the_microbatch_before_a_head_hides_its_padding(texts: Material, tmp_path: Path) -> None:
    pack = first_microbatch(texts, 0)
    assert pack is not None
    assert {segment.number for segment in pack.segments} == {1, 2, -1} or len(
        {len(s.tokens) for s in pack.segments}
    ) == 1
    for segment in pack.segments:
        assert segment.sees == (((0, len(segment.tokens) - 1),) if segment.number > 0 else ())
    text = html(sight(texts, each_category(texts), folder=tmp_path, reporter=Lines()))
    assert "of which none counts: the class does" in text
    assert "no token that ends the turn" not in text
    assert torch.is_tensor(texts.encoder.lay_out([texts.encoded(texts.rows("train")[0])]).targets)

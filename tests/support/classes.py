"""Tiny campaigns whose answer is a class: texts before BERT and Llama, images before ViT and ResNet."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tiny
import torch
from PIL import Image
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertModel,
    ResNetConfig,
    ResNetModel,
    ViTConfig,
    ViTImageProcessor,
    ViTModel,
)

QUEUES = {"billing": ("bill", "invoice", "charge"), "delivery": ("parcel", "box"), "login": ("password", "account")}
SHAPES = ("bar", "cross", "dot")

_COMMON: dict[str, Any] = {
    "hypothesis": {"improve": {"metric": "accuracy", "by": 0.2}},
    "training": {"updates": 6, "microbatch": 2, "accumulation": 2, "learning_rate": 1e-2, "validate_every": 3},
    "evaluation": {"batch_size": 4},
}
_DATA = {
    "duplicates": {"exact": "drop", "near": None},
    "split": {"train": 0.6, "validation": 0.2, "test": 0.2, "seed": 1},
}
TEXTS: dict[str, Any] = {
    **_COMMON,
    "question": "Which queue?",
    "task": {"kind": "classification", "input": "text", "target": "queue"},
    "data": {"source": "tickets.jsonl", **_DATA},
    "model": {"base": "path:bert", "adapter": {"method": "lora", "rank": 4, "alpha": 8}},
}
IMAGES: dict[str, Any] = {
    **_COMMON,
    "question": "Which shape?",
    "task": {"kind": "image-classification", "input": "image", "target": "label"},
    "data": {"source": "images", **_DATA},
    "model": {"base": "path:vit", "adapter": {"method": "lora", "rank": 4, "alpha": 8}},
}


def texts(folder: Path) -> tiny.Tiny:
    """Sixty short requests for three queues, beside a BERT and a Llama without a head."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = random.Random(0)
    rows = []
    for k in range(60):
        queue = list(QUEUES)[k % 3]
        filler = " ".join(["please be quick"] * (k % 4))
        rows.append({"id": f"t{k:02d}", "text": f"my {drawn.choice(QUEUES[queue])} {filler} {k * 13}", "queue": queue})
    (folder / "tickets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    save_bert(folder / "bert")
    tiny.save_base(folder / "llama", "llama")
    return tiny.Tiny(folder, TEXTS)


def save_bert(folder: Path, labels: Sequence[str] = ()) -> Path:
    """A random BERT of two layers; with labels it comes with a head for them."""
    words = tiny.tokenizer(template=None, eos="<|endoftext|>")
    configuration = BertConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=128, pad_token_id=words.pad_token_id, initializer_range=0.2,
    )  # fmt: skip
    torch.manual_seed(0)
    if labels:
        configuration.num_labels = len(labels)
        configuration.id2label = dict(enumerate(labels))
        configuration.label2id = {name: number for number, name in enumerate(labels)}
        AutoModelForSequenceClassification.from_config(configuration).save_pretrained(folder)
    else:
        BertModel(configuration).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def images(folder: Path) -> tiny.Tiny:
    """Forty-eight pictures of three shapes in a folder each, beside a ViT and a ResNet without a head."""
    drawn = np.random.default_rng(0)
    for k in range(48):
        shape = SHAPES[k % 3]
        place = folder / "images" / shape
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(_picture(drawn, shape)).save(place / f"{k:02d}.png")
    torch.manual_seed(0)
    vit = ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=16, patch_size=4,
        initializer_range=0.2,
    )  # fmt: skip
    ViTModel(vit).save_pretrained(folder / "vit")
    ResNetModel(
        ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    ).save_pretrained(folder / "resnet")
    for base in ("vit", "resnet"):
        ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(folder / base)
    return tiny.Tiny(folder, IMAGES)


def _picture(drawn: np.random.Generator, shape: str) -> np.ndarray[Any, Any]:
    """(12, 12) shades of grey: a dot, a cross or a bar on noise."""
    picture = drawn.integers(0, 60, (12, 12), dtype=np.uint8)
    x, y = drawn.integers(3, 9, 2)
    if shape == "dot":
        picture[y - 1 : y + 2, x - 1 : x + 2] = 255
    else:
        picture[y, :] = 230
    if shape == "cross":
        picture[:, x] = 230
    return picture

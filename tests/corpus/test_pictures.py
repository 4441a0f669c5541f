"""Images that look the same are near copies, whatever their files are called."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from testigo.corpus.pictures import alike_pictures


def a_picture(seed: int, side: int = 48) -> Image.Image:
    order = np.random.default_rng(seed)
    coarse = Image.fromarray(order.integers(0, 255, (6, 6, 3), dtype=np.uint8))
    return coarse.resize((side, side), Image.Resampling.BICUBIC)


def field(image: Image.Image, kind: str = "PNG", **how: Any) -> dict[str, str]:
    file = BytesIO()
    image.save(file, kind, **how)
    return {"bytes": base64.b64encode(file.getvalue()).decode(), "path": f"x.{kind.lower()}"}


def test_a_picture_saved_again_is_found_and_others_are_not() -> None:
    pictures = [a_picture(seed) for seed in range(30)]
    again = [field(pictures[3], "JPEG", quality=80), field(pictures[7].resize((96, 96)), "WEBP"), field(pictures[9])]
    found = alike_pictures([(one, None) for one in [*map(field, pictures), *again]])
    assert set(found) == {(3, 30), (7, 31), (9, 32)}
    assert found[9, 32] == 1.0
    assert min(found.values()) > 0.98


def test_a_mirror_image_and_a_darker_one_are_other_pictures() -> None:
    picture = a_picture(1)
    darker = picture.point(lambda shade: shade // 2)
    mirrored = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    assert alike_pictures([(field(one), None) for one in (picture, darker, mirrored)]) == {}


def test_scanned_digits_are_no_copies_of_each_other() -> None:
    digits = load_digits().images[:600].astype(np.uint8) * 15
    assert alike_pictures([(field(Image.fromarray(one)), None) for one in digits]) == {}

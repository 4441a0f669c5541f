"""How a training image is varied: a pure function of the settings, the seed, the epoch and the row."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from PIL import Image


def vary(picture: Image.Image, augment: Any, *, seed: int, epoch: int, row: str) -> Image.Image:
    """Mirror, turn, move and brighten a picture by what (seed, epoch, row) draw; what comes in from outside is black.

    All four are drawn whatever the settings, so that switching one on leaves the others as they were.

    Parameters
    ----------
    augment
        The campaign's `training.augment`: flip, rotate, shift, brightness.
    """
    from PIL import Image, ImageEnhance, ImageOps

    draw = np.random.Generator(np.random.PCG64(_seed(seed, epoch, row)))
    mirrored, turn, across, down, light = draw.random(), *draw.uniform(-1.0, 1.0, 4)
    if mirrored < augment.flip:
        picture = ImageOps.mirror(picture)
    if augment.rotate:
        picture = picture.rotate(turn * augment.rotate, resample=Image.Resampling.BILINEAR)
    if augment.shift:
        move = (1, 0, across * augment.shift * picture.width, 0, 1, down * augment.shift * picture.height)
        picture = picture.transform(picture.size, Image.Transform.AFFINE, move, resample=Image.Resampling.BILINEAR)
    if augment.brightness:
        picture = ImageEnhance.Brightness(picture).enhance(1.0 + light * augment.brightness)
    return picture


def _seed(*parts: int | str) -> int:
    """128 bits of SHA-256 over what is drawn for."""
    return int.from_bytes(hashlib.sha256(repr(("augment", *parts)).encode()).digest()[:16], "big")

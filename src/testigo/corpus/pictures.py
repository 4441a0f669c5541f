"""Pictures that look the same: saved again, in another size or format, a shade lighter.

A difference hash of 64 bits finds candidates: whether each of 8 × 8 places is brighter than its right neighbour. Each
candidate is verified on the picture itself, as 32 × 32 shades of grey.

Source: Krawetz 2013, "Kind of like that" (dHash; up to 10 of 64 bits he calls a variation). Ours takes `BITS`, and then
a mean difference of at most `SHADES` of 255: hashes alone call many line drawings and scans the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from testigo.corpus.images import open_image

BITS = 6
SHADES = 4.0
_SIDE = 32
_BLOCK = 1000

Grey = npt.NDArray[np.int16]


def alike_pictures(images: Sequence[tuple[Any, Path | None]]) -> dict[tuple[int, int], float]:
    """Pairs of places, the lower first, with 1 - their mean difference in brightness, 0 to 1.

    Parameters
    ----------
    images
        The fields and the folders in which their paths start.

    Raises
    ------
    DataError
        When an image cannot be opened.
    """
    if not images:
        return {}
    both = [_looked_at(value, root) for value, root in images]
    hashes = np.array([own for own, _ in both], dtype=np.uint64)
    small = np.stack([grey for _, grey in both])  # (images, 32, 32)
    found = {}
    for start in range(0, len(hashes), _BLOCK):
        differ = np.bitwise_count(hashes[start : start + _BLOCK, None] ^ hashes[None, start:])
        for one, other in np.argwhere(np.triu(differ <= BITS, k=1)).tolist():
            a, b = start + one, start + other
            shades = float(np.abs(small[a] - small[b]).mean())
            if shades <= SHADES:
                found[a, b] = round(1 - shades / 255, 6)
    return found


def _looked_at(value: Any, root: Path | None) -> tuple[int, Grey]:
    """The hash of a picture, and its shades."""
    from PIL import Image

    grey = open_image(value, root).image.convert("L")
    nine = np.asarray(grey.resize((9, 8), Image.Resampling.LANCZOS), dtype=np.int16)
    bits = (nine[:, :-1] > nine[:, 1:]).flatten()  # (8 * 8,)
    small = np.asarray(grey.resize((_SIDE, _SIDE), Image.Resampling.LANCZOS), dtype=np.int16)
    return int(sum(1 << at for at in np.flatnonzero(bits).tolist())), small

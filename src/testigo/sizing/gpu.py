"""How much memory a GPU has: by its name, or as the user says."""

from __future__ import annotations

import re
from difflib import get_close_matches

from testigo.errors import TestigoError

GIB = 1 << 30
KNOWN_GPUS_GIB: dict[str, float] = {
    "T4": 15.0,
    "V100 16GB": 16.0,
    "V100 32GB": 32.0,
    "RTX 3090": 24.0,
    "RTX 4090": 23.9,
    "RTX 5090": 31.8,
    "RTX A6000": 47.9,
    "RTX 6000 Ada": 47.9,
    "A10": 22.4,
    "A10G": 22.4,
    "L4": 22.4,
    "L40S": 44.9,
    "A100 40GB": 40.0,
    "A100 80GB": 80.0,
    "H100 80GB": 79.6,
    "H200": 140.4,
    "B200": 179.0,
    "MI300X": 192.0,
}
"""Name -> total memory as `nvidia-smi` or `rocm-smi` shows it, rounded down: often a little less than the name says."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(GiB|GB|MiB|MB|G)", re.IGNORECASE)
_UNITS = {"gib": GIB, "g": GIB, "gb": 10**9, "mib": 1 << 20, "mb": 10**6}


def gpu_bytes_of(text: str) -> int:
    """The memory that `--gpu` means: a size such as 24GiB, or a name such as "H100 80GB".

    Raises
    ------
    TestigoError
        When it is neither, or a name that comes in several sizes.
    """
    size = _SIZE.fullmatch(text.strip())
    if size and float(size[1]) > 0:
        return int(float(size[1]) * _UNITS[size[2].lower()])
    wanted = _plain(text)
    found = {name: gib for name, gib in KNOWN_GPUS_GIB.items() if _plain(name) == wanted}
    found = found or {name: gib for name, gib in KNOWN_GPUS_GIB.items() if wanted and _plain(name).startswith(wanted)}
    if len(found) == 1:
        return int(next(iter(found.values())) * GIB)
    near = list(found) or get_close_matches(text, KNOWN_GPUS_GIB, n=3, cutoff=0.6)
    raise TestigoError(
        expected='a size such as 24GiB, or the name of a GPU such as "H100 80GB"',
        found=f"`{text}`",
        where="--gpu",
        action=f"did you mean {' or '.join(near)}?" if near else f"known names: {', '.join(KNOWN_GPUS_GIB)}",
    )


def _plain(name: str) -> str:
    text = re.sub(r"nvidia|geforce|tesla|amd|instinct|rtx|sxm\d?|pcie|hbm\d?e?", "", name.lower())
    return re.sub(r"[^a-z0-9]", "", text)

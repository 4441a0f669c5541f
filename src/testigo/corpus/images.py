"""An image in a row: named by its path and its hash, or held as bytes, and opened the same way everywhere.

A field that holds an image has one of two forms::

    {"image": "cats/0001.png", "sha256": "…"}     a file: path within its source, SHA-256 of its bytes
    {"bytes": "iVBORw0KGgo…", "path": "0001.png"} base64 of a file's bytes, as a Parquet table of images holds them

`open_image` makes of either a picture in RGB, or in shades of grey, with 8 bits a channel and the right side up. What
it had to change it says, and the manifest counts it.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testigo.corpus.row import PlacedRow
from testigo.errors import DataError, Problem

if TYPE_CHECKING:
    from PIL import Image

ENDINGS_OF_IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
FOLDER, SEALED_FOLDER = "images", "sealed/images"
"""Where a corpus keeps the files that its rows name, by their hash: those of test rows behind the seal."""
_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")  # no other decoder sees the bytes of a stranger
_ORIENTATION = 0x0112  # EXIF 2.32, tag Orientation: 1 is upright
_NAMES = {
    "P": "palette-to-rgb",
    "PA": "palette-to-rgb",
    "CMYK": "cmyk-to-rgb",
    "YCbCr": "ycbcr-to-rgb",
    "LAB": "lab-to-rgb",
    "HSV": "hsv-to-rgb",
    "1": "1-bit-to-grey",
}


@dataclass(frozen=True)
class Picture:
    """An opened image: mode RGB or L, 8 bits a channel, upright.

    Attributes
    ----------
    conversions
        What was changed, by name, in order: `exif-orientation`, `cmyk-to-rgb`, `palette-to-rgb`, `16-bit-to-8-bit`,
        `alpha-on-white`, `first-frame`, `1-bit-to-grey`, `ycbcr-to-rgb`, `lab-to-rgb`, `hsv-to-rgb`,
        `exif-unreadable`. Empty when the file already was what it became.
    mode
        The mode that the file had, as Pillow names it.
    """

    image: Image.Image
    conversions: tuple[str, ...]
    mode: str


def is_image(value: Any) -> bool:
    """Whether a field's value is an image in one of the two forms."""
    return isinstance(value, dict) and (value.keys() == {"image", "sha256"} or value.keys() == {"bytes", "path"})


def image_name(value: Mapping[str, Any]) -> str:
    """What to call an image in a message."""
    return str(value.get("image") or value.get("path") or "an image without a name")


def stored_name(value: Mapping[str, Any]) -> str:
    """The name under which a corpus keeps the file of an image."""
    return f"{value['sha256']}{Path(value['image']).suffix.lower()}"


def image_bytes(value: Mapping[str, Any], folder: Path | None) -> bytes:
    """The bytes of an image's file.

    Parameters
    ----------
    folder
        The folder of a corpus, or the source's own folder while there is no corpus yet. Not looked at when the row
        holds the bytes.

    Raises
    ------
    DataError
        When the file is missing or is not the one that the row names by its hash.
    """
    if "bytes" in value:
        return base64.b64decode(value["bytes"])
    name = image_name(value)
    root = folder or Path()
    places = (root / FOLDER / stored_name(value), root / SEALED_FOLDER / stored_name(value), root / name)
    for path in places:
        try:
            content = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise _fault("an image that can be read", error.strerror or "it cannot be read", str(path)) from None
        if hashlib.sha256(content).hexdigest() != value["sha256"]:
            raise _fault("the image as it was when the rows were read", "the file was changed", str(path))
        return content
    raise _fault("the image that the row names", "no such file", str(places[-1]))


def open_image(value: Mapping[str, Any], folder: Path | None = None) -> Picture:
    """An image field as a picture that every image processor takes, with what was converted.

    Parameters
    ----------
    folder
        The folder of the corpus (`corpus.folder`), as for `image_bytes`.

    Raises
    ------
    DataError
        When the file is missing, was changed, is truncated, is no image, is too large to be one (Pillow's own limit
        against decompression bombs), or holds numbers that are no shades of grey.

    Sources: EXIF 2.32, tag Orientation, as Pillow's `ImageOps.exif_transpose` applies it; Pillow, "Concepts: modes".
    """
    return _opened(image_bytes(value, folder), image_name(value))


def _opened(content: bytes, name: str) -> Picture:
    from PIL import Image, UnidentifiedImageError

    too_large = (Image.DecompressionBombError, Image.DecompressionBombWarning)
    try:
        image = Image.open(BytesIO(content), formats=_FORMATS)
        mode, kind = image.mode, image.format
        frames = getattr(image, "n_frames", 1)
        image.load()
    except UnidentifiedImageError:
        found = f"a file of {len(content)} bytes that is none"
        raise _fault(f"an image: {', '.join(_FORMATS)}", found, name, "take the row out, or replace the file") from None
    except too_large as error:
        raise _fault("an image of a size that Pillow opens", str(error)[:160], name, "make the image smaller") from None
    except (OSError, SyntaxError, ValueError, EOFError, IndexError) as error:
        raise _fault("a whole image", f"a broken one: {error}", name, "write the file again, or take it out") from None
    deep = kind == "PNG" and content[24:25] == b"\x10"  # PNG, section 11.2.2: the bit depth is byte 24 of the file
    upright, turned = _upright(image)
    plain, converted = _plain(upright, deep, name)
    first = ("first-frame",) if frames > 1 else ()
    return Picture(plain, (*first, *turned, *converted), mode)


def _upright(image: Image.Image) -> tuple[Image.Image, tuple[str, ...]]:
    """The picture as its camera says that it stands."""
    import struct

    from PIL import ImageOps

    try:
        if image.getexif().get(_ORIENTATION, 1) not in range(2, 9):
            return image, ()
        return ImageOps.exif_transpose(image), ("exif-orientation",)
    except (SyntaxError, struct.error, ValueError, OSError, KeyError, TypeError):
        return image, ("exif-unreadable",)


def _plain(image: Image.Image, deep: bool, name: str) -> tuple[Image.Image, tuple[str, ...]]:
    """In RGB or L with 8 bits, and how it became so."""
    if image.mode.startswith("I"):  # 16 bits, or 32 of which a file uses 16
        return _eight_bits(image, name), ("16-bit-to-8-bit",)
    if image.mode == "F":
        action = "save the image with 8 or 16 bits a channel"
        raise _fault("an image of 8 or 16 bits a channel", "one of floating-point numbers", name, action)
    done = ["16-bit-to-8-bit"] if deep else []  # Pillow has taken the high byte of each number already
    if image.mode in _NAMES:
        done.append(_NAMES[image.mode])
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        from PIL import Image

        over = image.convert("RGBA")
        white = Image.new("RGBA", over.size, (255, 255, 255, 255))
        grey = image.mode in ("L", "LA", "La", "1")
        return Image.alpha_composite(white, over).convert("L" if grey else "RGB"), (*done, "alpha-on-white")
    if image.mode in ("L", "1"):
        return image.convert("L"), tuple(done)
    return image.convert("RGB"), tuple(done)


def _eight_bits(image: Image.Image, name: str) -> Image.Image:
    """65,535 becomes 255: each number divided by 257 and rounded."""
    import numpy as np
    from PIL import Image

    numbers = np.asarray(image).astype(np.int64)
    if numbers.min() < 0 or numbers.max() > 65_535:
        found = f"numbers from {numbers.min()} to {numbers.max()}"
        raise _fault("an image of at most 16 bits a channel", found, name, "save the image with 8 or 16 bits")
    return Image.fromarray(((numbers + 128) // 257).astype(np.uint8))


def examine(rows: Iterable[PlacedRow], field: str) -> tuple[dict[str, Any] | None, list[Problem]]:
    """Open the image of each row once: what the images are and what was converted, and those that cannot be used.

    The first is for the manifest, and None when no row holds an image.
    """
    conversions: Counter[str] = Counter()
    modes: Counter[str] = Counter()
    sizes: Counter[tuple[int, int]] = Counter()
    problems: list[Problem] = []
    for one in rows:
        value = one.row.fields[field]
        if not is_image(value):
            continue
        try:
            picture = open_image(value, one.root)
        except DataError as error:
            where = f"{one.where}, row '{one.row.id}'"
            problems += [Problem(p.expected, p.found, where, p.action) for p in error.problems]
            continue
        conversions.update(picture.conversions)
        modes[picture.mode] += 1
        sizes[picture.image.size] += 1
    if not sizes:
        return None, problems
    by_area = sorted(sizes, key=lambda size: (size[0] * size[1], size))
    told = {
        "count": sizes.total(),
        "conversions": dict(sorted(conversions.items())),
        "modes": dict(sorted(modes.items())),
        "sizes": len(sizes),
        "smallest": list(by_area[0]),
        "largest": list(by_area[-1]),
    }
    return told, problems


def _fault(
    expected: str, found: str, where: str, action: str = "put the file back, or read the rows anew"
) -> DataError:
    return DataError(expected=expected, found=found, where=where, action=action)

"""An image as a person can judge it: the file, the numbers that go into the model, and those as a picture again."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from testigo.corpus.images import image_name, open_image

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

    from testigo.encoding import ImageEncoder, LabelledRow

# Larger pictures are shown smaller; so many signs of base64 are about 6 kB a picture.
SHOWN_PIXELS = 192
_LOSSLESS_PIXELS = 64


@dataclass(frozen=True)
class SeenImage:
    """One image before and after the transformation.

    Attributes
    ----------
    width, height, mode
        Of the file [pixels], and its mode as Pillow names it.
    conversions
        What was changed when it was opened: turned upright, made RGB, 16 bits to 8.
    shape
        Of the tensor: channels, height, width.
    low, high, mean
        Of the tensor's values.
    before, after, restored, varied
        Pictures as `data:` addresses: as it goes into the processor; the tensor's own values, lowest black and highest
        white; the tensor with mean and spread of the processor taken back; one variation that training sees, empty
        where the campaign declares none.
    """

    name: str
    width: int
    height: int
    mode: str
    conversions: tuple[str, ...]
    shape: tuple[int, ...]
    low: float
    high: float
    mean: float
    before: str
    after: str
    restored: str
    varied: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values, without the pictures."""
        names = ("name", "width", "height", "mode", "conversions", "shape", "low", "high", "mean")
        return {name: getattr(self, name) for name in names}


def see_image(encoder: ImageEncoder, row: LabelledRow, *, seed: int) -> SeenImage:
    """A row's image, as evaluation sees it; and as training sees it in its first epoch, where images are varied."""
    assert row.image is not None
    file = open_image(row.image, encoder.folder)
    picture = encoder.picture(replace(row, variation=None))
    values = encoder.pixels([picture])[0].numpy()  # (C, H, W)
    varied = encoder.picture(replace(row, variation=(seed, 0))) if encoder.augment is not None else None
    return SeenImage(
        name=image_name(row.image),
        width=file.image.width,
        height=file.image.height,
        mode=file.mode,
        conversions=file.conversions,
        shape=tuple(values.shape),
        low=float(values.min()),
        high=float(values.max()),
        mean=float(values.mean(dtype=np.float64)),
        before=_address(picture),
        after=_address(_picture_of(_stretched(values))),
        restored=_address(_picture_of(restored(values, encoder.processor))),
        varied=_address(varied) if varied is not None else "",
    )


def restored(values: NDArray[Any], processor: Any) -> NDArray[Any]:
    """(C, H, W) values as they were before the processor's normalisation and rescaling, 0 to 255."""
    plain = values.astype(np.float64)
    if getattr(processor, "do_normalize", False):
        mean, spread = (
            np.atleast_1d(np.asarray(x, dtype=np.float64)) for x in (processor.image_mean, processor.image_std)
        )
        plain = plain * spread.reshape(-1, 1, 1) + mean.reshape(-1, 1, 1)
    if getattr(processor, "do_rescale", False):
        plain = plain + (1.0 if getattr(processor, "rescale_offset", False) else 0.0)  # EfficientNet subtracts 1
        plain = plain / float(processor.rescale_factor)
    return plain


def _stretched(values: NDArray[Any]) -> NDArray[Any]:
    low, high = float(values.min()), float(values.max())
    return (values - low) * (255.0 / (high - low) if high > low else 0.0)


def _picture_of(values: NDArray[Any]) -> Image.Image:
    """(C, H, W) numbers from 0 to 255; of other than 3 channels the first alone, in grey."""
    from PIL import Image

    bytes_ = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return Image.fromarray(bytes_.transpose(1, 2, 0)) if len(bytes_) == 3 else Image.fromarray(bytes_[0])


def _address(picture: Image.Image) -> str:
    """A picture as it stands in the page: small ones to the pixel, larger ones made smaller."""
    shown = picture.convert("RGB") if picture.mode not in ("L", "RGB") else picture.copy()
    shown.thumbnail((SHOWN_PIXELS, SHOWN_PIXELS))
    kind = "PNG" if max(shown.size) <= _LOSSLESS_PIXELS else "JPEG"
    content = BytesIO()
    shown.save(content, kind, **({} if kind == "PNG" else {"quality": 82}))
    return f"data:image/{kind.lower()};base64,{base64.b64encode(content.getvalue()).decode()}"

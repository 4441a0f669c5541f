"""An image becomes what a class head reads: opened, varied in training alone, made into numbers by the processor."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch

from testigo.corpus import Row
from testigo.corpus.images import open_image
from testigo.encoding.augment import vary
from testigo.encoding.classes import Labelled, LabelledRow, labelled, number_of
from testigo.encoding.encoder import Lengths
from testigo.tasks import Task

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True)
class ImageEncoder:
    """Images to pixel values by the base's own processor.

    Attributes
    ----------
    folder
        Of the corpus, which keeps the files that its rows name.
    augment
        The campaign's `training.augment`; only rows with a `variation` are varied.
    """

    processor: Any
    task: Task
    input_field: str
    folder: Path | None = None
    augment: Any = None
    n_channels: int = 3

    maximum_length: ClassVar[int] = 1
    longer: ClassVar[Literal["refuse"]] = "refuse"
    reserve: ClassVar[int] = 0

    def encode(self, row: Row) -> LabelledRow:
        """One row; the image itself is opened when a batch is laid out."""
        return LabelledRow(row.id, row.category, number_of(self.task, row.fields), image=row.fields[self.input_field])

    def encode_all(
        self, rows: Iterable[Row], *, progress: Callable[[], object] = lambda: None
    ) -> tuple[tuple[LabelledRow, ...], Lengths]:
        """Every row of a split. Images have no length, and none is left out."""
        encoded = []
        for row in rows:
            encoded.append(self.encode(row))
            progress()
        return tuple(encoded), Lengths(self.maximum_length, self.longer)

    def fitting(self, fields: dict[str, Any]) -> dict[str, Any]:
        """A row's fields as they are read: nothing of an image is left out."""
        return fields

    def picture(self, row: LabelledRow) -> Image.Image:
        """The row's image as it goes into the processor: upright, RGB, 8 bits; varied where the row says so.

        Raises
        ------
        DataError
            When the file is missing, was changed, or is no whole image.
        """
        assert row.image is not None
        return self.opened(row.image, row)

    def opened(self, image: Mapping[str, Any], row: LabelledRow | None = None) -> Image.Image:
        """An image field as a picture in the model's channels: RGB, or shades of grey where it takes one."""
        picture = open_image(image, self.folder).image.convert("L" if self.n_channels == 1 else "RGB")
        if row is None or row.variation is None or self.augment is None:
            return picture
        seed, epoch = row.variation
        return vary(picture, self.augment, seed=seed, epoch=epoch, row=row.id)

    def pixels(self, pictures: Sequence[Image.Image]) -> torch.Tensor:
        """(B, C, H, W) float32 as the processor makes them."""
        values = self.processor(images=list(pictures), return_tensors="pt")["pixel_values"]
        return torch.as_tensor(values, dtype=torch.float32)

    def lay_out(self, rows: Sequence[LabelledRow]) -> Labelled:
        """A batch of rows."""
        return labelled(rows, {"pixel_values": self.pixels([self.picture(row) for row in rows])})

    def fingerprint(self) -> str:
        """Changes with anything that changes pixel values or classes."""
        settings = {k: v for k, v in self.processor.to_dict().items() if not k.startswith("_")}
        parts = [settings, self.task.labels, self.augment and self.augment.model_dump()]
        return hashlib.sha256(json.dumps(parts, default=str, sort_keys=True).encode()).hexdigest()

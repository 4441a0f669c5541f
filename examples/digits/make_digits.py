"""Make the example again: `python make_digits.py` writes `digits.parquet` and the base model's folder `base/`.

The 1,797 handwritten digits that scikit-learn carries (Alpaydin and Kaynak 1998, UCI "Optical Recognition of
Handwritten Digits") are halved. One half is turned by 25 degrees, as from sheets that were fed aslant, and a small
vision transformer learns it from scratch: that is the base. The other half stands upright and is the campaign's: the
base is often wrong on it, and has to be adapted with few rows. No image is in both halves.
"""

from __future__ import annotations

import argparse
import random
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from sklearn.datasets import load_digits
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessorPil

DEGREES = 25
SIDE = 32  # the 8 × 8 images are enlarged, so that a patch of 4 holds one of their dots
HERE = Path(__file__).resolve().parent


def halves(seed: int) -> tuple[list[int], list[int]]:
    """Places of the turned images, and of the upright ones."""
    places = list(range(len(load_digits().target)))
    random.Random(seed).shuffle(places)
    return sorted(places[: len(places) // 2]), sorted(places[len(places) // 2 :])


def picture(pixels: np.ndarray, *, turned: bool = False) -> Image.Image:
    """One digit in shades of grey, enlarged."""
    image = Image.fromarray(np.round(pixels * (255 / 16)).astype(np.uint8)).resize(
        (SIDE, SIDE), Image.Resampling.BICUBIC
    )
    return image.rotate(DEGREES, Image.Resampling.BICUBIC) if turned else image


def write_rows(path: Path, places: list[int]) -> None:
    """A table of images as they are usually saved: the bytes of a file and its name."""
    digits = load_digits()
    rows = []
    for place in places:
        file = BytesIO()
        picture(digits.images[place]).save(file, "PNG", optimize=True)
        image = {"bytes": file.getvalue(), "path": f"{place:04d}.png"}
        rows.append({"id": f"d{place:04d}", "image": image, "digit": int(digits.target[place])})
    pq.write_table(pa.Table.from_pylist(rows), path)


def teach(places: list[int], *, steps: int, seed: int) -> tuple[Any, Any]:
    """A small vision transformer that knows the turned digits, and its image processor."""
    torch.manual_seed(seed)
    digits = load_digits()
    processor = ViTImageProcessorPil(
        size={"height": SIDE, "width": SIDE}, image_mean=[0.5], image_std=[0.5], do_convert_rgb=False
    )
    names = {k: str(k) for k in range(10)}
    model = ViTForImageClassification(
        ViTConfig(
            image_size=SIDE,
            patch_size=4,
            num_channels=1,
            hidden_size=64,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=128,
            id2label=names,
            label2id={name: k for k, name in names.items()},
        )
    )
    images = [picture(digits.images[place], turned=True) for place in places]
    pixels = torch.as_tensor(processor(images=images, return_tensors="pt")["pixel_values"])
    targets = torch.tensor([int(digits.target[place]) for place in places])
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    order = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        chosen = torch.randint(len(places), (64,), generator=order)
        loss = torch.nn.functional.cross_entropy(model(pixel_values=pixels[chosen]).logits, targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        right = float((model(pixel_values=pixels).logits.argmax(-1) == targets).float().mean())
    print(f"the base is right on {100 * right:.1f} % of the {len(places)} turned images that it learned")
    return model.eval(), processor


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--steps", type=int, default=600)
    asked = parser.parse_args()
    aslant, upright = halves(asked.seed)
    write_rows(asked.out / "digits.parquet", upright)
    model, processor = teach(aslant, steps=asked.steps, seed=asked.seed)
    model.save_pretrained(asked.out / "base")
    processor.save_pretrained(asked.out / "base")

"""One picture of a whole run, for trackers that show pictures."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from testigo.watch.trackers.telling import Line

_MOST_POINTS = 1000


def curves(lines: Iterable[Line]) -> bytes:
    """Training and validation loss over the updates as a PNG; empty when there is none."""
    values: list[dict[str, Any]] = []
    for line in lines:
        kind = "validation" if "validation_loss" in line else "training"
        loss = float(line["validation_loss" if kind == "validation" else "loss"])
        if math.isfinite(loss):
            values.append({"update": line["update"], "loss": loss, "kind": kind})
    if not values:
        return b""
    every = -(-len(values) // _MOST_POINTS)
    kept = [value for n, value in enumerate(values) if n % every == 0 or value["kind"] == "validation"]
    import vl_convert

    specification = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": 640,
        "height": 300,
        "data": {"values": kept},
        "mark": {"type": "line", "point": {"size": 14}},
        "encoding": {
            "x": {"field": "update", "type": "quantitative"},
            "y": {
                "field": "loss",
                "type": "quantitative",
                "title": "loss [nats]",
                "scale": {"zero": False},
            },
            "color": {"field": "kind", "type": "nominal", "title": None},
        },
    }
    png: bytes = vl_convert.vegalite_to_png(specification, scale=1.5)
    return png

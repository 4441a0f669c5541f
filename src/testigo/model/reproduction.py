"""Control inputs: prompts, texts or images whose outputs an export must reproduce, in a fresh process, anywhere."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from testigo.model.cache import empty_cache, places_of, with_cache

if TYPE_CHECKING:
    from PIL.Image import Image

N_LOGITS = 8
T = TypeVar("T")
OnInput = Callable[[int, int], object]
"""Hears how many control inputs are answered, of how many."""


def unheard(done: int, of: int) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class ControlInput:
    """One prompt, what the model wrote, and the logits of the eight lowest ids at the prompt's last place.

    Before a class head: what it read (ids, or `image`, a PNG in base64), the number of the class, and all logits.
    """

    row: str
    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    first_logits: tuple[float, ...]
    image: str = ""

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> ControlInput:
        """What `to_json` gave."""
        ids, output, logits = (tuple(plain[name]) for name in ("prompt_ids", "output_ids", "first_logits"))
        return cls(plain["row"], ids, output, logits, plain.get("image", ""))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {name: value for name, value in vars(self).items() if name != "image" or value}


@dataclass(frozen=True)
class Reproduction:
    """How well recorded control inputs were reproduced."""

    control_rows: int
    outputs_equal: int
    first_logits_error: float
    faults: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Every output token for token."""
        return not self.faults

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"ok": self.ok, **asdict(self)}


def record(
    model: Any,
    prompts: Mapping[str, Sequence[int]],
    *,
    stop_ids: Sequence[int],
    max_new_tokens: int,
    on_input: OnInput = unheard,
) -> tuple[ControlInput, ...]:
    """Greedy outputs, one prompt at a time, by row id."""
    model.eval()
    stops = set(stop_ids)
    return tuple(_answer(model, row, tuple(ids), stops, max_new_tokens) for row, ids in _told(prompts, on_input))


def reproduce(
    model: Any,
    recorded: Sequence[ControlInput],
    *,
    stop_ids: Sequence[int],
    max_new_tokens: int,
    on_input: OnInput = unheard,
) -> Reproduction:
    """Run recorded control inputs again. Outputs must be equal token for token; the logits' error is relative."""
    prompts = {c.row: c.prompt_ids for c in recorded}
    again = record(model, prompts, stop_ids=stop_ids, max_new_tokens=max_new_tokens, on_input=on_input)
    return compared(recorded, again)


def record_classes(
    model: Any, inputs: Mapping[str, Sequence[int] | Image], processor: Any, on_input: OnInput = unheard
) -> tuple[ControlInput, ...]:
    """The class of each text (ids) or image, one at a time, by row id."""
    model.eval()
    return tuple(_class_of(model, row, given, processor) for row, given in _told(inputs, on_input))


def reproduce_classes(
    model: Any, recorded: Sequence[ControlInput], processor: Any, on_input: OnInput = unheard
) -> Reproduction:
    """Run recorded control inputs again. Classes must be equal; the logits' error is relative."""
    inputs = {c.row: _opened(c.image) if c.image else c.prompt_ids for c in recorded}
    return compared(recorded, record_classes(model, inputs, processor, on_input))


def _told(inputs: Mapping[str, T], on_input: OnInput) -> Iterator[tuple[str, T]]:
    """Each input, once the one before it is answered."""
    for n_done, one in enumerate(inputs.items()):
        on_input(n_done, len(inputs))
        yield one
    on_input(len(inputs), len(inputs))


def compared(recorded: Sequence[ControlInput], again: Sequence[ControlInput]) -> Reproduction:
    """The same inputs, answered twice."""
    faults = tuple(
        f"control input {old.row}: wrote {list(new.output_ids[:12])}…, recorded {list(old.output_ids[:12])}…"
        for old, new in zip(recorded, again, strict=True)
        if old.output_ids != new.output_ids
    )
    errors = [
        abs(a - b) / max(abs(b), 1.0)
        for old, new in zip(recorded, again, strict=True)
        for a, b in zip(new.first_logits, old.first_logits, strict=True)
    ]
    return Reproduction(len(recorded), len(recorded) - len(faults), max(errors, default=0.0), faults)


@torch.inference_mode()
def _class_of(model: Any, row: str, given: Sequence[int] | Image, processor: Any) -> ControlInput:
    device = next(model.parameters()).device
    if isinstance(given, Sequence):
        inputs = {
            "input_ids": torch.tensor([list(given)]),
            "attention_mask": torch.ones(1, len(given), dtype=torch.long),
        }
        ids, image = tuple(given), ""
    else:
        inputs = {"pixel_values": torch.as_tensor(processor(images=[given], return_tensors="pt")["pixel_values"])}
        ids, image = (), _written(given)
    logits = model(**{name: value.to(device) for name, value in inputs.items()}).logits[0].float()  # (classes,)
    return ControlInput(row, ids, (int(logits.argmax()),), tuple(logits.tolist()), image)


def _written(picture: Image) -> str:
    """A picture as PNG, which loses nothing, in base64."""
    file = BytesIO()
    picture.save(file, format="PNG")
    return base64.b64encode(file.getvalue()).decode()


def _opened(png: str) -> Image:
    from PIL.Image import open as open_image

    picture = open_image(BytesIO(base64.b64decode(png)), formats=("PNG",))
    picture.load()
    return picture


@torch.inference_mode()
def _answer(model: Any, row: str, prompt: tuple[int, ...], stop_ids: set[int], limit: int) -> ControlInput:
    device = model.get_input_embeddings().weight.device
    cache = empty_cache(model)
    ids = torch.tensor([prompt], device=device)
    written: list[int] = []
    first: tuple[float, ...] | None = None
    while len(written) < min(limit, places_of(model) - len(prompt)):
        logits = model(input_ids=ids, **with_cache(model, cache)).logits[0, -1].float()  # (vocabulary,)
        if first is None:
            first = tuple(logits[:N_LOGITS].tolist())
        token = int(logits.argmax())
        if token in stop_ids:
            break
        written.append(token)
        ids = torch.tensor([[token]], device=device)
    return ControlInput(row, prompt, tuple(written), first or ())

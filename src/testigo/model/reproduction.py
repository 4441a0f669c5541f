"""Control inputs: prompts whose outputs an export must reproduce, in a fresh process, on any machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from testigo.model.cache import empty_cache, places_of, with_cache

N_LOGITS = 8


@dataclass(frozen=True)
class ControlInput:
    """One prompt, what the model wrote, and the logits of the eight lowest ids at the prompt's last place."""

    row: str
    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    first_logits: tuple[float, ...]


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
    model: Any, prompts: Mapping[str, Sequence[int]], *, stop_ids: Sequence[int], max_new_tokens: int
) -> tuple[ControlInput, ...]:
    """Greedy outputs, one prompt at a time, by row id."""
    model.eval()
    return tuple(_answer(model, row, tuple(ids), set(stop_ids), max_new_tokens) for row, ids in prompts.items())


def reproduce(
    model: Any, recorded: Sequence[ControlInput], *, stop_ids: Sequence[int], max_new_tokens: int
) -> Reproduction:
    """Run recorded control inputs again. Outputs must be equal token for token; the logits' error is relative."""
    again = record(model, {c.row: c.prompt_ids for c in recorded}, stop_ids=stop_ids, max_new_tokens=max_new_tokens)
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

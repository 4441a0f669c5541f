"""What a comparison tells beside the registered numbers: noise floor, examples, forgetting, and every run."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from testigo.cli.output import show, show_table

_WIDTH = 79


def print_beside(document: Mapping[str, Any]) -> None:
    """All of it that is there."""
    for line in told_beside(document):
        show(textwrap.fill(line, _WIDTH))
    _print_forgetting(document)
    _print_balance(document)


def told_beside(document: Mapping[str, Any]) -> Iterator[str]:
    """Noise floor, the base with examples, and the choice, a sentence each."""
    if floor := document.get("noise_floor"):
        moved = floor["metrics"].get(document["improvement"]["metric"], {})
        yield (
            f"noise floor: the base answered {floor['n']} rows twice, in other batches; {floor['different']} outputs "
            f"differ (95 % interval {floor['low']:.1%} to {floor['high']:.1%}), "
            f"{document['improvement']['metric']} {moved.get('difference', 0.0):+.3f}"
        )
    if beside := document.get("prompted_baseline"):
        metric = document["improvement"]["metric"]
        own, control = beside["metrics"][metric], beside["control"][metric]
        yield (
            f"the base with {beside['examples']} examples in its prompt: {metric} {own['after']:.3f} "
            f"(without {own['before']:.3f}); the control is {control['difference']:+.3f} from there "
            f"({control['low']:+.3f} to {control['high']:+.3f})"
        )
    if document.get("seeds") is None:
        yield "one seed: it speaks of this adapter; how another seed would fall is not known"
    choice = document.get("choice")
    if choice and document.get("variants"):
        yield f"to the sealed test goes {choice['variant']}: {choice['because']}"


def _print_forgetting(document: Mapping[str, Any]) -> None:
    forgetting = document.get("forgetting") or {}
    rows = []
    for one in forgetting.get("guards") or ():
        what = f"{one['metric']} of {one['task']}" if one["task"] else f"{one['metric']} (nats)"
        interval = f"{one['low']:+.3f} to {one['high']:+.3f}"
        sides = f"{one['before']:.3f}", f"{one['after']:.3f}"
        rows.append((what, *sides, interval, f"{one['within']:g}", one["verdict"]))
    if rows:
        show()
        show_table(("beside the task", "before", "after", "difference", "within", "verdict"), rows)
    elif general := (forgetting.get("general") or {}).get("control"):
        show(
            f"general text: {general['before']:.3f} nats per token before, {general['after']:.3f} after "
            f"({general['difference']:+.3f}); no guard was registered"
        )


def _print_balance(document: Mapping[str, Any]) -> None:
    """Every planned run: none is left out, whatever became of it."""
    balance = document.get("balance") or ()
    if len(balance) < 2 and all(one["counted"] == "compared" for one in balance):
        return
    show()
    show_table(
        ("run", "state", "updates", "examples", "counted"),
        [
            (f"{one['variant']} s{one['seed']}", one["state"], str(one["consequences"]["updates"]),
             str(one["consequences"]["examples"]), one["counted"])
            for one in balance
        ],
    )  # fmt: skip
    seen = set()
    for one in balance:
        if one["changes"] and one["variant"] not in seen:
            seen.add(one["variant"])
            changes = ", ".join(f"{key} {old} → {new}" for key, (old, new) in one["changes"].items())
            show(textwrap.fill(f"{one['variant']}: {changes}, because {one['because']}", _WIDTH))

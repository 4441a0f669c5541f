"""Resume: a run that stopped halfway goes on in a fresh process as the same run, compared line by line."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from testigo.disk import read_lines
from testigo.errors import TestigoError
from testigo.gates.resume import ResumeEvidence
from testigo.model.digest import weights_sha256
from testigo.pilot.bench import Bench
from testigo.training import checkpoint
from testigo.training.launchers import local
from testigo.training.prepare import session
from testigo.training.soundness import bad_moments
from testigo.training.spec import RunSpec

N_UPDATES = 4
STOP_AT = 2
# On a GPU kernels may sum in another order from run to run; on a CPU the same thread count gives the same bits. The
# grade is a word for the reader: R106 judges the difference itself, by its own limit.
TOLERANCE = 1e-2


def collect(bench: Bench, spec: RunSpec, folder: Path) -> ResumeEvidence:
    """The same few updates twice: without a stop in this process, and stopped and gone on in a fresh one."""
    short = _short_spec(bench, spec)
    straight, stopped = folder / "straight", folder / "stopped"
    for place in (straight, stopped):
        shutil.rmtree(place, ignore_errors=True)
        short.write(place)
    bench.back_to_start()
    reference = session(short, _prepared(bench, short), straight)
    if reference.run().state != "completed":
        return ResumeEvidence(device=bench.session.device.type)  # there is nothing to resume: other gates say why
    shutil.copytree(straight / "checkpoints" / f"{STOP_AT:06d}", stopped / "checkpoints" / f"{STOP_AT:06d}")
    kept = [line for line in read_lines(straight / "steps.jsonl") if line["update"] <= STOP_AT]
    (stopped / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
    with bench.off_device():  # the fresh process needs the memory
        local.finish("testigo.training.worker", str(stopped / "spec.json"), log=stopped / "log.txt")
    evidence = compare(straight, stopped, device=bench.session.device.type)
    shutil.rmtree(folder / "straight" / "checkpoints")
    shutil.rmtree(folder / "stopped" / "checkpoints")
    return evidence


def seed_repeats(bench: Bench, folder: Path) -> bool | None:
    """Whether the fresh process began with the initial weights of this one; None when there was none."""
    told = folder / "stopped" / "resume.json"
    if not told.exists():
        return None
    kept: str = json.loads(told.read_text(encoding="utf-8"))["initial_weights_sha256"]
    return kept == weights_sha256(bench.initial)


def compare(straight: Path, stopped: Path, *, device: str) -> ResumeEvidence:
    """Two run folders of the same run: rows, losses, rates and norms update by update, and the final state."""
    a, b = _steps(straight), _steps(stopped)
    resumed = json.loads((stopped / "resume.json").read_text(encoding="utf-8"))
    last = f"{max(a):06d}"
    ends = [folder / "checkpoints" / last for folder in (straight, stopped)]
    weights, optimizer = (
        _same_tensors(*(end / f"{name}.safetensors" for end in ends)) for name in ("weights", "optimizer")
    )
    losses = _equal(a, b, "loss")
    norms = _equal(a, b, "gradient_norm")
    difference = max((abs(a[u]["loss"] - b[u]["loss"]) for u in a.keys() & b.keys()), default=math.inf)
    bits = losses and norms and weights and optimizer
    return ResumeEvidence(
        fresh_process=True,
        device=device,
        updates_before=resumed["from_update"],
        updates_after=max(b, default=0) - resumed["from_update"],
        zero_updates=max(b, default=0) <= resumed["from_update"],
        rows_equal=_equal(a, b, "rows"),
        losses_equal=losses,
        learning_rates_equal=_equal(a, b, "learning_rate"),
        gradient_norms_equal=norms,
        weights_equal=weights,
        optimizer_equal=optimizer,
        max_loss_difference=difference,
        grade="bit for bit" if bits else "within tolerance" if difference <= TOLERANCE else "differs",
        bad_moments=bad_moments(checkpoint.read(straight / "checkpoints" / last).optimizer),
        passed_over=tuple(p["checkpoint"] for p in resumed["passed_over"]),
    )


def _short_spec(bench: Bench, spec: RunSpec) -> RunSpec:
    """A few short rows and updates, with the campaign's own schedule, optimizer, dropout and precision."""
    campaign: dict[str, Any] = json.loads(json.dumps(spec.campaign))
    training = campaign["training"]
    training.pop("epochs", None)
    training |= {
        "updates": N_UPDATES,
        "microbatch": 1,
        "accumulation": 2,
        "validate_every": N_UPDATES,
        "checkpoint": {**training["checkpoint"], "every": STOP_AT, "keep": 3},
        "stop": None,
    }
    return replace(
        spec,
        run_id=f"{spec.run_id}-pilot",
        campaign=campaign,
        rows=tuple(row.id for row in bench.sample[:3]),
        validation_rows=tuple(row.id for row in bench.worst_validation[-1:]),
    )


def _prepared(bench: Bench, short: RunSpec) -> Any:
    return replace(bench.prepared, settings=short.settings())


def _steps(folder: Path) -> dict[int, dict[str, Any]]:
    return {line["update"]: line for line in read_lines(folder / "steps.jsonl") if "loss" in line}


def _equal(a: dict[int, dict[str, Any]], b: dict[int, dict[str, Any]], name: str) -> bool:
    return a.keys() == b.keys() and all(a[update][name] == b[update][name] for update in a)


def _same_tensors(a: Path, b: Path) -> bool:
    try:
        one, two = load_file(a), load_file(b)
    except OSError as error:
        raise TestigoError(
            expected="both runs to end with a checkpoint",
            found=str(error),
            where=str(b.parent),
            action="read the pilot's log beside it",
        ) from error
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)

"""Save and export: the adapter, written as others will get it, reproduces its control inputs in a fresh process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from testigo.campaign import Campaign, planned_runs
from testigo.encoding import ImageEncoder
from testigo.errors import TestigoError
from testigo.gates.export import ExportEvidence
from testigo.model import reproduction
from testigo.model.export import export, merged_error
from testigo.pilot.bench import Bench
from testigo.training import checkpoint
from testigo.training.launchers.local import environment, interrupted

N_CONTROL = 2


def checkpoint_bytes(bench: Bench, folder: Path) -> int:
    """What one checkpoint takes on the disk: written whole, while the optimizer has its state, and deleted."""
    session = bench.session
    weights = checkpoint.weight_tensors(session.parameters)
    moments = checkpoint.optimizer_tensors(session.parameters, session.optimizer)
    saved = checkpoint.save(folder, 1, weights, moments, {})
    n_bytes = sum(path.stat().st_size for path in saved.iterdir())
    shutil.rmtree(folder)
    return n_bytes


def collect(bench: Bench, folder: Path) -> ExportEvidence:
    """Export what the overfit learned, load it elsewhere, and compare."""
    session, model = bench.session, bench.model
    rows = bench.sample[:N_CONTROL]
    prompts = {row.id: _prompt(bench, row) for row in rows}
    stop_ids = () if bench.has_head else bench.text_encoder.frame.stop_ids
    limit = 0 if bench.has_head else max(row.n_answer for row in rows) + 4
    shutil.rmtree(folder, ignore_errors=True)
    finite = all(bool(torch.isfinite(p).all()) for p in session.parameters.values())
    if not finite:
        return ExportEvidence(precision=bench.settings.model.precision, finite=False)
    record = export(model, bench.loaded, folder, prompts=prompts, stop_ids=stop_ids, max_new_tokens=limit)
    with bench.off_device():  # the fresh process needs the memory
        answer = _in_a_fresh_process(folder, bench)
    base = _base_record(bench, prompts, stop_ids)
    return ExportEvidence(
        precision=bench.settings.model.precision,
        fresh_process=True,
        control_rows=answer.get("control_rows"),
        outputs_equal=answer.get("outputs_equal"),
        first_logits_error=answer.get("first_logits_error"),
        base_sha256_bound=record["base"]["weights_sha256"],
        base_sha256_found=bench.loaded.files.identity.weights_sha256,
        keys_missing=_not_loaded(answer),
        keys_unexpected=(),  # a name that the model does not know keeps the export from loading, and is named above
        finite=finite,
        equals_base=None
        if base is None
        else all(tuple(kept["first_logits"]) == own for kept, own in zip(record["control_inputs"], base, strict=True)),
        free_disk_bytes=shutil.disk_usage(folder.parent).free,
        checkpoint_bytes=bench.checkpoint_bytes,
        checkpoints_kept=checkpoints_to_come(bench.settings, folder.parents[2] / "runs"),
    )


def checkpoints_to_come(settings: Campaign, runs: Path) -> int:
    """How many checkpoints all runs of a campaign keep in the end, less those that lie in its `runs` already."""
    plan = [planned.campaign.training for planned in planned_runs(settings)]
    most = [own.checkpoint.keep + 1 for own in plan]  # the best may be an old one
    kept = [min(n, own.updates or n) for n, own in zip(most, plan, strict=True)]
    return max(sum(kept) - len(list(runs.glob("*/checkpoints/[0-9]*[0-9]"))), 0)


def _not_loaded(answer: dict[str, Any]) -> tuple[str, ...]:
    """What kept the export from loading in the fresh process; empty when it was loaded and tried."""
    return () if answer.get("control_rows") else tuple(map(str, answer.get("faults", ("no answer",))))


def with_merged_error(evidence: ExportEvidence, bench: Bench) -> ExportEvidence:
    """Merged against unmerged. The very last step: unmerging leaves the base's weights changed by rounding."""
    rows = bench.sample[:N_CONTROL]
    if bench.has_head:
        prompts: list[Any] = [bench.session.lay_out([row]).inputs for row in rows]  # type: ignore[union-attr]
    else:
        prompts = [row.ids[: row.n_before_answer] for row in rows]
    bench.model.eval()  # dropout would differ from one pass to the next
    return replace(evidence, merged_error=merged_error(bench.model, prompts))


def _prompt(bench: Bench, row: Any) -> Any:
    """What the export is tried with: a prompt's ids, or a picture."""
    if isinstance(bench.encoder, ImageEncoder):
        return bench.encoder.picture(row)
    return row.ids[: row.n_before_answer]


def _base_record(bench: Bench, prompts: dict[str, Any], stop_ids: tuple[int, ...]) -> list[tuple[float, ...]] | None:
    """The first logits of the base alone on the control prompts; None when the whole model was trained."""
    model = bench.model
    if not hasattr(model, "disable_adapter"):
        return None
    with model.disable_adapter():
        if bench.has_head:
            made = reproduction.record_classes(model, prompts, bench.loaded.processor)
        else:
            made = reproduction.record(model, prompts, stop_ids=stop_ids, max_new_tokens=1)
    return [control.first_logits for control in made]


def _in_a_fresh_process(folder: Path, bench: Bench) -> dict[str, Any]:
    settings = bench.settings
    base = settings.model.base
    if base.startswith("path:"):
        base = f"path:{(settings.folder / base.removeprefix('path:')).resolve()}"
    trusted = ["--trust-remote-code"] if settings.model.trust_remote_code else []
    done = subprocess.run(
        [sys.executable, "-m", "testigo.model.control", str(folder), "--base", base, *trusted],
        capture_output=True,
        env=environment(),
        text=True,
        check=False,
    )
    try:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        if done.returncode < 0:
            raise interrupted(-done.returncode, folder) from None
        raise TestigoError(
            expected="the export to load in a fresh process",
            found=(done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1],
            where=str(folder),
            action="report this as a fault of Testigo, with the pilot's log",
        ) from None
    return answer

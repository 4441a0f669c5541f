"""One of the processes of a run, in the pilot: ``python -m testigo.pilot.replica SPEC.json``, started by torchrun.

It trains the first updates of the campaign as the run will, under the run's own launch, and measures each phase for
itself. Where it finds a checkpoint it goes on from there, as the fresh process of the resume's proof. Each process
tells what it took in `process-RANK.json`; the first tells the updates in `updates.json`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from testigo.disk import write_json
from testigo.errors import exit_code_of
from testigo.model.digest import combined_sha256, digests, weights_sha256
from testigo.model.losses import token_losses
from testigo.model.sharding import whole
from testigo.model.starter import end_with_starter
from testigo.pilot.phases import Phases
from testigo.training import checkpoint, replicas
from testigo.training.loop import MAX_SKIPS_IN_A_ROW, Session
from testigo.training.optimizer import autocast
from testigo.training.prepare import prepare, session
from testigo.training.replicas import Part, Replicas
from testigo.training.spec import RunSpec

GRADIENT = "gradient.safetensors"
SAVED_AFTER = 2
"""Updates before the checkpoint from which fresh processes go on."""
N_UPDATES = 4


def process_file(folder: Path, rank: int) -> Path:
    """Where a process tells its phases."""
    return folder / f"process-{rank}.json"


def run(spec_path: Path) -> None:
    """The phases of this process: from the start, or from the checkpoint that lies in the folder."""
    spec, folder = RunSpec.read(spec_path), spec_path.parent
    own = replicas.begin()
    goes_on = (folder / "checkpoints").is_dir()

    def write() -> None:
        told = {"now": phases.now, "phases": [row.to_json() for row in phases.rows]}
        ran_out = [{"phase": one.phase, "message": one.message} for one in phases.memory if one.failed]
        write_json(process_file(folder, own.rank), told | {"ran_out": ran_out})

    phases = Phases(on_change=write)
    base = spec.campaign["model"]["base"]
    if goes_on:
        with phases.measure("resume", "updates in fresh processes"):
            work = session(spec, prepare(spec, own), folder, own)
            work.resume(1)
            lines = _updates(work, work.progress.update + 1, last_update(work))
    else:
        with phases.measure("load", base):
            work = session(spec, prepare(spec, own), folder, own)
        lines = _from_the_start(work, phases, folder)
    _tell(work, lines, folder)
    replicas.end()


def last_update(work: Session) -> int:
    """How far the proof goes: a short plan ends earlier."""
    return min(N_UPDATES, work.order.n_updates)


def worst_rows(work: Session) -> tuple[Any, ...]:
    """The longest training rows, as many as a microbatch holds: each process computes them at once."""
    ordered = sorted(work.rows, key=lambda row: (-row.n_tokens, row.id))
    return tuple(ordered[: work.settings.training.microbatch])


def _from_the_start(work: Session, phases: Phases, folder: Path) -> list[dict[str, Any]]:
    own, worst = work.replicas, worst_rows(work)
    names, longest = tuple(row.id for row in worst), max(row.n_tokens for row in worst)
    described = f"{len(worst)} longest rows (up to {longest} tokens)"
    lines = []
    work.model.train()
    with phases.measure("forward", described, rows=names, tokens=longest):
        pack = work.lay_out(worst)
        with autocast(work.settings.model.precision, work.device):
            losses = token_losses(work.model, pack)
        del losses
    for update in range(1, min(SAVED_AFTER, last_update(work)) + 1):
        n_rows = len(work.order.rows_of(update))
        with phases.measure(f"update-{update}", f"{n_rows} rows of the plan"):
            lines += _updates(work, update, update)
        if update == 1:
            _keep_gradient(work, folder)
    with phases.measure("backward", described, rows=names, tokens=longest):  # beside the optimizer's state
        _worst_backward(work, own, pack)
    with phases.measure("save", "a checkpoint, read back"):
        work.save()
    own.wait()
    if own.is_first:
        (folder / "resumed").mkdir()
        shutil.move(folder / "checkpoints", folder / "resumed" / "checkpoints")
    return lines + _updates(work, SAVED_AFTER + 1, last_update(work))


def _updates(work: Session, first: int, last: int) -> list[dict[str, Any]]:
    """Updates that really happen: under fp16 the scaler may skip the first, and then scales less."""
    work.model.train()
    lines = []
    for update in range(first, last + 1):
        line = work.step(update)
        for _ in range(MAX_SKIPS_IN_A_ROW):
            if not line["skipped"]:
                break
            line = work.step(update)
        lines.append(line)
    return lines


def _worst_backward(work: Session, own: Replicas, pack: Any) -> None:
    work.optimizer.zero_grad(set_to_none=True)
    work.accumulate([Part(own.rank, pack)], n_supervised=own.n * pack.n_supervised, update=1)
    work.replicas.add_gradients(work.parameters.values())
    work.optimizer.zero_grad(set_to_none=True)


def _keep_gradient(work: Session, folder: Path) -> None:
    """As the optimizer received it, for the comparison with one process."""
    gradients = {name: p.grad for name, p in work.parameters.items() if p.grad is not None}
    made = {name: whole(gradient.detach()).to("cpu").contiguous() for name, gradient in gradients.items()}
    if work.replicas.is_first:
        save_file(made, folder / GRADIENT)


def _tell(work: Session, lines: list[dict[str, Any]], folder: Path) -> None:
    weights = weights_sha256(work.parameters)
    moments = combined_sha256(digests(checkpoint.optimizer_tensors(work.parameters, work.optimizer).items()))
    everywhere = work.replicas.gathered(weights)
    if work.replicas.is_first:
        told = {
            "updates": [{name: line[name] for name in ("update", "loss", "gradient_norm", "rows")} for line in lines]
        }
        write_json(folder / "updates.json", told | {"weights": everywhere, "moments": moments})


def main(arguments: list[str]) -> int:
    """Run one process; a user's error is one JSON line on standard error."""
    end_with_starter()
    return exit_code_of(lambda: run(Path(arguments[0])))


if __name__ == "__main__":
    replicas.leave(main(sys.argv[1:]))
    sys.exit(0)

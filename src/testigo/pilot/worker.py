"""The pilot's process: ``python -m testigo.pilot.worker PILOT_DIR/spec.json``.

It goes through every phase once, in the order of the campaign, and writes `evidence.json` and `phases.json` after each,
so that a pilot that dies still tells how far it came. It judges nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from testigo.disk import working_in, write_json
from testigo.errors import exit_code_of
from testigo.gates.duplicates import duplicates_from, near_across
from testigo.gates.evidence import Evidence, to_json
from testigo.gates.forward import ForwardEvidence
from testigo.gates.predicted import FILE as MEMORY
from testigo.gates.splits import splits_from
from testigo.gates.update import UpdateEvidence
from testigo.model.adapter import trained
from testigo.model.device import platform_description
from testigo.model.digest import weights_sha256
from testigo.model.encoder import encoder_of
from testigo.model.quantised import all_weights
from testigo.model.starter import end_with_starter
from testigo.pilot import backward, classes, data, export, forward, memory, processes, resume, speed, update, validation
from testigo.pilot.balance import balance
from testigo.pilot.bench import Bench
from testigo.pilot.phases import OutOfMemory, Phases
from testigo.pilot.speed import Speed
from testigo.pilot.verdict import ALONE
from testigo.room import Notice, patient
from testigo.training.launchers.local import WorkerDied, interrupted
from testigo.training.prepare import Prepared, prepare, session
from testigo.training.spec import RunSpec

PHASES = (
    "load",
    "data",
    "forward",
    "gradients",
    "update-1",
    "update-2",
    "backward",
    "validation",
    "overfit",
    "export",
    "resume",
    "merge",
)


def run(spec_path: Path) -> None:
    """Every phase, the evidence of each, and the platform that the verdict belongs to."""
    spec, folder = RunSpec.read(spec_path), spec_path.parent
    settings = spec.settings()
    several = settings.machine.processes > 1
    named = {phase: f"{phase}{ALONE}" for phase in processes.PHASES} if several else {}
    every = [*processes.PHASES, *(named.get(phase, phase) for phase in PHASES)] if several else list(PHASES)
    evidence: list[Evidence] = []

    def write() -> None:
        document = {
            "phases": [row.to_json() for row in phases.rows],
            "now": phases.now,
            "of": every,
            "platform": platform_description(),
        }
        write_json(folder / "phases.json", document)
        write_json(folder / "evidence.json", to_json([*evidence, *phases.memory]))

    phases = Phases(on_change=write, named=named)
    with suppress(OutOfMemory):  # the memory gate names phase and input
        together = processes.collect(spec, settings, folder, phases) if several else None
        with _room_for_one(phases, needed=settings.machine.strategy == "ddp" or not several):
            _go_through(spec, folder, phases, evidence, together)
    phases.now = ""
    write()


@contextmanager
def _room_for_one(phases: Phases, *, needed: bool) -> Iterator[None]:
    """Sharded weights may have no room in one process: what is proved there could then not be checked, and that is all.

    The run will not need that room.
    """
    try:
        yield
    except OutOfMemory:
        if needed:
            raise
        phases.rows.pop()
        phases.memory.pop()


def _go_through(
    spec: RunSpec, folder: Path, phases: Phases, evidence: list[Evidence], together: processes.Together | None
) -> None:
    if together is not None:
        evidence.append(together.evidence)
    with phases.measure("load", spec.campaign["model"]["base"]):
        digests: list[str] = []  # before the weights go to the device: what a transfer loses is seen at its other end
        prepared = prepare(spec, before_device=lambda model: digests.append(weights_sha256(all_weights(model))))
    bench = _bench(spec, prepared, folder)
    with phases.measure("data", f"{len(bench.session.rows)} + {len(bench.session.validation_rows)} rows"):
        collected = classes.data(bench.classes()) if bench.has_head else data.collect(bench.tensors())
        manifest = prepared.corpus.manifest
        collected = replace(collected, near_copies=near_across(manifest))
        evidence += [collected, splits_from(manifest), duplicates_from(manifest)]
        evidence += balance(prepared.settings, {split: prepared.rows(split) for split in ("train", "validation")})
    with phases.measure("forward", f"{len(bench.sample)} short rows, six ways"):
        seen = _forward(bench, digests[0], evidence)
    if not seen.logits_finite:
        return  # nothing after this can be measured; the forward gate stops the campaign
    with phases.measure("gradients", f"{len(bench.sample)} short rows, three ways"):
        evidence.append(backward.collect(bench))
    bench.back_to_start()
    updated = _updates(bench, phases, evidence, together)
    longest = max(row.n_tokens for row in bench.worst)
    names = tuple(row.id for row in bench.worst)
    with phases.measure("backward", bench.described(bench.worst), rows=names, tokens=longest):
        backward.worst_case(bench)  # now, beside the optimizer's state
    bench.checkpoint_bytes = export.checkpoint_bytes(bench, folder / "checkpoint-size")
    names = tuple(row.id for row in bench.worst_validation)
    longest = max(row.n_tokens for row in bench.worst_validation)
    with phases.measure("validation", bench.described(bench.worst_validation), rows=names, tokens=longest):
        validation.worst_case(bench)
        validated = validation.collect(bench)
        evidence.append(validated)
    ordinary = speed.collect(bench, start_seconds=phases.start_seconds)
    with phases.measure("overfit", f"{update.OVERFIT_ROWS} short rows by heart"):
        learned = update.overfit(bench)
        evidence[-1] = validation.with_learned(validated, learned)
        evidence.append(learned)
    with phases.measure("export", "adapter and control inputs, in a fresh process"):
        exported = export.collect(bench, folder / "export")
    with phases.measure("resume", f"{resume.N_UPDATES} updates, stopped after {resume.STOP_AT}, in a fresh process"):
        evidence.append(resume.collect(bench, spec, folder))
    repeated = replace(updated, seed_twice_equal=resume.seed_repeats(bench, folder))
    evidence[evidence.index(updated)] = repeated
    with phases.measure("merge", "adapter merged into the base, and not"):
        evidence.append(export.with_merged_error(exported, bench))
    evidence[evidence.index(collected)] = replace(collected, longest_run=tuple(sorted(bench.run)))
    write_json(folder / MEMORY, memory.compare(bench, phases.rows).to_json())
    _write_measured(folder, bench, ordinary)


def _updates(
    bench: Bench, phases: Phases, evidence: list[Evidence], together: processes.Together | None
) -> UpdateEvidence:
    """Two updates in this process; where the run has several, theirs are held against them."""
    compared: list[processes.Together] = [] if together is None else [together]

    def after(number: int, line: Mapping[str, Any]) -> None:
        if compared:
            compared.append(compared.pop().beside_one(number, bench.session.parameters, line))

    updated = update.collect(bench, phases, after)
    if compared and together is not None:
        evidence[evidence.index(together.evidence)] = compared[0].evidence
        updated = replace(updated, replica_digests=together.digests)
    evidence.append(updated)
    return updated


def _forward(bench: Bench, weights: str, evidence: list[Evidence]) -> ForwardEvidence:
    if bench.has_head:
        evidence.append(classes.of_the_head(classes.agreement(bench.classes()), bench))
        seen = classes.forward(bench, weights_before=weights)
    else:
        seen = forward.collect(bench, weights_before=weights)
    evidence.append(seen)
    return seen


def _bench(spec: RunSpec, prepared: Prepared, folder: Path) -> Bench:
    splits = {split: prepared.rows(split) for split in ("train", "validation")}
    lengths = {split: prepared.encoder.encode_all(rows)[1] for split, rows in splits.items()}
    bench = Bench(prepared, session(spec, prepared, folder), lengths)
    assert bench.initial  # taken now, before anything moves
    return bench


def _write_measured(folder: Path, bench: Bench, ordinary: Speed) -> None:
    measured = {
        "trained": trained(bench.model).to_json(),
        "rows_per_update": bench.session.order.rows_per_update,
        "updates": bench.session.order.n_updates,
        "encoder": encoder_of(bench.settings, bench.loaded).fingerprint(),
        "speed": ordinary.to_json(),
    }
    write_json(folder / "measured.json", measured)


def main(arguments: list[str]) -> int:
    """Run one pilot; a user's error is one JSON line on standard error."""
    end_with_starter()
    return exit_code_of(lambda: _run(Path(arguments[0])))


def _run(spec: Path) -> None:
    try:
        with working_in(spec.parent), patient(Notice(spec.parent)):
            run(spec)
    except WorkerDied as died:  # that of the resume
        if died.exit_code > 0:
            raise
        raise interrupted(-died.exit_code, died.log) from died


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

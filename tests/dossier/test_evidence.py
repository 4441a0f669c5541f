"""Curves, phases, prompts and outputs over time are those of files that the ledger knows, or are said not to be."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testigo.dossier import evidence, sums, twin, verify_dossier
from testigo.ledger import kinds

EARLIER = "their events are of an earlier version, which recorded no digests"


BESIDE = "dossier.json: does not follow from the events and files beside it: "


def rewrite(dossier: Path, change: Callable[[Any], object]) -> tuple[str, ...]:
    """Change dossier.json and write all digests again; the page stays, and is a fault of its own."""
    document = json.loads((dossier / "dossier.json").read_text(encoding="utf-8"))
    change(document)
    (dossier / "dossier.json").write_text(twin.text_of(document), encoding="utf-8")
    sums.write_sums(dossier)
    return verify_dossier(dossier).faults


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def test_what_is_shown_of_curves_phases_prompts_and_rows_is_drawn_again_from_the_evidence(dossier: Path) -> None:
    def change(d: Any) -> None:
        d["runs"][0]["curve"]["losses"][3] += 0.001
        d["runs"][1].update(best_validation_loss=0.001, weights_sha256="0" * 64)
        d["gates"]["phases"][2]["resident_peak_bytes"] += 1
        d["gates"]["findings"][0]["observed"] = "nothing"
        d["gates"]["passed"][0]["observed"] = "all is well"
        d["data"]["sources"][0]["rows"] = 7
        d["data"]["dropped"] = []
        d["examples"][0]["prompt"] = "another"
        d["environment"]["torch"] = "9.9"

    faults = "\n".join(rewrite(dossier, change))
    for place in (
        "runs[0].curve.losses[3]", "runs[1].best_validation_loss", "runs[1].weights_sha256",
        "gates.phases[2].resident_peak_bytes", "gates.findings[0].observed", "gates.passed[0].observed",
        "data.sources[0].rows", "data.dropped", "examples[0].prompt", "environment.torch",
    ):  # fmt: skip
        assert f"{BESIDE}{place}" in faults, (place, faults)


def test_a_byte_of_the_evidence_is_named_though_all_digests_of_the_dossier_are_written_again(dossier: Path) -> None:
    kinds_of_files = (
        "corpus/manifest.json", "pilot/phases.json", "pilot/findings.json", "runs/*/steps.jsonl", "runs/*/result.json",
    )  # fmt: skip
    paths = [sorted((dossier / "evidence").glob(name))[0] for name in kinds_of_files]
    for path in paths:
        flip(path)
    sums.write_sums(dossier)
    faults = verify_dossier(dossier).faults
    for path in paths:
        name = path.relative_to(dossier).as_posix()
        assert any(fault.startswith(f"{name}: is not the file that event ") for fault in faults), (name, faults)
        path.unlink()
    sums.write_sums(dossier)
    faults = verify_dossier(dossier).faults
    for path in paths:
        assert f"{path.relative_to(dossier).as_posix()}: missing, and the ledger recorded it" in faults


def test_runs_whose_files_were_changed_after_their_end_are_named_in_the_next_dossier(story: Any) -> None:
    with story.ledger() as ledger:
        folders = [story.workspace.run(run.id) for run in ledger.runs()]
    paths = [
        folder / name for folder, name in zip(folders, ("steps.jsonl", "result.json", "findings.jsonl"), strict=False)
    ]
    for path in paths:
        with path.open("a", encoding="utf-8") as file:
            file.write('{"update": 61, "loss": 0.001}\n')
    faults = verify_dossier(story.write()).faults
    for path in paths:
        assert any(f"runs/{path.parent.name}/{path.name}: is" in fault for fault in faults), (path, faults)


def test_a_row_that_is_no_row_of_the_corpus_is_named(dossier: Path) -> None:
    path = dossier / "evidence" / "corpus" / "rows.jsonl"
    line, *rest = path.read_text(encoding="utf-8").splitlines()
    row = json.loads(line)
    row["fields"]["email"] = "Please send one."
    path.write_text("\n".join([json.dumps(row), *rest]) + "\n", encoding="utf-8")
    sums.write_sums(dossier)
    named = f"evidence/corpus/rows.jsonl: row {row['id']!r} is no validation row of the corpus"
    assert named in verify_dossier(dossier).faults
    path.unlink()
    sums.write_sums(dossier)
    named = "evidence/corpus/rows.jsonl: missing, and dossier.json shows rows"
    assert named in verify_dossier(dossier).faults


def test_the_digests_of_rows_are_those_of_the_manifest(dossier: Path) -> None:
    path = dossier / "evidence" / "corpus" / "validation.json"
    digests = json.loads(path.read_text(encoding="utf-8"))
    digests[next(iter(digests))] = "0" * 64
    path.write_text(json.dumps(digests), encoding="utf-8")
    sums.write_sums(dossier)
    assert any("has not the digests of the validation rows" in fault for fault in verify_dossier(dossier).faults)


def test_no_text_of_a_row_that_is_not_shown_lies_in_the_dossier(dossier: Path) -> None:
    manifest = json.loads((dossier / "evidence" / "corpus" / "manifest.json").read_text(encoding="utf-8"))
    assert "shown" not in manifest["duplicates"]
    told = json.loads((dossier / "dossier.json").read_text(encoding="utf-8"))
    lines = (dossier / "evidence" / "corpus" / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["id"] for line in lines} == {one["row"] for one in told["examples"]}


def test_a_run_that_goes_on_is_told_and_its_copied_curve_holds_though_more_is_written(story: Any) -> None:
    folder = story.workspace.run("going")
    folder.mkdir()
    (folder / "steps.jsonl").write_text('{"update": 1, "loss": 2.0}\n{"update": 2, "lo', encoding="utf-8")
    with story.ledger() as ledger:
        ledger.plan_run("going", variant="half-rate", seed=8, defines={})
        ledger.start_run("going")
    result = verify_dossier(story.write())
    assert result.faults == ()
    assert "evidence/runs/going: the run goes on, and its end records the digests" in result.not_checked


def test_an_interrupted_run_may_have_more_lines_than_were_recorded_and_a_resumed_one_has_those_of_its_end(
    story: Any,
) -> None:
    """A process that lost its starter ends by itself, a moment after the interruption was recorded."""
    folder = story.workspace.run("late")
    folder.mkdir()
    steps = folder / "steps.jsonl"
    steps.write_text('{"update": 1, "loss": 2.0}\n', encoding="utf-8")
    with story.ledger() as ledger:
        ledger.plan_run("late", variant="half-rate", seed=7, defines={})
        ledger.start_run("late")
        told = evidence.digests(folder, evidence.OF_A_RUN)
        ledger.end_run("late", state="interrupted", cause="asked to stop", updates=1, seconds=4.0, evidence=told)
    with steps.open("a", encoding="utf-8") as file:
        file.write('{"update": 2, "loss": 1.5}\n')
    (folder / "result.json").write_text('{"updates": 2}', encoding="utf-8")
    result = verify_dossier(story.write())
    assert result.faults == ()
    assert any(line.startswith("evidence/runs/late/steps.jsonl beyond what event ") for line in result.not_checked)
    kept = steps.read_text(encoding="utf-8")
    steps.write_text(kept.replace("2.0", "0.5"), encoding="utf-8")
    faults = verify_dossier(story.write()).faults
    assert any(fault.startswith("evidence/runs/late/steps.jsonl: is not the file") for fault in faults), faults
    steps.write_text(kept + '{"update": 3, "loss": 1.0}\n', encoding="utf-8")
    with story.ledger() as ledger:
        ledger.start_run("late")
        told = evidence.digests(folder, evidence.OF_A_RUN)
        ledger.end_run("late", state="completed", updates=3, seconds=4.0, evidence=told)
    result = verify_dossier(story.write())
    assert result.faults == ()
    assert not any("late" in line for line in result.not_checked)


def test_a_pilot_that_was_begun_again_is_bound_again_by_its_end_alone(story: Any, making: Any) -> None:
    with story.ledger() as ledger:
        ledger.append(kinds.PILOT_REPEATED, {"fingerprint": "p" * 12})
    (story.workspace.pilot("p" * 12) / "findings.json").unlink()
    result = verify_dossier(story.write())
    assert result.faults == ()
    assert "evidence/pilot: no event tells that this pilot ended" in result.not_checked
    shutil.rmtree(story.workspace.pilot("p" * 12))
    making.make_pilot(story)
    result = verify_dossier(story.write())
    assert result.faults == ()
    assert not any("evidence/pilot" in line for line in result.not_checked)


def test_events_of_an_earlier_version_are_told_as_not_checked_and_never_as_false(story: Any, making: Any) -> None:
    result = verify_dossier(making.without_digests(story).write())
    assert result.faults == ()
    (told,) = [line for line in result.not_checked if line.endswith(EARLIER)]
    assert told.startswith("evidence/corpus, evidence/pilot, evidence/runs/")


def test_names_in_events_that_lead_elsewhere_are_no_files_of_the_dossier(
    new_story: Callable[..., Any], tmp_path: Path
) -> None:
    story = new_story()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "steps.jsonl").write_text('{"update": 1, "loss": 7.7}\n', encoding="utf-8")
    body = {"bytes": 27, "sha256": "0" * 64}
    with story.ledger() as ledger:
        ledger.plan_run("late", variant="control", seed=0, defines={})
        ledger.start_run("late")
        ledger.end_run("late", state="interrupted", evidence={"../../../secret/steps.jsonl": body})
    faults = verify_dossier(story.write()).faults
    assert "evidence/runs/late/steps.jsonl: missing, and the ledger recorded it" in faults

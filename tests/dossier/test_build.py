"""Writing the dossier: whole or not at all, and never at the cost of what an export put there."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path
from typing import Any

import pytest

from testigo.dossier import sums, verify_dossier
from testigo.errors import WorkspaceError


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_dossier_holds_what_was_promised(told: Any) -> None:
    names = set(contents(told.workspace.dossier))
    promised = {
        "index.html",
        "dossier.json",
        "dossier.schema.json",
        "MODEL_CARD.md",
        "campaign.yaml",
        "events.jsonl",
        "SHA256SUMS",
        "adapter/adapter_model.safetensors",
        "adapter/testigo.json",
        "predictions/baseline/validation.jsonl",
        "predictions/baseline/validation.meta.json",
    }
    assert promised <= names
    with told.ledger() as ledger:
        finished = [run.id for run in ledger.runs() if run.state == "completed"]
    assert {f"predictions/runs/{name}/validation.jsonl" for name in finished} <= names


def test_sha256sum_of_the_system_agrees(told: Any) -> None:
    command = ["sha256sum", "--check", "--strict", "--quiet", sums.NAME]
    done = subprocess.run(command, cwd=told.workspace.dossier, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_writing_it_again_changes_no_byte(story: Any) -> None:
    before = contents(story.workspace.dossier)
    story.write()
    assert contents(story.workspace.dossier) == before


def test_the_adapter_and_other_exports_are_kept_and_stale_files_go(story: Any) -> None:
    folder = story.workspace.dossier
    before = contents(folder / "adapter")
    (folder / "merged").mkdir()
    (folder / "merged" / "model.safetensors").write_bytes(b"weights")
    (folder / "predictions" / "runs" / "gone-s0-0000000000").mkdir(parents=True)
    (folder / "predictions" / "runs" / "gone-s0-0000000000" / "validation.jsonl").write_text("{}\n", encoding="utf-8")
    story.write()
    after = contents(folder)
    assert contents(folder / "adapter") == before
    assert after["merged/model.safetensors"] == b"weights"
    assert not [name for name in after if "gone" in name]
    assert verify_dossier(folder).ok


def test_what_a_crash_left_between_the_renames_is_mended(story: Any) -> None:
    folder = story.workspace.dossier
    adapter = contents(folder / "adapter")
    folder.rename(folder.with_name(".dossier.old"))
    folder.with_name(".dossier.new").mkdir()
    (folder.with_name(".dossier.new") / "index.html").write_text("half", encoding="utf-8")
    story.write()
    assert contents(folder / "adapter") == adapter
    assert [path.name for path in folder.parent.glob(".dossier.*")] == [".dossier.lock"]
    assert verify_dossier(folder).ok


def test_a_failure_while_writing_leaves_the_old_dossier_whole(story: Any) -> None:
    folder = story.workspace.dossier
    before = contents(folder)
    smallest, largest = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, largest))  # as on a full disk: the page does not fit any more
    try:
        with pytest.raises(WorkspaceError, match="too large"):
            story.write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (smallest, largest))
    assert contents(folder) == before


def test_the_ledger_is_exported_to_the_last_event(told: Any) -> None:
    with told.ledger() as ledger:
        n_events = len(ledger.events())
    lines = (told.workspace.dossier / "events.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == n_events

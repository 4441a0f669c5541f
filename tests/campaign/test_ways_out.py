"""When memory does not suffice, what is offered can be pasted, and keeps what it says that it keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from testigo.campaign import Campaign, load, new_campaign, planned_runs, ways_out


def written(folder: Path, variants: str = "", **training: int) -> Path:
    """The commented campaign of `testigo new`, with other numbers in `training` and variants pasted below."""
    new_campaign(folder)
    path = folder / "campaign.yaml"
    yaml = YAML()
    document: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"))
    document["training"] |= training
    document.pop("variants", None)
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(document, file)
        file.write(variants)
    return path


def examples(campaign: Campaign) -> int:
    return campaign.training.microbatch * campaign.training.accumulation


@pytest.mark.parametrize("phase", ["forward", "gradients", "update-1", "update-2", "backward", "overfit", "resume"])
def test_each_way_out_of_training_can_be_pasted_as_a_variant_and_keeps_the_examples(phase: str, tmp_path: Path) -> None:
    campaign = load(written(tmp_path / "a", microbatch=4, accumulation=2))
    lines = [way.as_yaml("memory ran out") for way in ways_out(campaign, phase)]
    pasted = load(written(tmp_path / "b", "variants:\n" + "\n".join(f"  {line}" for line in lines) + "\n",
                          microbatch=4, accumulation=2))  # fmt: skip
    runs = {planned.variant: planned.campaign for planned in planned_runs(pasted)}
    others = ["bf16", "four-bits", "four-bits-and-checkpointing"]
    assert list(runs) == ["control", "half-microbatch", "checkpointing", "half-and-checkpointing", *others]
    assert {examples(run) for run in runs.values()} == {8}
    assert runs["half-microbatch"].training.microbatch == 2
    assert runs["half-and-checkpointing"].training.activation_checkpointing
    assert [way.name for way in ways_out(campaign, phase) if not way.keeps_gradient] == others


def test_a_microbatch_of_one_row_cannot_be_halved(tmp_path: Path) -> None:
    campaign = load(written(tmp_path, microbatch=1, accumulation=8))
    names = [way.name for way in ways_out(campaign, "backward")]
    assert names == ["checkpointing", "bf16", "four-bits", "four-bits-and-checkpointing"]


def test_in_validation_the_batch_is_halved_in_the_file_since_a_variant_keeps_the_evaluation(tmp_path: Path) -> None:
    campaign = load(written(tmp_path))
    (way,) = ways_out(campaign, "validation")
    assert way.for_all
    assert way.as_yaml("memory ran out").startswith(f"evaluation.batch_size: {campaign.evaluation.batch_size // 2}  #")


def test_where_only_weights_lie_in_memory_only_their_precision_and_bits_help(tmp_path: Path) -> None:
    campaign = load(written(tmp_path))
    assert [way.name for way in ways_out(campaign, "load")] == ["bf16", "four-bits"]


def test_fewer_bits_are_offered_where_the_base_can_be_held_in_them(tmp_path: Path) -> None:
    plain = load(written(tmp_path)).to_json()

    def offered(**model: object) -> list[str]:
        changed = Campaign.from_json(plain | {"model": plain["model"] | model}, folder=tmp_path)
        return [way.name for way in ways_out(changed, "load")]

    assert offered(precision="bf16") == ["four-bits"]
    assert offered(precision="bf16", quantise="8bit") == []
    assert offered(adapter={"method": "full"}) == []
    assert offered(adapter={"method": "lora", "save_modules": ["lm_head"]}) == ["bf16"]

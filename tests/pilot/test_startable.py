"""What can never start is refused before anything of it is registered, from libraries and configuration alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tiny import Tiny

from testigo.errors import MissingExtra, ModelError, TestigoError
from testigo.model import quantised
from testigo.model.base import locate
from testigo.model.chain import chain
from testigo.model.load import load_base
from testigo.pilot.check import check
from testigo.pilot.startable import refuse_unstartable

LORA = {"method": "lora", "rank": 4, "alpha": 8}


@pytest.fixture
def with_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantised, "find_spec", lambda name: name)


def without(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    find = quantised.find_spec
    monkeypatch.setattr(quantised, "find_spec", lambda name: None if name == library else find(name))


def told(tiny: Tiny, changes: dict[str, Any]) -> str:
    with pytest.raises(TestigoError) as caught:
        refuse_unstartable(tiny.campaign(changes), tiny.corpus, tiny.base())
    return str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"model.quantise": "4bit"},
        {"variants": [{"name": "few", "set": {"model.quantise": "8bit"}, "because": "it may fit so"}]},
    ],
    ids=["control", "variant"],
)
def test_few_bits_without_the_library_are_refused_by_check_and_named_by_doctor(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    without(monkeypatch, "bitsandbytes")
    campaign = tiny.campaign(changes)
    with pytest.raises(MissingExtra, match="bitsandbytes"):
        check(campaign, tiny.corpus, tiny.base())
    assert "bitsandbytes" in next(link.problem for link in chain(campaign) if link.name == "quantisation")
    assert not next(link.problem for link in chain(tiny.campaign()) if link.name == "quantisation")


@pytest.mark.parametrize("bits", [None, "4bit"])
def test_a_base_that_is_quantised_already_is_refused(tiny: Tiny, tmp_path: Path, with_library: None, bits: Any) -> None:
    folder = tmp_path / "gptq"
    shutil.copytree(tiny.base().folder, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "gptq"}}))
    campaign = tiny.campaign({"model.base": f"path:{folder}", "model.quantise": bits})
    base = locate(f"path:{folder}")
    for work in (lambda: check(campaign, tiny.corpus, base), lambda: load_base(base)):
        with pytest.raises(ModelError, match="quantised already, by gptq"):
            work()
    assert "gptq" in next(link.problem for link in chain(campaign) if link.name == "base")


@pytest.mark.parametrize(
    ("targets", "words"),
    [(["q_porj"], "'q_porj'"), (["q_proj", "v_porj"], "'v_porj'"), (["self_attn"], "self_attn")],
)
def test_targets_that_are_no_modules_of_the_base_are_refused(tiny: Tiny, targets: list[str], words: str) -> None:
    said = told(tiny, {"model.adapter": {**LORA, "targets": targets}})
    assert words in said
    assert "q_proj" in said.split("expected:")[1].splitlines()[0]


@pytest.mark.parametrize("name", ["lm_head", "embed_tokens"])
def test_what_stays_in_full_is_no_target_beside_few_bits(tiny: Tiny, with_library: None, name: str) -> None:
    adapter = {**LORA, "targets": ["q_proj", name]}
    assert name in told(tiny, {"model.adapter": adapter, "model.quantise": "4bit"})


def test_what_can_start_is_let_through(tiny: Tiny, with_library: None) -> None:
    for changes in (
        {"model.adapter": {**LORA, "targets": ["q_proj"], "save_modules": ["norm"]}},
        {"model.adapter": {**LORA, "targets": ["q_proj", "mlp.up_proj"]}, "model.quantise": "8bit"},
        {"model.adapter": {"method": "full"}},
    ):
        refuse_unstartable(tiny.campaign(changes), tiny.corpus, tiny.base())

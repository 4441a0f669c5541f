"""Bases in few bits with bitsandbytes itself. `tests/model/test_quantised.py` starts these in a process that has it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import memory
import piloted
import pytest
import tiny
import torch
from tiny import Tiny
from transformers import AutoModelForCausalLM

from testigo.model import reproduction
from testigo.model.adapter import attach, trained_parameters
from testigo.model.base import BaseFiles, locate
from testigo.model.digest import weights_sha256
from testigo.model.export import export, load_export, merged_error
from testigo.model.load import dtype_of, load_base
from testigo.model.prepare import fill
from testigo.model.quantised import all_weights, bits_of, loading_options, settle
from testigo.sizing.architecture import shape

BITS = pytest.mark.parametrize("bits", ["4bit", "8bit"])
ADAPTER = SimpleNamespace(method="lora", rank=4, alpha=8.0, dropout=0.0, targets="all-linear", save_modules=())
IDS = torch.arange(40).reshape(2, 20) + 5


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> BaseFiles:
    folder = tmp_path_factory.mktemp("bases") / "base"
    tiny.save_base(folder, "llama", seed=1)
    return locate(f"path:{folder}")


def digest_of(model: Any, *, but: Any) -> str:
    return weights_sha256({name: tensor for name, tensor in all_weights(model).items() if name not in but})


@BITS
def test_training_and_evaluation_leave_every_bit_of_the_base_and_the_export_reproduces(
    bits: Any, base: BaseFiles, tmp_path: Path
) -> None:
    loaded = load_base(base, bits=bits)
    model: Any = attach(loaded.model, ADAPTER, seed=0)
    own = trained_parameters(model)
    before = digest_of(model, but=own)
    assert bits_of(model) == bits
    assert len(all_weights(model)) > len(dict(model.named_parameters())), "scales are weights too"
    optimizer = torch.optim.AdamW(own.values(), lr=1e-2)
    losses = []
    model.train()
    for _ in range(3):
        loss = model(input_ids=IDS, labels=IDS, use_cache=False).loss
        loss.backward()
        assert all(parameter.grad is not None for parameter in own.values())
        losses.append(float(loss.detach()))
        optimizer.step()
        optimizer.zero_grad()
    assert losses[2] < losses[0]
    model.eval()
    with torch.no_grad():
        model(input_ids=IDS)
    assert digest_of(model, but=own) == before
    assert merged_error(model, [[5, 6, 7]]) is None
    record = export(model, loaded, tmp_path / "export", prompts={"a": [5, 6, 7]}, stop_ids=(), max_new_tokens=4)
    assert record["quantised"] == bits
    assert record["base"]["weights_sha256"] == base.identity.weights_sha256, "bound to the files, which are in full"
    again = load_export(tmp_path / "export", base)
    assert bits_of(again) == bits
    recorded = [reproduction.ControlInput.from_json(plain) for plain in record["control_inputs"]]
    assert reproduction.reproduce(again, recorded, stop_ids=(), max_new_tokens=4).ok
    # merged it is the base in full, with the same adapter in its weights
    full = load_base(base)
    whole = attach(full.model, ADAPTER, seed=0)
    fill(trained_parameters(whole), {name: p.detach() for name, p in own.items()}, where="the same adapter")
    merged = export(whole, full, tmp_path / "merged", prompts={"a": [5, 6, 7]}, max_new_tokens=4, merged=True)
    assert (merged["kind"], "quantised" in merged) == ("model", False)
    assert merged["merged_adapter_sha256"] == record["weights_sha256"]
    assert all(p.dtype == torch.float32 for p in load_export(tmp_path / "merged", base).parameters())


@BITS
def test_a_row_gives_the_same_in_training_in_evaluation_and_beside_a_loud_neighbour(bits: Any, base: BaseFiles) -> None:
    model: Any = load_base(base, bits=bits).model
    loud = model.get_input_embeddings().weight
    with torch.no_grad():
        loud[IDS[1]] *= 1000
        alone = model.eval()(input_ids=IDS[:1]).logits[0]
        beside = model(input_ids=IDS).logits[0]
        training = model.train()(input_ids=IDS[:1]).logits[0]
    assert torch.allclose(alone, beside, rtol=0, atol=1e-5 * float(alone.abs().max()))
    assert torch.equal(alone, training)


@BITS
def test_a_healthy_campaign_raises_no_alarm(
    bits: str, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piloted.in_this_process(monkeypatch)
    adapter = {"method": "lora", "rank": 4, "alpha": 8}
    changes = {"model.quantise": bits, "model.adapter": adapter, "training.learning_rate": 1e-2}
    verdict = piloted.pilot(tiny, tmp_path / "pilot", changes)
    assert [(finding.code, finding.observed) for finding in verdict.stops] == []
    assert "bitsandbytes" in (tmp_path / "pilot" / "phases.json").read_text(), "its version belongs to the platform"


@BITS
@pytest.mark.parametrize(("name", "settings"), [
    ("llama", {}), ("llama", {"activation_checkpointing": True}), ("gpt2", {"precision": "bf16"}),
])  # fmt: skip
def test_sizing_without_the_library_predicts_what_it_takes(
    bits: Any, name: str, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = memory.campaign_in(tmp_path)(name, quantise=bits, **settings)
    configuration, dtype = memory.CONFIGURATIONS[name], dtype_of(campaign.model.precision, full=False)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(configuration).save_pretrained(tmp_path / "base")
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=dtype, **loading_options(bits, dtype))
    settle(base)
    model = attach(base, campaign.model.adapter, seed=0)
    held = sum(_bytes_held(model).values())
    predicted = shape(campaign, configuration, adapted=True)
    tensors = {id(t): t.numel() * t.element_size() for t in (*predicted.parameters(), *predicted.buffers())}
    assert sum(tensors.values()) == held
    monkeypatch.setattr(memory, "real_model", lambda *_: (model, memory.Allocator(held)))
    errors = memory.errors_of(campaign, memory.Case(name))
    assert {phase: error for phase, error in errors.items() if not -0.02 <= error <= 0.03} == {}


def _bytes_held(model: Any) -> dict[int, int]:
    """Each storage of weights, scales and tables, once [bytes]."""
    tensors = [*model.parameters(), *model.buffers()]
    for module in model.modules():
        state = getattr(module._parameters.get("weight"), "quant_state", None)
        if state is not None:
            tensors += [state.absmax, state.code, state.offset, state.state2.absmax, state.state2.code]
    tensors += [tensor for name, tensor in all_weights(model).items() if name.endswith(".SCB")]
    return {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}

"""What is trained, and that a seed says all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from testigo.campaign import Campaign
from testigo.errors import ModelError
from testigo.model.adapter import attach, declared_names, trained, trained_parameters
from testigo.model.digest import tensor_sha256, weights_sha256
from testigo.model.load import load_base
from testigo.model.prepare import fill, load_exactly

if TYPE_CHECKING:
    from tiny import Tiny

LORA = {"method": "lora", "rank": 4, "alpha": 8}


def adapted(tiny: Tiny, kind: str = "llama", *, seed: int = 0, **adapter: Any) -> Any:
    adapter = adapter if adapter.get("method") == "full" else {**LORA, **adapter}
    settings = tiny.campaign({"model.base": f"path:{kind}", "model.adapter": adapter})
    return attach(load_base(tiny.base(kind)).model, settings.model.adapter, seed=seed)


def test_the_same_seed_is_the_same_adapter_and_another_seed_another(tiny: Tiny) -> None:
    first = weights_sha256(trained_parameters(adapted(tiny, seed=3)))
    torch.manual_seed(99)  # whatever the global random state is
    assert weights_sha256(trained_parameters(adapted(tiny, seed=3))) == first
    assert weights_sha256(trained_parameters(adapted(tiny, seed=4))) != first


def test_the_global_random_state_is_left_alone(tiny: Tiny) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    adapted(tiny, seed=1)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(("kind", "n_modules"), [("llama", 14), ("gpt2", 8), ("qwen2", 14)])
def test_lora_trains_a_pair_a_linear_layer_and_nothing_else(tiny: Tiny, kind: str, n_modules: int) -> None:
    model = adapted(tiny, kind)
    names = trained(model).names
    assert len(names) == 2 * n_modules
    assert all(".lora_A." in name or ".lora_B." in name for name in names)
    assert not any("lm_head" in name for name in names)
    assert set(names) == set(declared_names(model, tiny.campaign().model.adapter))
    assert 0 < trained(model).share < 0.5


def test_targets_and_saved_modules_are_those_that_the_campaign_names(tiny: Tiny) -> None:
    model = adapted(tiny, targets=["q_proj"], save_modules=["norm"])
    names = trained(model).names
    assert len(names) == 2 * 2 + 1
    assert all("q_proj" in name or "model.norm.modules_to_save" in name for name in names)
    settings = tiny.campaign({"model.adapter": {**LORA, "targets": ["q_proj"], "save_modules": ["norm"]}})
    assert set(names) == set(declared_names(model, settings.model.adapter))


def test_full_training_trains_every_tensor_once(tiny: Tiny) -> None:
    model = adapted(tiny, method="full")
    assert trained(model).names == tuple(name for name, _ in model.named_parameters())
    assert trained(model).share == 1.0


@pytest.mark.parametrize(("kind", "there"), [("llama", "q_proj"), ("gpt2", "c_attn")])
def test_a_target_that_no_module_carries_is_refused_with_those_that_there_are(
    tiny: Tiny, kind: str, there: str
) -> None:
    with pytest.raises(ModelError, match="q_porj") as refused:
        adapted(tiny, kind, targets=["q_porj"])
    assert there in str(refused.value)


def test_a_module_to_save_that_is_not_there_is_refused(tiny: Tiny) -> None:
    with pytest.raises(ModelError, match=r"save_modules") as refused:
        adapted(tiny, save_modules=["embed_token"])
    assert "embed_tokens" in str(refused.value)


def test_a_digest_sees_every_bit_and_dtype_and_shape() -> None:
    tensor = torch.tensor([[0.0, 1.0], [2.0, 3.0]])
    digests = {
        tensor_sha256(tensor),
        tensor_sha256(torch.tensor([[-0.0, 1.0], [2.0, 3.0]])),
        tensor_sha256(tensor.bfloat16()),
        tensor_sha256(tensor.flatten()),
        tensor_sha256(tensor.T),
    }
    assert len(digests) == 5
    assert tensor_sha256(tensor.T) == tensor_sha256(tensor.T.contiguous())


def test_tensors_fill_an_adapter_by_name_or_not_at_all(tiny: Tiny) -> None:
    own = trained_parameters(adapted(tiny))
    tensors = {name: torch.full_like(p, 0.5) for name, p in own.items()}
    first, *_ = tensors
    with pytest.raises(ModelError, match=r"1 missing: .*; 1 unexpected: other"):
        fill(own, {("other" if name == first else name): t for name, t in tensors.items()}, where="a file")
    with pytest.raises(ModelError, match="of another shape"):
        fill(own, {**tensors, first: torch.zeros(1)}, where="a file")
    assert not any(bool((p == 0.5).all()) for p in own.values())
    fill(own, tensors, where="a file")
    assert all(bool((p == 0.5).all()) for p in own.values())


def test_a_base_that_changed_since_it_was_recorded_is_refused(tiny: Tiny) -> None:
    settings: Campaign = tiny.campaign()
    with pytest.raises(ModelError, match="its files have changed"):
        load_exactly(settings, "0" * 64, seed=0)


@pytest.mark.parametrize(
    ("precision", "method", "base", "own"),
    [
        ("fp32", "lora", torch.float32, torch.float32),
        ("bf16", "lora", torch.bfloat16, torch.float32),
        ("fp16", "lora", torch.float32, torch.float32),
        ("bf16", "full", torch.float32, torch.float32),
    ],
)
def test_trained_weights_are_held_in_fp32_and_a_frozen_base_in_bf16(
    tiny: Tiny, precision: str, method: str, base: torch.dtype, own: torch.dtype
) -> None:
    settings = tiny.campaign({"model.precision": precision, "model.adapter": {"method": method}})
    _, model = load_exactly(settings, tiny.base().digest, seed=0, adapted=True)
    assert {p.dtype for p in model.parameters() if p.requires_grad} == {own}
    assert {p.dtype for p in model.parameters() if not p.requires_grad} <= {base}

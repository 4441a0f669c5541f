"""Tiny architectures, and campaigns on them: configurations alone, no weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from transformers import GPT2Config, LlamaConfig, Qwen2Config

from testigo.campaign import Campaign, load, new_campaign

CONFIGURATIONS: dict[str, Any] = {
    "llama": LlamaConfig(
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=3,
        vocab_size=2000,
        max_position_embeddings=512,
    ),
    "small": LlamaConfig(
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=2000,
        max_position_embeddings=512,
    ),
    "gpt2": GPT2Config(
        n_embd=96, n_layer=2, n_head=4, vocab_size=2000, n_positions=512, bos_token_id=1, eos_token_id=1
    ),
    "qwen2": Qwen2Config(
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        vocab_size=3000,
        max_position_embeddings=512,
        tie_word_embeddings=True,
    ),
}


@pytest.fixture(scope="session")
def campaign_on(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Campaign]:
    """A campaign on one of the tiny architectures: its folder holds config.json and nothing else."""
    folder = tmp_path_factory.mktemp("campaigns")
    new_campaign(folder / "new")
    plain = load(folder / "new" / "campaign.yaml").to_json()

    def make(
        name: str, *, method: str = "lora", precision: str = "fp32", layout: str = "packed", **training: Any
    ) -> Campaign:
        CONFIGURATIONS[name].save_pretrained(folder / "new" / name)
        model = plain["model"] | {"base": f"path:{name}", "precision": precision}
        model["adapter"] = model["adapter"] | {"method": method, "rank": 8}
        changed = plain | {
            "model": model,
            "encoding": plain["encoding"] | {"layout": layout},
            "training": plain["training"] | {"microbatch": 2, "accumulation": 1} | training,
            "evaluation": {"max_new_tokens": 12, "batch_size": 3},
        }
        return Campaign.from_json(changed, folder=folder / "new")

    return make


@pytest.fixture(scope="session")
def configurations() -> dict[str, Any]:
    return CONFIGURATIONS


def pytest_configure(config: pytest.Config) -> None:
    # libraries announce names to come
    config.addinivalue_line("filterwarnings", "ignore:.*(gradient_checkpointing|past_key_values).*:FutureWarning")
    config.addinivalue_line("filterwarnings", "ignore:fan_in_fan_out is set to False:UserWarning")  # peft on GPT-2

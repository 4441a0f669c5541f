"""The Python files that a base brings: they run where the campaign declares it, and are part of what the base is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tiny import Tiny
from transformers import dynamic_module_utils

from testigo.cli import run
from testigo.errors import ModelError
from testigo.model import control, locate
from testigo.model.base import base_of
from testigo.model.code import running_code
from testigo.model.export import export, load_export
from testigo.sizing.architecture import shape, source_of
from testigo.training.prepare import Prepared, prepare, session

if TYPE_CHECKING:
    from testigo.campaign import Campaign

TRUSTED = {"model.trust_remote_code": True}
OWN = """
from torch.nn import Linear
from transformers import LlamaConfig, LlamaForCausalLM

from .scale import SCALE


class OwnConfig(LlamaConfig):
    model_type = "own"


class OwnForCausalLM(LlamaForCausalLM):
    config_class = OwnConfig

    def __init__(self, config):
        super().__init__(config)
        self.lm_head = Scaled(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()


class Scaled(Linear):
    def forward(self, hidden):
        return super().forward(hidden) * SCALE
"""
AUTO_MAP = {"AutoConfig": "modeling_own.OwnConfig", "AutoModelForCausalLM": "modeling_own.OwnForCausalLM"}


@pytest.fixture(scope="module")
def own(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiny]:
    """A base that only its own code can load: a Llama whose logits are scaled by a number in another file."""
    folder = tmp_path_factory.mktemp("own")
    shutil.copytree(tiny.folder / "llama", folder / "llama")
    shutil.copyfile(tiny.folder / "orders.jsonl", folder / "orders.jsonl")
    (folder / "llama" / "modeling_own.py").write_text(OWN)
    (folder / "llama" / "scale.py").write_text("SCALE = 1.5\n")
    named(folder / "llama", AUTO_MAP)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_MODULES_CACHE", str(folder / "modules"))  # of the processes that are started
        patch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(folder / "modules"))
        yield Tiny(folder)


@pytest.fixture
def other(own: Tiny, tmp_path: Path) -> Path:
    """A copy of its base, to be changed."""
    return Path(shutil.copytree(own.folder / "llama", tmp_path / "own"))


def named(base: Path, auto_map: dict[str, str]) -> None:
    told = json.loads((base / "config.json").read_text())
    told |= {"model_type": "own", "architectures": ["OwnForCausalLM"], "auto_map": auto_map}
    (base / "config.json").write_text(json.dumps(told))


def trained(own: Tiny, folder: Path, changes: dict[str, Any]) -> Prepared:
    spec = own.spec({**TRUSTED, "training.updates": 3, "training.learning_rate": 0.05, **changes})
    prepared = prepare(spec)
    session(spec, prepared, folder / "run").run()
    encoder: Any = prepared.encoder
    prompts = {row.id: encoder.prompt_ids(row.fields) for row in prepared.rows("validation")[:2]}
    export(prepared.model, prepared.loaded, folder / "export", prompts=prompts, stop_ids=encoder.frame.stop_ids,
           max_new_tokens=4)  # fmt: skip
    return prepared


def settings(own: Tiny, changes: dict[str, Any]) -> Campaign:
    return own.campaign({**changes})


def test_its_code_is_refused_unless_the_campaign_declares_it(own: Tiny) -> None:
    with pytest.raises(ModelError, match="code of its own") as refused:
        prepare(own.spec())
    assert "read its Python files" in refused.value.problems[0].action
    assert "model.trust_remote_code: true" in refused.value.problems[0].action


def test_declared_code_makes_the_model_and_is_told_file_by_file(own: Tiny, tmp_path: Path) -> None:
    prepared = trained(own, tmp_path, {})
    assert set(running_code(prepared.model)) == {"modeling_own.py", "scale.py"}
    assert type(prepared.loaded.model).__name__ == "OwnForCausalLM"
    record = json.loads((tmp_path / "export" / "testigo.json").read_text())
    assert record["base"]["code_sha256"] == prepared.loaded.files.identity.code_sha256 != ""
    base = f"path:{own.folder / 'llama'}"
    with pytest.raises(ModelError, match="own code with digest"):
        control.check_export(tmp_path / "export", base)
    assert control.check_export(tmp_path / "export", base, trusted=True).ok


def test_a_whole_model_carries_its_code_and_loads_with_that_alone(own: Tiny, tmp_path: Path) -> None:
    prepared = trained(own, tmp_path, {"model.adapter": {"method": "full"}})
    folder = tmp_path / "export"
    assert (folder / "scale.py").read_text() == "SCALE = 1.5\n"
    assert control.check_export(folder, f"path:{own.folder / 'llama'}", trusted=True).ok
    record = json.loads((folder / "testigo.json").read_text())
    del record["sha256"]["scale.py"]  # as somebody who tampers would have it
    (folder / "testigo.json").write_text(json.dumps(record))
    (folder / "scale.py").write_text("raise SystemExit('it ran')\n")
    with pytest.raises(ModelError, match="own code with digest"):
        load_export(folder, prepared.loaded.files)


def test_one_changed_line_of_code_is_another_base_with_the_same_weights(own: Tiny, other: Path, tmp_path: Path) -> None:
    before = base_of(settings(own, TRUSTED))
    trained(own, tmp_path, {})
    (other / "scale.py").write_text("SCALE = 1.6\n")
    after = locate(f"path:{other}", trusted=True)
    assert after.code == ("modeling_own.py", "scale.py")
    assert after.digest != before.digest
    assert after.identity.weights_sha256 == before.identity.weights_sha256
    with pytest.raises(ModelError, match="own code with digest"):
        load_export(tmp_path / "export", after)


def test_trust_that_nothing_needs_is_refused(tiny: Tiny) -> None:
    with pytest.raises(ModelError, match="brings code of its own") as refused:
        locate(f"path:{tiny.folder / 'llama'}", trusted=True)
    assert "remove model.trust_remote_code" in refused.value.problems[0].action


@pytest.mark.parametrize(
    ("auto_map", "words"),
    [
        ({"AutoConfig": "somebody/else--modeling_own.OwnConfig"}, "code of another model: somebody/else--modeling_own"),
        ({"AutoTokenizer": ["somebody/else--own.Own", None]}, "somebody/else--own"),
    ],
)
def test_code_that_lies_elsewhere_has_no_digest_and_is_refused(other: Path, auto_map: Any, words: str) -> None:
    named(other, auto_map)
    with pytest.raises(ModelError, match=words):
        locate(f"path:{other}", trusted=True)


def test_code_that_is_named_and_not_there_is_told(other: Path) -> None:
    for path in other.glob("*.py"):
        path.unlink()
    with pytest.raises(ModelError, match="there is no Python file"):
        locate(f"path:{other}", trusted=True)


def test_a_base_of_own_code_is_sized_where_it_is_declared(own: Tiny) -> None:
    campaign = settings(own, TRUSTED)
    model = shape(campaign, source_of(campaign).configuration(), adapted=False)
    assert type(model).__name__ == "OwnForCausalLM"
    with pytest.raises(ModelError):
        source_of(settings(own, {})).configuration()


def test_verify_runs_no_code_that_it_was_not_told_to(
    own: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(own, tmp_path, {})
    named_base = ["--base", f"path:{own.folder / 'llama'}", "--json"]
    assert run(["verify", str(tmp_path / "export"), *named_base]) == 0
    told = json.loads(capsys.readouterr().out)
    assert any("--trust-remote-code lets it run" in line for line in told["not_checked"])
    assert run(["verify", str(tmp_path / "export"), *named_base, "--trust-remote-code"]) == 0
    assert "control" in str(json.loads(capsys.readouterr().out)["checked"])

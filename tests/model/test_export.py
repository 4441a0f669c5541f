"""What others load: whole, bound to its base, and proved by its control inputs."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import in_process, save_base
from transformers import AutoTokenizer, GenerationConfig

from testigo.disk import file_sha256
from testigo.errors import ModelError, VerificationFailed, WorkspaceError
from testigo.model import control, export_worker, locate, reproduction
from testigo.model.adapter import attach, trained_parameters
from testigo.model.export import export, load_export, merged_error, read_record
from testigo.model.load import load_base
from testigo.training.prepare import Prepared, prepare, session

if TYPE_CHECKING:
    from tiny import Tiny


def trained(tiny: Tiny, folder: Path, changes: dict[str, Any] | None = None) -> Prepared:
    spec = tiny.spec({"training.updates": 3, "training.learning_rate": 0.05, **(changes or {})})
    prepared = prepare(spec)
    session(spec, prepared, folder).run()
    return prepared


def exported(prepared: Prepared, folder: Path, **changes: Any) -> dict[str, Any]:
    encoder = prepared.encoder
    prompts = {row.id: encoder.prompt_ids(row.fields) for row in prepared.rows("validation")[:3]}
    settings = {"prompts": prompts, "stop_ids": encoder.frame.stop_ids, "max_new_tokens": 6, **changes}
    return export(prepared.model, prepared.loaded, folder, **settings)


@pytest.fixture(scope="module")
def adapter(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export of a short run."""
    folder = tmp_path_factory.mktemp("exported")
    exported(trained(tiny, folder / "run"), folder / "adapter")
    return folder / "adapter"


@pytest.fixture
def copy(adapter: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(adapter, tmp_path / "adapter"))


def resealed(folder: Path) -> None:
    """The record says again what the files are, as somebody who tampers would have it."""
    record = json.loads((folder / "testigo.json").read_text())
    record["sha256"] = {name: file_sha256(folder / name) for name in record["sha256"]}
    (folder / "testigo.json").write_text(json.dumps(record))


def test_a_fresh_process_reproduces_the_control_inputs(tiny: Tiny, adapter: Path) -> None:
    worker = in_process("testigo.model.control", str(adapter), "--base", f"path:{tiny.folder / 'llama'}")
    out, _ = worker.communicate()
    answer = json.loads(out)
    assert worker.returncode == 0
    assert answer["ok"]
    assert answer["control_rows"] == answer["outputs_equal"] == 3
    assert answer["first_logits_error"] == 0.0


def test_a_full_model_and_other_architectures_come_back_too(tiny: Tiny, tmp_path: Path) -> None:
    for kind, method in (("llama", "full"), ("gpt2", "lora"), ("qwen2", "lora")):
        changes = {"model.base": f"path:{kind}", "model.adapter": {"method": method}}
        record = exported(trained(tiny, tmp_path / f"{kind}-run", changes), tmp_path / kind)
        assert record["kind"] == {"full": "model", "lora": "adapter"}[method]
        again = control.check_export(tmp_path / kind, f"path:{kind}", relative_to=tiny.folder)
        assert again.ok
        assert again.first_logits_error == 0.0


def test_control_inputs_tell_the_adapter_from_the_base(tiny: Tiny, adapter: Path) -> None:
    record = read_record(adapter)
    model = load_export(adapter, tiny.base())
    inputs = [reproduction.ControlInput(**{k: tuple(v) if isinstance(v, list) else v for k, v in c.items()})
              for c in record["control_inputs"]]  # fmt: skip
    limits = {"stop_ids": record["stop_ids"], "max_new_tokens": record["max_new_tokens"]}
    assert reproduction.reproduce(model, inputs, **limits).ok
    with model.disable_adapter():
        assert reproduction.reproduce(model, inputs, **limits).first_logits_error > 1e-3


def test_the_record_binds_the_adapter_to_its_base(tiny: Tiny, adapter: Path) -> None:
    record = read_record(adapter)
    assert record["base"] == tiny.base().identity.to_json()
    settings = json.loads((adapter / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == "llama"
    assert str(tiny.folder) not in (adapter / "adapter_config.json").read_text()
    assert AutoTokenizer.from_pretrained(adapter).chat_template is not None
    assert set(GenerationConfig.from_pretrained(adapter).eos_token_id) == set(record["stop_ids"])


def test_another_base_of_the_same_shape_is_refused(tiny: Tiny, adapter: Path, tmp_path: Path) -> None:  # C41
    other = save_base(tmp_path / "llama", "llama", seed=1)
    with pytest.raises(ModelError, match="load the adapter on the base that it was trained on"):
        load_export(adapter, locate(f"path:{other}"))


def test_a_changed_byte_is_refused_by_name(copy: Path) -> None:
    path = copy / "adapter_model.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(VerificationFailed, match=r"changed: adapter_model\.safetensors"):
        read_record(copy)


def test_renamed_keys_are_named_and_refused(tiny: Tiny, copy: Path) -> None:
    path = copy / "adapter_model.safetensors"
    tensors = {name.replace("layers.1.", "layers.9."): tensor for name, tensor in load_file(path).items()}
    save_file(tensors, path)
    resealed(copy)
    with pytest.raises(ModelError, match=r"did not arrive: .*layers\.[19]\."):
        load_export(copy, tiny.base())


@pytest.mark.parametrize(("kind", "saved"), [("llama", []), ("qwen2", ["embed_tokens", "lm_head"])])
def test_added_tokens_come_back_with_their_embeddings(tiny: Tiny, tmp_path: Path, kind: str, saved: list[str]) -> None:
    """C40: frozen and tied to the outputs; trained, and not tied."""
    loaded = load_base(tiny.base(kind))
    added = [f"<added{n}>" for n in range(4)]
    assert loaded.tokenizer.add_tokens(added) == 4
    torch.manual_seed(3)
    loaded.model.resize_token_embeddings(len(loaded.tokenizer), mean_resizing=False)
    with torch.no_grad():
        loaded.model.get_input_embeddings().weight[-4:].normal_(0.0, 0.3)
    settings = tiny.campaign({"model.adapter": {"method": "lora", "rank": 4, "save_modules": saved}}).model.adapter
    model = attach(loaded.model, settings, seed=0)
    with torch.no_grad():
        for parameter in trained_parameters(model).values():
            parameter.add_(0.1)
    ids = loaded.tokenizer("".join(added) + "Hello,")["input_ids"]
    assert min(ids[:4]) >= len(loaded.tokenizer) - 4
    record = export(model, loaded, tmp_path / "adapter", prompts={"added": ids}, max_new_tokens=6)
    assert record["embedding_rows"] == len(loaded.tokenizer)
    worker = in_process("testigo.model.control", str(tmp_path / "adapter"), "--base", f"path:{tiny.folder / kind}")
    answer = json.loads(worker.communicate()[0])
    assert answer["ok"], answer
    assert answer["first_logits_error"] == 0.0
    assert AutoTokenizer.from_pretrained(tmp_path / "adapter").convert_tokens_to_ids(added) == ids[:4]


def test_a_compiled_model_is_exported_by_the_names_of_its_base(tiny: Tiny, tmp_path: Path) -> None:  # C42
    prepared = trained(tiny, tmp_path / "run")
    whole = dataclasses.replace(prepared, model=torch.compile(prepared.model))
    assert any("_orig_mod." in name for name, _ in whole.model.named_parameters())
    exported(whole, tmp_path / "adapter")
    assert not any("_orig_mod" in name for name in load_file(tmp_path / "adapter" / "adapter_model.safetensors"))
    again = control.check_export(tmp_path / "adapter", f"path:{tiny.folder / 'llama'}")
    assert again.ok
    assert again.first_logits_error == 0.0


def test_a_compiled_module_inside_is_named_and_refused(tiny: Tiny, tmp_path: Path) -> None:  # C42
    prepared = tiny.prepared()
    layers = prepared.model.get_base_model().model.layers
    layers[1] = torch.compile(layers[1])
    with pytest.raises(ModelError, match=r"names of compiled modules: .*layers\.1\._orig_mod\."):
        exported(prepared, tmp_path / "adapter")
    assert not (tmp_path / "adapter").exists()


def test_an_adapter_with_a_value_that_is_not_finite_cannot_be_exported(tiny: Tiny, tmp_path: Path) -> None:
    prepared = trained(tiny, tmp_path / "run")
    with torch.no_grad():
        next(p for p in prepared.model.parameters() if p.requires_grad).view(-1)[5] = float("nan")
    with pytest.raises(ModelError, match="1 tensors with NaN or infinity"):
        exported(prepared, tmp_path / "adapter")
    assert not (tmp_path / "adapter").exists()


def test_an_export_is_found_again_and_never_overwritten(tiny: Tiny, tmp_path: Path) -> None:
    prepared = trained(tiny, tmp_path / "run")
    record = exported(prepared, tmp_path / "adapter")
    assert exported(prepared, tmp_path / "adapter") == json.loads(json.dumps(record))
    other = trained(tiny, tmp_path / "other", {"training.learning_rate": 0.01})
    with pytest.raises(WorkspaceError, match="an old adapter is never overwritten"):
        exported(other, tmp_path / "adapter")
    assert read_record(tmp_path / "adapter")["weights_sha256"] == record["weights_sha256"]


def test_a_folder_that_is_no_export_stays_as_it_is(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(VerificationFailed):
        exported(tiny.prepared(), tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_an_export_looks_nothing_up_elsewhere(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refuse(_socket: Any, address: Any, *_: Any) -> None:
        asked.append(str(address))
        raise OSError("no network in this test")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", lambda host, *_a, **_k: refuse(None, host))
    exported(tiny.prepared(), tmp_path / "adapter")
    load_export(tmp_path / "adapter", tiny.base())
    assert asked == []


def test_a_base_that_samples_by_default_is_exported_to_answer_greedily(tiny: Tiny, tmp_path: Path) -> None:
    prepared = tiny.prepared()
    own = prepared.loaded.model.generation_config
    own.do_sample, own.temperature, own.top_p, own.top_k = True, 0.6, 0.9, 20
    exported(prepared, tmp_path / "adapter")
    kept = GenerationConfig.from_pretrained(tmp_path / "adapter")
    assert not kept.do_sample
    assert kept.temperature in (None, 1.0)


def test_a_save_that_fails_leaves_nothing_behind(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceError, match="room and permission for the export"):
        exported(tiny.prepared(), tmp_path / "file" / "adapter")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_merged_model_says_the_same_up_to_rounding(tiny: Tiny, tmp_path: Path) -> None:
    prepared = trained(tiny, tmp_path / "run")
    prompts = [prepared.encoder.prompt_ids(row.fields) for row in prepared.rows("validation")[:2]]
    error = merged_error(prepared.model, prompts)
    assert error is not None
    assert error < 1e-5
    assert merged_error(tiny.prepared({"model.adapter": {"method": "full"}}).model, prompts) is None


def test_the_export_worker_exports_a_checkpoint(tiny: Tiny, tmp_path: Path) -> None:
    spec = tiny.spec({"training.updates": 3})
    run = tiny.session(tmp_path / "run", {"training.updates": 3})
    run.run()
    weights = tmp_path / "run" / "checkpoints" / "000003" / "weights.safetensors"
    rows = tuple(row.id for row in run.validation_rows[:2])
    asked = export_worker.ExportSpec(
        spec.campaign, spec.campaign_folder, spec.corpus, spec.base_digest, str(weights), 0, rows, str(tmp_path / "out")
    )
    path = asked.write(tmp_path / "export.json")
    assert export_worker.main([str(path)]) == 0
    record = read_record(tmp_path / "out")
    assert [c["row"] for c in record["control_inputs"]] == list(rows)
    assert record["trained"] == list(run.parameters)
    assert control.check_export(tmp_path / "out", f"path:{tiny.folder / 'llama'}").ok


def test_control_inputs_end_where_the_model_has_no_more_places(tiny: Tiny) -> None:
    model = tiny.prepared({"model.base": "path:gpt2"}).model
    prompt = tuple(range(20, 220)) + tuple(range(20, 74))
    (answer,) = reproduction.record(model, {"long": prompt}, stop_ids=(), max_new_tokens=9)
    assert len(prompt) + len(answer.output_ids) == 256

"""The class head of a base: kept, new or refused; its first values; what an export of it reproduces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import classes
import pytest
import torch
from safetensors.torch import load_file

from testigo.errors import ModelError
from testigo.model.adapter import declared_names, trained_parameters
from testigo.model.base import locate
from testigo.model.control import check_export
from testigo.model.encoder import control_input, encoder_of
from testigo.model.export import export, merged_error
from testigo.model.head import Head, are_names
from testigo.model.load import load_base
from testigo.model.prepare import load_exactly

if TYPE_CHECKING:
    from tiny import Tiny

LABELS = ("billing", "delivery", "login")


def test_the_same_seed_draws_the_same_new_head_and_leaves_the_random_state_alone(texts: Tiny) -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    made = [load_base(texts.base("bert"), head=Head(LABELS, "text", seed=seed)) for seed in (0, 0, 1)]
    assert torch.equal(torch.rand(2), expected)
    one, same, other = (own.model.classifier.weight for own in made)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert made[0].new_head
    assert made[0].head == ("classifier",)
    assert made[0].model.config.id2label == dict(enumerate(LABELS))
    assert torch.equal(made[0].model.bert.pooler.dense.weight, made[2].model.bert.pooler.dense.weight)


def test_a_pooler_that_the_base_lacks_is_part_of_the_new_head(tmp_path: Path) -> None:
    from transformers import BertModel

    folder = classes.save_bert(tmp_path / "bert")
    BertModel.from_pretrained(folder, add_pooling_layer=False).save_pretrained(folder)
    made = [load_base(locate(f"path:{folder}"), head=Head(LABELS, "text", seed=seed)) for seed in (0, 0)]
    assert made[0].head == ("classifier", "bert.pooler")
    assert torch.equal(made[0].model.bert.pooler.dense.weight, made[1].model.bert.pooler.dense.weight)


def test_a_head_for_these_classes_is_kept_with_its_weights_and_its_order(tmp_path: Path) -> None:
    folder = classes.save_bert(tmp_path / "bert", ("login", "billing", "delivery"))
    kept = load_base(locate(f"path:{folder}"), head=Head(LABELS, "text"))
    assert not kept.new_head
    assert kept.model.config.id2label[0] == "login", "a trained head's order is what its weights mean"
    assert torch.equal(kept.model.classifier.weight, load_file(folder / "model.safetensors")["classifier.weight"])


@pytest.mark.parametrize("own", [("a", "b"), ("a", "b", "c"), ("billing", "delivery", "login", "other")])
def test_a_head_for_other_classes_is_refused_or_replaced_as_declared(tmp_path: Path, own: tuple[str, ...]) -> None:
    files = locate(f"path:{classes.save_bert(tmp_path / 'bert', own)}")
    with pytest.raises(ModelError, match=r"model\.head: new") as refused:
        load_base(files, head=Head(LABELS, "text"))
    assert f"for {len(own)}: {own[0]}" in str(refused.value)
    replaced = load_base(files, head=Head(LABELS, "text", "new"))
    assert replaced.new_head
    assert replaced.model.classifier.weight.shape[0] == 3


def test_numbers_that_transformers_writes_are_no_names() -> None:
    assert not are_names(("LABEL_0", "LABEL_1"))
    assert are_names(("LABEL_1", "LABEL_0"))
    assert not are_names(())


def test_a_base_whose_layers_are_missing_is_still_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    folder = classes.save_bert(tmp_path / "bert")
    tensors = load_file(folder / "model.safetensors")
    lost = next(name for name in tensors if "layer.1.output.dense.weight" in name)
    save_file({name: t for name, t in tensors.items() if name != lost}, folder / "model.safetensors")
    with pytest.raises(ModelError, match="missing keys"):
        load_base(locate(f"path:{folder}"), head=Head(LABELS, "text"))


def test_a_package_may_hold_its_model_in_one_folder_inside_and_not_in_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "holds_a_model"
    package.mkdir()
    (package / "__init__.py").write_text("")
    classes.save_bert(package / "model")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("testigo.model.base._package_version", lambda name: "1.0")
    assert locate("package:holds_a_model").folder == package / "model"
    classes.save_bert(package / "other")
    with pytest.raises(ModelError, match=r"2: model, other"):
        locate("package:holds_a_model")


@pytest.mark.parametrize(
    ("kind", "adapter"),
    [
        ("bert", {"method": "lora", "rank": 4, "alpha": 8}),
        ("llama", {"method": "lora", "rank": 4, "alpha": 8}),
        ("bert", {"method": "full"}),
        ("vit", {"method": "lora", "rank": 4, "alpha": 8}),
        ("resnet", {"method": "full"}),
    ],
)
def test_an_export_with_its_head_is_reproduced_and_merges(
    texts: Tiny, images: Tiny, tmp_path: Path, kind: str, adapter: dict[str, Any]
) -> None:
    tiny = images if kind in ("vit", "resnet") else texts
    settings = tiny.campaign({"model.base": f"path:{kind}", "model.adapter": adapter})
    labels = classes.SHAPES if tiny is images else LABELS
    loaded, model = load_exactly(settings, tiny.base(kind).digest, seed=0, adapted=True, labels=labels)
    own = trained_parameters(model)
    assert set(own) == set(declared_names(model, settings.model.adapter, loaded.head))
    with torch.no_grad():
        for parameter in own.values():
            parameter.add_(torch.full_like(parameter, 0.01))
    encoder = encoder_of(settings, loaded, tiny.corpus.folder)
    rows = tiny.corpus.rows("validation")[:2]
    prompts = {row.id: control_input(encoder, row) for row in rows}
    record = export(model, loaded, tmp_path / "export", prompts=prompts)
    assert record["head"]["labels"] == list(labels)
    written = json.loads((tmp_path / "export" / "config.json").read_text())
    assert [written["id2label"][str(number)] for number in range(3)] == list(labels)
    assert (tmp_path / "export" / "preprocessor_config.json").exists() == (tiny is images)
    again = check_export(tmp_path / "export", f"path:{kind}", relative_to=tiny.folder)
    assert again.ok
    assert again.control_rows == 2
    assert again.first_logits_error < 1e-5
    batches = [encoder.lay_out([encoder.encode(row)]).inputs for row in rows]  # type: ignore[union-attr]
    merged = merged_error(model, batches)
    assert (merged is None) if adapter["method"] == "full" else (merged is not None and merged < 1e-4)


def test_an_export_of_images_answers_in_a_fresh_process(images: Tiny, tmp_path: Path) -> None:
    settings = images.campaign()
    loaded, model = load_exactly(settings, images.base("vit").digest, seed=0, adapted=True, labels=classes.SHAPES)
    encoder = encoder_of(settings, loaded, images.corpus.folder)
    row = images.corpus.rows("validation")[0]
    export(model, loaded, tmp_path / "export", prompts={row.id: control_input(encoder, row)})
    done = subprocess.run(
        [sys.executable, "-m", "testigo.model.control", str(tmp_path / "export"), "--base",
         f"path:{images.folder / 'vit'}"], env=os.environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[-1])["ok"]

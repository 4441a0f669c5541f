"""What makes two campaigns the same, and what a run is named by."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from ruamel.yaml import YAML

from testigo.campaign import Campaign, PlannedRun, load, new_campaign, planned_runs, run_definition, run_id
from testigo.campaign.campaign import DEFINES_NO_RESULT
from testigo.campaign.wording import keys_of, section_of
from testigo.errors import CampaignError

FULL: dict[str, Any] = {
    "campaign": "whole",
    "question": "Is every key set?",
    "task": {
        "kind": "extraction",
        "input": "email",
        "target": "order",
        "category": "domain",
        "schema": "order.schema.json",
        "system": "Follow {schema}",
    },
    "hypothesis": {
        "improve": {"metric": "exact_match", "by": 0.1},
        "keep": [{"metric": "valid_json", "within": 0.02}],
        "alpha": 0.04,
    },
    "data": {
        "source": "orders.jsonl",
        "id": "id",
        "group": "customer",
        "clean": ["strip"],
        "duplicates": {
            "exact": "drop",
            "near": 0.9,
            "near_policy": "drop",
            "overlap": 0.5,
            "overlap_policy": "drop",
            "contained": "drop",
            "conflicts": "report",
        },
        "engine": "local",
        "split": {"train": 0.6, "validation": 0.2, "test": 0.2, "seed": 7},
    },
    "model": {
        "base": "path:base",
        "adapter": {
            "method": "lora",
            "rank": 8,
            "alpha": 16,
            "dropout": 0.1,
            "targets": ["q_proj"],
            "save_modules": ["lm_head"],
        },
        "precision": "fp32",
        "quantise": None,
    },
    "encoding": {
        "maximum_length": 512,
        "longer": "refuse",
        "layout": "packed",
        "turns": "all",
        "tools": "text",
        "template_options": {"enable_thinking": False},
    },
    "training": {
        "updates": 40,
        "epochs": None,
        "microbatch": 2,
        "accumulation": 4,
        "learning_rate": 1e-4,
        "schedule": {"kind": "cosine", "warmup": 0.1},
        "weight_decay": 0.01,
        "clip": 1.5,
        "activation_checkpointing": False,
        "validate_every": 10,
        "checkpoint": {"every": 20, "keep": 2},
        "stop": {"metric": "validation_loss", "patience": 3},
    },
    "evaluation": {"max_new_tokens": 64, "batch_size": 8},
    "guards": [
        {
            "name": "talk",
            "source": "other.jsonl",
            "task": {"kind": "generation", "input": "email", "target": "order"},
            "metric": "token_f1",
            "within": 0.05,
            "id": "id",
            "group": "customer",
            "max_new_tokens": 32,
        }
    ],
    "variants": [{"name": "slow", "set": {"training.learning_rate": 5e-5}, "because": "it may be steadier"}],
    "seeds": [0, 1],
    "machine": {
        "processes": 1,
        "strategy": "ddp",
        "launcher": "local",
        "parallel": "auto",
        "memory_gib": None,
        "slurm": {},
    },
    "budget": {"days": [3, 7], "price_per_hour": 2.1, "currency": "EUR"},
    "track": {
        "tensorboard": {"rows": False},
        "wandb": {"rows": False, "project": None, "entity": None, "mode": "online"},
        "mlflow": {"rows": False, "uri": None, "experiment": None},
        "trackio": {"rows": False, "project": None},
    },
    "language": "en",
    "rules": ["mine.py", {"T104": {"spreads": 6}}],
    "waive": {"D104": "the rows are few on purpose"},
}

TEXT_CLASSES: dict[str, Any] = {
    "task.kind": "classification", "task.schema": None, "task.system": None, "hypothesis.keep": [],
    "hypothesis.improve.metric": "accuracy", "evaluation": {"batch_size": 8}, "guards": [],
}  # fmt: skip
CALLS: dict[str, Any] = {
    "task.kind": "tool-calling", "task.schema": None, "task.system": None, "hypothesis.keep": [], "task.tools": "tools",
}  # fmt: skip


def guard(**changes: Any) -> dict[str, Any]:
    """The guard task with something changed; `task_` goes into its task."""
    own = FULL["guards"][0]
    task = {key.removeprefix("task_"): value for key, value in changes.items() if key.startswith("task_")}
    rest = {key: value for key, value in changes.items() if not key.startswith("task_")}
    return {"guards": [{**own, **rest, "task": {**own["task"], **task}}]}


GUARD_CALLS: dict[str, Any] = {"task_kind": "tool-calling", "task_tools": "tools", "metric": "exact_match"}
GUARD_CLASSES: dict[str, Any] = {"task_kind": "classification", "task_answer": "text", "metric": "accuracy"}
IMAGE_CLASSES: dict[str, Any] = {**TEXT_CLASSES, "task.kind": "image-classification"}
CHANGES: dict[str, dict[str, Any]] = {
    "campaign": {"campaign": "another"},
    "question": {"question": "Another?"},
    "task.kind": {
        "task.kind": "generation",
        "task.schema": None,
        "task.system": "Write.",
        "hypothesis.keep": [],
    },
    "task.input": {"task.input": "text"},
    "task.target": {"task.target": "answer"},
    "task.labels": {**TEXT_CLASSES, "task.labels": ["complaint", "question"]},
    "task.answer": {**TEXT_CLASSES, "task.answer": "text", "evaluation": {"max_new_tokens": 4}},
    "task.tools": {**CALLS, "task.tools": "functions"},
    "task.order": {**CALLS, "task.order": "kept"},
    "task.category": {"task.category": None},
    "task.schema": {"task.schema": "other.schema.json"},
    "task.system": {"task.system": None},
    "hypothesis.improve.metric": {"hypothesis.improve.metric": "field_f1"},
    "hypothesis.improve.by": {"hypothesis.improve.by": 0.2},
    "hypothesis.keep.metric": {"hypothesis.keep": [{"metric": "schema_valid", "within": 0.02}]},
    "hypothesis.keep.within": {"hypothesis.keep": [{"metric": "valid_json", "within": 0.03}]},
    "hypothesis.alpha": {"hypothesis.alpha": 0.05},
    "hypothesis.divergence": {"hypothesis.divergence": "bounds"},
    "guards.name": guard(name="chatter"),
    "guards.source": guard(source="third.jsonl"),
    "guards.task.kind": guard(task_kind="extraction", metric="valid_json"),
    "guards.task.input": guard(task_input="text"),
    "guards.task.target": guard(task_target="answer"),
    "guards.task.tools": guard(**GUARD_CALLS),
    "guards.task.order": guard(**GUARD_CALLS, task_order="kept"),
    "guards.task.labels": guard(**GUARD_CLASSES, task_labels=["a", "b"]),
    "guards.task.answer": guard(**GUARD_CLASSES),
    "guards.task.category": guard(task_category="domain"),
    "guards.task.schema": guard(task_kind="extraction", metric="valid_json", task_schema="other.schema.json"),
    "guards.task.system": guard(task_system="Talk."),
    "guards.metric": guard(metric="exact_match"),
    "guards.within": guard(within=0.1),
    "guards.id": guard(id="number"),
    "guards.group": guard(group=None),
    "guards.max_new_tokens": guard(max_new_tokens=16),
    "data.source": {"data.source": "copy.jsonl"},
    "data.id": {"data.id": "number"},
    "data.group": {"data.group": None},
    "data.clean": {"data.clean": ["unicode", "strip"]},
    "data.duplicates.exact": {"data.duplicates.exact": "report"},
    "data.duplicates.near": {"data.duplicates.near": None},
    "data.duplicates.near_policy": {"data.duplicates.near_policy": "refuse"},
    "data.duplicates.overlap": {"data.duplicates.overlap": 0.6},
    "data.duplicates.overlap_policy": {"data.duplicates.overlap_policy": "report"},
    "data.duplicates.contained": {"data.duplicates.contained": "report"},
    "data.duplicates.conflicts": {"data.duplicates.conflicts": "drop"},
    "data.engine": {"data.engine": "ray"},
    "data.split.train": {"data.split.train": 0.5, "data.split.test": 0.3},
    "data.split.validation": {"data.split.validation": 0.1, "data.split.test": 0.3},
    "data.split.test": {"data.split.test": "copy.jsonl", "data.split.train": 0.8},
    "data.split.seed": {"data.split.seed": 8},
    "data.split.cuts": {"data.split.cuts": "fitted"},
    "data.split.time.field": {"data.split.time": {"field": "date"}},
    "data.split.time.embargo": {"data.split.time": {"field": "date", "embargo": 7}},
    "data.unit": {"data.unit": "customer of the shop"},
    "model.base": {"model.base": "path:other"},
    "model.trust_remote_code": {"model.trust_remote_code": True},
    "model.adapter.method": {"model.adapter": {"method": "full"}},
    "model.adapter.rank": {"model.adapter.rank": 16},
    "model.adapter.alpha": {"model.adapter.alpha": 32},
    "model.adapter.dropout": {"model.adapter.dropout": 0.0},
    "model.adapter.targets": {"model.adapter.targets": "all-linear"},
    "model.adapter.save_modules": {"model.adapter.save_modules": []},
    "model.head": {**TEXT_CLASSES, "model.head": "new"},
    "model.precision": {"model.precision": "bf16"},
    "model.quantise": {"model.quantise": "4bit", "model.adapter.save_modules": []},
    "encoding.maximum_length": {"encoding.maximum_length": None},
    "encoding.longer": {"encoding.longer": "drop"},
    "encoding.layout": {"encoding.layout": "padded"},
    "encoding.turns": {"encoding.turns": "last"},
    "encoding.tools": {**CALLS, "encoding.tools": "template"},
    "encoding.template_options": {"encoding.template_options": {}},
    "training.updates": {"training.updates": 41},
    "training.epochs": {"training.epochs": 2, "training.updates": None},
    "training.microbatch": {"training.microbatch": 4},
    "training.accumulation": {"training.accumulation": 2},
    "training.learning_rate": {"training.learning_rate": 2e-4},
    "training.schedule.kind": {"training.schedule.kind": "linear"},
    "training.schedule.warmup": {"training.schedule.warmup": 0},
    "training.weight_decay": {"training.weight_decay": 0},
    "training.clip": {"training.clip": None},
    "training.activation_checkpointing": {"training.activation_checkpointing": True},
    "training.augment.flip": {**IMAGE_CLASSES, "training.augment": {"flip": 0.5}},
    "training.augment.rotate": {**IMAGE_CLASSES, "training.augment": {"rotate": 10}},
    "training.augment.shift": {**IMAGE_CLASSES, "training.augment": {"shift": 0.1}},
    "training.augment.brightness": {**IMAGE_CLASSES, "training.augment": {"brightness": 0.1}},
    "training.validate_every": {"training.validate_every": 5},
    "training.checkpoint.every": {"training.checkpoint.every": "auto"},
    "training.checkpoint.keep": {"training.checkpoint.keep": 3},
    "training.stop.metric": {"training.stop": None},  # it takes one value so far: only its absence differs
    "training.stop.patience": {"training.stop.patience": 2},
    "evaluation.max_new_tokens": {"evaluation.max_new_tokens": 65},
    "evaluation.batch_size": {"evaluation.batch_size": 4},
    "evaluation.samples": {"evaluation.samples": 0},
    "evaluation.twice": {"evaluation.twice": 0},
    "evaluation.prompted_baseline": {"evaluation.prompted_baseline": 4},
    "variants.name": {"variants": [{**FULL["variants"][0], "name": "slower"}]},
    "variants.set": {"variants": [{**FULL["variants"][0], "set": {"training.learning_rate": 2e-5}}]},
    "variants.because": {"variants": [{**FULL["variants"][0], "because": "another reason"}]},
    "seeds": {"seeds": [0, 2]},
    "machine.parallel": {"machine.parallel": 2},
    "machine.launcher": {"machine.launcher": "ray"},
    "machine.memory_gib": {"machine.launcher": "ray", "machine.memory_gib": 8},
    "machine.slurm": {"machine.launcher": "slurm", "machine.slurm": {"timeout_min": 60}},
    "machine.processes": {"machine.processes": 2},
    "machine.strategy": {"machine.processes": 2, "machine.strategy": "fsdp"},
    "budget.days": {"budget.days": [30]},
    "budget.price_per_hour": {"budget.price_per_hour": 3},
    "budget.currency": {"budget.currency": "USD"},
    "track.tensorboard.rows": {"track.tensorboard.rows": True},
    "track.wandb.rows": {"track.wandb.rows": True},
    "track.wandb.project": {"track.wandb.project": "shop"},
    "track.wandb.entity": {"track.wandb.entity": "team"},
    "track.wandb.mode": {"track.wandb.mode": "offline"},
    "track.mlflow.rows": {"track.mlflow.rows": True},
    "track.mlflow.uri": {"track.mlflow.uri": "sqlite:///other.db"},
    "track.mlflow.experiment": {"track.mlflow.experiment": "shop"},
    "track.trackio.rows": {"track.trackio.rows": True},
    "track.trackio.project": {"track.trackio.project": "shop"},
    "language": {"language": "es"},
    "rules.files": {"rules": [{"T104": {"spreads": 6}}]},
    "rules.limits": {"rules": ["mine.py", {"T104": {"spreads": 7}}]},
    "waive": {"waive": {}},
}
"""For each key of the file, settings that change it (and what must change with it)."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    new_campaign(tmp_path / "starter")
    starter = tmp_path / "starter"
    for name in ("copy.jsonl", "other.jsonl", "third.jsonl"):
        (starter / name).write_bytes((starter / "orders.jsonl").read_bytes())
    (starter / "other.schema.json").write_text('{"type": "object", "required": ["city"]}')
    (starter / "mine.py").write_text("# a rule of my own\n")
    for name in ("base", "other"):
        (starter / name).mkdir()
        (starter / name / "config.json").write_text("{}")
    return starter


def loaded(folder: Path, plain: dict[str, Any], name: str = "whole.yaml") -> Campaign:
    path = folder / name
    with path.open("w", encoding="utf-8") as file:
        YAML().dump(plain, file)
    return load(path)


def changed(plain: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    new: dict[str, Any] = json.loads(json.dumps(plain))
    for dotted, value in settings.items():
        *around, last = dotted.split(".")
        section = new
        for step in around:
            section = section[step]
        section[last] = value
    return new


def leaves(model: type[BaseModel] = Campaign, start: str = "") -> Iterator[str]:
    for key, field in zip(keys_of(model), model.model_fields.values(), strict=True):
        inside = section_of(field.annotation)
        if inside is None:
            yield start + key
        else:
            yield from leaves(inside, f"{start}{key}.")


def test_every_key_of_the_model_is_in_the_list_of_changes() -> None:
    assert set(CHANGES) == set(leaves())


@pytest.mark.parametrize("key", CHANGES)
def test_a_changed_value_changes_the_identity_unless_it_defines_no_result(folder: Path, key: str) -> None:
    before = loaded(folder, FULL)
    after = loaded(folder, changed(FULL, CHANGES[key]))
    same = before.canonical() == after.canonical()
    assert same == (key in DEFINES_NO_RESULT or key.partition(".")[0] in DEFINES_NO_RESULT)
    assert same == (before.identity() == after.identity())


@pytest.mark.parametrize(
    ("classes", "key"),
    [
        (CALLS, "task.tools"),
        (CALLS, "task.order"),
        (CALLS, "encoding.tools"),
        (TEXT_CLASSES, "task.labels"),
        (TEXT_CLASSES, "task.answer"),
        (TEXT_CLASSES, "model.head"),
    ]
    + [(IMAGE_CLASSES, f"training.augment.{way}") for way in ("flip", "rotate", "shift", "brightness")],
)
def test_settings_of_classes_are_part_of_the_identity(folder: Path, classes: dict[str, Any], key: str) -> None:
    plain = changed(FULL, classes)
    assert loaded(folder, plain).identity() != loaded(folder, changed(plain, CHANGES[key])).identity()


def test_the_list_of_what_defines_no_result_is_short_and_fixed() -> None:
    where = ("machine.launcher", "machine.parallel", "data.engine", "data.unit")
    assert ("campaign", "question", "language", "track", "budget", *where) == DEFINES_NO_RESULT


def shuffled(value: Any, order: random.Random) -> Any:
    if isinstance(value, dict):
        items = [(key, shuffled(item, order)) for key, item in value.items()]
        order.shuffle(items)
        return dict(items)
    return [shuffled(item, order) for item in value] if isinstance(value, list) else value


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_the_order_of_keys_changes_nothing(folder: Path, seed: int) -> None:
    one, other = loaded(folder, FULL), loaded(folder, shuffled(FULL, random.Random(seed)), "shuffled.yaml")
    assert one.canonical() == other.canonical()
    assert one.identity() == other.identity()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rate=st.floats(1e-9, 1.0), form=st.sampled_from(["{!r}", "{:.17e}", "{:.25f}"]))
def test_a_number_is_the_same_however_it_is_written(folder: Path, rate: float, form: str) -> None:
    text = (folder / "campaign.yaml").read_text()
    path = folder / "number.yaml"
    path.write_text(text.replace("learning_rate: 1e-3", f"learning_rate: {rate!r}"))
    one = load(path)
    path.write_text(text.replace("learning_rate: 1e-3", f"learning_rate: {form.format(rate)}"))
    other = load(path)
    assert one.training.learning_rate == rate
    if other.training.learning_rate == rate:  # 25 decimals cannot write the smallest numbers
        assert one.identity() == other.identity()
    else:
        assert one.identity() != other.identity()


def test_whole_numbers_and_their_floats_are_the_same(folder: Path) -> None:
    text = (folder / "campaign.yaml").read_text()
    one = load(folder / "campaign.yaml")
    path = folder / "floats.yaml"
    path.write_text(
        text.replace("alpha: 32", "alpha: 32.0").replace("1e-3", "0.001") + "rules: {T104: {spreads: 6.0}}\n"
    )
    other = load(path)
    path.write_text(text + "rules: {T104: {spreads: 6}}\n")
    assert other.identity() == load(path).identity()
    assert other.canonical()["model"] == one.canonical()["model"]


def test_defaults_written_out_equal_defaults_left_out(folder: Path) -> None:
    plain = loaded(folder, FULL, "full.yaml").canonical()
    start = YAML(typ="safe").load(folder.joinpath("campaign.yaml").read_text())
    written = load(folder / "campaign.yaml").model_dump(mode="json", by_alias=True, exclude={"rules"})
    assert loaded(folder, written, "written.yaml").identity() == loaded(folder, start, "left_out.yaml").identity()
    assert plain != loaded(folder, written, "written.yaml").canonical()
    without_train = changed(start, {"data.split": {"validation": 0.2, "test": 0.2, "seed": 7}})
    assert loaded(folder, without_train).identity() == loaded(folder, start).identity()


def test_a_canonical_form_is_a_campaign_with_the_same_identity(folder: Path) -> None:
    campaign = loaded(folder, FULL)
    plain = campaign.canonical()
    plain["task"]["schema"] = "order.schema.json"
    plain["rules"] = ["mine.py", plain["rules"]["limits"]]
    again = loaded(folder, {**plain, "campaign": "again", "question": "Same?"}, "again.yaml")
    assert again.identity() == campaign.identity()


def test_identity_follows_the_content_of_schema_and_rules_and_not_their_names(folder: Path) -> None:
    before = loaded(folder, FULL).identity()
    (folder / "renamed.schema.json").write_bytes((folder / "order.schema.json").read_bytes())
    (folder / "yours.py").write_bytes((folder / "mine.py").read_bytes())
    renamed = changed(FULL, {"task.schema": "renamed.schema.json", "rules": ["yours.py", {"T104": {"spreads": 6}}]})
    assert loaded(folder, renamed).identity() == before
    schema = json.loads((folder / "order.schema.json").read_text())
    (folder / "order.schema.json").write_text(json.dumps(schema, indent=8))
    assert loaded(folder, FULL).identity() == before
    schema["required"] = ["product"]
    (folder / "order.schema.json").write_text(json.dumps(schema))
    assert loaded(folder, FULL).identity() != before
    (folder / "mine.py").write_text("# another rule\n")
    assert loaded(folder, renamed).identity() == before


def test_identity_is_that_of_the_files_as_they_were_read(folder: Path) -> None:
    campaign = loaded(folder, FULL)
    before = campaign.identity()
    (folder / "mine.py").write_text("# another rule\n")
    assert campaign.identity() == before


def test_the_plan_is_the_control_and_each_variant_with_each_seed(folder: Path) -> None:
    runs = planned_runs(loaded(folder, FULL))
    assert [(run.variant, run.seed) for run in runs] == [("control", 0), ("control", 1), ("slow", 0), ("slow", 1)]
    assert runs[0].campaign.training.learning_rate == 1e-4
    assert runs[2].campaign.training.learning_rate == 5e-5
    assert runs[2].campaign.training.stop == runs[0].campaign.training.stop


def ids(folder: Path, plain: dict[str, Any], corpus: str = "c", base: str = "b") -> list[str]:
    return [run_id(run, corpus=corpus, base=base) for run in planned_runs(loaded(folder, plain))]


def test_a_run_is_named_by_variant_seed_and_what_defines_it(folder: Path) -> None:
    names = ids(folder, FULL)
    assert [name.rpartition("-")[0] for name in names] == ["control-s0", "control-s1", "slow-s0", "slow-s1"]
    assert all(len(name.rpartition("-")[2]) == 10 for name in names)
    assert len({name.rpartition("-")[2] for name in names}) == 4
    assert names == ids(folder, FULL)


def test_another_corpus_base_or_setting_is_another_run(folder: Path) -> None:
    names = ids(folder, FULL)
    for others in (
        ids(folder, FULL, corpus="d"),
        ids(folder, FULL, base="d"),
        ids(folder, changed(FULL, {"training.clip": 2})),
        ids(folder, changed(FULL, {"evaluation.max_new_tokens": 32})),
    ):
        assert not set(names) & set(others)


def test_what_lies_outside_of_a_run_does_not_rename_it(folder: Path) -> None:
    names = ids(folder, FULL)
    more = [*FULL["variants"], {"name": "fast", "set": {"training.learning_rate": 1e-3}, "because": "why"}]
    for settings_ in (
        {"question": "Another?"},
        {"hypothesis.improve.by": 0.2},
        {"waive": {}},
        {"variants": more},
        {"data.source": "copy.jsonl"},  # the corpus fingerprint stands for the data
        {"model.base": "path:other"},  # the digest of the weights stands for the base
        {"seeds": [0, 1, 2]},
    ):
        assert set(names) <= set(ids(folder, changed(FULL, settings_))), settings_


def test_a_runs_definition_is_plain_data(folder: Path) -> None:
    run = planned_runs(loaded(folder, FULL))[0]
    definition = run_definition(run, corpus="c", base="b")
    assert json.loads(json.dumps(definition)) == definition
    assert definition["seed"] == 0
    assert "base" not in definition["model"]
    assert isinstance(run, PlannedRun)


def test_a_campaign_goes_through_json_unchanged(folder: Path) -> None:
    for run in planned_runs(loaded(folder, FULL)):
        plain = json.loads(json.dumps(run.campaign.to_json()))
        again = Campaign.from_json(plain, folder=folder)
        assert again.canonical() == run.campaign.canonical()
        assert again.to_json() == run.campaign.to_json()
        assert again.folder == run.campaign.folder
    with pytest.raises(CampaignError, match="as they were written"):
        Campaign.from_json({"campaign": "x"}, folder=folder)


def test_a_campaign_cannot_be_changed(folder: Path) -> None:
    campaign = loaded(folder, FULL)
    with pytest.raises(ValueError, match="frozen"):
        campaign.training.clip = 3.0  # type: ignore[misc]

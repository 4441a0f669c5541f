"""A whole campaign's workspace, made by the real rooms; only what a model would have written is made up."""

from __future__ import annotations

import hashlib
import json
import math
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from testigo.campaign import Campaign, PlannedRun, Workspace, load, planned_runs, run_id
from testigo.campaign.campaign import digest
from testigo.corpus import Corpus, Row, build, open_corpus, open_sealed
from testigo.dossier import build_dossier, evidence
from testigo.judgement import compare
from testigo.ledger import Ledger, kinds
from testigo.tasks import Task, task_for

BASE_SHA256 = hashlib.sha256(b"base").hexdigest()
VERSIONS = {"torch": "2.13.0", "transformers": "5.24.0", "peft": "0.21.2", "python": "3.11.9"}
HOSTILE_MARK = "<script>alert(1)</script>"
HOSTILE_OUTPUT = '</pre><script>alert("owned")</script> <a href="javascript:alert(2)">x</a> {{ 7 * 7 }}'

CAMPAIGN = """\
campaign: orders
question: Does a rank-16 adapter raise exactly right orders without losing JSON validity?
task:
  kind: extraction
  input: email
  target: order
  category: domain
  schema: order.schema.json
  system: |
    Extract the order. Answer with one JSON object that follows this schema: {schema}
hypothesis:
  improve: {metric: exact_match, by: 0.10}
  keep:
    - {metric: valid_json, within: 0.05}
    - {metric: required_fields, within: 0.05}
  alpha: 0.05
data:
  source: orders.jsonl
  id: id
  group: customer
  clean: [unicode, strip, drop-empty]
  duplicates: {exact: drop, near: null}
  split: {train: 0.6, validation: 0.2, test: 0.2, seed: 7, cuts: fitted}
model:
  base: hub:HuggingFaceTB/SmolLM2-135M-Instruct@12fd25f77366fa6b3b4b768ec3050bf629380bac
  adapter: {method: lora, rank: 16, alpha: 32}
  precision: fp32
training:
  updates: 60
  microbatch: 4
  accumulation: 2
  learning_rate: 1e-3
  schedule: {kind: cosine, warmup: 0.1}
  validate_every: 10
evaluation: {max_new_tokens: 64}
variants:
  - {name: half-rate, set: {training.learning_rate: 5e-4}, because: the control's early curve may be noisy}
  - {name: rate-of-one, set: {training.learning_rate: 1.0}, because: it shows what a diverging run looks like}
seeds: [0, 1]
budget: {days: [3, 7], price_per_hour: 2.10, currency: EUR}
waive: {D112: the two unknown characters are in a customer's name}
"""
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["product", "quantity", "city", "express"],
    "properties": {
        "product": {"type": "string"},
        "quantity": {"type": "integer", "minimum": 1},
        "city": {"type": "string"},
        "express": {"type": "boolean"},
    },
}
PRODUCTS = {
    "books": ("novel", "diary", "atlas"),
    "garden": ("rake", "flower pot", "wheelbarrow"),
    "kitchen": ("kettle", "salad bowl", "cutting board"),
    "office & post": ("stapler", "parcel box", "desk lamp"),
}
CITIES = ("Cork", "Lyon", "Porto", "Bergen", "Granada", "Ghent")


@dataclass(frozen=True)
class Story:
    """A campaign, its workspace and its corpus; the ledger is opened by whoever needs it."""

    campaign: Campaign
    workspace: Workspace

    def ledger(self) -> Ledger:
        return Ledger.open(self.workspace.ledger_path)

    def write(self) -> Path:
        with self.ledger() as ledger:
            return build_dossier(self.workspace, self.campaign, ledger)


def write_campaign(folder: Path, text: str = CAMPAIGN, n_rows: int = 420) -> Campaign:
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(3)
    lines = []
    for number in range(n_rows):
        domain = draw.choice(sorted(PRODUCTS))
        order = {
            "product": draw.choice(PRODUCTS[domain]),
            "quantity": draw.randint(1, 40),
            "city": draw.choice(CITIES),
            "express": draw.random() < 0.5,
        }
        how = "It is urgent, use the express service." if order["express"] else "There is no hurry."
        email = f"We need {order['quantity']} {order['product']}s, number {number}, in {order['city']}. {how}"
        customer = f"customer-{draw.randint(1, 90):02d}"
        mark = HOSTILE_MARK if number % 10 == 0 else ""
        lines.append(
            {"id": f"o{number:03d}{mark}", "customer": customer, "domain": domain, "email": email, "order": order}
        )
        lines[-1]["email"] += " <img src=x onerror=alert(3)>" if mark else ""
    lines.append({**lines[5], "id": "o900"})
    lines.append({**lines[6], "id": "o901", "email": "  "})
    (folder / "orders.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (folder / "order.schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    path = folder / "campaign.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path)


def begin(folder: Path, campaign: Campaign) -> Story:
    workspace = Workspace.for_campaign(campaign, folder / "orders.testigo").create(campaign)
    story = Story(campaign, workspace)
    with story.ledger() as ledger:
        ledger.append(kinds.WORKSPACE_CREATED, {})
        told = {"identity": campaign.identity(), "frozen": campaign.canonical(), "beside": campaign.promised_beside()}
        ledger.append(kinds.CAMPAIGN_REGISTERED, told)
    return story


def make_corpus(story: Story) -> Corpus:
    task = task_for(story.campaign)
    corpus = build(story.campaign, story.workspace.corpus, lambda row: task.problems(row.fields))
    with story.ledger() as ledger:
        told = {"rows": corpus.counts, "evidence": evidence.digest_of_manifest(corpus.manifest)}
        ledger.append(kinds.CORPUS_BUILT, {"fingerprint": corpus.fingerprint, **told})
        ledger.append(kinds.SAMPLES_CONFIRMED, {"looked": True})
    return corpus


def predict(
    folder: Path,
    task: Task,
    rows: tuple[Row, ...],
    right: float,
    seed: int,
    hostile: bool = False,
    split: str = "validation",
) -> str:
    """Outputs that are exactly right with a given probability, else wrong in one of several ways.

    The first row with a hostile id is right before tuning and an attack after it.
    """
    draw = random.Random(seed)
    broken = next((row for row in rows if HOSTILE_MARK in row.id), None)
    lines = []
    for row in rows:
        target = task.target(row.fields)
        output = target if draw.random() < right else _wrong(target, draw)
        if row is broken:
            output = HOSTILE_OUTPUT if hostile else target
        lines.append(
            {
                "row": row.id,
                "category": row.category,
                "group": row.group,
                "prompt_sha256": hashlib.sha256(row.id.encode()).hexdigest(),
                "output": output,
                "token_ids": list(range(len(output) // 4)),
                "stop": "end",
                "scores": task.score(row.fields, output),
            }
        )
    target_folder = folder / "predictions"
    target_folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (target_folder / f"{split}.jsonl").write_text(text, encoding="utf-8")
    meta = {
        "max_new_tokens": 64,
        "batch_size": 16,
        "greedy": True,
        "seconds": 41.2,
        "tokens": 2310,
        "versions": VERSIONS,
    }
    (target_folder / f"{split}.meta.json").write_text(json.dumps(meta), encoding="utf-8")
    return hashlib.sha256(text.encode()).hexdigest()


def _wrong(target: str, draw: random.Random) -> str:
    value = json.loads(target)
    kind = draw.randint(0, 3)
    if kind == 0:
        value["quantity"] += 1
    elif kind == 1:
        value["express"] = not value["express"]
    elif kind == 2:
        value["product"] += "s"
    else:
        return f"Sure! Here is the order:\n{target}"
    return json.dumps(value)


def make_baseline(story: Story, corpus: Corpus) -> None:
    folder = story.workspace.baseline("b" * 12)
    digest = predict(folder, task_for(story.campaign), corpus.rows("validation"), 0.22, 1)
    with story.ledger() as ledger:
        ledger.append(kinds.BASELINE_EVALUATED, {"fingerprint": "b" * 12, "split": "validation", "sha256": digest})


def make_pilot(story: Story, findings: list[dict[str, Any]] | None = None) -> None:
    folder = story.workspace.pilot("p" * 12)
    folder.mkdir(parents=True)
    mib = 1024 * 1024
    phases = [
        ("data", "252 training rows, longest 118 tokens", 812, 0.8, "passed"),
        ("forward", "1 pack of 4 rows, 431 tokens", 1204, 2.31, "passed"),
        ("backward", "the same pack", 1622, 5.9, "passed"),
        ("update-1", "2 packs", 1711, 6.1, "passed"),
        ("update-2", "2 packs", 1711, 5.8, "passed"),
        ("validation", "the 8 longest rows, 64 new tokens", 1490, 31.0, "waived"),
        ("export", "adapter of 420 tensors", 1533, 12.4, "passed"),
        ("resume", "fresh process, 2 updates", 1701, 48.8, "passed"),
    ]
    rows = [
        {"phase": p, "inputs": i, "allocated_peak_bytes": None, "reserved_peak_bytes": None,
         "resident_before_bytes": 700 * mib, "resident_peak_bytes": peak * mib, "seconds": s, "verdict": v}
        for p, i, peak, s, v in phases
    ]  # fmt: skip
    platform = {"machine": "x86_64", "cores": 2, "device": "cpu", "torch": "2.13.0", "python": "3.11.9"}
    (folder / "phases.json").write_text(json.dumps({"phases": rows, "platform": platform}), encoding="utf-8")
    if findings is None:
        findings = [
            {"code": "D112", "name": "unknown-tokens", "severity": "stop", "phase": "data",
             "observed": "2 of 252 rows hold characters that the tokenizer does not know",
             "remedy": "clean the characters, or choose a base whose tokenizer knows them", "rows": ["o017"]},
            {"code": "V105", "name": "near-the-limit", "severity": "warn", "phase": "validation", "rows": [],
             "observed": "the longest output has 61 of 64 tokens", "remedy": "raise evaluation.max_new_tokens"},
        ]  # fmt: skip
    verdict = {
        "ok": not any(f["severity"] == "stop" and f["code"] not in story.campaign.waive for f in findings),
        "findings": findings,
        "passed": [
            {"code": "D101", "observed": "the answer is supervised in all 252 rows"},
            {"code": "F101", "observed": "the loss of 2.31 equals the fp32 one to 3e-7"},
            {"code": "R101", "observed": "2 updates after resuming: rows, losses and weights equal bit for bit"},
        ],
        "not_checked": [{"code": "F107", "why": "the layout is padded, there are no packs"}],
        "waived": dict(story.campaign.waive),
    }
    (folder / "findings.json").write_text(json.dumps(verdict), encoding="utf-8")
    with story.ledger() as ledger:
        told = {"ok": verdict["ok"], "findings": sorted(finding["code"] for finding in findings)}
        told["evidence"] = evidence.digests(folder, evidence.OF_THE_PILOT)
        ledger.append(kinds.PILOT_FINISHED, {"fingerprint": "p" * 12, **told})
        for code, reason in story.campaign.waive.items():
            ledger.append(kinds.GATE_WAIVED, {"code": code, "reason": reason})


def make_run(
    story: Story,
    corpus: Corpus,
    planned: PlannedRun,
    *,
    ends: str = "completed",
    before_it_ends: Callable[[Path], object] = lambda folder: None,
) -> str:
    name = run_id(planned, corpus=corpus.fingerprint, base=BASE_SHA256)
    folder = story.workspace.run(name)
    folder.mkdir(parents=True)
    draw = random.Random(f"{planned.variant} {planned.seed}")
    n_updates = 60 if ends != "diverged" else 17
    rate = planned.campaign.training.learning_rate
    steps: list[dict[str, Any]] = []
    for update in range(1, n_updates + 1):
        loss = 0.06 + 2.2 * math.exp(-update * 160 * min(rate, 1e-3) / 2) + abs(draw.gauss(0, 0.03))
        norm = 0.4 + 2.4 * math.exp(-update / 9) + abs(draw.gauss(0, 0.15))
        if ends == "diverged":
            loss, norm = (math.nan, math.nan) if update == n_updates else (2.2 + 0.4 * update, 8.0 * 1.5**update)
        warm = min(1.0, update / 6)
        at = rate * warm * (0.5 + 0.5 * math.cos(math.pi * update / 60))
        steps.append(
            {"update": update, "loss": loss, "learning_rate": at, "gradient_norm": norm, "clipped": norm > 1,
             "supervised_tokens": 220, "tokens": 810, "examples": 8, "seconds": 5.9, "skipped": False}
        )  # fmt: skip
        if update % 10 == 0:
            steps.append({"update": update, "validation_loss": loss * 1.08 + 0.02, "validation_tokens": 2310})
    (folder / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps), encoding="utf-8")
    cause = "" if ends == "completed" else "the loss of update 17 is not finite (batch o011, o020, o031, o044)"
    result = {"state": ends, "cause": cause, "updates": n_updates, "best_update": n_updates // 10 * 10,
              "best_validation_loss": 0.114, "final_weights_sha256": hashlib.sha256(name.encode()).hexdigest(),
              "trained": {"tensors": 420, "parameters": 4884480, "share": 0.0363}, "seconds": 5.9 * n_updates,
              "supervised_tokens": 220 * n_updates, "examples": 8 * n_updates, "versions": VERSIONS}  # fmt: skip
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    if ends == "diverged":
        finding = {"code": "T101", "name": "non-finite", "severity": "stop", "phase": "watch", "rows": ["o011"],
                   "observed": "loss NaN at update 17", "remedy": "lower the learning rate", "update": 17}  # fmt: skip
        (folder / "findings.jsonl").write_text(json.dumps(finding) + "\n", encoding="utf-8")
    digest = ""
    if ends != "diverged":
        right = {"control": 0.78, "half-rate": 0.74}.get(planned.variant, 0.7) + 0.01 * planned.seed
        task = task_for(story.campaign)
        digest = predict(folder, task, corpus.rows("validation"), right, 10 + planned.seed, hostile=True)
    before_it_ends(folder)
    told = evidence.digests(folder, evidence.OF_A_RUN)
    with story.ledger() as ledger:
        ledger.plan_run(name, variant=planned.variant, seed=planned.seed, defines={"corpus": corpus.fingerprint})
        ledger.start_run(name)
        ledger.end_run(name, state=ends, cause=cause, updates=n_updates, seconds=5.9 * n_updates, evidence=told)
        if ends == "completed":
            ledger.append(kinds.RUN_EVALUATED, {"split": "validation", "sha256": digest}, run=name)
    return name


def open_test(story: Story, right: float = 0.8) -> None:
    """The sealed test, opened as the conductor does: recorded first, then read, then compared."""
    corpus, task = open_corpus(next(story.workspace.root.glob("corpus/*"))), task_for(story.campaign)
    with story.ledger() as ledger:
        ledger.append(kinds.TEST_OPENED, {"reason": "the control is final", "looked": True})
        rows = open_sealed(corpus)
        baseline = story.workspace.baseline("b" * 12)
        digest = predict(baseline, task, rows, 0.22, 1, split="test")
        ledger.append(kinds.BASELINE_EVALUATED, {"fingerprint": "b" * 12, "split": "test", "sha256": digest})
        run = next(run.id for run in ledger.runs() if (run.variant, run.seed) == ("control", 0))
        folder = story.workspace.run(run)
        digest = predict(folder, task, rows, right, 2, split="test")
        ledger.append(kinds.RUN_EVALUATED, {"split": "test", "sha256": digest}, run=run)
        lines = [lines_of(of, "test") for of in (baseline, folder)]
        comparison = compare(*lines, metrics=task.metrics, hypothesis=story.campaign.hypothesis)
        document = {**comparison.to_json(), "split": "test", "run": run}
        (story.workspace.root / "comparison-test.json").write_text(json.dumps(document), encoding="utf-8")
        ledger.append(kinds.COMPARED, {"split": "test", "run": run})


def lines_of(folder: Path, split: str = "validation") -> list[dict[str, Any]]:
    text = (folder / "predictions" / f"{split}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def make_comparison(story: Story, names: dict[tuple[str, int], str]) -> None:
    workspace, task = story.workspace, task_for(story.campaign)
    baseline = lines_of(workspace.baseline("b" * 12))
    runs = {key: lines_of(workspace.run(name)) for key, name in names.items()}
    comparison = compare(
        baseline,
        runs["control", 0],
        metrics=task.metrics,
        hypothesis=story.campaign.hypothesis,
        variants={variant: lines for (variant, seed), lines in runs.items() if seed == 0 and variant != "control"},
        seeds={seed: lines for (variant, seed), lines in runs.items() if variant == "control"},
    )
    workspace.comparison_path.write_text(json.dumps(comparison.to_json()), encoding="utf-8")
    with story.ledger() as ledger:
        ledger.append(kinds.COMPARED, {"split": "validation", "run": names["control", 0]})


def make_adapter(story: Story, folder: Path | None = None) -> Path:
    folder = folder or story.workspace.dossier / "adapter"
    folder.mkdir(parents=True)
    files = {
        "adapter_model.safetensors": b"\x08\x00\x00\x00\x00\x00\x00\x00{}      " + bytes(range(256)) * 4,
        "adapter_config.json": b'{"peft_type": "LORA", "r": 16}',
        "tokenizer.json": b"{}",
        "chat_template.jinja": b"{{ messages }}",
        "generation_config.json": b'{"do_sample": false}',
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    record = {
        "kind": "adapter",
        "base": {"name": "HuggingFaceTB/SmolLM2-135M-Instruct", "revision": "12fd25f", "weights_sha256": BASE_SHA256},
        "trained": [f"layers.{i}.q.lora_A" for i in range(420)],
        "control_inputs": [{"row": "o001", "prompt_ids": [1, 2], "output_ids": [3], "first_logits": [0.1] * 8}] * 4,
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    (folder / "testigo.json").write_text(json.dumps(record), encoding="utf-8")
    return folder


def whole_story(folder: Path) -> Story:
    story = begin(folder, write_campaign(folder))
    corpus = make_corpus(story)
    make_baseline(story, corpus)
    make_pilot(story)
    names = {}
    for planned in planned_runs(story.campaign):
        diverges = planned.variant == "rate-of-one"
        if diverges and planned.seed:
            continue
        name = make_run(story, corpus, planned, ends="diverged" if diverges else "completed")
        if not diverges:
            names[planned.variant, planned.seed] = name
    with story.ledger() as ledger:
        ledger.append(
            kinds.CAMPAIGN_AMENDED,
            {
                "reason": "the longest target has 61 tokens",
                "changes": {"evaluation.max_new_tokens": [48, 64]},
                "identity": story.campaign.identity(),
                "frozen": story.campaign.canonical(),
                "beside": story.campaign.promised_beside(),
            },
        )
        ledger.append(kinds.NOTE, {"text": "The baseline often writes a sentence before the JSON."})
        ledger.append(kinds.NOTE, {"text": "Both customers write in Greek.", "gate": "D112"})
        ledger.append(kinds.NOTE, {"text": "I looked at the longest batch.", "gate": "F101"})
        ledger.append(kinds.NOTE, {"text": "This one ran beside a compile job."}, run=names["control", 1])
    make_comparison(story, names)
    make_adapter(story)
    return story


@pytest.fixture(scope="session")
def making() -> ModuleType:
    """The functions of this file, for tests that tell another story."""
    return sys.modules[__name__]


@pytest.fixture(scope="session")
def told(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """A whole campaign with its dossier written; not to be changed."""
    story = whole_story(tmp_path_factory.mktemp("told"))
    story.write()
    return story


@pytest.fixture
def story(told: Story, tmp_path: Path) -> Iterator[Story]:
    """A copy of the whole campaign that a test may change."""
    folder = tmp_path / "orders.testigo"
    shutil.copytree(told.workspace.root, folder)
    yield Story(told.campaign, Workspace(folder))
    for path in (path for path in folder.rglob("*") if path.exists()):
        path.chmod(0o700 if path.is_dir() else 0o600)


@pytest.fixture
def dossier(story: Story) -> Path:
    """A copy of the dossier that a test may tamper with."""
    return story.workspace.dossier


def without_digests(story: Story, without: tuple[str, ...] = ()) -> Story:
    """The same story as an earlier version's ledger tells it: the events keep no digests of evidence, and no question.

    Nor do they know some settings of today, named by dotted keys.
    """
    with story.ledger() as ledger:
        events = ledger.events()
    of_today = ("evidence", "beside")
    for path in story.workspace.root.glob("ledger*"):
        path.unlink()
    with story.ledger() as ledger:
        for event in events:
            run, body = event.run or "", {name: value for name, value in event.body.items() if name not in of_today}
            if event.kind in kinds.FREEZES:
                for key in without:
                    section, _, last = key.rpartition(".")
                    del (body["frozen"][section] if section else body["frozen"])[last]
                body["identity"] = digest(body["frozen"])
            if event.kind == kinds.RUN_PLANNED:
                ledger.plan_run(run, **body)
            elif event.kind == kinds.RUN_STARTED:
                ledger.start_run(run)
            elif event.kind == kinds.RUN_ENDED:
                ledger.end_run(run, **{name: body[name] for name in ("state", "cause", "updates", "seconds")})
            else:
                ledger.append(event.kind, body, run=event.run)
    return story


@pytest.fixture
def new_story(tmp_path: Path) -> Callable[..., Story]:
    """Begin a campaign with nothing done yet."""
    return lambda text=CAMPAIGN, n_rows=120: begin(tmp_path, write_campaign(tmp_path, text, n_rows))

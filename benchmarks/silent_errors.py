"""Peers side by side: what each tool says of the planted errors and of their healthy twins; writes docs/comparison.md.

Install the peers apart, never into the project's own environment:

    for peer in guardtower==0.1.0 trainproof==0.22.0 peft-doctor==0.9.2 finetune-doctor==0.2.2; do
        pip install --no-deps --target build/peers/${peer%%==*} $peer; done
    python benchmarks/silent_errors.py build/peers > docs/comparison.md

Each tool is used as its own documentation says: guardtower and trainproof by their callbacks (with the optional check
of labels), trainproof and finetune-doctor on the log of the finished run, peft-doctor on the live objects, on the
tokenised rows, on the two data sets and on the checkpoint. A training has 30 updates at least, its own validation, and
a log line an update; a schedule of the user's own keeps its length. A fault counts as found when the tool warns on it
of something that it does not warn of on the twin, whatever it calls it; a warning on a healthy twin counts as a
false alarm.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
for folder in ("tests/support", "tests/campaigns"):
    sys.path.insert(0, str(ROOT / folder))  # before this folder, whose file has the name of the package

import torch  # noqa: E402
from shop import Workshop  # noqa: E402
from silent_errors import CASES, FILES, Case  # noqa: E402
from transformers.utils import logging as transformers_logging  # noqa: E402

import testigo  # noqa: E402

UPDATES = 30
PEERS = ("guardtower", "trainproof", "peft-doctor", "finetune-doctor")


@dataclass
class Said:
    """What the tools said of one training, by tool."""

    by_tool: dict[str, set[str]] = field(default_factory=dict)

    def add(self, tool: str, *words: str) -> None:
        self.by_tool.setdefault(tool, set()).update(words)


def main(peers: Path) -> None:
    installed = [peer for peer in PEERS if (peers / peer).is_dir()]
    sys.path += [str(peers / peer) for peer in installed]
    torch.set_num_threads(1)
    transformers_logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    cases = sorted(
        (case for case in CASES if case.loop != "own"),
        key=lambda case: [file.__name__ for file in FILES].index(case.build.__module__),
    )
    results = []
    for number, case in enumerate(cases, start=1):
        print(f"{number}/{len(cases)} {case.id}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            results.append(
                (case, *(_all_tools(case, Path(folder) / word, word == "sick") for word in ("sick", "twin")))
            )
    print(_page(results, ["testigo", *installed], [peer for peer in PEERS if peer not in installed]))


def _all_tools(case: Case, folder: Path, sick: bool) -> Said:
    said = Said()
    with contextlib.redirect_stdout(io.StringIO()):
        trainer = case.build(Workshop(folder), sick)
        report = testigo.pilot(trainer)
        said.add("testigo", *(f.code for f in report.findings if f.severity != "note" or f.code in case.codes))
        _peft_doctor(trainer, folder, said)
        watch = testigo.Watch()
        trainer.add_callback(watch)
        guard, proof = _callbacks(trainer)
        _train(trainer, case)
    said.add("testigo", *(finding.code for _, finding in watch.findings if finding.severity != "note"))
    if guard is not None:
        found = guard.report.findings if guard.report is not None else []
        said.add("guardtower", *(f"{f.catalog_id or f.check}" for f in found if int(f.severity) >= 20))
    if proof is not None:
        said.add("trainproof", *re.findall(r"TP-[A-Z-]+", proof.getvalue()))
    _after(trainer, said)
    return said


def _train(trainer: Any, case: Case) -> None:
    own_schedule = trainer.lr_scheduler is not None  # made for so many updates and no more
    if case.by == "pilot" and trainer.args.resume_from_checkpoint is None and not own_schedule:
        trainer.args.max_steps = max(trainer.args.max_steps, UPDATES)
    if trainer.eval_dataset is not None and str(trainer.args.eval_strategy.value) == "no":
        trainer.args.eval_strategy, trainer.args.eval_steps = type(trainer.args.eval_strategy)("steps"), 5
    trainer.train(resume_from_checkpoint=trainer.args.resume_from_checkpoint)


def _callbacks(trainer: Any) -> tuple[Any, io.StringIO | None]:
    guard = proof = None
    with contextlib.suppress(ImportError):
        from guardtower.integrations.huggingface import GuardtowerCallback

        guard = GuardtowerCallback(verbose=False)
        trainer.add_callback(_Careful(guard))
    with contextlib.suppress(ImportError):
        import trainproof.integrations.hf as hf
        from transformers import TrainerCallback

        class Listening(TrainerCallback):
            """What the callback says of the labels before the first update, by the ids of its findings."""

            def on_train_begin(self, *arguments: Any, **around: Any) -> None:
                for name in ("check_ignore_index", "check_label_alignment"):
                    _listen(hf, name, proof)
                _listen(hf.TargetCoverage, "result", proof)
                own = hf.TrainproofCallback(objective_check=True)
                own.on_train_begin(*arguments, **around)

        proof = io.StringIO()
        trainer.add_callback(Listening())
    return guard, proof


def _listen(owner: Any, name: str, out: io.StringIO) -> None:
    function = getattr(owner, name)
    if getattr(function, "listened", None) is not None:
        function.listened[0] = out
        return
    place = [out]

    def listened(*arguments: Any, **named: Any) -> Any:
        found = function(*arguments, **named)
        place[0].write(" ".join(str(one.get("id")) for one in found if one.get("level") in ("WARN", "FAIL")) + " ")
        return found

    listened.listened = place  # type: ignore[attr-defined]
    setattr(owner, name, listened)


def _Careful(callback: Any) -> Any:  # noqa: N802
    """A callback whose own error does not end the training; it is then one that found nothing."""
    inner = callback.on_train_begin

    def on_train_begin(*arguments: Any, **around: Any) -> Any:
        with contextlib.suppress(Exception):
            return inner(*arguments, **around)

    callback.on_train_begin = on_train_begin
    return callback


def _peft_doctor(trainer: Any, folder: Path, said: Said) -> None:
    try:
        import peft_doctor as doctor
    except ImportError:
        return
    tokenizer = trainer.processing_class
    settings = getattr(trainer.model, "peft_config", None)
    checks: list[Callable[[], Any]] = [
        lambda: doctor.diagnose_peft(
            model=trainer.model,
            tokenizer=tokenizer,
            peft_config=next(iter(settings.values())) if settings else None,
            training_args=trainer.args,
            train_dataset=trainer.train_dataset,
            eval_dataset=trainer.eval_dataset,
        )
    ]
    files = {}
    for name, dataset in (("train", trainer.train_dataset), ("eval", trainer.eval_dataset)):
        rows = list(_rows(dataset, trainer.data_collator))
        if rows:
            files[name] = folder / f"{name}.jsonl"
            files[name].parent.mkdir(parents=True, exist_ok=True)
            files[name].write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    if "train" in files:
        checks.append(lambda: doctor.audit_label_masking(files["train"], pad_token_id=tokenizer.pad_token_id))
    if len(files) == 2:
        checks.append(lambda: doctor.check_dataset_leakage(files["train"], files["eval"]))
    if trainer.args.resume_from_checkpoint:
        checks.append(lambda: doctor.check_resume_compatibility(trainer.args.resume_from_checkpoint))
    said.add("peft-doctor")
    for check in checks:
        with contextlib.suppress(Exception):
            said.add("peft-doctor", *(i.code for i in check().issues if i.severity in ("error", "warning")))


def _rows(dataset: Any, collate: Any) -> Iterator[dict[str, Any]]:
    """Token ids and labels as the collator makes them, a row at a time."""
    if dataset is None or not hasattr(dataset, "__getitem__") or isinstance(dataset, dict):
        return
    for k in range(min(len(dataset), 64)):
        with contextlib.suppress(Exception):
            batch = collate([dict(dataset[k])])
            yield {key: batch[key][0].tolist() for key in ("input_ids", "labels")}


def _after(trainer: Any, said: Said) -> None:
    folder = Path(trainer.args.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trainer_state.json"
    trainer.state.save_to_json(str(path))
    with contextlib.suppress(ImportError):
        from trainproof.epoch import check_epoch

        said.add("trainproof")
        with contextlib.suppress(Exception):
            found = check_epoch(path, fmt="hf").get("findings", [])
            said.add("trainproof", *(one["id"] for one in found if one.get("level") in ("WARN", "FAIL")))
    with contextlib.suppress(ImportError):
        import finetune_doctor

        said.add("finetune-doctor")
        with contextlib.suppress(Exception):
            found = finetune_doctor.diagnose(finetune_doctor.load(str(path))).findings
            said.add("finetune-doctor", *(one.check for one in found if int(one.severity) >= 2))


def _page(results: list[tuple[Case, Said, Said]], tools: list[str], lacking: list[str]) -> str:
    def cell(tool: str, sick: Said, twin: Said) -> str:
        told = sorted(sick.by_tool.get(tool, set()) - twin.by_tool.get(tool, set()))
        return ", ".join(told)

    found = {tool: sum(bool(cell(tool, sick, twin)) for _, sick, twin in results) for tool in tools}
    alarms = {tool: sum(bool(twin.by_tool.get(tool)) for _, _, twin in results) for tool in tools}
    lines = [
        "# Side by side with its peers",
        "",
        "<!-- written by benchmarks/silent_errors.py; run it again to bring it up to date -->",
        "",
        "guardtower 0.1.0, trainproof 0.22.0, peft-doctor 0.9.2 and finetune-doctor 0.2.2, from PyPI, installed apart.",
        "",
        *(__doc__ or "").strip().split("\n")[8:],
        "",
        f"| tool | of {len(results)} faults found | healthy twins with a false alarm |",
        "|---|---|---|",
        *(f"| {tool} | {found[tool]} | {alarms[tool]} |" for tool in tools),
        "",
        *([f"Not installed here: {', '.join(lacking)}.", ""] if lacking else []),
        "The faults were collected for Testigo's own tests, so that it finds all of them says little; what the others",
        "miss says more. finetune-doctor reads a finished run and makes no claim about most of these. Most warnings of",
        "peft-doctor and finetune-doctor on healthy twins are advice on tiny test runs (no GPU, no evaluation, no",
        "limit on checkpoints); they are counted all the same, since somebody must read them.",
        "",
        "What each tool warns of on the sick training and not on its twin:",
        "",
        "| fault | loop | " + " | ".join(tools) + " |",
        "|---|---|" + "---|" * len(tools),
    ]
    for case, sick, twin in results:
        lines.append(f"| {case.fault} | {case.loop} | " + " | ".join(cell(tool, sick, twin) for tool in tools) + " |")
    lines += ["", "What each tool warns of on healthy twins, and how often:", "", "| tool | warnings |", "|---|---|"]
    for tool in tools:
        counts: dict[str, int] = {}
        for _, _, twin in results:
            for word in twin.by_tool.get(tool, set()):
                counts[word] = counts.get(word, 0) + 1
        words = ", ".join(f"{word} ({n})" for word, n in sorted(counts.items(), key=lambda one: -one[1])) or "none"
        lines.append(f"| {tool} | {words} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "peers"))

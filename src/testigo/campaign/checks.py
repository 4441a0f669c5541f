"""What types and bounds cannot say: pairs that exclude each other, and names that must be known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from testigo.campaign.document import Place
from testigo.campaign.fault import Fault
from testigo.campaign.guard_checks import guard_faults
from testigo.campaign.known import Known
from testigo.campaign.metrics import CLASS_KINDS, GENERAL_LOSS, METRICS
from testigo.campaign.sections import BEGIN
from testigo.campaign.split_checks import split_faults
from testigo.campaign.task_checks import task_faults
from testigo.campaign.training_checks import training_faults
from testigo.campaign.wording import describe, suggestion

_CODE = re.compile(r"[A-Z]\d{3}")
_HUB = re.compile(r"hub:(?P<name>[\w.-]+(/[\w.-]+)?)(@(?P<revision>.*))?")
_NEEDS_SCHEMA = ("schema_valid", "required_fields")


def setting_faults(known: Known) -> list[Fault]:
    """All faults between settings; no file is read."""
    return [fault for check in _SETTINGS for fault in check(known)]


def _lengths(known: Known) -> Iterator[Fault]:
    longest, new = known("encoding.maximum_length"), known("evaluation.max_new_tokens")
    if isinstance(longest, int) and isinstance(new, int) and new >= longest:
        yield Fault(
            ("evaluation", "max_new_tokens"),
            f"fewer than `encoding.maximum_length`, {longest}, which holds the prompt too",
            str(new),
            "lower it, or raise `encoding.maximum_length`",
        )


def _length_of_outputs(known: Known) -> Iterator[Fault]:
    if "task.kind" not in known or "task.answer" not in known or "evaluation.max_new_tokens" not in known:
        return
    most = known("evaluation.max_new_tokens")
    if answers_by_head(known) and most:
        yield Fault(
            ("evaluation", "max_new_tokens"),
            "no `max_new_tokens` where a class head answers: it writes no text",
            str(most),
            "remove it",
            "key",
        )
    if not answers_by_head(known) and not most:
        yield Fault(
            ("evaluation", "max_new_tokens"),
            "the key `evaluation.max_new_tokens`: a whole number, at least 1",
            "it is not set" if "evaluation" not in known.plain or most == 0 else describe(most),
            "add `max_new_tokens: 64`, or what the longest target needs, to `evaluation`",
            "key",
        )


def answers_by_head(known: Known) -> bool:
    """Whether a class head answers, and no text is written."""
    kind: object = known("task.kind")
    return kind == "image-classification" or (kind == "classification" and known("task.answer") == "head")


def _prompted(known: Known) -> Iterator[Fault]:
    kinds, kind = ("extraction", "generation", "classification"), known("task.kind")
    if not known("evaluation.prompted_baseline") or kind is None:
        return
    if kind not in kinds or answers_by_head(known):
        yield Fault(
            ("evaluation", "prompted_baseline"),
            f"examples in the prompt only where one request gets one text: {', '.join(kinds)}",
            f"the kind {kind}" + (", answered by a head" if answers_by_head(known) else ""),
            "remove it",
            "key",
        )


def _classes(known: Known) -> Iterator[Fault]:
    kind = known("task.kind")
    if "task.kind" not in known:
        return
    if kind not in CLASS_KINDS and known("task.labels") is not None:
        yield _only_with(("task", "labels"), "classes", "set `kind: classification`, or remove it")
    if known("task.answer", "head") == "text" and kind != "classification":
        yield _only_with(("task", "answer"), "the kind classification", "remove it, or set `kind: classification`")
    if not answers_by_head(known) and known("model.head", "auto") != "auto":
        yield _only_with(("model", "head"), "a class head", "remove it, or set `task.answer: head`")
    if kind != "image-classification" and known("training.augment") is not None:
        yield _only_with(("training", "augment"), "the kind image-classification", "remove it")
    for key in ("schema", "system"):
        if known(f"task.{key}") is not None and answers_by_head(known):
            yield Fault(
                ("task", key),
                f"no `{key}` where a class head answers: it reads the input alone",
                describe(known(f"task.{key}")),
                "remove it" + (", or set `answer: text`" if kind == "classification" and key == "system" else ""),
                "key",
            )
    if kind == "classification" and not answers_by_head(known) and known("task.schema") is not None:
        yield _only_with(("task", "schema"), "the kind extraction", "remove it")
    yield from _repeated(known("task.labels"), ("task", "labels"), "class")


def _only_with(place: Place, what: str, action: str) -> Fault:
    return Fault(place, f"`{place[-1]}` only with {what}", f"`{place[-1]}`", action, "key")


def _processes(known: Known) -> Iterator[Fault]:
    if known("machine.strategy") != "fsdp":
        return
    if known("machine.processes") == 1:
        found = "one process, over which nothing can be sharded"
        yield Fault(("machine", "strategy"), "`processes` of 2 or more", found, "raise `processes`, or leave it out")
    if known("model.precision") == "fp16":
        yield Fault(
            ("machine", "strategy"),
            "`precision` fp32 or bf16 beside `fsdp`",
            "fp16, whose loss scaling is not made for shards",
            "set `precision: bf16`, or `strategy: ddp`",
        )


def _cluster(known: Known) -> Iterator[Fault]:
    launcher = known("machine.launcher")
    for key, takers in (("memory_gib", ("ray", "slurm")), ("slurm", ("slurm",))):
        if "machine.launcher" in known and known(f"machine.{key}") and launcher not in takers:
            expected = f"`launcher: {' or '.join(takers)}` beside `{key}`"
            yield Fault(("machine", key), expected, f"`launcher: {launcher}`", f"set it, or remove `{key}`", "key")


def _adapter_settings(known: Known) -> Iterator[Fault]:
    if known("model.adapter.method") != "full":
        return
    defaults: dict[str, Any] = {"rank": 16, "alpha": 32.0, "dropout": 0.0, "targets": "all-linear"}
    for key, default in defaults.items():
        if known(f"model.adapter.{key}", default) != default:
            yield _only_for_lora(key)
    if known("model.adapter.save_modules"):
        yield _only_for_lora("save_modules")


def _quantised(known: Known) -> Iterator[Fault]:
    bits, place = known("model.quantise"), ("model", "quantise")
    if bits is None:
        return
    if known("model.adapter.method") == "full":
        yield Fault(
            place,
            "`method: lora` beside `quantise`: weights in so few bits cannot be trained",
            f"`{bits}` with `method: full`",
            "set `method: lora`, or remove `quantise`",
        )
    if "task.kind" in known and answers_by_head(known):
        yield Fault(
            place,
            "no `quantise` where a class head answers: its base is small, and held in fp32",
            f"`{bits}`",
            "remove it",
        )
    if known("machine.strategy") == "fsdp":
        yield Fault(
            place,
            "`strategy: ddp` beside `quantise`: packed weights are not sharded here",
            f"`{bits}` with `strategy: fsdp`",
            "set `strategy: ddp`, or remove `quantise`",
        )
    if known("model.adapter.save_modules"):
        yield Fault(
            place,
            "no `save_modules` beside `quantise`: what is trained whole is not held in few bits",
            f"`{bits}` with `save_modules`",
            "remove one of them",
        )


def _only_for_lora(key: str) -> Fault:
    return Fault(
        ("model", "adapter", key),
        "no settings of LoRA with `method: full`",
        f"`{key}`",
        f"remove `{key}`, or set `method: lora`",
        "key",
    )


def _shares(known: Known) -> Iterator[Fault]:
    parts = {part: known(f"data.split.{part}") for part in ("train", "validation", "test")}
    if any(f"data.split.{part}" not in known for part in ("validation", "test")):
        return
    shares = {part: float(value) for part, value in parts.items() if type(value) in (int, float)}
    evaluated = sum(value for part, value in shares.items() if part != "train")
    if evaluated >= 1:
        yield Fault(
            ("data", "split"),
            "rows left for training",
            f"{evaluated:g} of them in validation and test",
            "lower these shares",
        )
    elif "train" in shares and abs(sum(shares.values()) - 1) > 1e-6:
        yield Fault(
            ("data", "split"),
            "shares that sum to 1",
            f"{' + '.join(f'{value:g}' for value in shares.values())} = {sum(shares.values()):.10g}",
            "change a share, or leave `train` out: it takes the rest",
        )


def _split_files(known: Known) -> Iterator[Fault]:
    seen: dict[str, str] = {}
    for key in ("data.source", "data.split.validation", "data.split.test"):
        name = known(key)
        if not isinstance(name, str) or name.startswith(BEGIN):
            continue
        plain = str(Path(name))
        if plain in seen:
            yield Fault(
                tuple(key.split(".")),
                f"another file than `{seen[plain]}`: rows that train must not decide",
                f"the same file, `{name}`",
                "name another file, or give a share such as 0.15",
            )
        seen.setdefault(plain, key)


def _policies(known: Known) -> Iterator[Fault]:
    for limit in ("near", "overlap"):
        policy = known(f"data.duplicates.{limit}_policy", "drop")
        if f"data.duplicates.{limit}" in known and known(f"data.duplicates.{limit}") is None and policy != "drop":
            yield Fault(
                ("data", "duplicates", f"{limit}_policy"),
                f"a limit in `{limit}`, from which on there is something to {policy}",
                f"`{limit}: null`, which does not look",
                f"set `{limit}`, or remove `{limit}_policy`",
                "key",
            )


def _metrics(known: Known) -> Iterator[Fault]:
    kind = known("task.kind")
    metrics = list(METRICS[kind] if kind in METRICS else dict.fromkeys(m for own in METRICS.values() for m in own))
    named: list[tuple[Place, Any]] = [(("hypothesis", "improve", "metric"), known("hypothesis.improve.metric"))]
    guards = known("hypothesis.keep") or []
    named += [
        (("hypothesis", "keep", n, "metric"), guard.get("metric"))
        for n, guard in enumerate(guards)
        if isinstance(guard, dict)
    ]
    guarded: set[str] = set()
    for place, metric in named:
        if not isinstance(metric, str):
            continue
        if metric == GENERAL_LOSS and place[1] == "keep":
            if answers_by_head(known):
                yield Fault(place, f"`{GENERAL_LOSS}` only where a text is written", "a class head", "remove the guard")
        elif metric not in metrics:
            yield _unknown_metric(place, metric, kind, metrics)
        elif metric in _NEEDS_SCHEMA and "task.schema" in known and known("task.schema") is None:
            yield Fault(
                place, f"`schema:` in `task`, which `{metric}` needs", "no schema", "add `schema: FILE` to `task`"
            )
        if place[1] == "keep" and metric in guarded:
            yield Fault(place, "each metric once in `keep`", f"`{metric}` again", "keep one margin")
        if place[1] == "keep":
            guarded.add(metric)


def _unknown_metric(place: Place, metric: str, kind: str | None, known: list[str]) -> Fault:
    homes = [other for other, metrics in METRICS.items() if metric in metrics]
    return Fault(
        place,
        f"a metric{f' of the kind {kind}' if kind else ''}: {', '.join(known)}",
        f"`{metric}`{f', a metric of the kind {homes[0]}' if homes else ''}",
        suggestion(metric, known, "choose one of them"),
    )


def base_faults(known: Known) -> Iterator[Fault]:
    """Faults in how the base is named."""
    base, place = known("model.base"), ("model", "base")
    forms = "`hub:NAME@REVISION`, `path:FOLDER` or `package:NAME`"
    if not isinstance(base, str):
        return
    kind, colon, name = base.partition(":")
    if not colon or kind not in ("hub", "path", "package"):
        looks_like_hub = re.fullmatch(r"[\w.-]+/[\w.-]+(@[0-9a-f]+)?", base) is not None
        action = f"did you mean `hub:{base}{'' if '@' in base else '@REVISION'}` or `path:{base}`?"
        yield Fault(place, forms, describe(base), action if looks_like_hub else "write one of these forms")
    elif kind == "hub":
        yield from revision_faults(base, place)
    elif kind == "path" and not name.strip():
        yield Fault(place, "`path:FOLDER`", f"`{base}`", "name the folder")
    elif kind == "package" and not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", name, re.ASCII):
        yield Fault(place, "`package:NAME`, a Python package as it is imported", f"`{base}`", "write its import name")


def revision_faults(base: str, place: Place) -> Iterator[Fault]:
    """Faults in `hub:NAME@REVISION`."""
    match = _HUB.fullmatch(base)
    if match is None:
        yield Fault(place, "`hub:OWNER/NAME@REVISION`", f"`{base}`", "write owner and name as on its page")
        return
    revision = match["revision"]
    if revision is None or not re.fullmatch(r"[0-9a-f]{40}", revision):
        found = "no revision" if not revision else f"`{revision}`, which is not a commit of 40 hex digits"
        yield Fault(
            place,
            "an exact revision, which can never move",
            found,
            f"write `hub:{match['name']}@` and the full commit hash from its page, under History",
        )


def _seeds(known: Known) -> Iterator[Fault]:
    yield from _repeated(known("seeds"), ("seeds",), "seed")


def _lists(known: Known) -> Iterator[Fault]:
    yield from _repeated(known("data.clean"), ("data", "clean"), "step")
    yield from _repeated(known("model.adapter.targets"), ("model", "adapter", "targets"), "module")
    yield from _repeated(known("model.adapter.save_modules"), ("model", "adapter", "save_modules"), "module")
    yield from _repeated(known("budget.days"), ("budget", "days"), "package")
    yield from _repeated(known("rules.files"), ("rules", "files"), "file")


def _repeated(values: Any, place: Place, what: str) -> Iterator[Fault]:
    if not isinstance(values, list | tuple):
        return
    seen: list[Any] = []
    for n, value in enumerate(values):
        if value is not None and value in seen:
            yield Fault((*place, n), f"each {what} once", f"`{value}` again", "remove it")
        seen.append(value)


def _money(known: Known) -> Iterator[Fault]:
    if known("budget") is None or not all(f"budget.{key}" in known for key in ("price_per_hour", "currency")):
        return
    price, currency = known("budget.price_per_hour"), known("budget.currency")
    if (price is None) != (currency is None):
        lacking = "currency" if currency is None else "price_per_hour"
        yield Fault(
            ("budget",), "`price_per_hour` and `currency` together", f"no `{lacking}`", f"add `{lacking}`", "key"
        )


def _codes(known: Known) -> Iterator[Fault]:
    for section in ("rules.limits", "waive"):
        values = known(section)
        for code in values if isinstance(values, dict) else ():
            if not _CODE.fullmatch(code):
                yield Fault(
                    (*section.split("."), code),
                    "the code of a rule: a capital letter and three digits",
                    f"`{code}`",
                    "`testigo explain` lists the rules",
                    "key",
                )
    for code, reason in (known("waive") or {}).items() if isinstance(known("waive"), dict) else ():
        if isinstance(reason, str) and len(re.findall(r"\w{2,}", reason)) < 2:
            yield Fault(("waive", code), "a reason in words", describe(reason), "say why the finding does no harm here")


def _variant_names(known: Known) -> Iterator[Fault]:
    seen: set[str] = set()
    for n, variant in enumerate(known("variants") or []):
        name = variant.get("name") if isinstance(variant, dict) else None
        if not isinstance(name, str):
            continue
        place = ("variants", n, "name")
        if name == "control":
            yield Fault(place, "another name", "`control`, which is the file as written", "choose another name")
        elif name in seen:
            yield Fault(place, "each name once", f"`{name}` again", "choose another name")
        seen.add(name)


_SETTINGS: tuple[Callable[[Known], Iterator[Fault]], ...] = (
    training_faults,
    _lengths,
    _length_of_outputs,
    _prompted,
    _classes,
    _processes,
    _cluster,
    _adapter_settings,
    _quantised,
    _shares,
    split_faults,
    _split_files,
    _policies,
    _metrics,
    task_faults,
    base_faults,
    guard_faults,
    _seeds,
    _lists,
    _money,
    _codes,
    _variant_names,
)

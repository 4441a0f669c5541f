"""Faults between the settings of `guards`: each other task with rows of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from testigo.campaign.document import Place
from testigo.campaign.fault import Fault
from testigo.campaign.known import Known
from testigo.campaign.metrics import METRICS
from testigo.campaign.task_checks import task_faults
from testigo.campaign.wording import suggestion


def guard_faults(known: Known) -> Iterator[Fault]:
    """All faults of the guard tasks."""
    seen: set[str] = set()
    for n, guard in enumerate(known("guards") or []):
        if not isinstance(guard, Mapping):
            continue
        place: Place = ("guards", n)
        name = guard.get("name")
        if isinstance(name, str) and name in seen:
            yield Fault((*place, "name"), "each name once", f"`{name}` again", "choose another name")
        seen.add(str(name))
        yield from _of_task(guard, place)
        if isinstance(known("data.source"), str) and guard.get("source") == known("data.source"):
            yield Fault(
                (*place, "source"),
                "rows that are not trained on",
                f"`{guard['source']}`, the campaign's own rows",
                "name another file",
            )
    if known("guards") and known("task.kind") is not None and _answers_by_head(known("task")):
        yield Fault(
            ("guards",),
            "guard tasks only where the model writes text",
            "a class head, which has no other task",
            "remove them",
            "key",
        )


def _of_task(guard: Mapping[str, Any], place: Place) -> Iterator[Fault]:
    task, metric = guard.get("task"), guard.get("metric")
    if not isinstance(task, Mapping):
        return
    for fault in task_faults(Known({"task": task})):
        yield Fault((*place, *fault.place), fault.expected, fault.found, fault.action, fault.at)
    kind = task.get("kind")
    if kind not in METRICS:
        return
    if _answers_by_head(task):
        action = "add `answer: text`" if kind == "classification" else "choose a kind that writes text"
        yield Fault((*place, "task", "kind"), "a task whose answer is a text", f"`{kind}` by a head", action)
    if isinstance(metric, str) and metric not in METRICS[kind]:
        names = ", ".join(METRICS[kind])
        yield Fault(
            (*place, "metric"),
            f"a metric of the kind {kind}: {names}",
            f"`{metric}`",
            suggestion(metric, METRICS[kind], "choose one of them"),
        )


def _answers_by_head(task: Mapping[str, Any]) -> bool:
    kind = task.get("kind")
    return kind == "image-classification" or (kind == "classification" and task.get("answer", "head") == "head")

"""Pairs of fields of `task` that exclude each other, and fields that a kind of task needs."""

from __future__ import annotations

from collections.abc import Iterator

from testigo.campaign.fault import Fault
from testigo.campaign.known import Known

_WITHOUT_SCHEMA = {
    "generation": "its answers are free text",
    "chat": "its answers are free text",
    "tool-calling": "each row's tools say what a call takes",
}


def task_faults(known: Known) -> Iterator[Fault]:
    """All faults between the fields of `task`."""
    for check in (_fields, _schema, _chat, _tools, _tools_of_template):
        yield from check(known)


def _fields(known: Known) -> Iterator[Fault]:
    fields = {key: known(f"task.{key}") for key in ("input", "target", "category")}
    kind = known("task.kind")
    if fields["target"] == "" and kind is not None and kind != "chat":
        yield Fault(
            ("task", "target"), "the key `task.target`: text", "it is not set", "add `target: FIELD` to `task`", "key"
        )
    if fields["input"] is not None and fields["input"] == fields["target"] and kind != "chat":
        yield Fault(
            ("task", "target"),
            "another field than `input`",
            f"`{fields['target']}` for both",
            "name the answer's field",
        )
    for key in ("input",) if kind == "chat" else ("input", "target"):
        if fields["category"] is not None and fields["category"] == fields[key]:
            yield Fault(
                ("task", "category"),
                f"another field than `{key}`",
                f"`{fields['category']}`",
                "name a field of few values",
            )


def _schema(known: Known) -> Iterator[Fault]:
    system, kind = known("task.system"), known("task.kind")
    has_schema = known("task.schema") is not None
    if isinstance(system, str) and "{schema}" in system and "task.schema" in known and not has_schema:
        yield Fault(
            ("task", "system"), "`schema:` beside `{schema}`", "no schema", "add `schema: FILE`, or take `{schema}` out"
        )
    if kind in _WITHOUT_SCHEMA and has_schema:
        yield Fault(
            ("task", "schema"),
            f"no schema with the kind {kind}: {_WITHOUT_SCHEMA[kind]}",
            f"`{known('task.schema')}`",
            "remove it, or set `kind: extraction`",
            "key",
        )


def _chat(known: Known) -> Iterator[Fault]:
    """The answer of a conversation is its last message."""
    target = known("task.target")
    if known("task.kind") == "chat" and target and target != known("task.input"):
        yield Fault(
            ("task", "target"),
            "no `target` with the kind chat: the last message is the answer",
            f"`{target}`",
            "remove it, or set `kind: generation`",
            "key",
        )
    if known("task.kind") == "chat" and known("encoding.longer") == "truncate":
        yield Fault(
            ("encoding", "longer"),
            "`refuse` or `drop` with the kind chat: a conversation has no one text that could be shortened",
            "`truncate`",
            "set `longer: drop`, or shorten the conversations yourself",
        )


def _tools_of_template(known: Known) -> Iterator[Fault]:
    """The template writes the tools in its own place, for calls alone."""
    system = known("task.system")
    if known("encoding.tools", "text") != "template" or "task.kind" not in known:
        return
    if known("task.kind") != "tool-calling":
        yield Fault(
            ("encoding", "tools"),
            "`tools: template` only with the kind tool-calling",
            "`template`",
            "remove it, or set `kind: tool-calling`",
        )
    elif isinstance(system, str) and "{tools}" in system:
        yield Fault(
            ("task", "system"),
            "no `{tools}` in the system message where the chat template writes them",
            "`{tools}`",
            "take it out, or set `encoding.tools: text`",
        )


def _tools(known: Known) -> Iterator[Fault]:
    """Definitions of tools belong to tool calling, which cannot be without."""
    kind, tools = known("task.kind"), known("task.tools")
    system = known("task.system")
    if kind is None or "task.tools" not in known:
        return
    if kind != "tool-calling":
        for key, default in (("tools", None), ("order", "any")):
            if known(f"task.{key}", default) != default:
                yield Fault(
                    ("task", key),
                    f"`{key}` only with the kind tool-calling",
                    f"`{key}`",
                    "remove it, or set `kind: tool-calling`",
                    "key",
                )
        return
    if tools is None:
        yield Fault(
            ("task",),
            "`tools` in `task`: the row's field with the tools that it offers",
            "no `tools`",
            "add `tools: FIELD` to `task`",
            "key",
        )
    elif tools in (known("task.input"), known("task.target")):
        yield Fault(("task", "tools"), "a field of its own", f"`{tools}`, which is the input or target too",
                    "name the field with the definitions")  # fmt: skip
    if isinstance(system, str) and "{tools}" not in system and known("encoding.tools", "text") == "text":
        yield Fault(
            ("task", "system"),
            "`{tools}` in the system message, where the row's tools are written",
            "none: the model would not know what it can call",
            "write `{tools}` into it, or remove `system` to use the usual one",
        )

"""A YAML file as plain data, with the place of every key and value."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from testigo.errors import CampaignError, Problem

Place = tuple[str | int, ...]
"""The way from the root to a value: keys and list positions."""

_LONGEST_LINE = 110
_MOST_VALUES = 20_000


@dataclass(frozen=True)
class Mark:
    """A stretch of one line; line and column count from 0."""

    line: int
    column: int
    length: int = 1


@dataclass(frozen=True)
class Document:
    """Plain data (mappings, lists, text, numbers, true, false, null) and where each part stands in the file."""

    path: Path
    text: str
    data: Any
    keys: Mapping[Place, Mark] = field(default_factory=dict)
    values: Mapping[Place, Mark] = field(default_factory=dict)
    problems: tuple[tuple[Mark, Problem], ...] = ()
    """What YAML allows and a campaign does not: a key twice, a tag, a merge sign."""

    def mark(self, place: Place, at: str = "value") -> Mark:
        """The place's own mark, or that of the nearest part around it."""
        marks = self.keys if at == "key" else self.values
        if place in marks:
            return marks[place]
        while place:
            for known in (self.keys, self.values):
                if place in known:
                    return known[place]
            place = place[:-1]
        return Mark(0, 0)

    def problem(self, mark: Mark, *, expected: str, found: str, action: str) -> Problem:
        """A problem that shows file, line, column, the source line and a caret under the fault."""
        return Problem(expected, found, f"{self.path}:{mark.line + 1}:{mark.column + 1}{self._picture(mark)}", action)

    def _picture(self, mark: Mark) -> str:
        lines = re.split(r"\r\n|[\n\r\x85\u2028\u2029]", self.text)
        if mark.line >= len(lines) or not lines[mark.line].strip():
            return ""
        line = "".join(sign if sign.isprintable() else " " for sign in lines[mark.line])
        start = max(0, mark.column - _LONGEST_LINE // 2) if len(line) > _LONGEST_LINE else 0
        shown = line[start : start + _LONGEST_LINE].rstrip()
        column = min(mark.column - start, len(shown))
        carets = "^" * max(1, min(mark.length, len(shown) - column))
        number = f"{mark.line + 1:>5}"
        return f"\n{number} | {shown}\n{' ' * len(number)} | {' ' * column}{carets}"


def read_document(path: Path) -> Document:
    """Read a campaign file as YAML 1.2.

    Raises
    ------
    CampaignError
        The file is missing, not UTF-8, not YAML, or not one mapping; with the line. Lesser faults are in `problems`.
    """
    text = _read_text(path)
    blank = Document(path, text, None)
    root = _compose(blank)
    if not isinstance(root, MappingNode):
        mark = _mark(root) if root is not None else Mark(0, 0)
        raise CampaignError(
            problems=[
                blank.problem(
                    mark,
                    expected="a mapping: lines such as `campaign: NAME`",
                    found="an empty file" if root is None else f"a {_kind(root)}",
                    action="write the sections of a campaign; `testigo new FOLDER` makes an example",
                )
            ]
        )
    reader = _Reader(blank)
    data = reader.plain(root, ())
    return Document(path, text, data, reader.keys, reader.values, tuple(reader.problems))


def _read_text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        beside = path / "campaign.yaml"
        raise CampaignError(
            expected="a campaign file",
            found="a folder" if path.is_dir() else "no such file" if not path.exists() else str(error.strerror),
            where=str(path),
            action=f"did you mean {beside}?" if beside.is_file() else "check the name; `testigo new FOLDER` makes one",
        ) from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise CampaignError(
            expected="text in UTF-8",
            found=f"the byte 0x{raw[error.start]:02x}, which is not UTF-8",
            where=f"{path}:{line}:{error.start - (raw.rfind(bytes([10]), 0, error.start) + 1) + 1}",
            action="save the file as UTF-8",
        ) from error


def _compose(document: Document) -> Node | None:
    yaml = YAML(typ="safe", pure=True)
    try:
        root: Node | None = yaml.compose(document.text)
    except RecursionError as error:
        raise CampaignError(
            problems=[
                document.problem(
                    Mark(0, 0),
                    expected="a campaign",
                    found="lists or mappings nested without end",
                    action="mend the file",
                )
            ]
        ) from error
    except Exception as error:  # on mangled text the parser raises more than its own errors
        mark, found, action = _yaml_fault(error, document.text)
        raise CampaignError(
            problems=[document.problem(mark, expected="valid YAML", found=found, action=action)]
        ) from error
    for number, line in enumerate(document.text.splitlines()):
        if line.startswith("%YAML") and line.split()[1:2] != ["1.2"]:
            raise CampaignError(
                problems=[
                    document.problem(
                        Mark(number, 0, len(line)), expected="YAML 1.2", found=f"`{line}`", action="remove this line"
                    )
                ]
            )
    return root


def _yaml_fault(error: Exception, text: str) -> tuple[Mark, str, str]:
    where = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    words = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error) or type(error).__name__
    context = getattr(error, "context", None)
    if context and "while" in context:
        words = f"{words}, {context}"
    start = getattr(error, "context_mark", None)
    if start is not None and "unexpected end of stream" in words:
        where, words = start, "an opening quote or bracket that is never closed"
    line, column = (where.line, where.column) if where is not None else (0, 0)
    position = getattr(error, "position", None)
    if where is None and isinstance(position, int):
        before = text[:position]
        line, column = before.count("\n"), position - (before.rfind("\n") + 1)
        words = f"a sign that YAML does not allow ({text[position : position + 1]!r})"
    quote = _long_quote(text, line)
    if quote is not None:
        return quote[0], f"a quote that opens here and closes only in line {quote[1] + 1}", "close the quote"
    if "'\\t'" in words:
        return Mark(line, column), "a tab", "indent with spaces"
    if "another document" in words:
        return Mark(line, column), "a second document", "keep one campaign in a file; remove the line `---`"
    if "mapping values are not allowed" in words:
        action = "check the indentation, and put text that holds `: ` in quotes"
    elif isinstance(error, YAMLError):
        action = "close quotes and brackets, indent with spaces, and put text with special signs in quotes"
    else:
        action = "mend the text near this place"
    return Mark(line, column), words, action


def _long_quote(text: str, line: int) -> tuple[Mark, int] | None:
    """A quote over several lines that ends where the fault is seen: most likely it was meant to end in its first."""
    try:
        for token in YAML(typ="safe", pure=True).scan(text):
            start, end = token.start_mark, token.end_mark
            quoted = getattr(token, "style", None) in ("'", '"')
            if quoted and start.line < end.line and end.line == line:
                return Mark(start.line, start.column), end.line
    except Exception:  # the fault itself, met again
        return None
    return None


class _Reader:
    """Turns YAML nodes into plain data, noting the place of each and all problems."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.keys: dict[Place, Mark] = {}
        self.values: dict[Place, Mark] = {}
        self.problems: list[tuple[Mark, Problem]] = []
        self._open: list[Node] = []
        self._constructor = YAML(typ="safe", pure=True).constructor

    def plain(self, node: Node, place: Place) -> Any:
        self.values[place] = _mark(node)
        if any(node is around for around in self._open) or len(self.values) > _MOST_VALUES:
            self._add(node, "plain values", "an alias that repeats itself without end", "write the values out")
            return None
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        if node.tag not in ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
            self._add(node, "plain values", f"the tag {node.tag}", "remove the tag")
            return None
        self._open.append(node)
        try:
            if isinstance(node, SequenceNode):
                return [self.plain(child, (*place, n)) for n, child in enumerate(node.value)]
            return dict(self._pairs(node.value, place))
        finally:
            self._open.pop()

    def _pairs(self, pairs: list[tuple[Node, Node]], place: Place) -> Iterator[tuple[str, Any]]:
        seen: dict[str, Mark] = {}
        for key_node, value_node in pairs:
            key = self._key(key_node)
            if key is None:
                continue
            mark = _mark(key_node)
            if key in seen:
                self._add(
                    key_node,
                    f"the key `{key}` once",
                    f"it again; it is first set in line {seen[key].line + 1}",
                    "keep one of them",
                )
                continue
            seen[key] = mark
            self.keys[(*place, key)] = mark
            yield key, self.plain(value_node, (*place, key))

    def _key(self, node: Node) -> str | None:
        if isinstance(node, ScalarNode):
            if node.tag == "tag:yaml.org,2002:merge":
                self._add(node, "a key", "the merge sign `<<`", "write the keys out")
                return None
            return str(node.value)
        self._add(node, "a word as key", f"a {_kind(node)}", "put text that begins with { or [ in quotes")
        return None

    def _scalar(self, node: ScalarNode) -> Any:
        kind = str(node.tag).rpartition(":")[2]
        if kind in ("str", "timestamp", "value", "merge"):  # YAML 1.2 knows no dates: they are text
            return node.value
        if kind == "null":
            return None
        if kind in ("int", "float", "bool"):
            try:
                number = self._constructor.construct_object(node)
            except (ValueError, YAMLError, OverflowError, LookupError):
                self._add(node, "a number", f"`{node.value[:40]}`", "write a plain number, or put text in quotes")
                return None
            if isinstance(number, float) and not math.isfinite(number):  # no comparison with it ever holds, or all do
                self._add(node, "a finite number", f"`{node.value[:40]}`", "write a plain number")
                return None
            return number
        self._add(node, "plain values", f"the tag {node.tag}", "remove the tag")
        return None

    def _add(self, node: Node, expected: str, found: str, action: str) -> None:
        if len(self.problems) < 50:
            mark = _mark(node)
            problem = self.document.problem(mark, expected=expected, found=found, action=action)
            self.problems.append((mark, problem))


def _mark(node: Node) -> Mark:
    start, end = node.start_mark, node.end_mark
    return Mark(start.line, start.column, end.column - start.column if end.line == start.line else 1)


def _kind(node: Node) -> str:
    return "list" if isinstance(node, SequenceNode) else "mapping" if isinstance(node, MappingNode) else "single value"


def in_order(faults: Iterable[tuple[Mark, Problem]]) -> list[Problem]:
    """Problems from the top of the file to its end, none twice."""
    ordered = sorted(faults, key=lambda fault: (fault[0].line, fault[0].column))
    return list(dict.fromkeys(problem for _, problem in ordered))

"""Evidence records to JSON and back, so that a worker writes them and the conductor judges them."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeAlias

from testigo.errors import VerificationFailed
from testigo.gates.backward import BackwardEvidence
from testigo.gates.balance import BalanceEvidence
from testigo.gates.classes import ClassesEvidence
from testigo.gates.data import DataEvidence
from testigo.gates.duplicates import DuplicateEvidence
from testigo.gates.export import ExportEvidence
from testigo.gates.forward import ForwardEvidence
from testigo.gates.memory import MemoryEvidence
from testigo.gates.overfit import OverfitEvidence
from testigo.gates.processes import ProcessesEvidence
from testigo.gates.resume import ResumeEvidence
from testigo.gates.splits import SplitEvidence
from testigo.gates.update import UpdateEvidence
from testigo.gates.validation import ValidationEvidence

Evidence: TypeAlias = (
    DataEvidence
    | ClassesEvidence
    | SplitEvidence
    | DuplicateEvidence
    | BalanceEvidence
    | ForwardEvidence
    | BackwardEvidence
    | UpdateEvidence
    | OverfitEvidence
    | ValidationEvidence
    | ExportEvidence
    | ResumeEvidence
    | ProcessesEvidence
    | MemoryEvidence
)
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in typing.get_args(Evidence)}


def to_json(records: Iterable[Evidence]) -> dict[str, Any]:
    """The records by the name of their type; a type with several records becomes a list.

    NaN and infinities, which JSON does not know, become the words "nan", "inf" and "-inf".
    """
    out: dict[str, Any] = {}
    for record in records:
        name = type(record).__name__
        body = {field.name: _plain(getattr(record, field.name)) for field in fields(record)}
        if name not in out:
            out[name] = body
        elif isinstance(out[name], list):
            out[name].append(body)
        else:
            out[name] = [out[name], body]
    return out


def from_json(document: Mapping[str, Any]) -> tuple[Evidence, ...]:
    """The records that `to_json` wrote, with tuples and floats as they were.

    Raises
    ------
    VerificationFailed
        When the document has a record or a field that this version does not know, or lacks a needed one.
    """
    records: list[Evidence] = []
    for name, bodies in document.items():
        kind = _KINDS.get(name)
        if kind is None:
            raise _unreadable(f"one of {', '.join(_KINDS)}", name, "evidence")
        hints = typing.get_type_hints(kind)
        for body in bodies if isinstance(bodies, list) else [bodies]:
            unknown = sorted(set(body) - set(hints))
            if unknown:
                raise _unreadable(f"the fields of {name}", ", ".join(unknown), name)
            try:
                records.append(kind(**{key: _restored(hints[key], value) for key, value in body.items()}))
            except (TypeError, ValueError) as error:
                raise _unreadable(f"a whole {name}", str(error), name) from error
    return tuple(records)


def _unreadable(expected: str, found: str, where: str) -> VerificationFailed:
    action = "run the pilot again; the evidence was written by another version or changed by hand"
    return VerificationFailed(expected=expected, found=found, where=where, action=action)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [_plain(part) for part in (sorted(value) if isinstance(value, set | frozenset) else value)]
    return value


def _restored(hint: Any, value: Any) -> Any:
    """The value as its field's type says: lists become tuples, words become NaN, whole numbers become floats."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        (hint,) = (part for part in parts if part is not types.NoneType)
        return _restored(hint, value)
    if origin is tuple:
        inner = [parts[0]] * len(value) if parts[-1] is Ellipsis else list(parts)
        return tuple(_restored(part, item) for part, item in zip(inner, value, strict=True))
    if origin is dict:
        return {key: _restored(parts[1], item) for key, item in value.items()}
    if hint is float:
        return float(value)
    if not isinstance(value, hint):
        raise TypeError(f"{value!r} where {hint.__name__} belongs")
    return value

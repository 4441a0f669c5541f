"""What a field takes, and what stands there, in words that a user understands."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, StringConstraints
from pydantic.fields import FieldInfo

_PATTERNS = {
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$": "letters, digits, `.`, `_`, `-`, at most 64, first a letter or digit",
    r"^[a-z0-9][a-z0-9._-]{0,39}$": "small letters, digits, `.`, `_`, `-`, at most 40, first a letter or digit",
    r"^[A-Z]{3}$": "three capital letters, such as EUR",
    r"\S": "text",
}


def field_of(model: type[BaseModel], key: str) -> FieldInfo | None:
    """The field that a key of the file stands for."""
    return next((field for name, field in model.model_fields.items() if (field.alias or name) == key), None)


def keys_of(model: type[BaseModel]) -> list[str]:
    """The keys that a section knows, in order."""
    return [field.alias or name for name, field in model.model_fields.items()]


def section_of(annotation: Any) -> type[BaseModel] | None:
    """The section that an annotation holds, alone or as a list's item."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := section_of(part)) is not None), None)


def expects(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    """What an annotation takes, in words: `a whole number of at least 1`."""
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return expects(inner, [*metadata, *_flat(more)])
    if get_origin(annotation) in (typing.Union, types.UnionType):
        parts = [expects(part, metadata) for part in get_args(annotation) if part is not type(None)]
        return " or ".join([*dict.fromkeys(parts), *(["null"] if type(None) in get_args(annotation) else [])])
    if get_origin(annotation) is Literal:
        names = [f"`{value}`" for value in get_args(annotation)]
        return names[0] if len(names) == 1 else f"one of {', '.join(names)}"
    if get_origin(annotation) is tuple:
        inside = section_of(annotation)
        what = f"mappings with the keys {_names(keys_of(inside))}" if inside else expects(get_args(annotation)[0])
        least = max((getattr(part, "min_length", None) or 0 for part in metadata), default=0)
        items = {0: "", 1: " with at least one item"}.get(least, f" with at least {least} items")
        return f"a list{items}, each {what}".replace("each mappings", "of mappings")
    if annotation is str:
        pattern = next((p for part in metadata if (p := getattr(part, "pattern", None))), "")
        return _PATTERNS.get(pattern, "text")
    if annotation in (int, float):
        return _number(annotation, list(metadata))
    if annotation is bool:
        return "`true` or `false`"
    inside = section_of(annotation)
    return f"a mapping with the keys {_names(keys_of(inside))}" if inside else "a mapping"


def _flat(metadata: Iterable[Any]) -> list[Any]:
    flat: list[Any] = []
    for part in metadata:
        flat += part.metadata if isinstance(part, FieldInfo) else [part]
        if isinstance(part, StringConstraints):
            flat.append(part)
    return flat


def _number(annotation: type, metadata: list[Any]) -> str:
    bounds: dict[str, float] = {}
    for part in metadata:
        bounds |= {name: value for name in ("gt", "ge", "lt", "le") if (value := getattr(part, name, None)) is not None}
    words = {"gt": "above", "ge": "of at least", "lt": "below", "le": "of at most"}
    limits = " and ".join(f"{words[name]} {bounds[name]:.10g}" for name in ("gt", "ge", "lt", "le") if name in bounds)
    return f"{'a whole number' if annotation is int else 'a number'}{' ' + limits if limits else ''}"


def describe(value: Any) -> str:
    """What stands in the file, in words."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, str):
        return f"the text `{value if len(value) <= 60 else value[:57] + '...'}`" if value.strip() else "empty text"
    if isinstance(value, dict):
        return f"a mapping with the keys {_names([str(key) for key in value])}" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}" if value else "an empty list"
    return f"the number {value!r}"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    names = list(known)
    by_small = {name.lower().replace("-", "_"): name for name in names}
    close = difflib.get_close_matches(word.lower().replace("-", "_"), list(by_small), n=1, cutoff=0.6)
    return by_small[close[0]] if close else None


def suggestion(word: str, known: Iterable[str], otherwise: str) -> str:
    """`did you mean`, or the list of what is known, or another action."""
    close = nearest(word, known)
    return f"did you mean `{close}`?" if close else otherwise


def _names(names: list[str]) -> str:
    shown = names[:12]
    return ", ".join(f"`{name}`" for name in shown) + (", ..." if len(names) > 12 else "")


names_of = _names

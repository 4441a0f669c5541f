"""Classes: their names, their order, and which of them a row's target says."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from testigo.campaign.metrics import CLASS_KINDS
from testigo.errors import DataError

if TYPE_CHECKING:
    from testigo.campaign import Campaign
    from testigo.corpus import Corpus

_AROUND = " \"'`*_[](){}<>«»“”‘’„"


def class_name(value: Any) -> str | None:
    """The name of the class that a target says: a text as it is, a whole number or truth value as JSON writes it.

    None for anything else, and for empty text.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return value if isinstance(value, str) and value.strip() else None


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Each name once: by value where all are whole numbers, else by letter."""
    every = set(names)
    if all(name.lstrip("-").isdecimal() for name in every):
        return tuple(sorted(every, key=lambda name: (int(name), name)))
    return tuple(sorted(every))


def labels_of(campaign: Campaign, corpus: Corpus) -> tuple[str, ...]:
    """The classes of a campaign in the order of the head; empty where its kind has none.

    Without `task.labels` they are the targets of the training and validation rows: the sealed rows are not read.

    Raises
    ------
    DataError
        When the rows name less than two classes.
    """
    task = campaign.task
    if task.kind not in CLASS_KINDS:
        return ()
    if task.labels is not None:
        return task.labels
    values = (class_name(row.fields[task.target]) for split in ("train", "validation") for row in corpus.rows(split))
    found = in_order(name for name in values if name is not None)
    if len(found) < 2:
        raise DataError(
            expected="rows of two classes or more",
            found=f"all are of one class: '{found[0]}'" if found else "no class in any row",
            where=f"the field '{task.target}' of {campaign.data.source}",
            action="name the field with the class in `task.target`, or add rows of the other classes",
        )
    return found


def target_problems(fields: Mapping[str, Any], name: str, labels: tuple[str, ...]) -> list[str]:
    """What is wrong with a row's class."""
    if name not in fields:
        return [f"the field '{name}' (target) is missing"]
    found = class_name(fields[name])
    if found is None:
        return [f"the field '{name}' (target) must name a class, by text or a whole number"]
    if labels and found not in labels:
        shown = ", ".join(labels[:12]) + (", …" if len(labels) > 12 else "")
        return [f"the class '{found}' is none of `task.labels`: {shown}"]
    return []


def class_of(output: str, labels: tuple[str, ...]) -> str | None:
    """The class that a written answer names; None when it names none.

    The whole answer must be the name: Unicode NFKC, small letters, runs of white space as one space, and no quotes,
    asterisks, brackets or final full stop around it count. "The class is billing" names no class: a model that was
    asked for a name and explains has not followed. Where two names become one by this, only the exact name counts.
    """
    if output.strip() in labels:
        return output.strip()
    plain = [_plain(name) for name in labels]
    found = [name for name, own in zip(labels, plain, strict=True) if own == _plain(output)]
    return found[0] if len(found) == 1 else None


def _plain(text: str) -> str:
    words = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    bare = words.strip(_AROUND).removesuffix(".").strip(_AROUND)
    return bare or words

"""The data section, from the corpus manifest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from testigo.dossier.files import whole, words
from testigo.dossier.language import _
from testigo.dossier.record import CleaningStep, Data, Dropped, Source, Split
from testigo.gates.duplicates import in_words
from testigo.ledger import Event

_ROWS_NAMED = 20
_QUOTED = re.compile("'[^']*'")  # "copy of row 'o7'" is one reason, whatever the row
_ORDER = {"train": 0, "validation": 1, "test": 2}


def data_from(manifest: Mapping[str, Any], samples: str) -> Data:
    """The manifest as the report tells it; `samples` says who looked at the encoded samples."""
    return Data(
        fingerprint=str(manifest.get("fingerprint", "")),
        sources=tuple(
            Source(str(source.get("file", "")), str(source.get("sha256", "")), whole(source.get("rows")))
            for source in _mappings(manifest.get("sources"))
        ),
        cleaning=tuple(_cleaning(manifest.get("clean"))),
        duplicates=_duplicates(manifest.get("duplicates")),
        splits=_splits(manifest.get("splits")),
        split_rule=_rule(manifest.get("split_rule"), manifest.get("split")),
        dropped=_dropped(manifest.get("dropped")),
        samples=samples,
    )


def samples_confirmed(events: Sequence[Event], runs_started: Sequence[Event] = ()) -> str:
    """Who looked at what the model sees, before training or later; empty when nobody was asked."""
    if not events:
        return ""
    last = events[-1]
    if not last.body.get("looked", not last.body.get("yes", last.body.get("nobody_looked", False))):
        if last.body.get("how") == "no terminal":
            return _("nobody looked: there was no terminal to ask on")
        return _("nobody looked: --yes answered")
    who = str(last.body.get("by") or "")
    same = [event for event in events if event.body.get("encoding") == last.body.get("encoding")]
    if any(same[0].number < run.number < last.number for run in runs_started):
        return _("{who} looked and confirmed them, after training had begun", who=who or _("a person"))
    return _("{who} looked and confirmed them", who=who) if who else _("a person looked and confirmed them")


def _mappings(value: object) -> Iterable[Mapping[str, Any]]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        yield from (item for item in value if isinstance(item, Mapping))


def _cleaning(value: object) -> Iterable[CleaningStep]:
    for step in _mappings(value):
        name = step.get("step", step.get("name", step.get("rule", "")))
        yield CleaningStep(str(name), whole(step.get("changed")) or 0, whole(step.get("dropped")) or 0)


def _duplicates(value: object) -> dict[str, int]:
    """How many copies of each kind; a bare number is taken as it is, a list as its length."""
    counts: dict[str, int] = {}
    for kind, facts in value.items() if isinstance(value, Mapping) else ():
        if kind in ("unclean", "across", "shown", "sha256"):
            continue
        name = in_words(str(kind)).replace("_", " ")
        if isinstance(facts, Mapping):
            counts[name] = whole(facts.get("count")) or len(facts.get("pairs") or ())
            if facts.get("between_files"):
                counts[f"{name}, between given files"] = len(facts["between_files"])
        elif isinstance(facts, list | tuple):
            counts[name] = len(facts)
        elif (n := whole(facts)) is not None:
            counts[name] = n
    return counts


def _rule(value: object, made: object = None) -> str:
    """The split rule in words: its unit, shares and seed, or its periods; and what was compared afterwards."""
    if not isinstance(value, Mapping):
        return words(value)
    told = made if isinstance(made, Mapping) else {}
    parts = [_("groups of {field}", field=value["group"])] if value.get("group") else [_("single rows")]
    if told.get("unit") not in (None, "row", value.get("group")):
        parts[0] = _("whole units ({unit}) by {field}", unit=told["unit"], field=value.get("group"))
    if value.get("near") is not None:
        parts.append(_("near-duplicates from {x} on joined", x=value["near"]))
    if isinstance(told.get("time"), Mapping):
        parts += _periods(told["time"])
    else:
        if isinstance(value.get("shares"), Mapping):
            parts.append(words(value["shares"]))
        if value.get("seed") is not None:
            parts.append(_("seed {n}", n=value["seed"]))
        if told.get("cuts") == "fixed":
            parts.append(_("rows added later move none"))
        elif told.get("cuts") == "fitted":
            parts.append(_("cuts fitted to these rows"))
    return "; ".join([*parts, *_proved(told.get("proofs"))])


def _periods(time: Mapping[str, Any]) -> list[str]:
    begins = time.get("begins", {})
    parts = [
        _(
            "by time ({field}): validation from {validation}, test from {test}",
            field=time.get("field", ""),
            validation=begins.get("validation", ""),
            test=begins.get("test", ""),
        )
    ]
    if time.get("embargo"):
        parts.append(_("embargo of {x} before each", x=f"{time['embargo']:g}"))
    return parts


def _proved(proofs: object) -> list[str]:
    """What was compared across the finished splits; empty for a corpus of an earlier version."""
    if not isinstance(proofs, Mapping) or not {"ids", "groups"} <= set(proofs):
        return []
    if any(proof.get("across") for kind, proof in proofs.items() if kind in ("ids", "groups", "periods")):
        return [_("something lies in more than one split: see the gate D144")]
    ids, groups = proofs["ids"].get("compared"), proofs["groups"].get("compared")
    return [_("compared afterwards: none of {n} ids and {m} groups lies in two splits", n=ids, m=groups)]


def _splits(value: object) -> tuple[Split, ...]:
    if not isinstance(value, Mapping):
        return ()
    splits = [
        Split(
            name=str(name),
            rows=whole(facts.get("rows")) or 0,
            groups=whole(facts.get("groups")),
            sha256=str(facts.get("sha256", "")),
            categories={str(k): whole(n) or 0 for k, n in (facts.get("categories") or {}).items()},
        )
        for name, facts in value.items()
        if isinstance(facts, Mapping)
    ]
    return tuple(sorted(splits, key=lambda split: (_ORDER.get(split.name, 9), split.name)))


def _dropped(value: object) -> tuple[Dropped, ...]:
    """Dropped rows by reason. The manifest gives a list of rows with reasons, or counts by reason."""
    by_reason: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    if isinstance(value, Mapping):
        for reason, rows in value.items():
            if isinstance(rows, list | tuple):
                by_reason[str(reason)] = [words(row) for row in rows]
            elif (n := whole(rows)) is not None:
                counts[str(reason)] = n
    for item in _mappings(value):
        reason = _QUOTED.sub("…", str(item.get("reason", _("no reason recorded"))))
        where = [str(item[key]) for key in ("row", "where") if item.get(key)]
        by_reason.setdefault(reason, []).append(" at ".join(where))
    dropped = [Dropped(reason, len(rows), tuple(rows[:_ROWS_NAMED])) for reason, rows in by_reason.items()]
    return (*dropped, *(Dropped(reason, n, ()) for reason, n in counts.items() if n))

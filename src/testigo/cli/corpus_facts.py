"""What `testigo check` tells about the rows: where they came from, what was left out, how they are split."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from testigo.cli.output import show, show_part, show_table
from testigo.counting import counted
from testigo.signs import in_one_line

if TYPE_CHECKING:
    from testigo.conductor.outdated import Outdated
    from testigo.corpus import CorpusDiff

_SPLITS = ("train", "validation", "test")
_CATEGORIES_SHOWN = 15
_ROWS_SHOWN = 8
_QUOTED = re.compile("'[^']*'")


def show_corpus(manifest: Mapping[str, Any]) -> None:
    """The manifest in a few lines, and a table of rows by category."""
    for label, text in _facts(manifest):
        _line(label, text)
    show()
    splits = manifest["splits"]
    categories = sorted({name for facts in splits.values() for name in facts["categories"]})
    rows = [("all rows", *(str(splits[split]["rows"]) for split in _SPLITS))]
    if categories != [""]:
        by_size = sorted(categories, key=lambda name: -sum(splits[s]["categories"].get(name, 0) for s in _SPLITS))
        rows += [
            (in_one_line(name) or "(none)", *(str(splits[split]["categories"].get(name, 0)) for split in _SPLITS))
            for name in by_size[:_CATEGORIES_SHOWN]
        ]
    show_table(("category", "train", "validation", "test (sealed)"), rows)
    if len(categories) > _CATEGORIES_SHOWN:
        show(f"… and {len(categories) - _CATEGORIES_SHOWN} more categories: see --json", style="dim")
    show()


def _line(label: str, text: str) -> None:
    show_part(f"{label + ':' if label else '':<13}", text)


def _facts(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    from testigo.gates.duplicates import in_words  # slow to import, and not needed by --help

    yield "read", "; ".join(_sources(manifest["sources"]))
    if manifest.get("ignored_files"):
        yield (
            "not read",
            f"{counted(len(manifest['ignored_files']), 'file')} without rows: {_some(manifest['ignored_files'])}",
        )
    changed = [f"{step['step']} {step['changed']}" for step in manifest["clean"] if step["changed"]]
    if changed:
        yield "cleaned", f"rows changed by {', '.join(changed)}"
    if manifest.get("images"):
        yield "images", _images(manifest["images"])
    reasons = Counter(_QUOTED.sub("…", str(drop["reason"])) for drop in manifest["dropped"])
    if reasons:
        yield "left out", "; ".join(f"{n} × {reason}" for reason, n in reasons.most_common())
    yield "split", _split(manifest)
    yield "apart", _proofs(manifest.get("split", {}).get("proofs", {}))
    pairs = {
        kind: facts["count"]
        for kind, facts in manifest["duplicates"].items()
        if isinstance(facts, Mapping) and facts.get("count")
    }
    if pairs:
        yield "alike", "pairs of rows: " + ", ".join(f"{n} {in_words(kind)}" for kind, n in pairs.items())


def _sources(sources: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for source in sources[:_ROWS_SHOWN]:
        part = "" if source["part"] == "source" else f" for {source['part']}"
        converted = [f"{n} × {kind} taken away" for kind, n in source.get("converted", {}).items()]
        yield f"{source['rows']} rows from {in_one_line(str(source['file']))}{part}" + (
            f" ({', '.join(converted)})" if converted else ""
        )
    if len(sources) > _ROWS_SHOWN:
        rest = sources[_ROWS_SHOWN:]
        yield f"{sum(source['rows'] for source in rest)} from {len(rest)} more files"


def _images(images: Mapping[str, Any]) -> str:
    small, large = ("×".join(map(str, images[key])) for key in ("smallest", "largest"))
    size = small if images["sizes"] == 1 else f"{small} to {large} pixels, {images['sizes']} sizes"
    converted = ", ".join(f"{n} × {kind}" for kind, n in images["conversions"].items())
    return f"{images['count']}, {size}; {'converted: ' + converted if converted else 'none had to be converted'}"


def _split(manifest: Mapping[str, Any]) -> str:
    told, rule = manifest.get("split", {}), manifest["split_rule"]
    time = told.get("time")
    if time:
        begins = time["begins"]
        gap = f", embargo {time['embargo']:g}" if time["embargo"] else ""
        return f"by {time['field']}: validation from {begins['validation']}, test from {begins['test']}{gap}"
    unit = told.get("unit", "row")
    if "cuts" not in told:
        return f"by the files that were given; a {unit} stands in one of them"
    how = f"{told['cuts']} cuts, seed {rule['seed']}"
    if unit == "row":
        return f"by row: {told['units']} units; {how}"
    return f"by {unit}: {told['units']} units, none torn apart; {how}"


def _proofs(proofs: Mapping[str, Any]) -> str:
    from testigo.gates.duplicates import in_words

    across = {kind: len(proof["across"]) for kind, proof in proofs.items() if proof["across"]}
    compared = ", ".join(f"{proof['compared']} {in_words(kind)}" for kind, proof in proofs.items() if proof["compared"])
    if across:
        straddling = ", ".join(f"{n} {in_words(kind)}" for kind, n in across.items())
        return f"in more than one split: {straddling} (of {compared})"
    return f"nothing lies in two splits: {compared} compared"


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(in_one_line, names[:_ROWS_SHOWN])) + (", …" if len(names) > _ROWS_SHOWN else "")


def show_diff(diff: CorpusDiff, outdated: Sequence[Outdated]) -> None:
    """What changed since another corpus, and which results do not compare any more."""
    show(f"corpus {diff.old[:12]} → {diff.new[:12]}", style="bold")
    if diff.is_empty:
        show("the same corpus: rows, rules and splits are equal, byte for byte")
    else:
        for setting, (old, new) in diff.rules.items():
            _line("rule", f"{setting}: {_value(old)} → {_value(new)}")
        show_table(
            ("split", "added", "removed", "rows"),
            [
                (s, str(len(diff.added[s])), str(len(diff.removed[s])), "the same" if diff.same_rows[s] else "changed")
                for s in _SPLITS
            ],
        )
        _show_rows(diff)
    _show_outdated(diff, outdated)
    show()


def _show_rows(diff: CorpusDiff) -> None:
    for label, by_split in (("added", diff.added), ("removed", diff.removed)):
        for split, rows in by_split.items():
            if rows:
                _line(label, f"{split}: {_some(rows)}")
    for reason, n in Counter(_QUOTED.sub("…", reason) for reason in diff.left_out.values()).most_common():
        _line("", f"{n} of the removed rows are left out now: {reason}")
    if diff.changed:
        _line("changed", f"{len(diff.changed)} {'row' if len(diff.changed) == 1 else 'rows'}")
        for row, fields in list(diff.changed.items())[:_ROWS_SHOWN]:
            _line("", f"{in_one_line(row)}: {', '.join(fields)}")
    if diff.moved:
        ways = Counter((old, new) for _, old, new in diff.moved)
        _line("moved", ", ".join(f"{n} from {old} to {new}" for (old, new), n in sorted(ways.items())))
        _line("", _some([row for row, _, _ in diff.moved]))


def _show_outdated(diff: CorpusDiff, outdated: Sequence[Outdated]) -> None:
    kept = [split for split, is_same in diff.same_rows.items() if is_same]
    if not outdated:
        _line("results", "none in this workspace belongs to another corpus")
        return
    _line("results", f"{len(outdated)} in this workspace do not compare with what is made from now on:")
    for one in outdated:
        state = f" ({one.state})" if one.state else ""
        _line("", f"{one.kind} {one.name}{state}, corpus {one.corpus[:12]}")
    if kept and not diff.is_empty:
        _line("", f"the rows of {' and '.join(kept)} are the same: numbers on them alone may be set beside each other")


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(str, value))}]"
    return "nothing" if value is None else str(value)

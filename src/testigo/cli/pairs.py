"""Duplicates on the terminal: counts by kind, and pairs side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testigo.cli.output import show, show_table
from testigo.signs import in_one_line

PAIRS = 5
"""Pairs that are shown; the manifest shows more and `duplicates.parquet` names all."""
_WIDTH = 34


def duplicates_to_json(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Counts by kind, what left training, the unclean evaluation rows, and pairs side by side."""
    from testigo.corpus.pairs import KINDS  # slow to import, and not needed by --help

    told = manifest.get("duplicates", {})
    return {
        "counts": {kind: told[kind]["count"] for kind in KINDS if kind in told},
        "left_training": told.get("left_training", []),
        "unclean": told.get("unclean", {}),
        "shown": told.get("shown", []),
    }


def print_duplicates(manifest: Mapping[str, Any]) -> None:
    """Nothing where nothing was found."""
    from testigo.gates.duplicates import in_words

    told = duplicates_to_json(manifest)
    counts = {kind: n for kind, n in told["counts"].items() if n}
    if not counts:
        return
    show()
    pairs = sorted(told["shown"], key=lambda pair: "train" in pair["splits"] and pair["splits"].count("train") == 2)
    show_table(
        ("alike", "one", "other"),
        [
            (f"{in_words(pair['kind'])}\n{pair['part']} {pair['similarity']:.2f}", *_cells(pair))
            for pair in pairs[:PAIRS]
        ],
    )


def _cells(pair: Mapping[str, Any]) -> tuple[str, str]:
    one, other = (
        f"{in_one_line(row)} ({split or 'left out'})\n{_excerpt(text)}"
        for row, split, text in zip(pair["rows"], pair["splits"], pair["texts"], strict=True)
    )
    return one, other


def _excerpt(text: str | None) -> str:
    """Three lines of a text at most."""
    if text is None:
        return "(not shown: a test row says it)"
    return text if len(text) <= 3 * _WIDTH else text[: 3 * _WIDTH - 1] + "…"

"""`testigo check --diff`: what changed between two corpora, and which results do not compare any more."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from whole import Place


def fingerprint(place: Place) -> str:
    return place.events("corpus-built")[-1].body["fingerprint"]


def change_rows(place: Place) -> None:
    rows = [json.loads(line) for line in (place.folder / "orders.jsonl").read_text().splitlines()]
    rows[0]["email"] += " Please."
    rows.append({"id": "new", "email": "We want 3 pens.", "order": "pens: 3", "customer": "c99", "domain": "shop"})
    (place.folder / "orders.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_rows_rules_splits_and_the_results_that_no_longer_compare_are_told(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fingerprint(place)
    monkeypatch.setattr(subprocess, "Popen", None)
    same = place.testigo("check", "--json", "--diff", old[:8]).document["diff"]
    assert (same["old"], same["new"], same["outdated"]) == (old, old, [])
    change_rows(place)
    place.change({"data.clean": ["strip"]})
    told = place.testigo("check", "--json", "--diff", old[:8])
    assert told.code == 0, told.err
    diff = told.document["diff"]
    assert (diff["old"], diff["new"]) == (old, fingerprint(place))
    assert [row for rows in diff["added"].values() for row in rows] == ["new"]
    assert len(diff["changed"]) == 1
    assert diff["rules"] == {"data.clean": [[], ["strip"]]}
    assert sorted(one["kind"] for one in diff["outdated"]) == ["baseline", "pilot", "run"]
    (run,) = (one for one in diff["outdated"] if one["kind"] == "run")
    assert (run["name"], run["state"], run["corpus"]) == (place.only_run.name, "completed", old)
    by_folder = place.testigo("check", "--json", "--diff", str(place.workspace / "corpus" / old))
    assert by_folder.document["diff"] == diff
    elsewhere = place.testigo("check", "--json", "--diff", str(place.copy(tmp_path / "other").workspace))
    assert elsewhere.document["diff"]["old"] == fingerprint(place), "a workspace stands for its last corpus"


def test_the_words_tell_what_the_document_tells(place: Place) -> None:
    old = fingerprint(place)
    change_rows(place)
    told = place.testigo("check", "--diff", old[:8]).out
    for words in ("read:        61 rows from orders.jsonl", "3 in this workspace do not compare", "added:"):
        assert words in told, told


def test_a_corpus_that_is_not_known_is_told_with_those_that_are(place: Place) -> None:
    problem = place.testigo("check", "--json", "--diff", "abcdef12").problem
    assert problem["where"] == "--diff"
    assert fingerprint(place)[:12] in problem["found"]

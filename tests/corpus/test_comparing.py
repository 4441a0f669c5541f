from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from testigo.campaign import Campaign, load
from testigo.corpus import Corpus, build, compare_corpora, open_sealed
from testigo.corpus.comparing import SEALED
from testigo.errors import DataError

CAMPAIGN: dict[str, Any] = {
    "campaign": "small",
    "question": "Does it learn?",
    "task": {"kind": "generation", "input": "text", "target": "answer"},
    "hypothesis": {"improve": {"metric": "exact_match", "by": 0.1}},
    "model": {"base": "path:base"},
    "training": {"updates": 2, "microbatch": 1, "learning_rate": 1e-3},
    "evaluation": {"max_new_tokens": 8},
}

Make = Callable[..., Corpus]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def corpus(rows: Sequence[dict[str, Any]], **data: Any) -> Corpus:
        (tmp_path / "base").mkdir(exist_ok=True)
        (tmp_path / "base" / "config.json").write_text("{}")
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        section = {
            "source": "rows.jsonl",
            "duplicates": {"near": None, "overlap": None},
            "split": {"validation": 0.2, "test": 0.2, "seed": 3, "cuts": "fixed"},
            **data,
        }
        (tmp_path / "campaign.yaml").write_text(json.dumps({**CAMPAIGN, "data": section}))
        campaign: Campaign = load(tmp_path / "campaign.yaml")
        return build(campaign, lambda f: tmp_path / "corpus" / f, lambda row: [])

    return corpus


ROWS = [{"id": f"r{n:02d}", "text": f"question {n} {'x' * (n % 7)}", "answer": f"a{n}", "note": 1} for n in range(60)]


def sealed_ids(corpus: Corpus) -> set[str]:
    return {row.id for row in open_sealed(corpus)}


def test_the_same_corpus_has_no_difference(make: Make) -> None:
    diff = compare_corpora(make(ROWS), make(list(reversed(ROWS))))
    assert diff.is_empty
    assert all(diff.same_rows.values())
    assert not any((*diff.added.values(), *diff.removed.values(), diff.changed, diff.moved, diff.rules))


def test_added_removed_and_changed_rows_are_told_by_split_and_field(make: Make) -> None:
    old = make(ROWS)
    opened = [row.id for row in old.rows("train")]
    rows = [dict(row) for row in ROWS if row["id"] != opened[0]] + [{"id": "new", "text": "other", "answer": "b"}]
    for row in rows:
        if row["id"] == opened[1]:
            row["answer"] = "changed"
            del row["note"]
    new = make(rows)
    diff = compare_corpora(old, new)
    assert diff.removed == {"train": (opened[0],), "validation": (), "test": ()}
    assert [row for own in diff.added.values() for row in own] == ["new"]
    assert diff.changed == {opened[1]: ("answer", "note")}
    assert diff.moved == ()
    assert diff.rules == {}
    assert diff.same_rows["train"] is False
    assert diff.same_rows["validation"] is (diff.added["validation"] == ())


def test_of_a_sealed_row_only_that_it_changed_is_told_and_nothing_is_opened(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make(ROWS)
    tested = min(sealed_ids(old))
    new = make([{**row, "answer": "secret"} if row["id"] == tested else row for row in ROWS])
    read = Path.read_bytes

    def guarded(path: Path) -> bytes:
        assert "sealed" not in path.parts
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", guarded)
    diff = compare_corpora(old, new)
    assert diff.changed == {tested: (SEALED,)}
    assert diff.same_rows == {"train": True, "validation": True, "test": False}
    assert "secret" not in json.dumps(diff.to_json())


def test_changed_rules_and_moved_rows_are_told(make: Make) -> None:
    old = make(ROWS)
    new = make(
        ROWS,
        clean=["strip"],
        duplicates={"near": 0.9, "overlap": None},
        split={"validation": 0.2, "test": 0.3, "seed": 4, "cuts": "fixed"},
    )
    diff = compare_corpora(old, new)
    assert diff.rules == {
        "data.clean": ([], ["strip"]),
        "data.duplicates.near": (None, 0.9),
        "data.split.train": (0.6, 0.5),
        "data.split.test": (0.2, 0.3),
        "data.split.seed": (3, 4),
    }
    assert diff.moved
    assert all(one != other for _, one, other in diff.moved)


def test_a_row_that_is_left_out_now_is_told_with_its_reason(make: Make) -> None:
    old = make(ROWS)
    new = make([*ROWS[:-1], {**ROWS[-1], "text": ROWS[3]["text"], "answer": ROWS[3]["answer"]}])
    diff = compare_corpora(old, new)
    assert diff.left_out == {"r59": "copy of row 'r03'"}


def test_an_index_that_was_changed_is_not_trusted(make: Make) -> None:
    corpus = make(ROWS)
    path = corpus.folder / "index.parquet"
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(DataError, match="changed"):
        compare_corpora(corpus, corpus)
    assert make(ROWS).note.startswith("rebuilt, because index.parquet was changed")

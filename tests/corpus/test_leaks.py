"""What the policies do with duplicates of given evaluation files, and what is told of them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from testigo.campaign import load
from testigo.corpus import Corpus, build, open_sealed
from testigo.errors import DataError
from testigo.gates.duplicates import duplicates_from, near_across

WORDS = ["".join(random.Random(k).choices("abcdefghilmnoprstuv", k=4 + k % 5)) for k in range(900)]
CAMPAIGN: dict[str, Any] = {
    "campaign": "small",
    "question": "Does it learn?",
    "task": {"kind": "generation", "input": "ask", "target": "answer"},
    "hypothesis": {"improve": {"metric": "exact_match", "by": 0.1}},
    "model": {"base": "path:base"},
    "training": {"updates": 2, "microbatch": 1, "learning_rate": 1e-3},
    "evaluation": {"max_new_tokens": 8},
}


def a_row(name: str, **changes: Any) -> dict[str, str]:
    order = random.Random(name)
    return {"id": name, "ask": " ".join(order.choices(WORDS, k=20)), "answer": f"about {name}", **changes}


def noisy(text: str, how: str) -> str:
    words = text.split()
    if how == "case and spacing":
        return f"  {text.upper().replace(' ', '   ')}!"
    if how == "words added":
        for at in (3, 9, 14):
            words.insert(at, "really")
    if how == "a word changed":
        words[12] = "otherwise"
    return " ".join(words)


def corpus_of(folder: Path, train: list[dict[str, str]], evaluation: list[dict[str, str]], **duplicates: Any) -> Corpus:
    """Training rows, a validation file with the given rows, and a test file of its own."""
    files = {"rows": train, "v": evaluation, "t": [a_row(f"t{n}") for n in range(5)]}
    for name, rows in files.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "base").mkdir(exist_ok=True)
    (folder / "base" / "config.json").write_text("{}")
    data = {
        "source": "rows.jsonl",
        "duplicates": duplicates,
        "split": {"validation": "v.jsonl", "test": "t.jsonl"},
    }
    path = folder / "campaign.yaml"
    path.write_text(json.dumps({**CAMPAIGN, "data": data}))
    return build(load(path), lambda fingerprint: folder / "out" / fingerprint, lambda row: [])


TRAIN = [a_row(f"r{n}") for n in range(60)]
EVALUATION = [a_row(f"v{n}") for n in range(40)]


def leaky(how: str, n: int = 20) -> list[dict[str, str]]:
    return TRAIN + [{**row, "id": f"leak-{row['id']}", "ask": noisy(row["ask"], how)} for row in EVALUATION[:n]]


@pytest.mark.parametrize("how", ["exact", "case and spacing", "words added", "a word changed"])
def test_twenty_of_forty_evaluation_rows_in_training_are_all_named(tmp_path: Path, how: str) -> None:  # C44
    corpus = corpus_of(tmp_path, leaky(how), EVALUATION)
    assert corpus.counts == {"train": 60, "validation": 40, "test": 5}
    evidence = duplicates_from(corpus.manifest)
    assert evidence.left_training is not None
    assert {row for _, row in evidence.left_training} == {f"v{n}" for n in range(20)}
    assert corpus.manifest["duplicates"]["unclean"] == {"validation": [], "test": []}


def test_evaluation_rows_that_nothing_repeats_are_not_named(tmp_path: Path) -> None:  # C44's healthy twin
    manifest = corpus_of(tmp_path, TRAIN, EVALUATION).manifest
    evidence = duplicates_from(manifest)
    assert (evidence.left_training, evidence.passages, evidence.chosen_and_tested) == ((), (), ())
    assert near_across(manifest) == ()
    assert manifest["duplicates"]["shown"] == []


@pytest.mark.parametrize(
    ("how", "field"),
    [("exact", "exact"), ("a word changed", "near_policy"), ("words added", "contained")],
)
def test_each_policy_drops_refuses_or_reports(tmp_path: Path, how: str, field: str) -> None:
    limits = {"near": None} if field == "contained" else {}
    dropped = corpus_of(tmp_path, leaky(how, 3), EVALUATION, **{field: "drop", **limits})
    assert dropped.counts["train"] == 60
    with pytest.raises(DataError) as refused:
        corpus_of(tmp_path, leaky(how, 3), EVALUATION, **{field: "refuse", **limits})
    assert len(refused.value.problems) == 3
    assert f"data.duplicates.{field}" in refused.value.problems[0].action
    reported = corpus_of(tmp_path, leaky(how, 3), EVALUATION, **{field: "report", **limits})
    assert reported.counts["train"] == 63
    assert reported.manifest["duplicates"]["unclean"]["validation"] == ["v0", "v1", "v2"]


def half_of(row: dict[str, str]) -> str:
    """A new text in which more than half of a row's words stand in a row, and its answer to another question."""
    return " ".join([*row["ask"].split()[:15], *random.Random(f"other {row['id']}").choices(WORDS, k=60)])


@pytest.mark.parametrize(("policy", "n_train"), [("drop", 60), ("report", 62)])
def test_an_overlap_follows_its_policy(tmp_path: Path, policy: str, n_train: int) -> None:
    quoting = [a_row(f"q{n}", ask=half_of(EVALUATION[n])) for n in range(2)]
    corpus = corpus_of(tmp_path, TRAIN + quoting, EVALUATION, overlap_policy=policy)
    assert corpus.counts["train"] == n_train
    assert [pair[:2] for pair in corpus.manifest["duplicates"]["overlap"]["pairs"]] == [["v0", "q0"], ["v1", "q1"]]


def test_with_a_higher_limit_the_same_overlap_is_a_passage_and_stays(tmp_path: Path) -> None:
    quoting = [a_row("q0", ask=half_of(EVALUATION[0]))]
    corpus = corpus_of(tmp_path, TRAIN + quoting, EVALUATION, overlap=0.9)
    assert corpus.counts["train"] == 61
    evidence = duplicates_from(corpus.manifest)
    assert evidence.passages == (("q0", "v0"),)
    assert corpus.manifest["duplicates"]["unclean"]["validation"] == ["v0"]
    unsearched = corpus_of(tmp_path, TRAIN + quoting, EVALUATION, overlap=None)
    assert duplicates_from(unsearched.manifest).passages == ()


@pytest.mark.parametrize(("policy", "n_train"), [("report", 62), ("drop", 60)])
def test_conflicts_stay_or_leave_training(tmp_path: Path, policy: str, n_train: int) -> None:
    conflicting = [a_row("c1", ask=TRAIN[0]["ask"]), a_row("c2", ask=EVALUATION[0]["ask"])]
    corpus = corpus_of(tmp_path, [*TRAIN, *conflicting], EVALUATION, conflicts=policy)
    assert corpus.counts["train"] == (62 if policy == "report" else n_train - 1)
    with pytest.raises(DataError):
        corpus_of(tmp_path, TRAIN + conflicting, EVALUATION, conflicts="refuse")


def test_pairs_stand_side_by_side_and_those_of_test_rows_without_text(tmp_path: Path) -> None:
    sealed = a_row("t1")["ask"]
    train = [*leaky("words added", 2), a_row("copy-of-t1", ask=noisy(sealed, "a word changed"))]
    corpus = corpus_of(tmp_path, train, EVALUATION, near_policy="report")
    shown = {tuple(pair["rows"]): pair for pair in corpus.manifest["duplicates"]["shown"]}
    (of_validation,) = [pair for rows, pair in shown.items() if "v0" in rows]
    assert EVALUATION[0]["ask"] in of_validation["texts"]
    (of_test,) = [pair for rows, pair in shown.items() if "t1" in rows]
    assert of_test["texts"] == [None, None]
    assert sealed not in (corpus.folder / "manifest.json").read_text()
    table = pq.read_table(corpus.folder / "duplicates.parquet").to_pylist()
    assert {row["kind"] for row in table} == {"near"}
    assert sealed not in str(table)
    assert len(open_sealed(corpus)) == 5


def test_validation_rows_that_repeat_test_rows_are_told(tmp_path: Path) -> None:
    again = a_row("v99", ask=noisy(a_row("t1")["ask"], "words added"))
    manifest = corpus_of(tmp_path, TRAIN, [*EVALUATION, again]).manifest
    assert duplicates_from(manifest).chosen_and_tested == (("v99", "t1"),)

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testigo.campaign import Campaign, load
from testigo.corpus import Corpus, build, open_sealed
from testigo.corpus.assignment import prove
from testigo.corpus.pairs import Pair
from testigo.corpus.periods import Moment, moment_of, split_by_time
from testigo.corpus.row import Row
from testigo.errors import CampaignError, DataError

CAMPAIGN: dict[str, Any] = {
    "campaign": "small",
    "question": "Does it learn?",
    "task": {"kind": "generation", "input": "text", "target": "answer", "category": "kind"},
    "hypothesis": {"improve": {"metric": "exact_match", "by": 0.1}},
    "model": {"base": "path:base"},
    "training": {"updates": 2, "microbatch": 1, "learning_rate": 1e-3},
    "evaluation": {"max_new_tokens": 8},
}
ALONE = {"exact": "drop", "near": None, "overlap": None}


def a_row(number: int, **changes: Any) -> dict[str, Any]:
    """A row with a text of its own, its patient (two rows each) and the n-th day of 2025."""
    words = random.Random(number).choices("abcdefghijklmnopqrstuvwxyz", k=40)
    day = f"2025-{1 + number // 28 % 12:02d}-{1 + number % 28:02d}"
    return {
        "id": f"r{number:04d}",
        "patient": f"p{number // 2}",
        "kind": "ab"[number % 2],
        "date": day,
        "text": " ".join(words),
        "answer": str(number),
        **changes,
    }


def campaign_in(folder: Path, rows: Sequence[dict[str, Any]], **data: Any) -> Campaign:
    (folder / "base").mkdir(exist_ok=True)
    (folder / "base" / "config.json").write_text("{}")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    section = {"source": "rows.jsonl", "group": "patient", "duplicates": ALONE, **data}
    section.setdefault("split", {"validation": 0.2, "test": 0.2, "seed": 3, "cuts": "fixed"})
    path = folder / "campaign.yaml"
    path.write_text(json.dumps({**CAMPAIGN, "data": section}))
    return load(path)


def built(campaign: Campaign) -> Corpus:
    return build(campaign, lambda fingerprint: campaign.folder / "out" / fingerprint, lambda row: [])


def split_of(corpus: Corpus) -> dict[str, str]:
    rows = {"train": corpus.rows("train"), "validation": corpus.rows("validation"), "test": open_sealed(corpus)}
    return {row.id: name for name, own in rows.items() for row in own}


def split_in_new_folder(rows: Sequence[dict[str, Any]], **data: Any) -> tuple[dict[str, str], dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        corpus = built(campaign_in(Path(folder), rows, **data))
        return split_of(corpus), corpus.manifest


Make = Callable[..., Campaign]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda rows, **data: campaign_in(tmp_path, rows, **data)


# ---- by groups


@settings(max_examples=12, deadline=None)
@given(st.integers(20, 40), st.integers(1, 40), st.randoms(use_true_random=False))
def test_a_corpus_that_grows_keeps_every_old_row_where_it_was(n_old: int, n_new: int, random: Any) -> None:
    rows = [a_row(n) for n in range(n_old + n_new)]
    before, manifest = split_in_new_folder(rows[:n_old])
    if "moved" in manifest["split"]:
        return  # so few rows that a cut had to move, which the manifest says
    random.shuffle(rows)
    after, _ = split_in_new_folder(rows)
    assert {row: after[row] for row in before} == before


def test_a_copy_that_comes_later_under_a_lesser_id_carries_no_test_row_into_training(
    make: Make, tmp_path: Path
) -> None:
    rows = [a_row(n) for n in range(60)]
    tested = sorted(row for row, name in split_of(built(make(rows))).items() if name == "test")
    for number, row in enumerate(tested):
        copy = {**rows[int(row[1:])], "id": f"a{number}", "patient": f"new{number}"}
        after = split_of(built(make([*rows, copy])))
        assert row not in after
        assert after[copy["id"]] == "test", row


def test_a_mixture_that_was_oversampled_before_the_split_lies_in_one_split(make: Make) -> None:  # C43
    rows = [a_row(n, patient=f"p{n}") for n in range(40)]
    rare = [{**rows[n], "id": f"again{n}-{k}", "patient": f"x{n}-{k}"} for n in range(0, 40, 4) for k in range(3)]
    corpus = built(make([*rows, *rare], duplicates={**ALONE, "exact": "report"}))
    where = split_of(corpus)
    assert len(where) == 70
    assert all(where[f"again{n}-{k}"] == where[f"r{n:04d}"] for n in range(0, 40, 4) for k in range(3))
    proofs = corpus.manifest["split"]["proofs"]
    assert proofs["ids"]["across"] == proofs["groups"]["across"] == proofs["exact"]["across"] == []
    assert proofs["exact"]["compared"] == 30


def test_the_twin_that_was_not_oversampled_is_as_long_as_its_rows(make: Make) -> None:
    corpus = built(make([a_row(n) for n in range(40)]))
    assert len(split_of(corpus)) == 40
    assert corpus.manifest["split"]["proofs"]["ids"] == {"compared": 40, "across": []}
    assert corpus.manifest["split"]["proofs"]["groups"] == {"compared": 20, "across": []}


def test_left_open_the_cuts_are_fixed_where_each_split_can_expect_ten_groups(make: Make) -> None:
    split = {"validation": 0.2, "test": 0.2, "seed": 3}
    few = built(make([a_row(n) for n in range(98)], split=split)).manifest["split"]
    assert (few["cuts"], few["moved"]) == ("fitted", "validation or test can expect 9.8 of the 49 units (patient) only")
    assert all(abs(has - share) < 0.04 for share, has in few["shares"].values())
    many = built(make([a_row(n) for n in range(100)], split=split)).manifest["split"]
    assert many["cuts"] == "fixed"
    assert "moved" not in many
    fitted = built(make([a_row(n) for n in range(100)], split={**split, "cuts": "fitted"})).manifest["split"]
    assert fitted["cuts"] == "fitted"
    assert "moved" not in fitted


def test_so_few_groups_that_a_split_would_be_empty_move_the_cuts_and_that_is_said(make: Make) -> None:
    corpus = built(make([a_row(n, patient=f"p{n % 3}") for n in range(12)]))
    assert set(split_of(corpus).values()) == {"train", "validation", "test"}
    told = corpus.manifest["split"]
    assert told["cuts"] == "fitted"
    assert told["moved"].startswith("with fixed cuts ")
    assert told["better_seed"] is not None


def test_the_suggested_seed_gives_shares_that_are_nearer(make: Make) -> None:
    rows = [a_row(n) for n in range(60)]

    def told(seed: int) -> dict[str, Any]:
        split = {"validation": 0.2, "test": 0.2, "seed": seed, "cuts": "fixed"}
        facts: dict[str, Any] = built(make(rows, split=split)).manifest["split"]
        return facts

    def miss(facts: dict[str, Any]) -> float:
        return max(abs(has - share) for share, has in facts["shares"].values())

    missed = [facts for facts in map(told, range(6)) if "better_seed" in facts]
    assert missed
    assert miss(told(missed[0]["better_seed"])) < min(map(miss, missed))


def test_the_largest_unit_of_each_split_is_told_and_of_the_test_without_a_name(make: Make) -> None:
    rows = [a_row(n) for n in range(40)] + [a_row(100 + n, patient="big") for n in range(9)]
    largest = built(make(rows)).manifest["split"]["largest"]
    sizes = {name: facts["rows"] for name, facts in largest.items()}
    assert 9 in sizes.values()
    assert "group" not in largest["test"]


def test_the_word_of_the_unit_is_in_the_manifest_and_changes_nothing_else(make: Make) -> None:
    rows = [a_row(n) for n in range(40)]
    first = built(make(rows))
    named = built(make(rows, unit="patient of the ward"))
    assert first.manifest["split"]["unit"] == "patient"
    assert named.manifest["split"]["unit"] == "patient of the ward"
    assert named.fingerprint == first.fingerprint
    assert named.note.startswith("reused")
    assert built(make(rows, unit="patient of the ward")).manifest == named.manifest
    alone = built(make(rows, group=None))
    assert alone.manifest["split"]["unit"] == "row"


def test_what_straddles_finished_splits_is_named() -> None:
    def row(name: str, group: str, date: str = "2025-01-01") -> Row:
        return Row(name, group, "", {"date": date}, "")

    splits = {
        "train": [row("1", "a"), row("2", "b", "2025-06-01")],
        "validation": [row("3", "c", "2025-03-02"), row("2", "d", "2025-03-03")],
        "test": [row("4", "a", "2025-05-01")],
    }
    pairs = [Pair("near", "1", "3", "prompt", 0.9), Pair("near", "1", "4", "answer", 0.9)]
    time = {"field": "date", "begins": {"validation": "2025-03-01", "test": "2025-04-01"}}
    proofs = prove(splits, pairs, time)
    assert proofs["ids"]["across"] == ["2"]
    assert proofs["groups"]["across"] == ["a"]
    assert proofs["near"] == {"compared": 1, "across": [["1", "3"]], "n_across": 1}
    assert proofs["periods"]["across"] == ["2"]


# ---- by time


def test_the_newest_rows_are_test_those_before_them_validation(make: Make) -> None:
    rows = [a_row(n, patient=f"p{n}") for n in range(100)]
    random.Random(0).shuffle(rows)
    corpus = built(make(rows, split={"validation": 0.2, "test": 0.1, "time": {"field": "date"}}))
    where = split_of(corpus)
    expected = {f"r{n:04d}": "train" if n < 70 else "validation" if n < 90 else "test" for n in range(100)}
    assert where == expected
    time = corpus.manifest["split"]["time"]
    assert time["begins"] == {"validation": "2025-03-15", "test": "2025-04-07"}
    assert time["periods"]["train"] == ["2025-01-01", "2025-03-14"]
    assert corpus.manifest["split"]["proofs"]["periods"] == {"compared": 3, "across": []}


def test_declared_boundaries_stand_and_added_rows_move_none(make: Make) -> None:
    split = {"validation": "from 2025-03-01", "test": "from 2025-04-01", "time": {"field": "date"}}
    rows = [a_row(n, patient=f"p{n}") for n in range(150)]
    before = split_of(built(make(rows[:100], split=split)))
    after = split_of(built(make(rows, split=split)))
    assert {row: after[row] for row in before} == before
    assert {before["r0055"], before["r0056"], before["r0083"], before["r0084"]} == {"train", "validation", "test"}


def test_the_embargo_leaves_out_rows_before_each_boundary_and_counts_them(make: Make) -> None:
    time = {"field": "date", "embargo": 3}
    split = {"validation": "from 2025-03-01", "test": "from 2025-04-01", "time": time}
    corpus = built(make([a_row(n, patient=f"p{n}") for n in range(100)], split=split))
    gone = {drop["row"]: drop["reason"] for drop in corpus.manifest["dropped"]}
    # each month of these rows has 28 days: three days before March are the 26th to the 28th of February
    assert gone == {f"r{n:04d}": "within the embargo of 3 days before 2025-03-01" for n in (53, 54, 55)}
    assert corpus.manifest["split"]["time"]["left_out"]["embargo"] == len(gone)
    assert not set(gone) & set(split_of(corpus))


def test_a_patient_who_comes_back_is_examined_and_the_older_rows_are_left_out(make: Make) -> None:
    rows = [a_row(n, patient=f"p{n}") for n in range(100)]
    rows[5]["patient"] = rows[60]["patient"] = rows[95]["patient"] = "back"
    split = {"validation": "from 2025-03-01", "test": "from 2025-04-01", "time": {"field": "date"}}
    corpus = built(make(rows, split=split, unit="patient"))
    where = split_of(corpus)
    assert where["r0095"] == "test"
    gone = {drop["row"]: drop["reason"] for drop in corpus.manifest["dropped"]}
    assert set(gone) == {"r0005", "r0060"}
    assert gone["r0005"] == "older than 2025-04-01, and its patient goes on into test"
    assert corpus.manifest["split"]["time"]["left_out"] == {"embargo": 0, "unit": 2}


def test_years_are_times_too(make: Make) -> None:
    rows = [a_row(n, patient=f"p{n}", date=2000 + n // 10) for n in range(100)]
    split = {"validation": "from 2007", "test": "from 2009", "time": {"field": "date", "embargo": 1}}
    corpus = built(make(rows, split=split))
    assert corpus.counts == {"train": 60, "validation": 10, "test": 10}
    assert corpus.manifest["split"]["time"]["periods"]["validation"] == ["2007", "2007"]


def test_rows_without_a_time_are_all_told(make: Make) -> None:
    rows = [a_row(n) for n in range(20)]
    rows[3]["date"], rows[5]["date"] = "soon", None
    del rows[7]["date"]
    rows[9]["date"] = 2025
    with pytest.raises(DataError) as caught:
        built(make(rows, split={"validation": 0.2, "test": 0.2, "time": {"field": "date"}}))
    assert [problem.where for problem in caught.value.problems] == [
        f"rows.jsonl:{n + 1}, row 'r{n:04d}'" for n in (3, 5, 7, 9)
    ]
    assert [problem.found for problem in caught.value.problems][:2] == ["'soon'", "None"]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.floats(0.05, 0.4), st.floats(0.05, 0.4), st.data())
def test_no_period_overlaps_another_whatever_is_joined(
    times: list[int], validation: float, test: float, data: st.DataObject
) -> None:
    components = data.draw(st.lists(st.integers(0, 9), min_size=len(times), max_size=len(times)))
    embargo = data.draw(st.sampled_from([0.0, 2.0]))
    moments = [Moment(float(time), False) for time in times]
    periods = split_by_time(moments, components, {"validation": validation, "test": test}, embargo, "row")
    by_name = {n: [t for t, s in zip(times, periods.split, strict=True) if s == n] for n in ("train", "validation")}
    tested = [t for t, s in zip(times, periods.split, strict=True) if s == "test"]
    assert (
        not by_name["train"]
        or not by_name["validation"] + tested
        or max(by_name["train"]) + embargo <= min(by_name["validation"] + tested)
    )
    assert not by_name["validation"] or not tested or max(by_name["validation"]) + embargo <= min(tested)
    for component in set(components):
        own = {s for s, c in zip(periods.split, components, strict=True) if c == component and s is not None}
        assert len(own) <= 1
    assert all((s is None) == (r is not None) for s, r in zip(periods.split, periods.reasons, strict=True))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("2025-03-01", "2025-03-01"),
        ("2025-03-01T10:30:00Z", "2025-03-01T10:30:00+00:00"),
        ("2025-03-01T10:30:00+02:00", "2025-03-01T08:30:00+00:00"),
        (1735689600, "1735689600"),
        ("2019", "2019"),
        (2019.5, "2019.5"),
    ],
)
def test_a_time_is_read_and_written_the_same(value: Any, text: str) -> None:
    moment = moment_of(value)
    assert moment is not None
    assert str(moment) == text
    assert moment_of(text) == moment


@pytest.mark.parametrize("value", [None, True, "soon", "", [], "nan", float("inf"), "2025-13-01"])
def test_what_is_no_time_is_none(value: Any) -> None:
    assert moment_of(value) is None


# ---- the campaign file


@pytest.mark.parametrize(
    ("data", "where", "found"),
    [
        ({"split": {"validation": "from 2025-01-01", "test": 0.2}}, "validation", "`from 2025-01-01` alone"),
        (
            {"split": {"validation": "from soon", "test": 0.2, "time": {"field": "date"}}},
            "validation",
            "`from soon`",
        ),
        (
            {"split": {"validation": "rows.jsonl", "test": 0.2, "time": {"field": "date"}}},
            "validation",
            "`rows.jsonl`, a source of its own",
        ),
        (
            {"split": {"validation": "from 2025-02-01", "test": "from 2025-01-01", "time": {"field": "date"}}},
            "test",
            "`from 2025-01-01`",
        ),
        (
            {"split": {"validation": "from 2019", "test": "from 2025-01-01", "time": {"field": "date"}}},
            "test",
            "`from 2019` and `from 2025-01-01`",
        ),
        (
            {"split": {"validation": 0.2, "test": 0.2, "cuts": "fitted", "time": {"field": "date"}}},
            "cuts",
            "`cuts: fitted`",
        ),
        ({"group": None, "unit": "patient"}, "unit", "no `group`"),
    ],
    ids=["no time", "no date", "a file", "order", "kinds", "cuts", "unit"],
)
def test_impossible_pairs_are_told_with_their_place(make: Make, data: dict[str, Any], where: str, found: str) -> None:
    with pytest.raises(CampaignError) as caught:
        make([a_row(0)], **data)
    problem = next(problem for problem in caught.value.problems if found in problem.found)
    assert "^" in str(caught.value)
    assert problem.expected
    assert problem.action


def test_a_boundary_of_another_kind_than_the_rows_is_told(make: Make) -> None:
    split = {"validation": "from 2019", "test": "from 2020", "time": {"field": "date"}}
    with pytest.raises(DataError, match="rows at 2025-01-01 to 2025-01-20"):
        built(make([a_row(n) for n in range(20)], split=split))


def test_where_evaluation_rows_are_given_as_files_nothing_is_cut_and_no_cut_moved(make: Make, tmp_path: Path) -> None:
    for name, first in (("v", 100), ("t", 200)):
        rows = [a_row(n) for n in range(first, first + 4)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = [a_row(n, patient="one") for n in range(12)]
    told = built(make(rows, split={"validation": "v.jsonl", "test": "t.jsonl"})).manifest["split"]
    assert (told["cuts"], "moved" in told) == ("fixed", False)

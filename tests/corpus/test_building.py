from __future__ import annotations

import json
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testigo.campaign import Campaign, load
from testigo.corpus import Corpus, Row, build, open_corpus, open_sealed
from testigo.disk import file_sha256
from testigo.errors import DataError
from testigo.tasks import task_for

Make = Callable[..., Campaign]
CAMPAIGN: dict[str, Any] = {
    "campaign": "small",
    "question": "Does it learn?",
    "task": {"kind": "extraction", "input": "text", "target": "order", "category": "kind", "schema": "schema.json"},
    "hypothesis": {"improve": {"metric": "exact_match", "by": 0.1}},
    "model": {"base": "path:base"},
    "training": {"updates": 2, "microbatch": 1, "learning_rate": 1e-3},
    "evaluation": {"max_new_tokens": 8},
}
DATA: dict[str, Any] = {
    "source": "rows.jsonl",
    "group": "customer",
    "clean": ["unicode", "strip"],
    "duplicates": {"exact": "drop", "near": None},
    "split": {"train": 0.6, "validation": 0.2, "test": 0.2, "seed": 3},
}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def a_row(number: int, **changes: Any) -> dict[str, Any]:
    """A good row; its text has nothing in common with other rows' texts."""
    row = {
        "id": f"r{number:03d}",
        "customer": f"c{number // 2}",
        "kind": "ab"[number % 4 // 2],
        "text": f"{number} {chr(97 + number % 26) * (number % 7 + 3)} please",
        "order": {"n": number},
    }
    return {**row, **changes}


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def make_campaign(folder: Path, **data: Any) -> Campaign:
    """A campaign file in a folder, with its rows already there, and the given changes to its section `data`."""
    (folder / "base").mkdir(exist_ok=True)
    (folder / "base" / "config.json").write_text("{}")
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    path = folder / "campaign.yaml"
    path.write_text(json.dumps({**CAMPAIGN, "data": {**DATA, **data}}), encoding="utf-8")  # JSON is YAML
    return load(path)


@pytest.fixture
def campaign_of(tmp_path: Path) -> Callable[..., Campaign]:
    def make(rows: Iterable[dict[str, Any]], **data: Any) -> Campaign:
        write_rows(tmp_path / "rows.jsonl", rows)
        return make_campaign(tmp_path, **data)

    return make


def built(campaign: Campaign, out: Path | None = None) -> Corpus:
    out = out or campaign.folder / "out"
    task = task_for(campaign)
    return build(campaign, lambda fingerprint: out / fingerprint, lambda row: task.problems(row.fields))


def everything(corpus: Corpus) -> dict[str, tuple[Row, ...]]:
    return {"train": corpus.rows("train"), "validation": corpus.rows("validation"), "test": open_sealed(corpus)}


def problems_of(campaign: Campaign) -> list[tuple[str, str]]:
    with pytest.raises(DataError) as caught:
        built(campaign)
    assert all(p.expected and p.found and p.where and p.action for p in caught.value.problems)
    return [(problem.where, problem.found) for problem in caught.value.problems]


# ---- what is built


def test_every_row_is_in_one_split_or_counted_as_dropped(campaign_of: Make) -> None:
    rows = [a_row(n) for n in range(40)]
    rows += [a_row(40, text=" " + rows[3]["text"].upper(), order=rows[3]["order"]), a_row(41, text="\u00a0")]
    corpus = built(campaign_of(rows, clean=["strip", "drop-empty"]))
    found = [row.id for rows_ in everything(corpus).values() for row in rows_]
    assert sorted(found) == [f"r{n:03d}" for n in range(40)]
    assert corpus.counts == {name: len(rows_) for name, rows_ in everything(corpus).items()}
    assert [(drop["where"], drop["reason"]) for drop in corpus.manifest["dropped"]] == [
        ("rows.jsonl:42", "empty input or target"),
        ("rows.jsonl:41", "copy of row 'r003'"),
    ]
    assert corpus.manifest["clean"][1] == {"step": "drop-empty", "changed": 0, "dropped": 1}
    assert corpus.manifest["sources"][0]["rows"] == 42


def test_a_row_keeps_its_fields_and_is_read_back_the_same(campaign_of: Make) -> None:
    campaign = campaign_of([a_row(n, note=[1.5, None, "ñ", {"b": True}]) for n in range(12)])
    row = built(campaign).rows("train")[0]
    number = int(row.id[1:])
    assert row.fields == a_row(number, note=[1.5, None, "ñ", {"b": True}])
    assert (row.group, row.category) == (row.fields["customer"], row.fields["kind"])
    assert list(row.fields) == list(a_row(number, note=[]))


def test_without_a_group_field_each_row_is_its_own_group(campaign_of: Make) -> None:
    corpus = built(campaign_of([a_row(n) for n in range(12)], group=None))
    assert all(row.group == row.id for row in corpus.rows("train"))


def test_a_number_as_id_is_a_name(campaign_of: Make) -> None:
    corpus = built(campaign_of([a_row(n, id=n) for n in range(12)]))
    assert {row.id for rows in everything(corpus).values() for row in rows} == {str(n) for n in range(12)}


def test_a_csv_with_the_target_as_text_is_a_corpus(tmp_path: Path) -> None:
    lines = ["id,customer,kind,text,order"] + [f'{n},c{n},a,text {n},"{{""n"": {n}}}"' for n in range(9)]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    assert sum(built(make_campaign(tmp_path, source="rows.csv")).counts.values()) == 9


def test_a_folder_of_files_is_the_same_corpus_as_one_file(campaign_of: Make, tmp_path: Path) -> None:
    rows = [a_row(n) for n in range(12)]
    one = built(campaign_of(rows))
    (tmp_path / "rows").mkdir()
    write_rows(tmp_path / "rows" / "b.jsonl", rows[:5])
    write_rows(tmp_path / "rows" / "a.jsonl", rows[5:])
    (tmp_path / "rows" / "LICENSE").write_text("free")
    several = built(make_campaign(tmp_path, source="rows"), tmp_path / "other")
    assert several.fingerprint == one.fingerprint
    assert everything(several) == everything(one)
    assert [source["file"] for source in several.manifest["sources"]] == ["rows/a.jsonl", "rows/b.jsonl"]
    assert several.manifest["ignored_files"] == ["LICENSE"]


def test_near_duplicates_stay_together_and_are_told(campaign_of: Make) -> None:
    text = "please send twelve boxes of the blue paper that we saw at your shop in town last week to our new office"
    rows = [a_row(n) for n in range(30)]
    rows += [a_row(30 + n, customer=f"x{n}", text=f"{text} number{n}") for n in range(6)]
    corpus = built(campaign_of(rows, duplicates={"exact": "drop", "near": 0.8}))
    where = {row.id: name for name, rows_ in everything(corpus).items() for row in rows_}
    assert len({where[f"r{30 + n:03d}"] for n in range(6)}) == 1
    assert corpus.manifest["duplicates"]["near"]["count"] == 15
    assert sum(corpus.counts.values()) == 36


def test_conflicts_stay_together_and_are_told(campaign_of: Make) -> None:
    rows = [a_row(n, customer=str(n)) for n in range(30)]
    rows += [a_row(30 + n, customer=f"x{n}", text="the same", order={"n": n}) for n in range(4)]
    corpus = built(campaign_of(rows))
    where = {row.id: name for name, rows_ in everything(corpus).items() for row in rows_}
    assert len({where[f"r{30 + n:03d}"] for n in range(4)}) == 1
    assert corpus.manifest["duplicates"]["conflicts"]["pairs"][0] == ["r030", "r031"]


def test_copies_are_refused_or_only_reported_as_the_campaign_says(campaign_of: Make) -> None:
    rows = [a_row(n) for n in range(20)] + [a_row(20, text=a_row(5)["text"] + "!", order={"n": 5})]
    found = problems_of(campaign_of(rows, duplicates={"exact": "refuse", "near": None}))
    assert found == [("rows.jsonl:21, row 'r020'", "a copy of row 'r005' at rows.jsonl:6")]
    corpus = built(campaign_of(rows, duplicates={"exact": "report", "near": None}))
    where = {row.id: name for name, rows_ in everything(corpus).items() for row in rows_}
    assert len(where) == 21
    assert where["r020"] == where["r005"]
    assert corpus.manifest["duplicates"]["exact"]["pairs"] == [["r005", "r020"]]


# ---- files of the user for validation and test


def test_given_files_are_the_splits_and_copies_leave_training(campaign_of: Make, tmp_path: Path) -> None:
    write_rows(tmp_path / "v.jsonl", [a_row(n, customer="v") for n in range(20, 24)])
    write_rows(tmp_path / "t.jsonl", [a_row(n, customer="t") for n in range(30, 33)])
    rows = [a_row(n) for n in range(12)] + [a_row(12, text=a_row(31)["text"], order={"n": 31})]
    corpus = built(campaign_of(rows, split={"validation": "v.jsonl", "test": "t.jsonl"}))
    assert corpus.counts == {"train": 12, "validation": 4, "test": 3}
    assert corpus.manifest["dropped"][0]["reason"] == "copy of row 'r031'"


def test_one_given_file_and_one_share(campaign_of: Make, tmp_path: Path) -> None:
    write_rows(tmp_path / "t.jsonl", [a_row(n, customer="t") for n in range(30, 33)])
    corpus = built(
        campaign_of([a_row(n) for n in range(20)], split={"validation": 0.2, "test": "t.jsonl", "cuts": "fitted"})
    )
    assert corpus.counts == {"train": 16, "validation": 4, "test": 3}


def test_a_group_in_two_given_files_is_refused(campaign_of: Make, tmp_path: Path) -> None:
    write_rows(tmp_path / "t.jsonl", [a_row(n, customer="c2") for n in range(30, 33)])
    found = problems_of(campaign_of([a_row(n) for n in range(20)], split={"validation": 0.2, "test": "t.jsonl"}))
    assert len(found) == 1
    assert found[0][1].startswith("the group 'c2' in test and ")


# ---- bad rows


def test_all_bad_rows_are_told_at_once_with_file_and_line(campaign_of: Make, tmp_path: Path) -> None:
    campaign = campaign_of([])
    lines = [json.dumps(a_row(n)) for n in range(1, 31)]
    lines[4] = json.dumps({k: v for k, v in a_row(5).items() if k != "text"})
    lines[6] = json.dumps(a_row(7, id=["x"]))
    lines[8] = json.dumps(a_row(9, order=None))
    lines[10] = json.dumps(a_row(11, order={"n": "eleven"}))
    lines[12] = json.dumps(a_row(1))
    lines[14] = json.dumps(a_row(15, text="\ud800"))
    lines[16] = '{"id": "r017", '
    lines[18] = json.dumps(a_row(19, kind=""))
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    assert dict(problems_of(campaign)) == {
        "rows.jsonl:5": "only id, customer, kind, order",
        "rows.jsonl:7": "a list",
        "rows.jsonl:9": "it is empty",
        "rows.jsonl:11, row 'r011'": "the target violates the schema: n: 'eleven' is not of type 'integer'",
        "rows.jsonl:13": "the id 'r001' a second time; first at rows.jsonl:1",
        "rows.jsonl:15": "half of a surrogate pair, which is no character",
        "rows.jsonl:17": "broken JSON: Expecting property name enclosed in double quotes at character 15",
        "rows.jsonl:19": "it is empty",
    }


def test_ids_are_unique_over_all_files(campaign_of: Make, tmp_path: Path) -> None:
    write_rows(tmp_path / "t.jsonl", [a_row(3, customer="t", text="other")])
    found = problems_of(campaign_of([a_row(n) for n in range(9)], split={"validation": 0.3, "test": "t.jsonl"}))
    assert found == [("t.jsonl:1", "the id 'r003' a second time; first at rows.jsonl:4")]


def test_an_empty_file_is_told(campaign_of: Make) -> None:
    assert problems_of(campaign_of([])) == [("rows.jsonl", "none")]


def test_a_file_that_went_away_after_the_campaign_was_read_is_told(campaign_of: Make, tmp_path: Path) -> None:
    campaign = campaign_of([a_row(0)])
    (tmp_path / "rows.jsonl").unlink()
    assert problems_of(campaign) == [("rows.jsonl", "nothing there")]


def test_too_few_groups_for_three_splits_are_told(campaign_of: Make) -> None:
    ((where, found),) = problems_of(campaign_of([a_row(n, customer="one") for n in range(20)]))
    assert where == "data.split"
    assert "20 rows in 1 groups" in found


# ---- seal, hashes, atomic writing


def test_the_test_split_is_sealed(campaign_of: Make) -> None:
    corpus = built(campaign_of([a_row(n) for n in range(12)]))
    with pytest.raises(DataError, match="sealed"):
        corpus.rows("test")
    path = corpus.folder / "sealed" / "test.parquet"
    assert stat.S_IMODE(path.stat().st_mode) == 0o400
    assert corpus.manifest["splits"]["test"]["sha256"] == file_sha256(path)
    assert len(open_sealed(corpus)) == corpus.counts["test"]


def test_a_whole_corpus_is_reused_untouched(campaign_of: Make) -> None:
    campaign = campaign_of([a_row(n) for n in range(12)])
    first = built(campaign)
    before = (first.folder / "manifest.json").stat().st_mtime_ns
    again = built(campaign)
    assert (first.note, again.note[:6]) == ("built", "reused")
    assert (again.folder / "manifest.json").stat().st_mtime_ns == before
    assert again.manifest == first.manifest == open_corpus(first.folder).manifest


def _append(path: Path) -> None:
    path.chmod(0o600)
    path.write_bytes(path.read_bytes() + b" ")


@pytest.mark.parametrize("file", ["train.parquet", "validation.parquet", "sealed/test.parquet", "manifest.json"])
@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_a_damaged_corpus_is_rebuilt_and_that_is_said(campaign_of: Make, file: str, damage: str) -> None:
    campaign = campaign_of([a_row(n) for n in range(12)])
    corpus = built(campaign)
    path = corpus.folder / file
    if damage == "missing":
        path.unlink()
    elif file == "manifest.json":
        path.write_text(path.read_text().replace('"dropped": []', '"dropped": [1]'))
    else:
        _append(path)
    with pytest.raises(DataError, match=path.name):
        open_corpus(corpus.folder)
    again = built(campaign)
    assert again.note.startswith("rebuilt, because")
    assert file in again.note
    assert again.manifest == corpus.manifest
    assert [p.name for p in corpus.folder.parent.iterdir()] == [corpus.fingerprint]


def test_changed_rows_are_never_handed_out(campaign_of: Make) -> None:
    corpus = built(campaign_of([a_row(n) for n in range(12)]))
    _append(corpus.folder / "train.parquet")
    _append(corpus.folder / "sealed" / "test.parquet")
    with pytest.raises(DataError, match="changed"):
        corpus.rows("train")
    with pytest.raises(DataError, match="changed"):
        open_sealed(corpus)


def test_a_full_disk_leaves_no_half_corpus(campaign_of: Make) -> None:
    campaign = campaign_of([a_row(n) for n in range(12)])
    code = f"""
import resource, signal
from pathlib import Path
from testigo.campaign import load
from testigo.corpus import build
from testigo.errors import WorkspaceError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    build(load(Path({str(campaign.path)!r})), lambda f: Path("out") / f, lambda row: [])
except WorkspaceError as error:
    print(error.problems[0].found)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=campaign.folder, capture_output=True, text=True, check=False
    )
    assert "File too large" in done.stdout
    assert done.stderr == ""
    assert list((campaign.folder / "out").iterdir()) == []


# ---- the fingerprint


def fingerprint_of(rows: Sequence[dict[str, Any]], name: str = "rows.jsonl", **data: Any) -> tuple[str, dict[str, str]]:
    """The fingerprint, and the split of each row."""
    with tempfile.TemporaryDirectory() as folder:
        write_rows(Path(folder) / name, rows)
        corpus = built(make_campaign(Path(folder), source=name, **data))
        return corpus.fingerprint, {row.id: split for split, own in everything(corpus).items() for row in own}


ROWS = [a_row(n, note="nota ñ", day=n) for n in range(14)]
FINGERPRINT, SPLIT = fingerprint_of(ROWS)
UNGROUPED, _ = fingerprint_of(ROWS, group=None)


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(14)), st.permutations(list(ROWS[0])), st.sampled_from(["rows.jsonl", "other.jsonl"]))
def test_order_of_rows_order_of_keys_and_file_name_change_nothing(order: list[int], keys: list[str], name: str) -> None:
    mixed = [{key: ROWS[n][key] for key in keys} for n in order]
    assert fingerprint_of(mixed, name) == (FINGERPRINT, SPLIT)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 13), st.sampled_from(["id", "customer", "kind", "text", "note"]), st.data())
def test_any_changed_letter_of_any_field_changes_the_fingerprint(place: int, field: str, data: st.DataObject) -> None:
    old = ROWS[place][field]
    at = data.draw(st.integers(0, len(old) - 1))
    letter = data.draw(st.sampled_from("xyzÄ").filter(lambda new: new != old[at]))
    rows = [dict(row) for row in ROWS]
    rows[place][field] = old[:at] + letter + old[at + 1 :]
    assert fingerprint_of(rows)[0] != FINGERPRINT


def test_a_changed_target_changes_the_fingerprint() -> None:
    assert fingerprint_of([*ROWS[:-1], {**ROWS[-1], "order": {"n": 99}}])[0] != FINGERPRINT


@pytest.mark.parametrize(
    "change",
    [
        {"clean": ["unicode"]},
        {"duplicates": {"exact": "report", "near": None}},
        {"duplicates": {"exact": "drop", "near": 0.9}},
        {"group": None},
        {"split": {"train": 0.5, "validation": 0.25, "test": 0.25, "seed": 3}},
        {"split": {"train": 0.6, "validation": 0.2, "test": 0.2, "seed": 4}},
        {"split": {"train": 0.6, "validation": 0.2, "test": 0.2, "seed": 3, "cuts": "fitted"}},
        {"split": {"train": 0.6, "validation": 0.2, "test": 0.2, "seed": 3, "time": {"field": "day"}}},
        {"split": {"train": 0.6, "validation": 0.2, "test": 0.2, "seed": 3, "time": {"field": "day", "embargo": 1}}},
    ],
    ids=str,
)
def test_every_rule_changes_the_fingerprint(change: dict[str, Any]) -> None:
    by_time = "time" in change.get("split", {})
    before = (
        UNGROUPED if by_time else FINGERPRINT
    )  # with these few rows, whole customers leave no time for three periods
    assert fingerprint_of(ROWS, **({"group": None, **change} if by_time else change))[0] != before


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(["word", "spaces", "escapes", "parquet", "split over files", "touched"]), st.randoms())
def test_what_is_no_row_and_no_rule_changes_nothing(way: str, random: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        write_rows(path, ROWS)
        changes: dict[str, Any] = {}
        if way == "word":
            changes["unit"] = random.choice(["customer", "shop", "kunde"])
        elif way == "spaces":
            path.write_text("\n\n".join(json.dumps(row, indent=None, separators=(" , ", " :  ")) for row in ROWS))
        elif way == "escapes":
            path.write_text("".join(json.dumps(row, ensure_ascii=True) + "\r\n" for row in ROWS))
        elif way == "split over files":
            changes["source"] = "several"
            (Path(folder) / "several").mkdir()
            cut = random.randint(1, len(ROWS) - 1)
            write_rows(Path(folder) / "several" / "1.jsonl", ROWS[:cut])
            write_rows(Path(folder) / "several" / "2.jsonl", ROWS[cut:])
        elif way == "touched":
            path.touch()
        else:
            import pyarrow as pa
            import pyarrow.parquet as pq

            changes["source"] = "rows.parquet"
            pq.write_table(pa.Table.from_pylist(ROWS), Path(folder) / "rows.parquet")
        assert built(make_campaign(Path(folder), **changes)).fingerprint == FINGERPRINT


def test_the_fingerprint_is_the_same_on_any_machine() -> None:
    assert FINGERPRINT == "fbf302f3045e050f18952b73b24309295763ce5079c4d20e5db74638cbbc6ed9"


def test_the_example_is_split_about_seventy_fifteen_fifteen(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "orders" / "campaign.yaml"
    corpus = built(load(example), tmp_path)
    total = sum(corpus.counts.values())
    expected = {"train": 0.7, "validation": 0.15, "test": 0.15}
    assert {name: n / total for name, n in corpus.counts.items()} == pytest.approx(expected, abs=0.03)
    assert all(len(split["categories"]) == 6 for split in corpus.manifest["splits"].values())
    assert len(corpus.manifest["duplicates"]["exact"]["pairs"]) == 3

"""Input that is not what it should be: named errors of four parts, or declared conversions that are counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from testigo.campaign import Campaign, load
from testigo.corpus import Corpus, build, open_sealed
from testigo.corpus.reading import Reading, read_into
from testigo.errors import CampaignError, DataError
from testigo.tasks import task_for

CAMPAIGN: dict[str, Any] = {
    "campaign": "small",
    "question": "Does it learn?",
    "task": {"kind": "generation", "input": "text", "target": "answer"},
    "hypothesis": {"improve": {"metric": "exact_match", "by": 0.1}},
    "model": {"base": "path:base"},
    "training": {"updates": 2, "microbatch": 1, "learning_rate": 1e-3},
    "evaluation": {"max_new_tokens": 8},
}
CLASSES = {
    "task": {"kind": "classification", "input": "text", "target": "answer"},
    "hypothesis": {"improve": {"metric": "accuracy", "by": 0.1}},
    "evaluation": {},
}

Make = Callable[..., Campaign]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def campaign(rows: Sequence[dict[str, Any]] = (), changes: dict[str, Any] | None = None, **data: Any) -> Campaign:
        (tmp_path / "base").mkdir(exist_ok=True)
        (tmp_path / "base" / "config.json").write_text("{}")
        if rows:
            (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        section = {
            "source": "rows.jsonl",
            "duplicates": {"near": None, "overlap": None},
            "split": {"validation": 0.2, "test": 0.2, "seed": 3},
            **data,
        }
        path = tmp_path / "campaign.yaml"
        path.write_text(json.dumps({**CAMPAIGN, "data": section, **(changes or {})}))
        return load(path)

    return campaign


def a_row(n: int, **changes: Any) -> dict[str, Any]:
    return {"id": f"r{n}", "text": f"question {n} {'x' * (n % 7)}", "answer": f"answer {n}", **changes}


def built(campaign: Campaign) -> Corpus:
    task = task_for(campaign)
    return build(campaign, lambda f: campaign.folder / "out" / f, lambda row: task.problems(row.fields))


def problems_of(campaign: Campaign) -> list[tuple[str, str]]:
    with pytest.raises(DataError) as caught:
        built(campaign)
    assert all(p.expected and p.found and p.where and p.action for p in caught.value.problems)
    return [(problem.where, problem.found) for problem in caught.value.problems]


def read(path: Path) -> Reading:
    reading = Reading()
    read_into(reading, path.name, path.parent, "source")
    return reading


# ---- encodings


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
@pytest.mark.parametrize(
    ("encoding", "text", "guess"),
    [
        ("latin-1", "Olá, amanhã às três em Évora, com o coração", "CP1252: '"),
        ("cp1252", "“smart” quotes — and a résumé", "CP1252: '"),
        ("cp1251", "Здравствуйте, пришлите двенадцать коробок", "CP1251: '"),
        ("gb18030", "请寄十二盒蓝色的纸到我们的新办公室", "GB18030: '"),
        ("shift_jis", "青い紙を十二箱送ってください", "CP932: '"),
    ],
)
def test_another_encoding_is_named_with_its_byte_and_a_guess(
    tmp_path: Path, ending: str, encoding: str, text: str, guess: str
) -> None:
    lines = ['{"id": "1", "t": "abc"}', f'{{"id": "2", "t": "{text}"}}'] if ending == "jsonl" else ["id,t", f"1,{text}"]
    content = "\n".join(lines).encode(encoding)
    path = tmp_path / f"rows.{ending}"
    path.write_bytes(content)
    (problem,) = read(path).problems
    offset = next(n for n in range(len(content)) if content[n] > 127)
    assert problem.where == f"rows.{ending}:2"
    assert problem.found.startswith(f"the byte 0x{content[offset]:02x} at offset {offset} of the file, which is not; ")
    assert guess in problem.found
    assert text[:6] in problem.found
    assert "iconv -f" in problem.action


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_wide_characters_are_one_problem_of_the_whole_file(tmp_path: Path, ending: str, encoding: str) -> None:
    lines = ['{"id": "1"}', '{"id": "2"}'] if ending == "jsonl" else ["id,t", "1,a"]
    (tmp_path / f"rows.{ending}").write_bytes("\n".join(lines).encode(encoding))
    (problem,) = read(tmp_path / f"rows.{ending}").problems
    assert problem.where == f"rows.{ending}"
    assert problem.found == f"{encoding[:6].upper()}, by its first bytes"


def test_a_file_with_many_bad_lines_is_guessed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from testigo.corpus import text

    guessed: list[bytes] = []
    guess = text._guess
    monkeypatch.setattr(text, "_guess", lambda content: guessed.append(content) or guess(content))
    line = '{"id": "1", "t": "coração"}'.encode("latin-1") + b"\n"
    (tmp_path / "rows.jsonl").write_bytes(line * 50)
    problems = read(tmp_path / "rows.jsonl").problems
    assert len(problems) == 50
    assert len(guessed) == 1
    offsets = [int(problem.found.split("offset ")[1].split()[0]) for problem in problems]
    assert offsets[1] - offsets[0] == len(line)


def test_a_byte_order_mark_and_carriage_returns_are_taken_away_and_counted(tmp_path: Path) -> None:
    for ending, lines in (("jsonl", ['{"id": "1"}', '{"id": "2"}']), ("csv", ["id", "1", "2"])):
        path = tmp_path / f"rows.{ending}"
        path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join([*lines, ""]).encode())
        reading = read(path)
        assert [row.fields for row in reading.rows] == [{"id": "1"}, {"id": "2"}]
        assert reading.sources[0]["converted"] == {"byte-order mark": 1, "CRLF": len(lines)}
        path.write_bytes("\n".join([*lines, ""]).encode())
        assert "converted" not in read(path).sources[0]


def test_lines_that_end_in_a_carriage_return_alone_are_named(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(b'{"id": "1"}\r{"id": "2"}\r')
    (problem,) = read(tmp_path / "rows.jsonl").problems
    assert problem.found == "lines that end in CR alone"


# ---- rows


def test_an_object_where_text_is_expected_is_told(make: Make) -> None:
    rows = [a_row(n) for n in range(20)]
    rows[3]["text"], rows[7]["answer"] = {"subject": "Hello"}, ["a", "b"]
    found = dict(problems_of(make(rows)))
    assert found.keys() == {"rows.jsonl:4, row 'r3'", "rows.jsonl:8, row 'r7'"}
    assert "must be text" in found["rows.jsonl:4, row 'r3'"]


def test_a_row_of_fifty_megabytes_is_told_and_its_neighbours_are_not(make: Make) -> None:
    rows = [a_row(n) for n in range(20)]
    rows[4]["text"] = "word " * 10_000_000
    assert problems_of(make(rows)) == [("rows.jsonl:5", "50,000,000 characters in 'text'")]


def test_a_long_document_is_no_fault(make: Make) -> None:
    rows = [a_row(n) for n in range(20)]
    rows[4]["text"] = "word " * 100_000
    assert sum(built(make(rows)).counts.values()) == 20


def test_empty_and_missing_targets_are_told_and_with_drop_empty_left_out_and_counted(make: Make) -> None:
    rows = [a_row(n) for n in range(40)]
    rows[3]["answer"], rows[5]["text"] = " ", None
    del rows[8]["text"], rows[9]["answer"]
    told = problems_of(make(rows))
    assert told == [
        ("rows.jsonl:4", "it is empty"),
        ("rows.jsonl:6", "it is empty"),
        ("rows.jsonl:9", "only id, answer"),
        ("rows.jsonl:10", "only id, text"),
    ]
    corpus = built(make(rows, clean=["drop-empty"]))
    assert [(drop["where"], drop["reason"]) for drop in corpus.manifest["dropped"]] == [
        ("rows.jsonl:4", "empty input or target"),
        ("rows.jsonl:6", "empty input or target"),
        ("rows.jsonl:9", "no field 'text'"),
        ("rows.jsonl:10", "no field 'answer'"),
    ]
    assert corpus.manifest["clean"] == [{"step": "drop-empty", "changed": 0, "dropped": 4}]
    assert sum(corpus.counts.values()) == 36


def test_a_field_that_no_row_has_is_a_wrong_name_and_drops_nothing(make: Make) -> None:
    rows = [{**a_row(n), "question": "?"} for n in range(20)]
    for row in rows:
        del row["text"]
    found = problems_of(make(rows, clean=["drop-empty"]))
    assert found == [("rows.jsonl:1, the first of them", "none of 20 rows has it; they have id, answer, question")]


@pytest.mark.parametrize(("old", "key"), [("id", "data.id"), ("text", "task.input"), ("answer", "task.target")])
def test_one_wrong_name_is_one_problem_that_names_its_key(make: Make, old: str, key: str) -> None:
    rows = [{("other" if name == old else name): value for name, value in a_row(n).items()} for n in range(20)]
    with pytest.raises(DataError) as caught:
        built(make(rows))
    (problem,) = caught.value.problems
    assert problem.expected == f"the field '{old}' (`{key}`)"
    assert "other" in problem.found
    assert f"`{key}`" in problem.action


def test_beside_a_wrong_name_what_else_is_wrong_in_a_row_is_told(make: Make) -> None:
    rows = [{**a_row(n), "ticket": n} for n in range(20)]
    for row in rows:
        del row["id"]
    rows[3]["text"] = ""
    assert [where for where, _ in problems_of(make(rows))] == ["rows.jsonl:1, the first of them", "rows.jsonl:4"]


# ---- classes and groups


def test_classes_are_balanced_over_the_splits_without_a_category(make: Make) -> None:
    rows = [a_row(n, answer="abcd"[n % 4]) for n in range(40)]
    corpus = built(make(rows, CLASSES))
    for split in (corpus.rows("train"), corpus.rows("validation"), open_sealed(corpus)):
        assert {row.fields["answer"] for row in split} == set("abcd")
    assert corpus.manifest["splits"]["train"]["categories"] == {"": 24}


def test_one_group_with_all_rows_is_told(make: Make) -> None:
    ((where, found),) = problems_of(make([a_row(n, owner="one") for n in range(20)], group="owner", unit="patient"))
    assert where == "data.split"
    assert found == ("none: 20 rows in 1 groups (unit: patient), the largest with 20, some joined by near-duplicates")


def test_a_group_that_is_larger_than_its_split_is_found(make: Make) -> None:
    from testigo.gates.splits import no_unit_fills_a_split, splits_from
    from testigo.rules import Finding, Passed

    rows = [a_row(n, owner=f"o{n}") for n in range(60)]
    big = [a_row(100 + n, owner="big") for n in range(40)]
    seen = set()
    for seed in range(8):
        split = {"validation": 0.2, "test": 0.2, "seed": seed, "cuts": "fixed"}
        corpus = built(make([*rows, *big], group="owner", split=split))
        outcome = no_unit_fills_a_split(splits_from(corpus.manifest))
        largest = corpus.manifest["split"]["largest"]
        where = next(name for name, facts in largest.items() if facts["rows"] == 40)
        assert isinstance(outcome, Passed if where == "train" else Finding), where
        seen.add(where == "train")
    assert seen == {True, False}


# ---- images


def test_a_folder_of_images_becomes_a_corpus_and_its_conversions_are_counted(make: Make, tmp_path: Path) -> None:
    import numpy as np
    from PIL import Image

    from testigo.corpus import open_image

    draw = np.random.default_rng(0)
    for n in range(40):
        path = tmp_path / "pets" / ("cat" if n % 2 else "dog") / f"{n}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(draw.integers(0, 256, (8, 8, 3), dtype=np.uint8))
        (picture.convert("P") if n < 3 else picture).save(path)
    images = {**CLASSES, "task": {"kind": "image-classification", "input": "image", "target": "label"}}
    corpus = built(make(changes=images, source="pets", duplicates={}))
    assert sum(corpus.counts.values()) == 40
    told = corpus.manifest["images"]
    assert (told["count"], told["conversions"], told["files"]["sealed/images"]) == (
        40,
        {"palette-to-rgb": 3},
        corpus.counts["test"],
    )
    row = corpus.rows("train")[0]
    assert open_image(row.fields["image"], corpus.folder).image.size == (8, 8)
    for row in open_sealed(corpus):
        assert open_image(row.fields["image"], corpus.folder).image.mode == "RGB"
    assert {row.fields["label"] for row in corpus.rows("validation")} == {"cat", "dog"}
    whole = (tmp_path / "pets" / "dog" / "4.png").read_bytes()
    (tmp_path / "pets" / "dog" / "4.png").write_bytes(whole[:60])
    (tmp_path / "pets" / "dog" / "6.png").write_bytes(b"none")
    found = problems_of(make(changes=images, source="pets", duplicates={}))
    assert [where for where, _ in found] == ["pets/dog/4.png, row 'dog/4.png'", "pets/dog/6.png, row 'dog/6.png'"]


# ---- the hub


@pytest.mark.parametrize("source", ["hub:owner/rows", "hub:owner/rows@main", "owner/rows"])
def test_a_hub_name_without_a_revision_is_told_with_its_line(make: Make, source: str) -> None:
    with pytest.raises(CampaignError) as caught:
        make(source=source)
    assert "^" in str(caught.value)
    assert "hub:owner/rows@" in caught.value.problems[0].action

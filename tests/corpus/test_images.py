from __future__ import annotations

import base64
import hashlib
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from testigo.corpus.cleaning import clean
from testigo.corpus.hub import rows_of
from testigo.corpus.images import examine, image_bytes, is_image, open_image, stored_name
from testigo.corpus.reading import Reading, read_into
from testigo.corpus.row import PlacedRow, RawRow, Row, digest_of
from testigo.corpus.storage import find_fault, open_corpus, write_corpus
from testigo.errors import DataError


def a_picture(mode: str = "RGB", size: tuple[int, int] = (6, 4)) -> Image.Image:
    numbers = np.arange(size[0] * size[1] * 4, dtype=np.uint8).reshape(size[1], size[0], 4) * 2
    return Image.fromarray(numbers[..., :3]).convert(mode)


def saved(picture: Image.Image, kind: str = "PNG", **settings: Any) -> bytes:
    file = BytesIO()
    picture.save(file, kind, **settings)
    return file.getvalue()


def held(content: bytes) -> dict[str, Any]:
    return {"bytes": base64.b64encode(content).decode(), "path": "one.png"}


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def read(folder: Path, source: str, image_field: str | None = None) -> Reading:
    reading = Reading()
    read_into(reading, source, folder, "source", image_field)
    return reading


def found_in(reading: Reading) -> list[tuple[str, str]]:
    assert all(p.expected and p.found and p.where and p.action for p in reading.problems)
    return [(problem.where, problem.found) for problem in reading.problems]


# ---- one image


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


CMYK = saved(Image.new("CMYK", (3, 2), (0, 255, 255, 0)), "TIFF")
DEEP_GREY = saved(Image.fromarray(np.array([[0, 257, 32_896, 65_535]], dtype=np.uint16)))


@pytest.mark.parametrize(
    ("content", "mode", "size", "conversions"),
    [
        (saved(a_picture()), "RGB", (6, 4), ()),
        (saved(a_picture("L")), "L", (6, 4), ()),
        (saved(a_picture(), "JPEG", exif=turned(6)), "RGB", (4, 6), ("exif-orientation",)),
        (saved(a_picture(), "JPEG", exif=turned(1)), "RGB", (6, 4), ()),
        (CMYK, "RGB", (3, 2), ("cmyk-to-rgb",)),
        (saved(a_picture("P")), "RGB", (6, 4), ("palette-to-rgb",)),
        (DEEP_GREY, "L", (4, 1), ("16-bit-to-8-bit",)),
        (saved(a_picture("RGBA")), "RGB", (6, 4), ("alpha-on-white",)),
        (saved(a_picture("LA")), "L", (6, 4), ("alpha-on-white",)),
        (saved(a_picture("1")), "L", (6, 4), ("1-bit-to-grey",)),
        (saved(a_picture("L"), "TIFF", save_all=True, append_images=[a_picture("L").rotate(180)]), "L", (6, 4),
         ("first-frame",)),
    ],
    ids=["RGB", "grey", "turned", "upright", "CMYK", "palette", "16 bits", "alpha", "grey alpha", "1 bit", "frames"],
)  # fmt: skip
def test_what_was_converted_is_said(
    content: bytes, mode: str, size: tuple[int, int], conversions: tuple[str, ...]
) -> None:
    picture = open_image(held(content))
    assert (picture.image.mode, picture.image.size, picture.conversions) == (mode, size, conversions)


def test_conversions_keep_what_the_picture_shows() -> None:
    assert np.asarray(open_image(held(DEEP_GREY)).image).tolist() == [[0, 1, 128, 255]]
    assert open_image(held(CMYK)).image.getpixel((0, 0)) == (255, 0, 0)
    clear = saved(Image.new("RGBA", (1, 1), (9, 9, 9, 0)))
    assert open_image(held(clear)).image.getpixel((0, 0)) == (255, 255, 255)
    upright, lying = a_picture(), saved(a_picture(), "PNG", exif=turned(3))
    assert np.array_equal(np.asarray(open_image(held(lying)).image), np.asarray(upright.rotate(180)))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "a file of 0 bytes that is none"),
        (b"no image at all", "a file of 15 bytes that is none"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "that is none"),
        (saved(a_picture(size=(60, 60)))[:-40], "a broken one"),
        (saved(a_picture(size=(200, 200)), "JPEG")[:900], "a broken one"),
        (saved(Image.fromarray(np.ones((2, 2), dtype=np.float32)), "TIFF"), "floating-point"),
    ],
    ids=["empty", "text", "SVG", "PNG cut", "JPEG cut", "floating point"],
)
def test_what_is_no_image_is_a_named_error(content: bytes, words: str) -> None:
    with pytest.raises(DataError) as caught:
        open_image(held(content))
    (problem,) = caught.value.problems
    assert words in problem.found
    assert problem.where == "one.png"
    assert problem.action


def test_a_picture_that_unpacks_to_gigabytes_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(DataError, match="could be decompression bomb"):
        open_image(held(saved(a_picture())))


# ---- where images stand


def test_a_file_is_the_one_of_its_hash_or_no_other(tmp_path: Path) -> None:
    content = saved(a_picture())
    path = put(tmp_path / "a" / "1.png", content)
    value = {"image": "a/1.png", "sha256": hashlib.sha256(content).hexdigest()}
    assert image_bytes(value, tmp_path) == content
    path.write_bytes(saved(a_picture("L")))
    with pytest.raises(DataError, match="the file was changed"):
        open_image(value, tmp_path)
    path.unlink()
    with pytest.raises(DataError, match="no such file"):
        open_image(value, tmp_path)


def test_class_folders_are_rows_with_labels(tmp_path: Path) -> None:
    for name in ("cat/1.png", "cat/more/2.JPG", "dog/3.png"):
        put(tmp_path / "pets" / name, saved(a_picture(), "PNG" if name.endswith("png") else "JPEG"))
    put(tmp_path / "pets" / "LICENSE", b"free")
    put(tmp_path / "pets" / "cat" / ".DS_Store", b"")
    reading = read(tmp_path, "pets")
    assert [(row.fields["id"], row.fields["label"], row.where) for row in reading.rows] == [
        ("cat/1.png", "cat", "pets/cat/1.png"),
        ("cat/more/2.JPG", "cat", "pets/cat/more/2.JPG"),
        ("dog/3.png", "dog", "pets/dog/3.png"),
    ]
    assert all(is_image(row.fields["image"]) for row in reading.rows)
    assert open_image(reading.rows[1].fields["image"], reading.rows[1].root).image.size == (6, 4)
    assert reading.ignored == ["LICENSE"]
    assert reading.sources[0]["rows"] == 3
    assert reading.problems == []


def test_the_hash_of_a_source_is_the_content_of_its_images(tmp_path: Path) -> None:
    for name, mode in (("a", "L"), ("b", "L"), ("c", "RGB")):
        put(tmp_path / name / "x" / "1.png", saved(a_picture(mode)))
    a, b, c = (read(tmp_path, name).sources[0]["sha256"] for name in "abc")
    assert a == b != c


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_metadata_names_each_image_and_its_columns(tmp_path: Path, ending: str) -> None:
    for name in ("1.png", "sub/2.png", "alone.png"):
        put(tmp_path / "pets" / name, saved(a_picture()))
    lines = [("1.png", "cat", "ana"), ("sub/2.png", "dog", "eva"), ("gone.png", "dog", "eva")]
    if ending == "jsonl":
        text = "".join(json.dumps({"file_name": f, "kind": k, "owner": o}) + "\n" for f, k, o in lines)
    else:
        text = "file_name,kind,owner\n" + "".join(",".join(line) + "\n" for line in lines)
    put(tmp_path / "pets" / f"metadata.{ending}", text.encode())
    reading = read(tmp_path, "pets")
    assert [(row.fields["id"], row.fields["kind"], row.fields["owner"]) for row in reading.rows] == [
        ("1.png", "cat", "ana"),
        ("sub/2.png", "dog", "eva"),
    ]
    assert reading.ignored == ["alone.png"]
    number = 3 if ending == "jsonl" else 4
    assert found_in(reading) == [(f"pets/metadata.{ending}:{number}", "gone.png: No such file or directory")]


def test_metadata_of_a_subfolder_names_files_beside_it(tmp_path: Path) -> None:
    put(tmp_path / "pets" / "sub" / "1.png", saved(a_picture()))
    put(tmp_path / "pets" / "sub" / "metadata.jsonl", b'{"file_name": "1.png", "id": "one"}\n{"kind": "cat"}\n')
    reading = read(tmp_path, "pets")
    assert reading.rows[0].fields["id"] == "one"
    assert reading.rows[0].fields["image"]["image"] == "sub/1.png"
    assert found_in(reading) == [("pets/sub/metadata.jsonl:2", "none")]


def test_folders_of_splits_and_images_without_a_class_are_told(tmp_path: Path) -> None:
    put(tmp_path / "pets" / "train" / "cat" / "1.png", saved(a_picture()))
    put(tmp_path / "pets" / "Test" / "cat" / "2.png", saved(a_picture()))
    assert found_in(read(tmp_path, "pets")) == [("pets", "folders of splits: Test, train")]
    put(tmp_path / "flat" / "1.png", saved(a_picture()))
    assert found_in(read(tmp_path, "flat")) == [("flat/1.png", "an image beside the class folders")]


def test_a_table_of_paths_names_images_beside_it(tmp_path: Path) -> None:
    put(tmp_path / "data" / "pics" / "1.png", saved(a_picture()))
    lines = [{"id": "1", "photo": "pics/1.png"}, {"id": "2", "photo": "pics/2.png"}, {"id": "3", "photo": 7}]
    put(tmp_path / "data" / "rows.jsonl", "\n".join(map(json.dumps, lines)).encode())
    reading = read(tmp_path, "data/rows.jsonl", "photo")
    assert reading.rows[0].fields["photo"]["image"] == "pics/1.png"
    assert open_image(reading.rows[0].fields["photo"], reading.rows[0].root).image.size == (6, 4)
    assert found_in(reading) == [
        ("data/rows.jsonl:2", "pics/2.png: No such file or directory"),
        ("data/rows.jsonl:3", "a int"),
    ]


def test_a_parquet_table_holds_images_as_bytes(tmp_path: Path) -> None:
    content = saved(a_picture())
    put(tmp_path / "beside.png", content)
    images = [{"bytes": content, "path": "1.png"}, {"bytes": None, "path": "beside.png"}]
    pq.write_table(pa.table({"id": ["1", "2"], "image": images}), tmp_path / "rows.parquet")
    reading = read(tmp_path, "rows.parquet", "image")
    assert reading.problems == []
    assert reading.rows[0].fields["image"] == {"bytes": base64.b64encode(content).decode(), "path": "1.png"}
    assert reading.rows[1].fields["image"]["image"] == "beside.png"
    assert all(open_image(row.fields["image"], row.root).image.size == (6, 4) for row in reading.rows)


def test_a_hub_data_set_of_images_is_read_as_the_bytes_of_its_files() -> None:
    import datasets

    content = saved(a_picture())
    features = datasets.Features({"id": datasets.Value("string"), "image": datasets.Image()})
    rows = datasets.Dataset.from_list([{"id": "1", "image": {"bytes": content, "path": "1.png"}}], features=features)
    assert rows_of({"train": rows}, "hub:a/b@0")[0]["image"] == {"bytes": content, "path": "1.png"}


def test_cleaning_leaves_paths_and_bytes_alone() -> None:
    value = {"image": " e\u0301.png", "sha256": "0"}
    (row,) = clean([RawRow({"image": value, "note": " e\u0301 "}, "", "source")], ["unicode", "strip"], ("image",)).rows
    assert row.fields == {"image": value, "note": "é"}


# ---- in a corpus


def placed(folder: Path, name: str, content: bytes) -> PlacedRow:
    put(folder / name, content)
    fields = {"image": {"image": name, "sha256": hashlib.sha256(content).hexdigest()}}
    return PlacedRow(Row(name, name, "", fields, digest_of(fields)), f"pets/{name}", "source", folder)


def test_images_are_counted_and_all_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    good = [placed(tmp_path, "1.png", saved(a_picture())), placed(tmp_path, "2.tif", CMYK)]
    bad = [placed(tmp_path, "3.png", b"none"), placed(tmp_path, "4.png", saved(a_picture(size=(60, 60)))[:-40])]
    told, problems = examine([*good, *bad], "image")
    assert told == {
        "count": 2,
        "conversions": {"cmyk-to-rgb": 1},
        "modes": {"CMYK": 1, "RGB": 1},
        "sizes": 2,
        "smallest": [3, 2],
        "largest": [6, 4],
    }
    assert [problem.where for problem in problems] == ["pets/3.png, row '3.png'", "pets/4.png, row '4.png'"]
    fields: dict[str, Any] = {"image": "text"}
    assert examine([PlacedRow(Row("1", "1", "", fields, ""), "", "source")], "image") == (None, [])


def test_a_corpus_holds_its_images_and_those_of_the_test_lie_behind_the_seal(tmp_path: Path) -> None:
    rows = {
        name: placed(tmp_path / "pets", f"{name}.png", saved(a_picture(size=(6, n))))
        for n, name in enumerate(("train", "validation", "test"), 2)
    }
    folder = tmp_path / "corpus" / "fp"
    manifest = {"fingerprint": "fp", "images": {"count": 3}}
    write_corpus(folder, {n: [r.row] for n, r in rows.items()}, manifest, {f"{n}.png": tmp_path / "pets" for n in rows})
    for row in rows.values():
        (tmp_path / "pets" / row.row.id).unlink()
        assert open_image(row.row.fields["image"], folder).image.width == 6
    sealed = folder / "sealed" / "images" / stored_name(rows["test"].row.fields["image"])
    assert sealed.exists()
    assert len(list((folder / "images").iterdir())) == 2
    assert open_corpus(folder).manifest["images"]["files"] == {"images": 2, "sealed/images": 1}
    sealed.unlink()
    assert find_fault(folder) == "sealed/images holds 0 files, not 1"

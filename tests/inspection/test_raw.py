"""Raw rows can be read: long texts and the bytes of images are cut short, and say by how much."""

from __future__ import annotations

import tiny

from testigo.inspection.raw import raw_text


def test_a_short_row_is_there_whole() -> None:
    assert raw_text(tiny.row_of("a", email="Grüße\u202e", n=3)) == '{\n "email": "Grüße\\u202e",\n "n": 3\n}'


def test_long_texts_and_the_bytes_of_images_are_cut_with_a_count() -> None:
    text = raw_text(tiny.row_of("a", email="x" * 5_000, image={"bytes": "A" * 90_000, "path": "a.png"}))
    assert "3,000 more characters" in text
    assert "89,960 more characters" in text
    assert len(text) < 3_000
    many = raw_text(tiny.row_of("a", **{f"f{k}": "y" * 1_999 for k in range(20)}))
    assert len(many) < 7_000
    assert many.endswith("more characters")

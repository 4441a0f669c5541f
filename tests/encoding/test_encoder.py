"""Rows become ids: what counts, what is too long, what a shortened prompt is."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tiny import CHATML, row_of, tokenizer

from testigo.corpus import Row
from testigo.encoding import Encoder, Frame, lay_out
from testigo.errors import EncodingError
from testigo.pilot.data import Tensors, collect
from testigo.tasks.generation import Generation

CASE_C08 = [row_of(f"r{k:02d}", email="we want " + "3 pens, " * (2 + k % 3), order=f"pens: {k}") for k in range(64)]


def encoder(maximum_length: int = 256, *, words: Any = None, system: str | None = None, **settings: Any) -> Encoder:
    frame = Frame(words or tokenizer())
    return Encoder(frame, Generation("email", "order", system), maximum_length, input_field="email", **settings)


def test_the_end_counts_in_the_loss_although_it_is_the_padding_too() -> None:  # C14
    own = encoder()
    assert own.frame.tokenizer.pad_token_id == own.frame.turn_end_id
    rows, _ = own.encode_all(CASE_C08)
    for layout in ("packed", "padded"):
        batch = lay_out(rows[:5], layout, pad_id=own.frame.turn_end_id)
        ends = (batch.targets == own.frame.turn_end_id).nonzero().flatten()
        assert batch.owner[ends].tolist() == [0, 1, 2, 3, 4]
        assert len(batch.targets) == sum(row.n_supervised for row in rows[:5])


# C08
@pytest.mark.parametrize("maximum_length", [128, 48, 32, 24, 16])
def test_rows_whose_answer_does_not_fit_are_refused_with_ids_and_counts(maximum_length: int) -> None:
    own = encoder(maximum_length)
    long = [row.id for row in CASE_C08 if own.encode(row).n_tokens > maximum_length]
    if not long:
        assert len(own.encode_all(CASE_C08)[0]) == 64
        return
    with pytest.raises(EncodingError) as refused:
        own.encode_all(CASE_C08)
    found = refused.value.problems[0].found
    assert found.startswith(f"{len(long)} of 64 rows")
    assert re.findall(r"r\d\d", found) == long[:10]
    assert (f"and {len(long) - 10} more" in found) == (len(long) > 10)


def test_the_cases_lengths_are_of_every_sort() -> None:
    lengths = [encoder().encode(row).n_tokens for row in CASE_C08]
    assert min(lengths) > 32
    assert any(n <= 48 for n in lengths)
    assert any(n > 48 for n in lengths)
    assert max(lengths) <= 128


def test_dropped_rows_are_named_and_counted() -> None:
    own = encoder(48, longer="drop")
    rows, lengths = own.encode_all(CASE_C08)
    long = tuple(row.id for row in CASE_C08 if own.encode(row).n_tokens > 48)
    assert lengths.dropped == lengths.too_long == long
    assert [row.id for row in rows] == [row.id for row in CASE_C08 if row.id not in long]
    assert 0 < len(long) < 64


def test_truncation_shortens_the_input_and_never_the_answer() -> None:
    own = encoder(56, longer="truncate", reserve=16)
    whole = encoder()
    rows, lengths = own.encode_all(CASE_C08)
    assert len(rows) == 64
    assert lengths.truncated_input == tuple(row.id for row in CASE_C08 if whole.encode(row).n_prompt > 40)
    assert 0 < len(lengths.truncated_input) < 64
    for row, source in zip(rows, CASE_C08, strict=True):
        uncut = whole.encode(source)
        assert row.ids[row.n_prompt :] == uncut.ids[uncut.n_prompt :]
        assert row.n_prompt <= 40
        assert row.n_prompt == uncut.n_prompt or row.n_prompt > 40 - 4  # not more was cut than had to be
        assert own.frame.text_of(row.ids[: row.n_prompt]).endswith("<|im_end|>\n<|im_start|>assistant\n")


def test_the_shortened_prompt_is_the_same_in_evaluation_whatever_the_answer() -> None:
    own = encoder(56, longer="truncate", reserve=16)
    for source in CASE_C08[:6]:
        trained = own.encode(source)
        assert trained.ids[: trained.n_prompt] == own.prompt_ids(source.fields)
        other = own.encode(row_of("x", email=source.fields["email"], order="no"))
        assert other.ids[: other.n_prompt] == own.prompt_ids(source.fields)


@pytest.mark.parametrize(
    "text", ["😀" * 30, "日本語テキスト" * 8, "é" * 60, "a" + "\u0301" * 40], ids=["emoji", "kana", "accent", "marks"]
)
def test_characters_of_many_bytes_are_cut_whole(text: str) -> None:
    empty = len(encoder().prompt_ids({"email": ""}))
    for room in range(empty + 4, empty + 16):
        own = encoder(room + 8, longer="truncate", reserve=8)
        ids = own.prompt_ids({"email": text, "order": "x"})
        assert room - 4 < len(ids) <= room
        assert "\ufffd" not in own.frame.text_of(ids)


def test_rows_that_would_lose_their_whole_question_are_refused() -> None:
    with pytest.raises(EncodingError, match="64 of 64 rows do not fit"):
        encoder(128, longer="truncate", reserve=120).encode_all(CASE_C08)


def test_an_answer_longer_than_what_was_kept_free_is_refused_and_not_cut() -> None:
    row = row_of("long", email="pens, " * 80, order="pens " * 30)
    with pytest.raises(EncodingError, match=r"1 of 65 rows do not fit: long"):
        encoder(56, longer="truncate", reserve=16).encode_all([*CASE_C08, row])


def tensors(own: Encoder, rows: list[Row]) -> Tensors:
    encoded, lengths = own.encode_all(rows)
    return Tensors(
        own,
        {"train": encoded, "validation": ()},
        {"train": rows, "validation": ()},
        {"train": lengths},
        400,
        "packed",
        2,
    )


def test_a_merged_seam_is_reported_and_neither_side_loses_a_token() -> None:  # C13
    template = "{% for m in messages %}{{ m['content'] + (' want' if m['role'] == 'user' else '') }}{% endfor %}"
    words = tokenizer(template=template, eos="<|endoftext|>", merge_seams=True)
    rows = [row_of("seam", email="we", order=" 1"), row_of("plain", email="we", order="#")]
    own = encoder(words=words)
    seam = own.encode(rows[0])
    at_once = words("we want 1", add_special_tokens=False)["input_ids"]
    assert tuple(at_once) != seam.ids[:-1]  # the tokenizer would have merged the two
    assert own.frame.text_of(seam.ids[seam.n_prompt :]) == " 1<|endoftext|>"
    assert seam.ids[: seam.n_prompt] == own.prompt_ids(rows[0].fields)
    evidence = collect(tensors(own, rows))
    assert evidence.seam_merged == ("seam",)
    assert evidence.prompt_in_loss == ()
    assert evidence.target_lost == ()


def test_a_template_without_generation_marks_masks_by_place_and_never_everything() -> None:  # C12
    own = encoder(words=tokenizer(template=CHATML))
    assert "generation %" not in CHATML
    assert all(own.encode(row).n_supervised > 1 for row in CASE_C08)


def test_two_templates_or_policies_never_share_a_fingerprint() -> None:  # C19
    words = tokenizer()
    other = tokenizer()
    other.backend_tokenizer.from_str(words.backend_tokenizer.to_str())
    variants = [
        encoder(words=words),
        encoder(words=tokenizer(template=CHATML.replace("You help", "You helped"))),
        encoder(128, words=words),
        encoder(words=words, longer="drop"),
        encoder(words=words, longer="truncate", reserve=8),
    ]
    assert len({v.fingerprint() for v in variants}) == len(variants)
    assert encoder(words=words).fingerprint() == variants[0].fingerprint()

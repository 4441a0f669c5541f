"""Lengths: counted before any policy; what a policy does is named by id; what a maximum would cut is exact."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from testigo.errors import EncodingError
from testigo.inspection.lengths import bins, cuts, measure, summaries

if TYPE_CHECKING:
    from collections.abc import Callable

    from testigo.inspection.material import Material

SPLITS = ("train", "validation")


def test_every_row_that_is_not_sealed_is_counted_once(material: Material) -> None:
    lengths = measure(material)
    assert {split: len(rows) for split, rows in lengths.rows.items()} == {s: len(material.rows(s)) for s in SPLITS}
    for split, own in bins(lengths).items():
        assert sum(sum(one.rows.values()) for one in own) == len(lengths.rows[split])
        assert all(one.high == after.low for one, after in pairwise(own))
    whole = [one for one in summaries(lengths) if one.category is None]
    assert [one.split for one in whole] == list(SPLITS)
    assert len(summaries(lengths)) == 2 * (1 + len(lengths.categories))


def test_what_a_maximum_would_cut_is_what_dropping_by_it_drops(material_of: Callable[..., Material]) -> None:
    every = cuts(measure(material_of()))
    assert [cut.maximum_length for cut in every] == sorted({cut.maximum_length for cut in every})
    assert every[0].rows["train"] > 0
    assert every[-1].rows == {"train": 0, "validation": 0}
    some = next(cut for cut in every if 0 < cut.rows["train"] < 20)
    dropping = material_of(encoding__maximum_length=some.maximum_length, encoding__longer="drop")
    for split in SPLITS:
        _, policy = dropping.encoder.encode_all(dropping.rows(split))
        assert len(policy.dropped) == some.rows[split]
        assert measure(dropping).ids(split, "dropped") == policy.dropped


@pytest.mark.parametrize(("longer", "state"), [("refuse", "too long"), ("truncate", "input shortened")])
def test_rows_that_the_policy_touches_are_named(material_of: Callable[..., Material], longer: str, state: str) -> None:
    own = measure(material_of())
    maximum = sorted(row.n_tokens for row in own.rows["train"])[-3]
    maximum += 2 if longer == "truncate" else 0  # eight places are kept free for an answer
    material = material_of(encoding__maximum_length=maximum, encoding__longer=longer)
    lengths = measure(material)
    named = lengths.ids("train", state)
    assert named
    if longer == "truncate":
        assert named == material.encoder.encode_all(material.rows("train"))[1].truncated_input
        assert [row.n_tokens for row in lengths.rows["train"]] == [row.n_tokens for row in own.rows["train"]]
    else:
        with pytest.raises(EncodingError, match=named[0]):
            material.encoder.encode_all(material.rows("train"))


def test_lengths_as_json_name_all_that_a_reader_needs(material: Material) -> None:
    document = measure(material).to_json()
    assert set(document) == {"maximum_length", "longer", "summaries", "rows", "cuts"}
    assert document["rows"]["train"] == {"too long": [], "dropped": [], "input shortened": []}
    assert document["cuts"][-1]["shares"] == {"train": 0.0, "validation": 0.0}

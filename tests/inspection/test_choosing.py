"""Which rows are looked at: every category has a voice, and the sealed rows have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testigo.errors import DataError
from testigo.inspection import choosing

if TYPE_CHECKING:
    from tiny import Tiny

    from testigo.inspection.material import Material


def test_every_category_is_sampled(material: Material) -> None:
    categories = {row.category for split in ("train", "validation") for row in material.rows(split)}
    chosen = choosing.each_category(material, 2)
    assert {one.row.category for one in chosen} == categories
    assert len(chosen) == 2 * len(categories)
    assert chosen == choosing.each_category(material, 2)


def test_sealed_rows_are_never_chosen(material: Material, tiny: Tiny) -> None:
    from testigo.corpus import open_sealed

    sealed = open_sealed(tiny.corpus)
    for asked in (lambda: material.rows("test"), lambda: choosing.by_id(material, [sealed[0].id])):
        with pytest.raises(DataError, match="sealed"):
            asked()
    shown = {one.row.id for one in choosing.each_category(material, 1_000)}
    assert shown
    assert not shown & {row.id for row in sealed}


def test_a_category_that_does_not_exist_is_answered_with_those_that_do(material: Material) -> None:
    with pytest.raises(DataError, match="office, shop"):
        choosing.of_category(material, "train", "moon")


def test_the_longest_come_first(material: Material) -> None:
    rows = material.rows("train")
    lengths = [material.encoded(one.row).n_tokens for one in choosing.longest(material, "train", rows, 5)]
    assert lengths == sorted((material.encoded(row).n_tokens for row in rows), reverse=True)[:5]


def test_the_same_seed_draws_the_same_raw_rows(material: Material) -> None:
    rows = material.rows("train")
    assert choosing.random_rows(rows, 10, 3) == choosing.random_rows(rows, 10, 3)
    assert choosing.random_rows(rows, 10, 3) != choosing.random_rows(rows, 10, 4)
    assert len(choosing.random_rows(rows, 1_000, 0)) == len(rows)

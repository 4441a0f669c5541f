"""The dossier in the campaign's language: what is told, how numbers are written, and what stays English."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testigo.campaign import load
from testigo.dossier import Record, pictures, read_record, units, verify_dossier
from testigo.dossier.card import model_card
from testigo.dossier.conclusion import badge, limits, sentence
from testigo.dossier.drawing import svg
from testigo.dossier.language import speaking
from testigo.dossier.report import html
from testigo.dossier.sentence import conclusion_told, seeds_told
from testigo.judgement import over_seeds
from testigo.judgement.conclusion import conclude
from testigo.judgement.decision import guard_of, improvement_of
from testigo.judgement.paired import Paired

OTHERS = ("es", "pt", "fr")
SHARE = st.floats(-1, 1).map(lambda value: round(value, 3))


@pytest.fixture(scope="module")
def page_in(told: Any) -> Callable[[str], str]:
    """The page of one campaign in a language, drawn once."""
    record = read_record(told.workspace.dossier)
    return cache(lambda language: html(replace(record, plan=replace(record.plan, language=language))))


def test_changing_the_language_changes_the_page(page_in: Callable[[str], str], told: Any) -> None:
    pages = [page_in(language) for language in ("en", *OTHERS)]
    assert len(set(pages)) == 4
    for language, page in zip(("en", *OTHERS), pages, strict=True):
        assert f'<html lang="{language}">' in page
    assert pages[0] == (told.workspace.dossier / "index.html").read_text(encoding="utf-8")
    assert 'lang="en">' not in pages[0].replace('<html lang="en">', "").replace('html:not([lang="en"])', "")


@pytest.mark.parametrize("language", OTHERS)
def test_a_dossier_in_another_language_is_built_and_verified(story: Any, language: str, tmp_path: Path) -> None:
    before = json.loads((story.workspace.dossier / "dossier.json").read_text(encoding="utf-8"))
    path = tmp_path / "campaign.yaml"
    path.write_text(f"{story.campaign.path.read_text(encoding='utf-8')}language: {language}\n", encoding="utf-8")
    for name in ("order.schema.json", "orders.jsonl"):
        shutil.copy(story.campaign.folder / name, tmp_path)
    folder = replace(story, campaign=load(path)).write()
    twin = json.loads((folder / "dossier.json").read_text(encoding="utf-8"))
    assert twin["plan"].pop("language") == language
    assert before["plan"].pop("language") == "en"
    assert twin["plan"].pop("text") == f"{before['plan'].pop('text')}language: {language}\n"
    assert twin == before  # the twin is for machines: its words stay
    assert verify_dossier(folder).ok
    page = folder / "index.html"
    page.write_text(page.read_text(encoding="utf-8").replace("88", "89", 1), encoding="utf-8")
    assert any("does not say what dossier.json says" in fault for fault in verify_dossier(folder).faults)


@pytest.mark.parametrize(
    ("language", "point", "decimal"), [("en", r"\d,\d(?!\d\d)", "."), ("es", r"\d\.\d", ","), ("fr", r"\d\.\d", ",")]
)
def test_numbers_in_tables_have_the_decimal_sign_of_the_language(
    page_in: Callable[[str], str], language: str, point: str, decimal: str
) -> None:
    cells = re.findall(r'<td class="n"[^>]*>(.*?)</td>', page_in(language))
    assert len(cells) > 300
    assert not [cell for cell in cells if re.search(point, cell)]
    assert [cell for cell in cells if decimal in cell]


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        ("en", ["12,300", "1,234", "87.5 %", "+0.5 points", "+1.5 points", "−1.0 to +20.0 points", "= 0.012",
                "1.50 KiB", "2 d 4 h", "1,234.50 EUR", "1 Sep 2026, 09:41 UTC", "1.23 × 10⁻⁷", "not measured"]),
        ("es", ["12\u202f300", "1234", "87,5\u00a0%", "+0,5 puntos", "+1,5 puntos", "−1,0 a +20,0 puntos", "= 0,012",
                "1,50 KiB", "2 d 4 h", "1234,50 EUR", "1 sept 2026, 09:41 UTC", "1,23 × 10⁻⁷", "sin medir"]),
        ("pt", ["12.300", "1.234", "87,5%", "+0,5 ponto", "+1,5 ponto", "−1,0 a +20,0 pontos", "= 0,012",
                "1,50 KiB", "2 d 4 h", "1.234,50 EUR", "1 de set. de 2026, 09:41 UTC", "1,23 × 10⁻⁷", "não medido"]),
        ("fr", ["12\u202f300", "1\u202f234", "87,5\u202f%", "+0,5 point", "+1,5 point", "−1,0 à +20,0 points",
                "= 0,012", "1,50 Kio", "2 j 4 h", "1\u202f234,50 EUR", "1 sept. 2026, 09:41 UTC", "1,23 × 10⁻⁷",
                "non mesuré"]),
    ],
)  # fmt: skip
def test_numbers_and_dates_are_written_as_the_language_does(language: str, texts: list[str]) -> None:
    with speaking(language):
        assert [
            units.number(12345.0),
            units.count(1234),
            units.share(0.8754),
            units.points(0.005),
            units.points(0.015),
            units.interval(-0.01, 0.2),
            units.probability(0.012),
            units.size(1536),
            units.duration(187200),
            units.money(1234.5, "EUR"),
            units.date("2026-09-01T10:41:00+01:00"),
            units.number(1.234e-7),
            units.count(None),
        ] == texts


def test_the_axes_of_a_picture_speak_the_language_too() -> None:
    series = [pictures.Series("a", [1, 2, 3000], [0.1, 0.5, 0.9])]
    drawn = {}
    for language in ("en", "fr"):
        with speaking(language):
            drawn[language] = str(svg(pictures.curve(series, title="x"), alternative="x"))
    assert (">0.2<" in drawn["en"], ">1,000<" in drawn["en"], ">update<" in drawn["en"]) == (True, True, True)
    assert (">0,2<" in drawn["fr"], ">1\u202f000<" in drawn["fr"], ">mise à jour<" in drawn["fr"]) == (True, True, True)
    assert ">0.2<" not in drawn["fr"]


def test_verdict_conclusion_and_limits_are_told(told: Any) -> None:
    record = read_record(told.workspace.dossier)
    with speaking("es"):
        assert badge(record).words == "Mejora demostrada"
        assert sentence(record).startswith("Mejora demostrada: exact_match pasó de 0,")
        assert "no se ha abierto" in "\n".join(limit.text for limit in limits(record))
    with speaking("pt"):
        assert "a margem permitida foi respeitada" in sentence(record)
    assert sentence(record).startswith("Improvement shown: exact_match went from 0.")


def test_a_conclusion_that_the_numbers_do_not_give_stays_as_it_was_written(told: Any) -> None:
    record = read_record(told.workspace.dossier)
    assert record.comparison is not None
    other = {**record.comparison.statistics, "conclusion": "The moon is <green>."}
    changed = replace(record, comparison=replace(record.comparison, statistics=other))
    with speaking("fr"):
        assert conclusion_told(other) is None
        assert conclusion_told({"conclusion": "Only words."}) is None
        assert sentence(changed) == "The moon is <green>."
    page = html(replace(changed, plan=replace(changed.plan, language="fr")))
    assert '<span lang="en">The moon is &lt;green&gt;.</span>' in page


def test_missing_parts_that_do_not_follow_from_the_record_stay_as_they_were_written(
    new_story: Callable[..., Any],
) -> None:
    record = read_record(new_story().write())
    with speaking("es"):
        assert limits(record)[0].text == "Falta (datos): no se construyó ningún corpus."
        changed = replace(record, missing=record.missing[:1])
        assert limits(changed)[0].text == "Falta (data): no corpus was built."


def test_the_card_speaks_the_language_and_its_front_matter_english(told: Any) -> None:
    record = read_record(told.workspace.dossier)
    english = model_card(record)
    french = model_card(replace(record, plan=replace(record.plan, language="fr")))
    assert french.split("---")[1] == english.split("---")[1]
    for part in ("**Amélioration démontrée.**", "## Comment le charger", "## Limites", "| respecté |", "86,4\u202f%"):
        assert part in french


@settings(max_examples=150, deadline=None)
@given(
    numbers=st.tuples(SHARE, SHARE, SHARE).map(sorted),
    by=st.sampled_from((0.02, 0.1, 0.255)),
    p_value=st.floats(0, 1),
    n=st.integers(2, 500),
    units_share=st.sampled_from((1, 0.5)),
    alpha=st.sampled_from((0.05, 0.01, 0.1)),
    guards=st.lists(st.tuples(SHARE, SHARE, st.sampled_from((0.0, 0.02, 0.1))), max_size=3),
    variants=st.lists(st.booleans(), max_size=3),
    seeds=st.lists(SHARE, max_size=7),
    same=st.booleans(),
)
def test_the_conclusion_built_again_is_the_one_of_the_judgement(
    numbers: list[float],
    by: float,
    p_value: float,
    n: int,
    units_share: float,
    alpha: float,
    guards: list[tuple[float, float, float]],
    variants: list[bool],
    seeds: list[float],
    same: bool,
) -> None:
    low, difference, high = numbers
    own = paired(n, low, difference, high, p_value, alpha, max(1, int(n * units_share)))
    improvement = improvement_of(own, "exact_match", by, alpha)
    judged = tuple(
        guard_of(paired(n, min(pair), sum(pair) / 2, max(pair), 0.5, alpha, n), f"guard_{i}", within)
        for i, (*pair, within) in enumerate(guards)
    )
    spread = over_seeds("exact_match", dict(enumerate(seeds)), alpha) if seeds else None
    names = {f"variant-{i}": better for i, better in enumerate(variants)}
    statistics: dict[str, Any] = {
        "improvement": improvement.to_json(),
        "guards": [guard.to_json() for guard in judged],
        "metrics": {"exact_match": own.to_json()},
        "variants": {name: {"better_than_control": better} for name, better in names.items()},
        "same_outputs": n if same else 0,
        "seeds": spread.to_json() if spread else None,
        "conclusion": conclude(
            own,
            improvement,
            judged,
            same_outputs=same,
            better_variants=[name for name, better in names.items() if better],
            variants=len(names),
            seeds=spread,
        ),
    }
    for language in OTHERS:
        with speaking(language):
            assert conclusion_told(statistics) not in (None, statistics["conclusion"])
            assert (seeds_told(statistics) is None) == (spread is None)


def paired(n: int, low: float, difference: float, high: float, p_value: float, alpha: float, n_units: int) -> Paired:
    return Paired(
        n=n, before=0.5, after=0.5 + difference / 2, difference=difference, low=low, high=high, p_value=p_value,
        test="exact McNemar", interval="Tango score", fixed=1, broken=0, both_right=0, both_wrong=0, n_units=n_units,
        lower_bound=low, upper_bound=high, alpha=alpha,
    )  # fmt: skip


def test_an_unknown_language_is_read_as_english(told: Any) -> None:
    record: Record = read_record(told.workspace.dossier)
    assert '<html lang="en">' in html(replace(record, plan=replace(record.plan, language="eo")))

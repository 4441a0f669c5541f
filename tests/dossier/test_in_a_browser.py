"""The report in a real browser: four languages, desktop and phone, light and dark, without a network, and as a PDF."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser import Browser

from testigo.dossier import read_record
from testigo.dossier.language import LANGUAGES
from testigo.dossier.plan_page import plan_page
from testigo.dossier.report import html
from testigo.rental import Measured, RunWork, plan_rental
from testigo.rental.gpus import Piloted, offers, read_table


@pytest.fixture(scope="module")
def pages(told: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The report in each language."""
    folder, record = tmp_path_factory.mktemp("pages"), read_record(told.workspace.dossier)
    made = {}
    for language in LANGUAGES:
        made[language] = folder / f"{language}.html"
        text = html(replace(record, plan=replace(record.plan, language=language)))
        made[language].write_text(text, encoding="utf-8")
    return made


@pytest.mark.parametrize(
    ("language", "width", "scheme"),
    [("en", 1280, "light"), ("es", 390, "dark"), ("pt", 1280, "dark"), ("fr", 390, "light")],
)
def test_axe_finds_no_serious_fault_and_nothing_is_cut(
    browser: Browser, pages: dict[str, Path], language: str, width: int, scheme: Any
) -> None:
    with browser.visit(width=width, scheme=scheme) as visit:
        visit.page.goto(pages[language].as_uri())
        visit.page.evaluate("() => document.querySelectorAll('details').forEach(one => one.open = true)")
        assert not visit.is_too_wide()
        assert visit.faults() == []
        outside = "() => [...document.querySelectorAll('h1, h2, h3, p, dd, li, figcaption')].filter(e => {"
        outside += " const b = e.getBoundingClientRect(); return b.width && (b.right > innerWidth + 1 || b.left < -1)"
        outside += "}).filter(e => !e.closest('.scroll, nav, pre')).map(e => e.textContent.trim().slice(0, 60))"
        assert visit.page.evaluate(outside) == []


def test_the_page_is_the_same_without_script(browser: Browser, pages: dict[str, Path]) -> None:
    with browser.visit(scripts=False) as visit:
        visit.page.goto(pages["en"].as_uri())
        assert "Improvement shown" in visit.page.inner_text(".verdict")


def test_question_and_conclusion_are_on_the_first_screen(browser: Browser, pages: dict[str, Path]) -> None:
    with browser.visit(width=390, height=800) as visit:
        visit.page.goto(pages["en"].as_uri())
        for selector in ("h1", ".verdict .sentence"):
            box = visit.page.locator(selector).first.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] < 800


def test_the_plan_has_no_serious_fault(browser: Browser, tmp_path: Path) -> None:
    measured = Measured(10, 60, 2, 30, 45, 600)
    runs = [RunWork(variant, seed, 5_000, 50) for variant in ("control", "slower-and-longer") for seed in (0, 1)]
    plan = plan_rental(measured, runs, baseline_rows=100, days=(1, 3, 7), price_per_hour=2.1, currency="EUR")
    compared = offers([Piloted("NVIDIA L4", plan, 1 << 34)], read_table(), price_per_hour=2.1)
    path = tmp_path / "plan.html"
    path.write_text(plan_page(plan, campaign="orders", language="es", offers=compared), encoding="utf-8")
    with browser.visit(width=390, scheme="dark") as visit:
        visit.page.goto(path.as_uri())
        assert visit.faults() == []
        assert not visit.is_too_wide()


def test_it_prints_to_pages_on_which_everything_stands(
    browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    with browser.visit() as visit:
        visit.page.goto(pages["fr"].as_uri())
        made = visit.page.pdf(path=tmp_path / "report.pdf", format="A4", prefer_css_page_size=True)
        assert made.startswith(b"%PDF")
        visit.page.emulate_media(media="print")
        assert visit.page.evaluate("() => getComputedStyle(document.querySelector('nav.contents')).display") == "none"
        shown = "() => [...document.querySelectorAll('svg.wide')].every(e => e.getBoundingClientRect().width > 100)"
        assert visit.page.evaluate(shown)

"""The report: what stands on the first screen, what is escaped, that it opens offline and can be read by everybody."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import altair as alt
import pytest

from testigo.dossier import Record, pictures, read_record
from testigo.dossier.drawing import svg
from testigo.dossier.report import html

VOID = {"meta", "link", "br", "wbr", "img", "hr", "input"}


class Page(HTMLParser):
    """Every tag with its attributes, all text, and what is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.misplaced: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.misplaced.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="session")
def record(told: Any) -> Record:
    return read_record(told.workspace.dossier)


@pytest.fixture(scope="session")
def source(told: Any) -> str:
    return str((told.workspace.dossier / "index.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def page(source: str) -> Page:
    return Page(source)


def test_the_first_screen_answers_the_question_and_names_every_weakness(source: str) -> None:
    first = Page(source[: source.index('id="hypothesis"')]).words
    for part in (
        "Does a rank-16 adapter raise exactly right orders without losing JSON validity?",
        "Improvement shown",
        "exact_match went from",
        "Rows compared",
        "95 % interval",
        "valid_json",
        "required_fields",
        "kept",
        "Waived D112",
        "the two unknown characters are in a customer's name",
        "2 of 252 rows hold characters",
        "the longest target has 61 tokens",
        "evaluation.max_new_tokens: 48 → 64",
        "Known by then: the baseline's result, the pilot, 5 finished runs, 4 evaluated runs",
        "the sealed test has not been opened",
        "1 check of the pilot could not be made (F107)",
        "1 of 5 runs did not finish",
    ):
        assert part in first, part


def test_every_part_that_was_promised_is_there(page: Page) -> None:
    for part in (
        "event 2 of the ledger",
        "because the control's early curve may be noisy",
        "groups of customer",
        "252",
        "empty input or target",
        "copy of row",
        "the 8 longest rows, 64 new tokens",
        "1.18 GiB",
        "the layout is padded, there are no packs",
        "the answer is supervised in all 252 rows",
        "the loss of update 17 is not finite",
        "4,884,480 parameters in 420 tensors, 3.63 % of the model",
        "2.10 EUR an hour",
        "Monte-Carlo sign-flip of group sums",
        "computed again from the row-by-row predictions and agreed",
        "no variant is shown to be better than the control",
        "Sure! Here is the order:",
        "The baseline often writes a sentence before the JSON.",
        "The chain of digests is whole",
        "testigo verify DOSSIER_FOLDER",
        "campaign: orders",
        "2.13.0",
        "predictions/baseline/validation.jsonl",
    ):
        assert part in page.words, part


def test_outputs_and_row_ids_never_become_markup(page: Page, making: Any) -> None:
    assert making.HOSTILE_MARK in page.words
    assert 'alert("owned")' in page.words
    assert "7 * 7" in page.words
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "iframe", "object", "embed", "form", "img", "link", "base", "foreignobject"}
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")], tag
        assert attributes.get("href", "#").startswith("#")
        assert not {"src", "srcset", "xlink:href", "action"} & set(attributes)


def test_the_page_needs_no_network_and_is_small(source: str) -> None:
    assert len(source.encode()) < 6 * 1024 * 1024
    outside = set(re.findall(r"https?://[^\"'\s<)]+", source))
    assert outside <= {"http://www.w3.org/2000/svg"}
    assert "url(" not in source
    assert "@import" not in source
    assert "default-src 'none'" in source


def test_tags_are_balanced_and_headings_go_down_one_step_at_a_time(page: Page) -> None:
    assert page.misplaced == []
    assert page.open == []
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_every_picture_says_in_words_what_it_shows_and_has_its_table(source: str) -> None:
    figures = re.findall(r"<figure.*?</figure>", source, re.DOTALL)
    assert len(figures) == 7
    for figure in figures:
        shown = [attributes for tag, attributes in Page(figure).tags if tag == "svg"]
        assert {attributes["class"] for attributes in shown} == {"wide", "narrow"}
        assert all(attributes["role"] == "img" and len(attributes["aria-label"] or "") > 30 for attributes in shown)
        assert "<table>" in figure
        assert "<details>" in figure
    assert "not finite" in next(figure for figure in figures if "Training loss" in figure)


def test_links_inside_the_page_lead_somewhere(page: Page) -> None:
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {str(attributes["href"])[1:] for tag, attributes in page.tags if tag == "a"} <= set(ids)


def test_the_same_record_gives_the_same_page(record: Record, source: str) -> None:
    assert html(record) == source


def test_a_hostile_label_stays_text_inside_of_a_picture() -> None:
    label = "x'] + alert(1) + ['</text><script>alert(2)</script>\\"
    effect = pictures.Effect(label, 10, 0.1, 0.0, 0.2, None, "none")
    for narrow in (False, True):
        drawn = str(svg(pictures.forest([effect], narrow=narrow), alternative='"><script>'))
        assert "<script" not in drawn
        assert "alert(1)" in drawn
    series = pictures.Series("</svg><script>", [1, 2], [1.0, 2.0])
    assert "<script" not in str(svg(pictures.curve([series], title="</svg><script>"), alternative="x"))


@pytest.mark.parametrize("sign", ["\x00", "\x0b", "\x1b", "\ud800", "\ufffe", "\u202e"], ids=ascii)
def test_a_sign_that_no_picture_can_hold_is_drawn_as_a_sign_of_its_own(sign: str) -> None:
    label = f"office{sign}"
    effect = pictures.Effect(label, 10, 0.1, 0.0, 0.2, None, "none")
    seen = "office" + ("\ufffd" if ord(sign) > 0x1F else chr(0x2400 + ord(sign)))
    for drawn in (
        svg(pictures.forest([effect]), alternative=label),
        svg(pictures.curve([pictures.Series(label, [1, 2], [1.0, 2.0])], title=label), alternative=label),
    ):
        text = ElementTree.fromstring(str(drawn))  # only what XML allows
        assert text.get("aria-label") == seen
        assert any(seen in (part.text or "") for part in text.iter())


def test_a_long_label_of_letters_that_javascript_holds_as_two_halves_is_drawn() -> None:
    for label in ("😀" * 33, "ab😀" * 9, "𠮷" * 40):
        effect = pictures.Effect(label, 10, 0.1, 0.0, 0.2, None, "none")
        assert "…" in svg(pictures.forest([effect]), alternative=label)
    effect = pictures.Effect("fine 😀", 10, 0.1, 0.0, 0.2, None, "none")
    assert "fine 😀" in svg(pictures.forest([effect]), alternative="")


def test_a_dossier_of_categories_with_control_signs_is_drawn(told: Any, tmp_path: Path) -> None:
    text = (told.workspace.dossier / "dossier.json").read_text()
    assert '"garden"' in text
    (tmp_path / "dossier.json").write_text(text.replace('"garden"', '"gar\\u000bden\\u001b\\ufffe"'))
    assert "gar␋den␛\ufffd" in html(read_record(tmp_path))


def test_the_specifications_are_valid_vega_lite() -> None:
    effects = [
        pictures.Effect("a", 10, 0.1, None, 0.2, 0.1, "good"),
        pictures.Effect("b", 10, 0.1, 0.0, 0.2, None, "bad"),
    ]
    series = [pictures.Series("a", [1, 2], [1.0, None]), pictures.Series("b", [1], [1e9], marks=True, twin=1)]
    for specification in (pictures.forest(effects), pictures.curve(series, title="loss", last_update=9)):
        alt.LayerChart.from_dict(specification, validate=True)


def test_a_curve_with_gaps_single_points_and_zeros_is_drawn() -> None:
    series = [
        pictures.Series("a", [1, 2, 3, 4], [1.0, None, 1e-7, 0.0]),
        pictures.Series("b", [2], [5e6], marks=True),
        pictures.Series("c", [], []),
    ]
    assert "log scale" in str(svg(pictures.curve(series, title="loss"), alternative="x"))


def test_a_picture_takes_its_colours_from_the_page(source: str) -> None:
    drawn = "".join(re.findall(r"<svg.*?</svg>", source, re.DOTALL))
    assert "var(--picture-ink)" in drawn
    assert "var(--series-1)" in drawn
    assert not re.findall(r"#[0-9a-fA-F]{6}\b", drawn)


def _ratio(one: str, other: str) -> float:
    """Contrast of two colours, WCAG 2.2, success criterion 1.4.3."""

    def luminance(colour: str) -> float:
        if len(colour) == 4:
            colour = "#" + "".join(2 * sign for sign in colour[1:])
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_all_text_has_enough_contrast_in_light_dark_and_print() -> None:
    style = (files("testigo.dossier") / "templates" / "report.css").read_text(encoding="utf-8")
    themes = [
        dict(re.findall(r"--([\w-]+): (#\w{3,6});", block))
        for block in re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    ]
    assert len(themes) == 3
    for colours in themes:
        for ink in ("ink", "soft", "link", "good", "bad", "open", "picture-ink"):
            assert _ratio(colours[ink], colours["paper"]) >= 4.5, ink
        for tone in ("good", "bad", "open"):
            assert _ratio(colours[tone], colours[f"{tone}-wash"]) >= 4.5, tone
            assert _ratio(colours["ink"], colours[f"{tone}-wash"]) >= 4.5, tone
        assert _ratio(colours["soft"], colours["none-wash"]) >= 4.5
        for n in range(1, 7):
            assert _ratio(colours[f"series-{n}"], colours["paper"]) >= 3, n


def test_every_class_of_the_templates_has_a_style() -> None:
    folder = files("testigo.dossier") / "templates"
    style = (folder / "report.css").read_text(encoding="utf-8")
    used: set[str] = set()
    for template in Path(str(folder)).glob("*.html"):
        for value in re.findall(r'class="([^"{]+)"', template.read_text(encoding="utf-8")):
            used |= set(value.split())
    assert {name for name in used if f".{name}" not in style} == set()


def test_a_note_stands_beside_what_it_speaks_of(told: Any) -> None:
    record = read_record(told.workspace.dossier)
    page = html(record)
    gates, runs = (
        page.partition(f'aria-labelledby="{name}"')[2].partition("</section>")[0] for name in ("gates", "runs")
    )
    finding = gates.index("D112")
    assert "Both customers write in Greek." in gates[finding : gates.index("V105")]
    assert "I looked at the longest batch." in gates  # of a rule that found nothing
    run = next(run.id for run in record.runs if (run.variant, run.seed) == ("control", 1))
    assert (
        "This one ran beside a compile job."
        in runs.partition(f"<summary>{run}</summary>")[2].partition("</details>")[0]
    )
    assert "before the JSON" not in gates + runs  # it speaks of no one of them

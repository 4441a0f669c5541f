"""A chart as SVG text that lies inside the page: offline, without script, in the colours of the page's own style."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

import vl_convert
from markupsafe import Markup, escape

from testigo.dossier import pictures
from testigo.dossier.language import spoken
from testigo.dossier.units import DIGITS
from testigo.signs import drawable, without_pairs

# The specification's own colours, and the style-sheet variables that stand in for them on the page.
_VARIABLES = {
    pictures.INK: "var(--picture-ink)",
    pictures.TEXT: "var(--ink)",
    pictures.MUTED: "var(--picture-zero)",
    pictures.RULE: "var(--picture-rule)",
    pictures.GOOD: "var(--good)",
    pictures.BAD: "var(--bad)",
    pictures.OPEN: "var(--open)",
    **{colour: f"var(--series-{i + 1})" for i, colour in enumerate(pictures.SERIES)},
}
_COLOUR = re.compile("|".join(map(re.escape, _VARIABLES)), re.IGNORECASE)


def svg(specification: pictures.Specification, *, alternative: str, css_class: str = "") -> Markup:
    """The picture as an `<svg>` element.

    Parameters
    ----------
    alternative
        What the picture shows, in words, for those who cannot see it.
    css_class
        `wide` or `narrow`: the style sheet shows one of the two.
    """
    drawn = svg_file(specification, language=spoken())
    drawn = drawn[drawn.index("<svg") :]
    opening, rest = drawn.split(">", 1)
    box = re.search(r'viewBox="([^"]+)"', opening)
    width, height = box.group(1).split()[2:] if box else ("100", "100")
    rest = with_variables(rest)
    head = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" class="{}" viewBox="0 0 {} {}" style="max-width:{}px" '
        'aria-label="{}">'
    )
    return head.format(css_class, width, height, width, escape(drawable(alternative))) + Markup(_silenced(rest))


def svg_file(specification: pictures.Specification, *, language: str = "en") -> str:
    """The picture as SVG of its own, whatever its texts hold: this is the one place that draws.

    A sign that XML forbids ends the whole process within vl-convert, so none comes there. A label that is too long is
    cut by Vega between the halves of a letter beyond U+FFFF, which it then refuses: drawn again without such letters.
    """
    plain = drawable(specification)
    try:
        return _drawn(json.dumps(plain, sort_keys=True), language)
    except ValueError:
        simple = without_pairs(plain)
        if simple == plain:
            raise
        return _drawn(json.dumps(simple, sort_keys=True), language)


@lru_cache(maxsize=64)
def _drawn(specification: str, language: str) -> str:
    """The SVG as vl-convert writes it; nothing is fetched. A dossier that is written and verified is drawn once."""
    text: str = vl_convert.vegalite_to_svg(
        specification, allowed_base_urls=[], format_locale=None if language == "en" else _numbers(language)
    )
    return text


def _numbers(language: str) -> dict[str, Any]:
    """The numbers of the axes, as d3-format asks for a language's signs."""
    digits = DIGITS[language]
    return {"decimal": digits.decimal, "thousands": digits.thousands, "grouping": [3], "currency": ["", ""]}


def with_variables(text: str) -> str:
    """A text with the style sheet's variables in place of a specification's colours."""
    return _COLOUR.sub(lambda match: _VARIABLES[match.group(0).lower()], text)


def variable_of(colour: str) -> str:
    """The style sheet's variable that stands for a specification's colour."""
    return _VARIABLES[colour]


def _silenced(body: str) -> str:
    """Without the labels that Vega writes on every mark: the picture has one alternative text and a table beside it."""
    return re.sub(r' (?:aria-\w+|role)="[^"]*"', "", body)

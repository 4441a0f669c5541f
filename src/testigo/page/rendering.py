"""From a template's values to an answer: the environment, the reader's language, the assets."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from testigo.dossier import report
from testigo.dossier.language import LANGUAGES, also_speaks, spoken
from testigo.dossier.words import rule_of

also_speaks("testigo.page", "page")
FRAGMENT = "testigo-fragment"
"""The header by which the page's script asks for the content alone."""
LANGUAGE = "testigo-language"
"""The cookie that keeps the reader's language."""
OWN_NAMES = {"en": "English", "es": "Español", "pt": "Português", "fr": "Français"}
_ASSETS = {
    "page.js": "text/javascript",
    "drawing.js": "text/javascript",
    "vega.js": "text/javascript",
    "vega-lite.js": "text/javascript",
    "vega-interpreter.js": "text/javascript",
    "page.css": "text/css",
    "report.css": "text/css",
    "icon.svg": "image/svg+xml",
}
_VENDORED = ("vega.js", "vega-lite.js", "vega-interpreter.js")
_DIGITS = 9


def rendered(request: Request, name: str, status: int, *, name_of_campaign: str, **values: Any) -> Response:
    """A page, or its content alone where the script asks for it; in the language that is spoken."""
    text = (
        environment()
        .get_template(f"page/{name}.html")
        .render(
            layout="page/content.html" if is_fragment(request) else "page/layout.html",
            page=name,
            name=name_of_campaign,
            asset=asset_address,
            language=spoken(),
            languages=OWN_NAMES,
            here=_here(request),
            **values,
        )
    )
    answer = HTMLResponse(text, status)
    if request.query_params.get("language") in LANGUAGES:
        answer.set_cookie(LANGUAGE, spoken(), samesite="strict", httponly=True, max_age=31_536_000)
    return answer


def is_fragment(request: Request) -> bool:
    """Whether the content alone is asked for, by a script that draws the pictures itself."""
    return FRAGMENT in request.headers


def language_of(request: Request, default: str) -> str:
    """What the address says, else what the reader chose once, else the campaign's."""
    for asked in (request.query_params.get("language"), request.cookies.get(LANGUAGE)):
        if asked in LANGUAGES:
            return str(asked)
    return default


def number(text: str) -> int:
    """A number of an address; anything else is 0."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else 0


async def asset(request: Request) -> Response:
    """A file of this package: style sheets, scripts, icon."""
    name = request.path_params["name"]
    if name not in _ASSETS:
        raise HTTPException(404, "There is no such file.")
    content, digest = _assets()[name]
    known = request.query_params.get("v") == digest
    caching = {"cache-control": "max-age=31536000, immutable" if known else "no-cache"}
    return Response(content, media_type=_ASSETS[name], headers=caching)


def asset_address(name: str) -> str:
    """Where an asset is; the address changes with its content."""
    return f"/assets/{name}?v={_assets()[name][1]}"


@cache
def environment() -> Environment:
    """The dossier's templates with the page's own beside them. Autoescaping is on for all."""
    base = report.environment()
    loaders = [PackageLoader("testigo.page", "templates"), PackageLoader("testigo.dossier", "templates")]
    made = base.overlay(loader=ChoiceLoader(loaders))
    assert made.autoescape is True
    made.globals["rule_of"] = rule_of
    return made


@cache
def _assets() -> dict[str, tuple[bytes, str]]:
    """Content and digest of each asset. The report's style sheet is the dossier's own file."""
    own = files("testigo.page") / "assets"
    places = {name: own / "vendor" / name if name in _VENDORED else own / name for name in _ASSETS}
    places["report.css"] = files("testigo.dossier") / "templates" / "report.css"
    contents = {name: place.read_bytes() for name, place in places.items()}
    return {name: (content, hashlib.sha256(content).hexdigest()[:12]) for name, content in contents.items()}


def _here(request: Request) -> str:
    """The path and query of this page without the language, as a form sends the reader back."""
    query = "&".join(part for part in request.url.query.split("&") if part and not part.startswith("language="))
    return f"{request.url.path}?{query}" if query else request.url.path

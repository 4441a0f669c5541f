"""The routes: each reads the workspace as it is now and renders one template."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from testigo.campaign import Workspace
from testigo.dossier import report
from testigo.dossier.history import waivers
from testigo.errors import TestigoError
from testigo.ledger import kinds
from testigo.page.events import events_page
from testigo.page.guard import Access, Guard
from testigo.page.live import Live, state_of
from testigo.page.one_run import run_page, update_page
from testigo.page.rows import A_PAGE, rows_page
from testigo.page.site import Site
from testigo.page.standing import findings_of, overview

TOPICS = {
    "overview": ("ledger", "pilot", "baseline", "rows", "runs"),
    "gates": ("ledger", "pilot", "runs"),
    "rows": ("ledger", "rows"),
    "ledger": ("ledger",),
}
"""The parts of the workspace that each page shows."""
FRAGMENT = "testigo-fragment"
"""The header by which the page's script asks for the content alone."""
_ASSETS = {"page.js": "text/javascript", "page.css": "text/css", "report.css": "text/css", "icon.svg": "image/svg+xml"}
_DIGITS = 9


class Page:
    """The application of one workspace, without its guard."""

    def __init__(self, workspace: Workspace) -> None:
        self.site = Site(workspace)
        self.live = Live(self.site)
        self.application = Starlette(
            routes=[
                Route("/", self.overview),
                Route("/runs/{run}", self.run),
                Route("/runs/{run}/updates/{update}", self.update),
                Route("/gates", self.gates),
                Route("/rows", self.rows),
                Route("/ledger", self.ledger),
                Route("/live", self.listen),
                Route("/assets/{name}", self.asset),
            ],
            exception_handlers={HTTPException: self.not_found, TestigoError: self.unreadable, Exception: _fault},
        )

    # ---- pages ------------------------------------------------------------------------------------------------

    def overview(self, request: Request) -> Response:
        """Where the campaign stands."""
        every_run = request.query_params.get("runs") == "all"
        return self._page(
            request, "overview", TOPICS["overview"], lambda: {"view": overview(self.site), "every_run": every_run}
        )

    def run(self, request: Request) -> Response:
        """One run."""
        id = request.path_params["run"]
        return self._page(
            request, "run", ("ledger", f"run/{id}"), lambda: {"view": _there(run_page(self.site, id), "run")}
        )

    def update(self, request: Request) -> Response:
        """One update of a run, row by row."""
        id, number = request.path_params["run"], _number(request.path_params["update"])
        return self._page(
            request,
            "update",
            ("ledger", f"run/{id}"),
            lambda: {"view": _there(update_page(self.site, id, number), "update")},
        )

    def gates(self, request: Request) -> Response:
        """The pilot and everything that was found."""

        def read() -> dict[str, Any]:
            site, events = self.site, self.site.events
            waived = [event for event in events if event.kind == kinds.GATE_WAIVED]
            declared = dict(site.campaign.waive) if site.campaign else {}
            record = SimpleNamespace(gates=site.gates, waivers=waivers(waived, declared, site.gates))
            found = [one for one in findings_of(site) if one.run]
            return {"record": record, "now": site.pilot_now, "found": found}

        return self._page(request, "gates", TOPICS["gates"], read)

    def rows(self, request: Request) -> Response:
        """Rows before and after."""
        asked = request.query_params
        return self._page(
            request,
            "rows",
            TOPICS["rows"],
            lambda: {
                "view": rows_page(
                    self.site,
                    split=asked.get("split", ""),
                    kind=asked.get("kind", ""),
                    start=_number(asked.get("start", "0")),
                ),
                "a_page": A_PAGE,
            },
        )

    def ledger(self, request: Request) -> Response:
        """The events."""
        asked = request.query_params
        return self._page(
            request,
            "ledger",
            TOPICS["ledger"],
            lambda: {
                "view": events_page(self.site, kind=asked.get("kind", ""), before=_number(asked.get("before", "0")))
            },
        )

    # ---- the rest ---------------------------------------------------------------------------------------------

    async def listen(self, request: Request) -> Response:
        """The server-sent events of one page's topics."""
        topics = request.query_params.get("topics", "").split()[:8]
        return StreamingResponse(self.live.stream(topics), media_type="text/event-stream")

    def asset(self, request: Request) -> Response:
        """A file of this package: style sheets, script, icon."""
        name = request.path_params["name"]
        if name not in _ASSETS:
            raise HTTPException(404, "There is no such file.")
        content, digest = _assets()[name]
        known = request.query_params.get("v") == digest
        caching = {"cache-control": "max-age=31536000, immutable" if known else "no-cache"}
        return Response(content, media_type=_ASSETS[name], headers=caching)

    def not_found(self, request: Request, error: Exception) -> Response:
        """A page that says what is not there."""
        assert isinstance(error, HTTPException)
        why = "There is no such page." if error.detail == "Not Found" else error.detail
        return self._page(request, "missing", (), lambda: {"why": why, "problems": ()}, status=error.status_code)

    def unreadable(self, request: Request, error: Exception) -> Response:
        """A page that says what cannot be read, in four parts."""
        assert isinstance(error, TestigoError)
        return self._page(request, "missing", ("ledger",), lambda: {"why": "", "problems": error.problems}, status=503)

    def _page(
        self,
        request: Request,
        name: str,
        topics: tuple[str, ...],
        read: Callable[[], Mapping[str, Any]],
        status: int = 200,
    ) -> Response:
        site = self.site
        with site.lock:
            # Taken before the reading: what comes between is told as a change, not lost.
            state = state_of(self.live.look(), topics)
            values = read()
            text = (
                _environment()
                .get_template(f"page/{name}.html")
                .render(
                    layout="page/content.html" if FRAGMENT in request.headers else "page/layout.html",
                    page=name,
                    name=site.name,
                    topics=" ".join(topics),
                    state=state,
                    asset=_asset_address,
                    **values,
                )
            )
        return HTMLResponse(text, status)


def application_of(workspace: Workspace, access: Access) -> tuple[ASGIApp, Live]:
    """The guarded application of a workspace, and its listeners, which must be let go before the server ends."""
    page = Page(workspace)
    return Guard(page.application, access), page.live


@cache
def _environment() -> Environment:
    """The dossier's templates with the page's own beside them. Autoescaping is on for all."""
    base = report.environment()
    loaders = [PackageLoader("testigo.page", "templates"), PackageLoader("testigo.dossier", "templates")]
    made = base.overlay(loader=ChoiceLoader(loaders))
    assert made.autoescape is True
    return made


@cache
def _assets() -> dict[str, tuple[bytes, str]]:
    """Content and digest of each asset. The report's style sheet is the dossier's own file."""
    places = {name: files("testigo.page") / "assets" / name for name in _ASSETS}
    places["report.css"] = files("testigo.dossier") / "templates" / "report.css"
    contents = {name: place.read_bytes() for name, place in places.items()}
    return {name: (content, hashlib.sha256(content).hexdigest()[:12]) for name, content in contents.items()}


def _asset_address(name: str) -> str:
    return f"/assets/{name}?v={_assets()[name][1]}"


def _number(text: str) -> int:
    """A number of an address; anything else is 0."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else 0


def _there(view: Any, what: str) -> Any:
    if view is None:
        raise HTTPException(404, f"The ledger knows no such {what}.")
    return view


def _fault(_request: Request, _error: Exception) -> Response:
    return PlainTextResponse("A fault of Testigo's own; the terminal that serves this page has more.\n", 500)

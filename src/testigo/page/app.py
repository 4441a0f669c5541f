"""The routes: each reads the workspace as it is now and renders one template."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from testigo.campaign import Workspace
from testigo.dossier.history import notes, waivers
from testigo.dossier.language import _, later, speaking
from testigo.dossier.memory import memory_picture
from testigo.errors import TestigoError
from testigo.ledger import kinds
from testigo.page import rendering
from testigo.page.actions import ACTIONS, act, back_to
from testigo.page.comparing import MOST_RUNS, comparison_page, lines_of
from testigo.page.curves import QUANTITIES, Line, Way, curves, in_page
from testigo.page.data import data_page
from testigo.page.events import events_page
from testigo.page.guard import Access, Guard
from testigo.page.inspecting import page_of_samples, samples_page
from testigo.page.live import Live, state_of
from testigo.page.many import many_page
from testigo.page.one_run import run_page, update_page
from testigo.page.planning import plan_page
from testigo.page.rendering import asset, number, rendered
from testigo.page.rows import A_PAGE, rows_page
from testigo.page.runs import runs_page
from testigo.page.site import Site
from testigo.page.standing import findings_in_run, findings_of, overview

TOPICS = {
    "overview": ("ledger", "pilot", "baseline", "rows", "runs", "campaign"),
    "runs": ("ledger", "runs"),
    "compare": ("ledger", "runs", "rows"),
    "gates": ("ledger", "pilot", "runs"),
    "rows": ("ledger", "rows"),
    "data": ("ledger",),
    "samples": ("ledger", "jobs"),
    "plan": ("ledger", "pilot", "jobs"),
    "ledger": ("ledger",),
}
"""The parts of the workspace that each page shows."""
MOST_FIELDS = 20
NO_RUN, NO_UPDATE = later("The ledger knows no such run."), later("The ledger knows no such update.")
_Read = Callable[[], Mapping[str, Any]]


class Page:
    """The application of one workspace, without its guard; `at` is what stands before its paths."""

    def __init__(self, workspace: Workspace, access: Access, at: str = "") -> None:
        self.site = Site(workspace)
        self.live = Live(self.site)
        self.access = access
        self.at = at
        pages = [
            Route(path, self._in_thread(method))
            for path, method in (
                ("/", self.overview),
                ("/runs", self.runs),
                ("/runs/{run}", self.run),
                ("/runs/{run}/updates/{update}", self.update),
                ("/compare", self.compare),
                ("/rows", self.rows),
                ("/samples", self.samples),
                ("/samples/page", self.page_of_samples),
                ("/data", self.data),
                ("/gates", self.gates),
                ("/plan", self.plan),
                ("/ledger", self.ledger),
                ("/curves", self.curves),
            )
        ]
        self.application = Starlette(
            routes=[*pages, Route("/live", self.listen), Route("/actions/{name}", self.act, methods=["POST"])],
            exception_handlers={HTTPException: self.not_found, TestigoError: self.unreadable, Exception: fault},
        )

    # ---- pages ------------------------------------------------------------------------------------------------

    def overview(self, request: Request) -> Response:
        """Where the campaign stands."""
        return self._page(request, "overview", TOPICS["overview"], lambda: {"view": overview(self.site)})

    def runs(self, request: Request) -> Response:
        """All runs, filtered and sorted."""
        asked = request.query_params
        return self._page(
            request,
            "runs",
            TOPICS["runs"],
            lambda: {"view": runs_page(self.site, asked, number(asked.get("start", "0"))), "most": MOST_RUNS},
        )

    def run(self, request: Request) -> Response:
        """One run."""
        id, way = request.path_params["run"], Way.asked(request.query_params)

        def read() -> Mapping[str, Any]:
            whole = not rendering.is_fragment(request)
            return {"view": _there(run_page(self.site, id, way=way, at=self.at, with_pictures=whole), NO_RUN)}

        return self._page(request, "run", ("ledger", f"run/{id}"), read)

    def update(self, request: Request) -> Response:
        """One update of a run, row by row."""
        id, n = request.path_params["run"], number(request.path_params["update"])
        topics = ("ledger", f"run/{id}")
        return self._page(request, "update", topics, lambda: {"view": _there(update_page(self.site, id, n), NO_UPDATE)})

    def compare(self, request: Request) -> Response:
        """Runs over each other, and the forest."""
        asked = request.query_params

        def read() -> Mapping[str, Any]:
            view = comparison_page(
                self.site,
                asked.getlist("run"),
                asked.getlist("what"),
                Way.asked(asked),
                at=self.at,
                with_pictures=not rendering.is_fragment(request),
            )
            return {"view": view, "quantities": QUANTITIES}

        return self._page(request, "compare", TOPICS["compare"], read)

    def curves(self, request: Request) -> Response:
        """The specification of one picture, as the page's script draws it."""
        asked = request.query_params
        name, site = asked.get("what", ""), self.site
        with site.lock, self._speaking(request):
            known = {run.id: run for run in site.runs}
            runs = [known[id] for id in dict.fromkeys(asked.getlist("run")) if id in known][:MOST_RUNS]
            if name not in QUANTITIES or not runs:
                raise HTTPException(404, "There is no such picture.")
            alone = len(runs) == 1 and asked.get("names") != "1"
            lines = [Line(runs[0].id, "", site.steps(runs[0].id))] if alone else lines_of(site, runs)
            found = findings_in_run(site, runs[0].id) if len(runs) == 1 else ()
            made = curves(name, lines, Way.asked(asked), found)
            if made is None:
                raise HTTPException(404, "Nothing was measured.")
            return Response(made.as_json(), media_type="application/json")

    def gates(self, request: Request) -> Response:
        """The pilot and everything that was found."""

        def read() -> Mapping[str, Any]:
            site, events = self.site, self.site.events
            waived = [event for event in events if event.kind == kinds.GATE_WAIVED]
            declared = dict(site.campaign.waive) if site.campaign else {}
            told = notes([event for event in events if event.kind == kinds.NOTE])
            record = SimpleNamespace(gates=site.gates, waivers=waivers(waived, declared, site.gates), notes=told)
            found = [one for one in findings_of(site) if one.run]
            memory = memory_picture(site.gates.phases) if site.gates else None
            return {
                "record": record,
                "memory": in_page(memory) if memory else None,
                "now": site.pilot_now,
                "found": found,
                "declared": declared,
            }

        return self._page(request, "gates", TOPICS["gates"], read)

    def rows(self, request: Request) -> Response:
        """Rows before and after."""
        asked = request.query_params
        split, kind, start = asked.get("split", ""), asked.get("kind", ""), number(asked.get("start", "0"))
        return self._page(
            request,
            "rows",
            TOPICS["rows"],
            lambda: {"view": rows_page(self.site, split=split, kind=kind, start=start), "a_page": A_PAGE},
        )

    def data(self, request: Request) -> Response:
        """The rows as the corpus has them."""

        def read() -> Mapping[str, Any]:
            view = data_page(self.site)
            return {"view": view, "record": SimpleNamespace(data=view.data, openings=view.is_opened)}

        return self._page(request, "data", TOPICS["data"], read)

    def samples(self, request: Request) -> Response:
        """What the model sees, and who confirmed it."""
        return self._page(request, "samples", TOPICS["samples"], lambda: {"view": samples_page(self.site)})

    def page_of_samples(self, _request: Request) -> Response:
        """The page that `testigo show` wrote, in a frame of its own."""
        with self.site.lock:
            made = page_of_samples(self.site)
        if made is None:
            raise HTTPException(404, "It has not been made yet.")
        return HTMLResponse(
            made.text, headers={"content-security-policy": made.policy, "x-frame-options": "SAMEORIGIN"}
        )

    def plan(self, request: Request) -> Response:
        """Plan against real, and sizing."""
        return self._page(request, "plan", TOPICS["plan"], lambda: {"view": plan_page(self.site)})

    def ledger(self, request: Request) -> Response:
        """The events."""
        asked = request.query_params
        kind, before = asked.get("kind", ""), number(asked.get("before", "0"))
        return self._page(
            request, "ledger", TOPICS["ledger"], lambda: {"view": events_page(self.site, kind=kind, before=before)}
        )

    # ---- the rest ---------------------------------------------------------------------------------------------

    async def listen(self, request: Request) -> Response:
        """The server-sent events of one page's topics."""
        topics = request.query_params.get("topics", "").split()[:8]
        return StreamingResponse(self.live.stream(topics), media_type="text/event-stream")

    async def act(self, request: Request) -> Response:
        """An action of somebody with the token; the guard has looked at it."""
        name = request.path_params["name"]
        if name not in ACTIONS:
            raise HTTPException(404, "There is no such action.")
        try:
            form = dict(parse_qsl((await request.body()).decode("utf-8", "replace"), max_num_fields=MOST_FIELDS))
        except ValueError:
            return PlainTextResponse(f"A form of at most {MOST_FIELDS} fields is expected.\n", 400)
        except ClientDisconnect:  # nobody is there to be answered, and it is no fault of ours
            return PlainTextResponse("The form did not arrive whole.\n", 400)
        answer = await run_in_threadpool(act, self.site, name, form)
        if answer is None or answer.ok:
            return RedirectResponse(back_to(form), status_code=303)
        return self._page(request, "missing", (), lambda: {"why": "", "problems": answer.problems}, status=400)

    def not_found(self, request: Request, error: Exception) -> Response:
        """A page that says what is not there."""
        assert isinstance(error, HTTPException)
        why = later("There is no such page.") if error.detail == "Not Found" else error.detail
        return self._page(
            request, "missing", (), lambda: {"why": _(str(why)), "problems": ()}, status=error.status_code
        )

    def unreadable(self, request: Request, error: Exception) -> Response:
        """A page that says what cannot be read, or be done, in four parts."""
        assert isinstance(error, TestigoError)
        status = 400 if request.method == "POST" else 503
        return self._page(
            request, "missing", ("ledger",), lambda: {"why": "", "problems": error.problems}, status=status
        )

    def _speaking(self, request: Request) -> AbstractContextManager[None]:
        campaign = self.site.campaign
        return speaking(rendering.language_of(request, campaign.language if campaign else "en"))

    def _page(self, request: Request, name: str, topics: tuple[str, ...], read: _Read, status: int = 200) -> Response:
        site = self.site
        with site.lock, self._speaking(request):
            # Taken before the reading: what comes between is told as a change, not lost.
            state = state_of(self.live.look(), topics)
            return rendered(
                request,
                name,
                status,
                at=self.at,
                name_of_campaign=site.name,
                topics=" ".join(topics),
                state=state,
                may_act=self.access.acts(request.headers),
                **read(),
            )

    @staticmethod
    def _in_thread(method: Callable[[Request], Response]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            return await run_in_threadpool(method, request)

        return answer


class Lives:
    """The listeners of all campaigns of a server, and what they will look at."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self.pages = pages

    def warm(self) -> None:
        """Write the first page before somebody asks for it; what cannot be read is told when it is asked."""
        for name in ("runs", "run"):
            rendering.environment().get_template(f"page/{name}.html")
        nobody = Request({"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []})
        for page in self.pages:
            with suppress(TestigoError, OSError):
                page.overview(nobody)

    def close(self) -> None:
        """Let them go, so that the server can end."""
        for page in self.pages:
            page.live.close()


def application_of(workspaces: Workspace | Sequence[Workspace], access: Access) -> tuple[ASGIApp, Lives]:
    """The guarded application of workspaces, and its listeners, which must be let go before the server ends.

    One campaign stands at the root; of several each has its name before its paths, and the root lists them.
    """
    places = [workspaces] if isinstance(workspaces, Workspace) else list(workspaces)
    if len(places) == 1:
        pages = [Page(places[0], access)]
        routes: list[Any] = [Mount("", pages[0].application)]
    else:
        names = _names([place.root.name.removesuffix(".testigo") for place in places])
        pages = [Page(place, access, f"/c/{name}") for place, name in zip(places, names, strict=True)]
        routes = [Route("/", many_page(pages, access)), *(Mount(page.at, page.application) for page in pages)]
    whole = Starlette(routes=[Route("/assets/{name}", asset), *routes], exception_handlers={Exception: fault})
    return Guard(whole, access), Lives(pages)


def _names(wanted: Sequence[str]) -> list[str]:
    """Names of an address, each once."""
    made: list[str] = []
    for name in wanted:
        plain = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name) or "campaign"
        n = 2
        unique = plain
        while unique in made:
            unique, n = f"{plain}-{n}", n + 1
        made.append(unique)
    return made


def _there(view: Any, what: str) -> Any:
    if view is None:
        raise HTTPException(404, what)
    return view


def fault(_request: Request, _error: Exception) -> Response:
    """What a fault of ours answers; the server's log has its trace."""
    return PlainTextResponse("A fault of Testigo's own; the terminal that serves this page has more.\n", 500)

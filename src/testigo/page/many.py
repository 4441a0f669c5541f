"""Many campaigns on one server: a list of where each stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from testigo.dossier.language import speaking
from testigo.errors import TestigoError
from testigo.page.guard import Access
from testigo.page.rendering import language_of, rendered
from testigo.page.standing import Overview, overview

if TYPE_CHECKING:
    from testigo.page.app import Page


@dataclass(frozen=True)
class Campaign:
    """One campaign of the list; `view` is None where it cannot be read, and `why` says so."""

    name: str
    at: str
    view: Overview | None
    why: str


def many_page(pages: Sequence[Page], access: Access) -> Callable[[Request], Any]:
    """The page that lists campaigns."""

    def answer(request: Request) -> Response:
        with speaking(language_of(request, "en")):
            found = [_standing(page) for page in pages]
            return rendered(
                request,
                "many",
                200,
                at="",
                name_of_campaign="Testigo",
                topics="",
                state="",
                may_act=access.acts(request.headers),
                campaigns=found,
            )

    async def in_thread(request: Request) -> Response:
        return await run_in_threadpool(answer, request)

    return in_thread


def _standing(page: Page) -> Campaign:
    site = page.site
    with site.lock:
        try:
            return Campaign(site.name, page.at, overview(site), "")
        except TestigoError as error:
            return Campaign(site.name, page.at, None, error.problems[0].found)

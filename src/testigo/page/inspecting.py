"""What the model sees: the page that `testigo show` writes, shown in a frame that can reach nothing of this page."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from testigo.errors import Problem
from testigo.ledger import Event, kinds
from testigo.page.reading import stamp
from testigo.page.site import Site

PAGE = ("inspection", "page.html")
_MOST_BYTES = 40_000_000


@dataclass(frozen=True)
class SamplesPage:
    """Whether the page of samples is there, and of what state; who confirmed samples."""

    is_made: bool
    is_being_made: bool
    state: str
    is_older: bool
    problems: tuple[Problem, ...]
    answers: tuple[Event, ...]


@dataclass(frozen=True)
class Framed:
    """A page for a frame, with the policy that it stands under."""

    text: str
    policy: str


def samples_page(site: Site) -> SamplesPage:
    """Where the page of samples stands, and every answer that the ledger has."""
    path, job = site.file(*PAGE), site.jobs.get("look")
    file = site.workspace.campaign_path
    answer = job.answer if job else None
    return SamplesPage(
        is_made=path.is_file(),
        is_being_made=job is not None and answer is None,
        state=stamp(path),
        is_older=path.is_file() and file is not None and file.is_file() and file.stat().st_mtime > path.stat().st_mtime,
        problems=answer.problems if answer else (),
        answers=tuple(event for event in reversed(site.events) if event.kind == kinds.SAMPLES_CONFIRMED),
    )


def page_of_samples(site: Site) -> Framed | None:
    """The page of samples; None when it was not made yet."""
    path = site.file(*PAGE)
    if not path.is_file() or path.stat().st_size > _MOST_BYTES:
        return None
    return Framed(path.read_text(encoding="utf-8"), _policy())


@cache
def _policy() -> str:
    """Its own script alone, by digest, with no origin: it reads no cookie and asks for nothing."""
    script = (files("testigo.inspection") / "templates" / "inspection.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts"
    )

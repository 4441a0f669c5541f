"""A real browser for pages: Chromium by Playwright, started once, with every address but this machine refused.

A test takes the fixture `browser` and makes visits; each is a fresh profile with its own size, colours and language::

    with browser.visit(width=390, scheme="dark") as visit:
        visit.page.goto(address)
        assert visit.faults() == []

What a page asked of other machines, and what it complained of, is kept by the visit and fails it at its end.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser as Chromium
from playwright.sync_api import BrowserContext, Page, Playwright, Route, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 90_000
_AWAY = re.compile(r"^(?:https?|wss?|ftp):(?!//(?:127\.0\.0\.1|localhost|\[::1\])(?:[:/]|$))", re.IGNORECASE)
_SWITCHES = (
    "--no-sandbox",  # a container's root has no other way
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE [::1]",
    "--disable-background-networking",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--hide-scrollbars",
)


def executable() -> str:
    """The browser of this machine: `$CHROMIUM`, or the first of the known names."""
    named = os.environ.get("CHROMIUM", "")
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise RuntimeError(
            f"no browser was found: looked for {named or ', '.join(NAMES)}. Install Debian's package: "
            "apt-get install chromium; or name another in the variable CHROMIUM."
        )
    return found


@dataclass
class Visit:
    """One page in a profile of its own."""

    page: Page
    away: list[str] = field(default_factory=list)
    """What the page asked of other machines; each was refused."""
    complaints: list[str] = field(default_factory=list)
    """Errors of its script and of its console, refusals by its content policy among them."""

    def faults(self, impacts: tuple[str, ...] = ("serious", "critical")) -> list[str]:
        """What axe-core finds on the page as it is shown now, one line an element: rule, element, summary."""
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
        found: dict[str, Any] = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{violation['id']}: {' '.join(map(str, node['target']))}: {node['failureSummary']}"
            for violation in found["violations"]
            if violation["impact"] in impacts
            for node in violation["nodes"]
        ]

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """A screenshot, of the window or of the whole page."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path, full_page=whole, animations="disabled")

    def is_too_wide(self) -> bool:
        """Whether the page has to be scrolled sideways."""
        wide: bool = self.page.evaluate("() => document.documentElement.scrollWidth > innerWidth + 1")
        return wide


class Browser:
    """One Chromium for all tests of a process."""

    def __init__(self) -> None:
        self._playwright: Playwright = sync_playwright().start()
        self._chromium: Chromium = self._playwright.chromium.launch(executable_path=executable(), args=[*_SWITCHES])
        # Playwright leaves its loop marked as running; other tests of this process want loops of their own.
        self._loop = asyncio._get_running_loop()
        asyncio._set_running_loop(None)

    @contextmanager
    def visit(
        self,
        *,
        width: int = 1280,
        height: int = 900,
        scheme: Literal["light", "dark"] = "light",
        language: str = "en-US",
        scripts: bool = True,
    ) -> Iterator[Visit]:
        """A page of so many CSS pixels, closed at the end. Fails if it asked another machine, or complained."""
        with self._running():
            context = self._chromium.new_context(
                viewport={"width": width, "height": height},
                color_scheme=scheme,
                locale=language,
                java_script_enabled=scripts,
                reduced_motion="reduce",
            )
            context.set_default_timeout(PATIENCE_MS)
            try:
                visit = Visit(context.new_page())
                _listen(context, visit)
                yield visit
            finally:
                context.close()
        assert not visit.away, f"other machines were asked: {visit.away}"
        assert not visit.complaints, f"the page complained: {visit.complaints}"

    def close(self) -> None:
        """End the browser and its driver."""
        with self._running():
            self._chromium.close()
            self._playwright.stop()

    @contextmanager
    def _running(self) -> Iterator[None]:
        asyncio._set_running_loop(self._loop)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)


def _listen(context: BrowserContext, visit: Visit) -> None:
    def refuse(route: Route) -> None:
        visit.away.append(route.request.url)
        route.abort("blockedbyclient")

    context.route(_AWAY, refuse)
    context.on("weberror", lambda error: visit.complaints.append(str(error.error)))
    context.on(
        "console",
        lambda said: (
            visit.complaints.append(f"{said.text} ({urlsplit(said.location.get('url', '')).path})")
            if said.type == "error"
            else None
        ),
    )

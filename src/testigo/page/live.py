"""What changed: while somebody listens, the files are looked at, and a change is told as a server-sent event."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager

from starlette.concurrency import run_in_threadpool

from testigo.errors import TestigoError
from testigo.page.site import Site

LOOK_SECONDS = 0.4
"""An update is on the page within two seconds: this, the way there, the drawing, and the browser's pause."""
BREATH_SECONDS = 15.0
MOST_LISTENERS = 400


def state_of(signatures: Mapping[str, str], topics: Sequence[str]) -> str:
    """A short text that changes when one of these parts of the workspace does."""
    told = "\n".join(f"{topic} {signatures.get(topic, '')}" for topic in topics)
    return hashlib.sha256(told.encode()).hexdigest()[:20]


class Live:
    """One look at the files serves all listeners."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._known: dict[str, str] = {}
        self._looked_at = float("-inf")
        self._lock = asyncio.Lock()
        self._listeners = 0
        self.closing = False

    @contextmanager
    def listener(self) -> Iterator[bool]:
        """A place among the listeners; False when all are taken."""
        self._listeners += 1
        try:
            yield self._listeners <= MOST_LISTENERS
        finally:
            self._listeners -= 1

    async def stream(self, topics: Sequence[str]) -> AsyncIterator[str]:
        """The state of these parts now, and again whenever it changed; a sign of life between."""
        with self.listener() as admitted:
            if not admitted:
                yield "retry: 10000\n\n"
                return
            yield "retry: 1000\n\n"
            told, silent_seconds = "", 0.0
            while not self.closing:
                state = state_of(await self._signatures(), topics)
                if state != told:
                    told, silent_seconds = state, 0.0
                    yield f"event: state\ndata: {state}\n\n"
                elif silent_seconds >= BREATH_SECONDS:
                    silent_seconds = 0.0
                    yield ": still here\n\n"
                await asyncio.sleep(LOOK_SECONDS)
                silent_seconds += LOOK_SECONDS

    async def _signatures(self) -> dict[str, str]:
        async with self._lock:
            clock = asyncio.get_running_loop().time
            if clock() - self._looked_at >= LOOK_SECONDS * 0.9:
                self._known = await run_in_threadpool(self.look)
                self._looked_at = clock()
            return self._known

    def close(self) -> None:
        """Let the listeners go, and end what goes on in the background."""
        self.closing = True
        self._site.jobs.close()

    def look(self) -> dict[str, str]:
        """The signatures now; where something cannot be read, they say so, and change when it can."""
        try:
            with self._site.lock:
                return self._site.signatures()
        except (TestigoError, OSError) as error:  # the page that is asked for then says what is wrong
            return {"ledger": str(error)}

"""The server: where it listens, whom it admits, and how it ends."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testigo.campaign import Workspace
from testigo.errors import MissingExtra, TestigoError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from testigo.page.guard import Access

DEFAULT_PORT = 8420
LOOPBACK = "127.0.0.1"
_ENDING_SECONDS = 2
_MOST_HEADER_BYTES = 16_384
_MOST_AT_ONCE = 600
_LAST_PORT = 65_535


def application(*workspaces: Path, token: str | None = None) -> ASGIApp:
    """The guarded page of one or many workspaces for a server of your own, for clients on this machine.

    With a token, who shows it may also act; without one the page only reads.

    Raises
    ------
    MissingExtra
        When the extra `page` is not installed.
    WorkspaceError
        When a folder is no workspace.
    """
    _need_extra()
    from testigo.page.app import application_of
    from testigo.page.guard import Access

    return application_of([Workspace.find(one) for one in workspaces], Access(token=token))[0]


def serve(
    *workspaces: Path,
    host: str = LOOPBACK,
    port: int = DEFAULT_PORT,
    token: str | None = None,
    on_start: Callable[[str, str], object] = lambda address, acting: None,
) -> None:
    """Serve the page until the process is asked to end. It changes nothing but by an action of who has the token.

    Parameters
    ----------
    host
        The address to listen on. Any but loopback needs a token.
    port
        0 takes a free one.
    token
        What a client must show, sixteen characters or more. Without one everybody on this machine may read, and a
        token is made for those who act.
    on_start
        Given the address of the page once it listens, and the address that also lets in to act.

    Raises
    ------
    MissingExtra
        When the extra `page` is not installed.
    TestigoError
        When the address cannot be had, or is open to others without a token.
    """
    _need_extra()
    import uvicorn

    from testigo.page.app import application_of

    access = _access(host, token)
    guarded, live = application_of([Workspace.find(one) for one in workspaces], access)

    live.warm()
    with _listening(host, port) as listening:
        own_port = listening.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        place = f"http://{shown}:{own_port}/"

        class Server(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets=sockets)
                on_start(place + (f"?token={token}" if token else ""), f"{place}?token={access.secret}")

            def handle_exit(self, sig: int, frame: Any) -> None:
                live.close()  # the open streams end, so that nobody waits for them
                super().handle_exit(sig, frame)

        settings = uvicorn.Config(
            guarded,
            http="h11",  # the parser with a bound on the size of a request's head
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
            limit_concurrency=_MOST_AT_ONCE,
            timeout_graceful_shutdown=_ENDING_SECONDS,
        )
        Server(settings).run(sockets=[listening])


def _access(host: str, token: str | None) -> Access:
    from testigo.page.guard import LEAST_TOKEN_CHARACTERS, Access, is_loopback

    if token is not None and len(token) < LEAST_TOKEN_CHARACTERS:
        raise TestigoError(
            expected=f"a token of {LEAST_TOKEN_CHARACTERS} characters or more",
            found=f"{len(token)}",
            where="--token",
            action="take a random one: python -c 'import secrets; print(secrets.token_urlsafe())'",
        )
    if is_loopback(host):
        return Access(token=token, key=secrets.token_urlsafe(16))
    if token is None:
        raise TestigoError(
            expected="a token, since others can reach this address",
            found="none",
            where=f"--host {host}",
            action="add --token TOKEN, or leave --host out and forward the port: ssh -L 8420:127.0.0.1:8420 MACHINE",
        )
    names = {host.lower(), socket.gethostname().lower(), "127.0.0.1", "localhost", "::1"}
    return Access(hosts=frozenset(names), any_address=True, token=token)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if not 0 <= port <= _LAST_PORT:
        raise TestigoError(
            expected=f"a port from 0 to {_LAST_PORT}",
            found=str(port),
            where="--port",
            action="name another; 0 takes any that is free",
        )
    try:
        return socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        raise TestigoError(
            expected="a free port on an address of this machine",
            found=error.strerror or str(error),
            where=f"{host}, port {port}",
            action="name another with --port; 0 takes any that is free",
        ) from error


def _need_extra() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtra(str(error.name), "page", "serves the live page") from error

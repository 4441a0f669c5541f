"""Who may ask, and what a browser may do with the answer.

A page on loopback can be asked by every other page in the same browser. So the Host must be one of this server's own
names (a foreign name that points here is DNS rebinding), an Origin must be this page's own, and the answers forbid
scripts, styles and frames from elsewhere. Elsewhere than on loopback a token is asked for; what changes anything asks
for it everywhere.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_QUERY_BYTES = 2048
MOST_PATH_BYTES = 1024
MOST_BODY_BYTES = 16_384
_FORM = "application/x-www-form-urlencoded"
_LENGTH = re.compile(r"[0-9]{1,9}")
LEAST_TOKEN_CHARACTERS = 16
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with none at all a browser posts the page's own forms with the Origin "null"
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


@dataclass(frozen=True)
class Access:
    """Who may ask.

    Attributes
    ----------
    hosts
        The names that a request may ask for, without port, in small letters.
    any_address
        Whether any IP address may be asked for too: an address that is typed is no DNS rebinding.
    token
        What a client must know to read; None lets everybody in who reaches the port.
    key
        What a client must know to act, where reading needs no token; None lets nobody act.
    """

    hosts: frozenset[str] = frozenset({"127.0.0.1", "localhost", "::1"})
    any_address: bool = False
    token: str | None = None
    key: str | None = None

    @property
    def secret(self) -> str | None:
        """What is shown in an address or by a client: the token, or where reading needs none, the key."""
        return self.token or self.key

    @property
    def cookie(self) -> str:
        """Name of the cookie: another token, as of a second page on the same machine, has another."""
        return f"testigo-{self._digest('name')[:8]}"

    @property
    def pass_word(self) -> str:
        """What the cookie holds; the token itself is not kept in the browser."""
        return self._digest("pass")

    def knows(self, host: str) -> bool:
        """Whether the Host header names this server."""
        name = _name_of(host)
        return name in self.hosts or (self.any_address and _is_address(name))

    def admits(self, headers: Headers) -> bool:
        """Whether the client may read."""
        return self.token is None or self.acts(headers)

    def acts(self, headers: Headers) -> bool:
        """Whether the client showed the secret, by cookie or as a bearer, and so may act."""
        if self.secret is None:
            return False
        cookie = cookie_parser(headers.get("cookie", "")).get(self.cookie, "")
        return self.bears(headers) or _equal(cookie, self.pass_word)

    def bears(self, headers: Headers) -> bool:
        """Whether the client is a program that shows the secret itself."""
        return self.secret is not None and _equal(headers.get("authorization", "").removeprefix("Bearer "), self.secret)

    def _digest(self, what: str) -> str:
        return hashlib.sha256(f"testigo {what} {self.secret}".encode()).hexdigest()


class Guard:
    """Stands before the application: refuses what it must not answer, and signs what it answers."""

    def __init__(self, application: ASGIApp, access: Access) -> None:
        self._application = application
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] != "http":  # no web socket is offered
            return
        headers = Headers(scope=scope)

        async def signed(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in {**_HEADERS, "cache-control": "no-store"}.items():
                    answer.setdefault(name, value)
            await send(message)

        refused = self._refusal(scope, headers) or self._entrance(scope, headers)
        await (refused or self._application)(scope, receive, signed)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._access.knows(host):
            return _refuse(421, "This page does not go by that name. Ask for it by the address that testigo printed.")
        if origin is not None and origin.lower() != f"{scope['scheme']}://{host}".lower():
            return _refuse(403, "Other pages may not ask here.")
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return _refuse(403, "Other pages may not ask here.")
        if scope["method"] == "POST" and "/actions/" in scope["path"]:
            return self._refusal_of_action(headers)
        if scope["method"] not in ("GET", "HEAD"):
            return _refuse(405, "This page can only be read.")
        if len(scope["query_string"]) > MOST_QUERY_BYTES or len(scope.get("raw_path") or b"") > MOST_PATH_BYTES:
            return _refuse(414, "That address is too long.")
        return None

    def _refusal_of_action(self, headers: Headers) -> Response | None:
        """A browser always names the page from which it posts; a program shows the secret itself."""
        if not self._access.acts(headers):
            return _refuse(403, "Read-only: open the address with the token that testigo printed, and try again.")
        if headers.get("origin") is None and not self._access.bears(headers):
            return _refuse(403, "Other pages may not ask here.")
        if headers.get("content-type", "").partition(";")[0].strip() != _FORM:
            return _refuse(415, "A form is expected.")
        if not _LENGTH.fullmatch(length := headers.get("content-length", "")) or int(length) > MOST_BODY_BYTES:
            return _refuse(413, "That is too long.")
        return None

    def _entrance(self, scope: Scope, headers: Headers) -> Response | None:
        """The token in the address opens the door once: it becomes a cookie, and leaves the address."""
        access = self._access
        if access.secret is None:
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        shown = [value for name, value in query if name == "token"]
        if shown and _equal(shown[-1], access.secret):
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            # Two slashes in front would name another server.
            path = "/" + str(scope["path"]).lstrip("/\\")
            answer = RedirectResponse(f"{path}?{rest}" if rest else path, status_code=303)
            answer.set_cookie(access.cookie, access.pass_word, httponly=True, samesite="strict")
            return answer
        if access.admits(headers):
            return None
        return _refuse(401, "This page needs its token: open the address that testigo printed, ?token=… with it.")


def is_loopback(host: str) -> bool:
    """Whether an address to bind to is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refuse(status: int, why: str) -> Response:
    return PlainTextResponse(why + "\n", status)


def _name_of(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode())

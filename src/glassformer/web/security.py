"""Access control of the server: Host, Origin and token of every request, and security headers of every response.

A middleware before the router, so that no route can be forgotten. A malicious page open in the browser can send requests to
this server, but it has no token, and its Origin (or, with DNS rebinding, its Host) is refused.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from typing import final
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.foundation.errors import is_panic

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
TOKEN_HEADER = "x-glassformer-token"
READING = ("GET", "HEAD")
EVERYWHERE = ("", "0.0.0.0", "::")
"""Hosts that stand for every address of this machine."""


@final
class Guard:
    """Lets a request through, or answers it. ``hosts``: what the Host header may say, with the port.

    ``any_address``: the port of a server that listens on all interfaces, where any IP address is accepted, too. A name
    can be rebound to this machine by its owner; an address cannot.
    """

    def __init__(
        self, app: ASGIApp, *, token: str, hosts: Collection[str], cookie: str, any_address: int | None = None
    ) -> None:
        self.app, self.token, self.cookie, self.any_address = app, token, cookie, any_address
        self.hosts = {host.lower() for host in hosts}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no web sockets here
            await send({"type": "websocket.close", "code": 1008})
            return

        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self.refusal(scope)
        try:
            await (answer or self.app)(scope, receive, send_with_headers)
        except BaseException as error:  # the framework would answer outside of this guard, without the headers
            if started or not (isinstance(error, Exception) or is_panic(error)):
                raise
            sentence = f"Unexpected {type(error).__name__} (a bug in Glassformer)."
            await _refused(500, sentence)(scope, receive, send_with_headers)

    def refusal(self, scope: Scope) -> Response | None:
        """The response to a refused request; None if it is allowed."""
        headers, method = Headers(scope=scope), scope["method"]
        host = headers.get("host", "").lower()
        if host not in self.hosts and not (self.any_address is not None and _is_address(host, self.any_address)):
            return _refused(403, "This server does not answer to that name; open the address that `glassformer serve` printed.")
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "same-origin")
        if origin is not None and origin.lower() not in {*self.origins, f"http://{host}"}:
            return _refused(403, "A page of another site may not ask this server.")
        header = headers.get(TOKEN_HEADER)
        if method not in READING and header is None and (origin is None or site not in ("same-origin", "none")):
            return _refused(403, f"Only the page itself changes anything here; a program gives the token as {TOKEN_HEADER}.")
        tokens = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])
        if scope["path"] == "/" and method == "GET" and tokens:
            return self._welcome() if self._is_token(tokens[-1]) else self._no_token()
        if self._is_token(header) or self._is_token(self._from_cookie(headers)):
            return None
        return self._no_token()

    def _welcome(self) -> Response:
        """Moves the token from the URL, which may be copied or logged, to an HttpOnly cookie."""
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
        return answer

    def _no_token(self) -> Response:
        return _refused(401, "The token is missing or wrong; open the whole address that `glassformer serve` printed.")

    def _is_token(self, text: str | None) -> bool:
        return text is not None and hmac.compare_digest(text.encode(), self.token.encode())

    def _from_cookie(self, headers: Headers) -> str | None:
        for text in headers.getlist("cookie"):
            try:
                jar: SimpleCookie = SimpleCookie(text)
            except CookieError:
                continue
            if self.cookie in jar:
                return str(jar[self.cookie].value)
        return None


def _refused(status: int, sentence: str) -> Response:
    return PlainTextResponse(sentence + "\n", status_code=status)


def _is_address(host: str, port: int) -> bool:
    """Whether a Host header is a plain IP address with this port."""
    name, _, at = host.rpartition(":")
    bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    try:
        return at == str(port) and (ipaddress.ip_address(bare).version == 6) == (bare != name)
    except ValueError:
        return False


def allowed_hosts(host: str, port: int) -> list[str]:
    """Accepted Host headers: localhost, the listening address and, on all interfaces, this machine's name."""
    names = ["127.0.0.1", "localhost", "[::1]"]
    own = socket.gethostname()
    shown = [own, f"{own}.local"] if host in EVERYWHERE else [f"[{host}]" if ":" in host else host]
    return [f"{name}:{port}" for name in dict.fromkeys([*names, *shown])]

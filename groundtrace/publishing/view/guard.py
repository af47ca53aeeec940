"""Allows only the browser of one person to use the server of ``beam view``, because it serves private data.

Other programs, web pages and machines are refused.
"""

import hashlib
import hmac
import ipaddress
import secrets
from urllib.parse import urlencode, urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from groundtrace.publishing.view.filters import TOKEN

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Accepts requests only from the browser that opened the address with the secret ``token``.

    The browser needs the token only once. The server then sets an HttpOnly SameSite cookie, and redirects to the
    address without the token. The Host header must name this machine. This prevents DNS rebinding, by which a page of
    another site could reach the server. The Origin header of a request that changes data must name this server.
    """

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(24)
        self._value = secrets.token_urlsafe(24)
        self._cookie = "groundtrace_view_" + hashlib.sha256(self.token.encode()).hexdigest()[:10]

    @property
    def middleware(self) -> Middleware:
        """Return the aiohttp middleware that checks each request, and adds :data:`HEADERS` to each response."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            refusal = self._refusal(request)
            if refusal is None:
                try:
                    response = await handler(request)
                except web.HTTPException as error:
                    response = error
            else:
                response = refusal
            response.headers.update(HEADERS)
            if isinstance(response, web.HTTPException):
                raise response
            return response

        return check

    def _refusal(self, request: web.Request) -> web.Response | None:
        """Return None if the request is accepted; else the response that the browser gets instead of the data.

        A request with the right token in its address gets a redirect, which also sets a cookie. The browser sends this
        cookie with all later requests. A request is refused (status 403) in four cases:

        - Its Host header does not name this machine.
        - Its token is wrong.
        - It has neither the token nor the cookie.
        - It changes data, and does not come from the page of this server.
        """
        if not _is_this_machine(request.host):
            return web.Response(
                status=403,
                text="the address in the Host header is not this machine: use the address that `beam view` printed",
            )
        given = request.query.get(TOKEN, "")
        if request.method == "GET" and given:
            if not hmac.compare_digest(given.encode(), self.token.encode()):
                return _closed()
            kept = [(name, value) for name, value in request.query.items() if name != TOKEN]
            response = web.Response(status=303, headers={"Location": "/?" + urlencode(kept) if kept else "/"})
            response.set_cookie(self._cookie, self._value, httponly=True, samesite="Lax", path="/")
            return response
        if not hmac.compare_digest(request.cookies.get(self._cookie, "").encode(), self._value.encode()):
            return _closed()
        if request.method not in ("GET", "HEAD"):
            origin = urlsplit(request.headers.get("Origin", ""))
            if origin.netloc != request.host or request.content_type != "application/json":
                return web.Response(
                    status=403, text="the request does not come from the page of `beam view`: reload that page"
                )
        return None


def _closed() -> web.Response:
    """Return the response (status 403) to a browser whose token is wrong, or that has neither token nor cookie."""
    return web.Response(status=403, text="open the address that `beam view` printed; it holds the token of this view")


def _is_this_machine(host: str) -> bool:
    """Return whether a Host header names this machine. Any port is accepted, since ``ssh -L`` may use another port."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False

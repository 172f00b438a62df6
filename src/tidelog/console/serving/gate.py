"""What every request passes: its Host is one of ours, no other site has sent it, and no answer may be used against its reader.

    Host            a loopback name or address, or what --host and --allow-host say; an IP address cannot be rebound by DNS
    Sec-Fetch-Site  a browser says that another site asks for /api: refused
    Origin          of a change: our own

The answer gets a content security policy, and nothing of the API is kept in any cache.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidelog.console.options import LOOPBACK_HOSTS
from tidelog.console.serving.answers import json_answer
from tidelog.console.serving.api_error import ApiError

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

# No record, offset or configuration that a person types is longer; a value to produce may be.
BODY_BYTES_MAX = 2 * 1024 * 1024


class Gate:
    """Around the application."""

    def __init__(self, app: ASGIApp, host: str, allowed_hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._names = {each.lower() for each in (*LOOPBACK_HOSTS, host, *allowed_hosts)}
        if host not in LOOPBACK_HOSTS:
            self._names.add(socket.gethostname().lower())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_api = scope["path"].startswith(("/api/", "/metrics"))

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                if is_api:
                    headers["Cache-Control"] = "no-store"
            await send(message)

        refusal = self._refusal(scope["method"], Headers(scope=scope), is_api=is_api)
        if refusal is not None:
            await json_answer(refusal.as_json(), refusal.status)(scope, receive, send_safely)
            return
        await self._app(scope, receive, send_safely)

    def _refusal(self, method: str, headers: Headers, *, is_api: bool) -> ApiError | None:
        host = headers.get("host", "")
        if not self.is_ours(host):
            return ApiError(
                421,
                "WRONG_HOST",
                "the console was asked for under a name that it does not have",
                "open it by its address, or start it with --allow-host NAME",
            )
        length = headers.get("content-length")
        if length is not None and not (length.isdigit() and int(length) <= BODY_BYTES_MAX):
            return ApiError(413, "TOO_LARGE", f"a request has at most {BODY_BYTES_MAX} bytes")
        if is_api and headers.get("sec-fetch-site") in {"cross-site", "same-site"}:
            return ApiError(403, "CROSS_SITE", "another site asks the console for what is not its own")
        origin = headers.get("origin")
        if method not in SAFE_METHODS and origin is not None and not _is_of(origin, host):
            return ApiError(403, "CROSS_SITE", "another site asks the console for what is not its own")
        return None

    def is_ours(self, host: str) -> bool:
        """Whether a Host header names this console."""
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        if not name:
            return False
        if name.lower() in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _is_of(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False

"""A request over HTTP with a limit for connecting and one for each wait after it, and without following redirections.

A redirection would take the credentials in the header to whoever it names. Proxies are those of the environment (`https_proxy`).
Imported by those alone who are about to ask: it loads the standard library's HTTP client and TLS.
"""

from __future__ import annotations

import ssl
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)


def opener(context: ssl.SSLContext | None, read_timeout_s: float) -> OpenerDirector:
    """Opens requests; their own time-out is for connecting. Without a context the system's authorities are trusted."""
    director = OpenerDirector()
    for handler in (
        ProxyHandler(),
        _Http(read_timeout_s),
        _Https(context or ssl.create_default_context(), read_timeout_s),
        HTTPDefaultErrorHandler(),
        HTTPErrorProcessor(),
    ):
        director.add_handler(handler)
    return director


class _Http(HTTPHandler):
    def __init__(self, read_timeout_s: float) -> None:
        super().__init__()
        self._read_timeout_s = read_timeout_s

    def http_open(self, req: Request) -> HTTPResponse:
        def connection(host: str, **options: Any) -> HTTPConnection:
            return _limited(HTTPConnection(host, **options), self._read_timeout_s)

        return self.do_open(connection, req)


class _Https(HTTPSHandler):
    def __init__(self, context: ssl.SSLContext, read_timeout_s: float) -> None:
        super().__init__(context=context)
        self._own_context = context
        self._read_timeout_s = read_timeout_s

    def https_open(self, req: Request) -> HTTPResponse:
        def connection(host: str, **options: Any) -> HTTPConnection:
            return _limited(HTTPSConnection(host, context=self._own_context, **options), self._read_timeout_s)

        return self.do_open(connection, req)


def _limited(connection: HTTPConnection, read_timeout_s: float) -> HTTPConnection:
    connect = connection.connect

    def connect_then_limit() -> None:
        connect()
        connection.sock.settimeout(read_timeout_s)

    connection.connect = connect_then_limit  # type: ignore[method-assign]
    return connection

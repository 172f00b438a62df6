"""A small HTTP server for people and programs that watch a node: GET and HEAD of a few paths, one request a connection.

    endpoint = await HttpEndpoint.open(loop, transport, "127.0.0.1", 9404, {"/health": lambda: Page(200, "text/plain", [b"ok"])})
    endpoint.close()

The body of a page is an iterator of pieces. Each is made when the one before it has left and other work has had its turn, so
that neither a large page nor a slow reader holds up the node.

    400  what is not HTTP        404  no such path        405  neither GET nor HEAD        431  a head above `HEAD_BYTES_MAX`
    401  without the token, where there is one: `Authorization: Bearer <token>`

At most `CONNECTIONS_MAX` at a time, each at most `REQUEST_TIMEOUT_S` until its request is whole and `ANSWER_TIMEOUT_S` until
it is answered.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

import msgspec

from tidelog.net.address import Address
from tidelog.net.limits import SocketOptions
from tidelog.net.transport import Acceptor, Transport

if TYPE_CHECKING:
    import ssl

log = logging.getLogger(__name__)

HEAD_BYTES_MAX = 8 * 1024
CONNECTIONS_MAX = 16
REQUEST_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 30.0

_AUTHORIZATION = b"authorization"
_PLAIN = "text/plain; charset=utf-8"
_REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) (/[\x21-\x7e]*) HTTP/1\.([01])")
_HEADER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")


class Page(msgspec.Struct, frozen=True):
    """What a path answers."""

    status: int
    content_type: str
    pieces: Iterable[bytes]


class HttpAccess(msgspec.Struct, frozen=True):
    """Who may look, and how the port is spoken to. By default everybody who reaches it, in the clear."""

    token: bytes | None = None
    """What everybody has to show."""
    tls: ssl.SSLContext | None = None

    def __repr__(self) -> str:
        return f"HttpAccess(token={'None' if self.token is None else '[hidden]'}, tls={self.tls})"

    def admits(self, request: HttpRequest) -> bool:
        """Whether a request shows the token. How long it takes does not tell how much of it was right."""
        if self.token is None:
            return True
        import hmac  # noqa: PLC0415 - most ports have no token

        return request.bearer is not None and hmac.compare_digest(request.bearer, self.token)


OPEN_ACCESS = HttpAccess()


class HttpRequest(msgspec.Struct, frozen=True):
    """The parts of a request's head that are used."""

    method: str
    path: str
    minor_version: int
    bearer: bytes | None = None
    """The token that it shows, if it shows one."""


Pages = Mapping[str, Callable[[], Page]]


def parse_head(head: bytes) -> HttpRequest | None:
    """A request's head, without the empty line behind it; None where it is not one."""
    lines = head.split(b"\r\n")
    matched = _REQUEST_LINE.fullmatch(lines[0])
    if matched is None or not all(map(_HEADER.fullmatch, lines[1:])):
        return None
    target = matched[2].partition(b"?")[0]
    return HttpRequest(matched[1].decode(), target.decode(), int(matched[3]), _bearer(lines[1:]))


def _bearer(headers: Iterable[bytes]) -> bytes | None:
    shown = [
        value.strip() for name, _, value in (each.partition(b":") for each in headers) if name.lower() == _AUTHORIZATION
    ]
    if len(shown) != 1:
        return None
    scheme, _, token = shown[0].partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else None


class HttpEndpoint:
    """An open port. Its pages are asked on the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pages: Pages, access: HttpAccess = OPEN_ACCESS) -> None:
        self._loop = loop
        self._pages = pages
        self._access = access
        self._acceptor: Acceptor | None = None
        self._connections: set[_HttpConnection] = set()

    @classmethod
    async def open(
        cls,
        loop: asyncio.AbstractEventLoop,
        transport: Transport,
        host: str,
        port: int,
        pages: Pages,
        access: HttpAccess = OPEN_ACCESS,
    ) -> HttpEndpoint:
        """Listens. ListenError where it cannot."""
        endpoint = cls(loop, pages, access)
        options = SocketOptions(ssl_context=access.tls)
        endpoint._acceptor = await transport.listen(host, port, endpoint._admit, options)
        return endpoint

    @property
    def scheme(self) -> str:
        return "http" if self._access.tls is None else "https"

    @property
    def address(self) -> Address:
        assert self._acceptor is not None
        return self._acceptor.addresses[0]

    def close(self) -> None:
        """Listens no more, and cuts off who is still being answered."""
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in list(self._connections):
            connection.abort()

    def page_of(self, request: HttpRequest) -> Page:
        """What a request is answered. A page that fails is a bug: it is logged, and answered 500."""
        if not self._access.admits(request):
            return plain_page(HTTPStatus.UNAUTHORIZED, "a token is needed, as in Authorization: Bearer <token>")
        make = self._pages.get(request.path)
        if make is None:
            return plain_page(HTTPStatus.NOT_FOUND, f"there are {', '.join(self._pages)}")
        if request.method not in {"GET", "HEAD"}:
            return plain_page(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD")
        try:
            return make()
        except Exception:
            log.exception("%s cannot be shown", request.path)
            return plain_page(HTTPStatus.INTERNAL_SERVER_ERROR, "this is a bug; the log of the node has more")

    def ended(self, connection: _HttpConnection) -> None:
        self._connections.discard(connection)

    def _admit(self, peer: Address) -> asyncio.BaseProtocol | None:
        if len(self._connections) >= CONNECTIONS_MAX:
            log.info("refused %s at the metrics port: %d others are connected", peer, CONNECTIONS_MAX)
            return None
        connection = _HttpConnection(self._loop, self)
        self._connections.add(connection)
        return connection


class _HttpConnection(asyncio.Protocol):
    """One request and its answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, endpoint: HttpEndpoint) -> None:
        self._loop = loop
        self._endpoint = endpoint
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._pieces: Iterator[bytes] | None = None
        self._is_chunked = False
        self._is_paused = False
        self._is_sending = False
        self._deadline = loop.call_later(REQUEST_TIMEOUT_S, self.abort)

    def abort(self) -> None:
        self._end()
        if self._transport is not None:
            self._transport.abort()

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._pieces is not None:
            return  # a body, or a second request: nobody reads it
        received = self._received
        searched = max(0, len(received) - 3)
        received += data
        end = received.find(b"\r\n\r\n", searched)
        if end > HEAD_BYTES_MAX or (end < 0 and len(received) > HEAD_BYTES_MAX):
            self._answer(plain_page(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of the request is too large"))
        elif end >= 0:
            request = parse_head(bytes(received[:end]))
            if request is None:
                self._answer(plain_page(HTTPStatus.BAD_REQUEST, "this is not a request of HTTP/1.0 or 1.1"))
            else:
                self._answer(self._endpoint.page_of(request), request)

    def eof_received(self) -> bool:
        # Who has said all may still read; by TLS both ends end together.
        is_tls = self._transport is not None and self._transport.get_extra_info("sslcontext") is not None
        return self._pieces is not None and not is_tls

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._send_soon()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - a watcher that has gone is no news
        self._end()

    def _end(self) -> None:
        self._deadline.cancel()
        self._pieces = iter(())
        self._endpoint.ended(self)

    # Answering.

    def _answer(self, page: Page, request: HttpRequest | None = None) -> None:
        assert self._transport is not None
        self._received.clear()
        self._deadline.cancel()
        self._deadline = self._loop.call_later(ANSWER_TIMEOUT_S, self.abort)
        self._is_chunked = request is not None and request.minor_version > 0
        head = [
            f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}",
            f"Content-Type: {page.content_type}",
            "Cache-Control: no-store",
            "Connection: close",
        ]
        if page.status == HTTPStatus.METHOD_NOT_ALLOWED:
            head.append("Allow: GET, HEAD")
        if page.status == HTTPStatus.UNAUTHORIZED:
            head.append("WWW-Authenticate: Bearer")
        if self._is_chunked:
            head.append("Transfer-Encoding: chunked")
        self._transport.write("\r\n".join([*head, "", ""]).encode())
        has_body = request is None or request.method != "HEAD"
        if not has_body:
            self._is_chunked = False
        self._pieces = iter(page.pieces if has_body else ())
        self._send_soon()

    def _send_soon(self) -> None:
        if self._pieces is not None and not self._is_sending and not self._is_paused:
            self._is_sending = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._is_sending = False
        transport = self._transport
        if transport is None or self._pieces is None or transport.is_closing():
            return
        try:
            piece = next(self._pieces, None)
        except Exception:
            # Too late for another status: an answer that breaks off is one that nobody believes.
            log.exception("a page of the metrics port breaks off")
            self.abort()
            return
        if piece is None:
            if self._is_chunked:
                transport.write(b"0\r\n\r\n")
            transport.close()
            return
        if piece:
            transport.write(b"%x\r\n%b\r\n" % (len(piece), piece) if self._is_chunked else piece)
        self._send_soon()


def plain_page(status: int, sentence: str) -> Page:
    """A page of one sentence."""
    return Page(status, _PLAIN, [sentence.encode() + b"\n"])

"""A small HTTP server for people and programs that watch a node: GET and HEAD of a few paths, one request a connection.

    pages = {"/health": lambda request: Page(200, "text/plain", [b"ok"])}
    endpoint = await HttpEndpoint.open(loop, transport, "127.0.0.1", 9404, pages)
    endpoint.close()

A path is answered now (`Page`), later (`Pending`), or on and on (`PushedPage`). The body of a page is an iterator of pieces. Each
is made when the one before it has left and other work has had its turn, so that neither a large page nor a slow reader holds up
the node. What is pushed comes from a `PushSource`, which wakes its connection when it has something; a reader that does not keep
up gets nothing more until it has read, and what it misses is the source's to say.

    400  what is not HTTP        404  no such path        405  neither GET nor HEAD        431  a head above `HEAD_BYTES_MAX`
    401  without the token, where there is one: `Authorization: Bearer <token>`
    503  one more pushed page than `PUSHED_MAX`

At most `CONNECTIONS_MAX` at a time, each at most `REQUEST_TIMEOUT_S` until its request is whole and `ANSWER_TIMEOUT_S` until
it is answered. Pushed pages have places of their own and no time-out; a source has its heartbeat every `HEARTBEAT_S`, and a
reader that has taken nothing for `STALLED_TIMEOUT_S` is cut off.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol, cast

import msgspec

from tidelog.model.pending import Pending
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

# Pages that never end: what each costs is its source's to bound, and they take nobody else's place.
PUSHED_MAX = 4
HEARTBEAT_S = 5.0
# One who has not read for so long is not coming back, and holds a place that another one may want.
STALLED_TIMEOUT_S = 300.0

_AUTHORIZATION = b"authorization"
_HOST = b"host"
_PLAIN = "text/plain; charset=utf-8"
_REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) (/[\x21-\x7e]*) HTTP/1\.([01])")
_HEADER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")


class Page(msgspec.Struct, frozen=True):
    """What a path answers."""

    status: int
    content_type: str
    pieces: Iterable[bytes]


class PushSource(Protocol):
    """What makes a page that goes on. Used on the loop's thread."""

    def open(self, wake: Callable[[], None]) -> None:
        """Somebody listens: `wake` is to be called when there is something to take, after `take` had nothing."""
        ...

    def take(self) -> bytes | None:
        """What there is to send next: nothing at the moment (empty), or nothing ever again (None)."""
        ...

    def heartbeat(self) -> None:
        """Say something, so that the listener knows that it still listens to somebody."""
        ...

    def close(self) -> None:
        """Nobody listens any more."""
        ...


class PushedPage(msgspec.Struct, frozen=True):
    """What a path answers that goes on until the listener leaves, or its source ends."""

    content_type: str
    source: PushSource


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
    query: str = ""
    """What is behind the question mark, as it was sent."""
    host: str | None = None
    """Which host is asked, in its own words; None where it does not say, or says several."""

    def arguments(self, names: Collection[str]) -> dict[str, str] | None:
        """The query as names with values; None where it is no such thing, names one twice, or another than these."""
        from urllib.parse import parse_qsl  # noqa: PLC0415 - few requests have any

        try:
            pairs = parse_qsl(
                self.query,
                keep_blank_values=True,
                strict_parsing=bool(self.query),
                errors="strict",
                max_num_fields=len(names),
            )
        except ValueError:
            return None
        found = dict(pairs)
        return found if len(found) == len(pairs) and found.keys() <= set(names) else None


Answer = Page | PushedPage
Pages = Mapping[str, Callable[[HttpRequest], Answer | Pending[Page]]]


def parse_head(head: bytes) -> HttpRequest | None:
    """A request's head, without the empty line behind it; None where it is not one."""
    lines = head.split(b"\r\n")
    matched = _REQUEST_LINE.fullmatch(lines[0])
    if matched is None or not all(map(_HEADER.fullmatch, lines[1:])):
        return None
    path, _, query = matched[2].decode().partition("?")
    authorization, host = _header(lines[1:], _AUTHORIZATION), _header(lines[1:], _HOST)
    return HttpRequest(
        matched[1].decode(),
        path,
        int(matched[3]),
        _bearer(authorization),
        query,
        None if host is None else host.decode("latin-1"),
    )


def _header(headers: Iterable[bytes], wanted: bytes) -> bytes | None:
    """The value of a header that is there once; None otherwise."""
    shown = [value.strip() for name, _, value in (each.partition(b":") for each in headers) if name.lower() == wanted]
    return shown[0] if len(shown) == 1 else None


def _bearer(authorization: bytes | None) -> bytes | None:
    if authorization is None:
        return None
    scheme, _, token = authorization.partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else None


class HttpEndpoint:
    """An open port. Its pages are asked on the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pages: Pages, access: HttpAccess = OPEN_ACCESS) -> None:
        self._loop = loop
        self._pages = pages
        self._access = access
        self._acceptor: Acceptor | None = None
        self._connections: set[_HttpConnection] = set()
        self._pushed: set[_HttpConnection] = set()

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
        for connection in [*self._connections, *self._pushed]:
            connection.abort()

    @property
    def is_private(self) -> bool:
        """Whether nobody but this machine, or one with the token and on an encrypted connection, gets to see a page."""
        if self._access.token is not None and self._access.tls is not None:
            return True
        return is_loopback(self.address.host)

    def page_of(self, request: HttpRequest) -> Answer | Pending[Page]:
        """What a request is answered. A page that fails is a bug: it is logged, and answered 500."""
        if not self._access.admits(request):
            return plain_page(HTTPStatus.UNAUTHORIZED, "a token is needed, as in Authorization: Bearer <token>")
        make = self._pages.get(request.path)
        if make is None:
            return plain_page(HTTPStatus.NOT_FOUND, f"there are {', '.join(self._pages)}")
        if request.method not in {"GET", "HEAD"}:
            return plain_page(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD")
        try:
            return make(request)
        except Exception:
            log.exception("%s cannot be shown", request.path)
            return plain_page(HTTPStatus.INTERNAL_SERVER_ERROR, "this is a bug; the log of the node has more")

    def ended(self, connection: _HttpConnection) -> None:
        self._connections.discard(connection)
        self._pushed.discard(connection)

    def is_pushed_to(self, connection: _HttpConnection) -> bool:
        """Whether there is a place for one more page that never ends; the connection has it then, and gives up its own."""
        if len(self._pushed) >= PUSHED_MAX:
            return False
        self._connections.discard(connection)
        self._pushed.add(connection)
        return True

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
        self._request: HttpRequest | None = None
        self._pieces: Iterator[bytes] | None = None
        # Of a page that goes on, and that alone.
        self._source: PushSource | None = None
        self._beat: asyncio.TimerHandle | None = None
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
        if self._request is not None or self._pieces is not None:
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
                self._request = request
                self._deadline.cancel()
                self._deadline = self._loop.call_later(ANSWER_TIMEOUT_S, self.abort)
                page = self._endpoint.page_of(request)
                if isinstance(page, Pending):
                    page.then(self._answer_later)
                else:
                    self._answer(page)

    def eof_received(self) -> bool:
        # Who has said all may still read; by TLS both ends end together. One who listens for ever has left.
        if self._source is not None:
            return False
        is_tls = self._transport is not None and self._transport.get_extra_info("sslcontext") is not None
        return (self._request is not None or self._pieces is not None) and not is_tls

    def pause_writing(self) -> None:
        self._is_paused = True
        if self._source is not None:
            self._deadline.cancel()
            self._deadline = self._loop.call_later(STALLED_TIMEOUT_S, self.abort)

    def resume_writing(self) -> None:
        self._is_paused = False
        if self._source is not None:
            self._deadline.cancel()
        self._send_soon()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - a watcher that has gone is no news
        self._end()

    def _end(self) -> None:
        self._deadline.cancel()
        if self._beat is not None:
            self._beat.cancel()
        source, self._source = self._source, None
        if source is not None:
            source.close()
        self._pieces = iter(())
        self._endpoint.ended(self)

    # Answering.

    def _answer_later(self, page: Page) -> None:
        transport = self._transport
        if self._pieces is None and transport is not None and not transport.is_closing():
            self._answer(page)

    def _answer(self, page: Answer) -> None:
        request = self._request
        assert self._transport is not None
        self._received.clear()
        self._deadline.cancel()
        has_body = request is None or request.method != "HEAD"
        if isinstance(page, PushedPage) and has_body and not self._endpoint.is_pushed_to(self):
            page = plain_page(HTTPStatus.SERVICE_UNAVAILABLE, f"{PUSHED_MAX} others listen already: try again later")
        status = page.status if isinstance(page, Page) else HTTPStatus.OK
        self._is_chunked = request is not None and request.minor_version > 0
        head = [
            f"HTTP/1.1 {int(status)} {HTTPStatus(status).phrase}",
            f"Content-Type: {page.content_type}",
            "Cache-Control: no-store",
            "Connection: close",
        ]
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            head.append("Allow: GET, HEAD")
        if status == HTTPStatus.UNAUTHORIZED:
            head.append("WWW-Authenticate: Bearer")
        if self._is_chunked:
            head.append("Transfer-Encoding: chunked")
        self._transport.write("\r\n".join([*head, "", ""]).encode())
        if not has_body:
            self._is_chunked = False
        if isinstance(page, PushedPage) and has_body:
            self._source = page.source
            self._pieces = iter(page.source.take, None)
            page.source.open(self._send_soon)
            self._beat = self._loop.call_later(HEARTBEAT_S, self._heartbeat)
        else:
            self._deadline = self._loop.call_later(ANSWER_TIMEOUT_S, self.abort)
            self._pieces = iter(page.pieces if has_body and isinstance(page, Page) else ())
        self._send_soon()

    def _heartbeat(self) -> None:
        if self._source is not None:
            self._beat = self._loop.call_later(HEARTBEAT_S, self._heartbeat)
            self._source.heartbeat()

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
        elif self._source is not None:
            # It wakes us when there is more.
            return
        self._send_soon()


def is_loopback(host: str) -> bool:
    """Whether an address is reached from the same machine alone."""
    from ipaddress import ip_address  # noqa: PLC0415 - asked for by few requests

    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def plain_page(status: int, sentence: str) -> Page:
    """A page of one sentence."""
    return Page(status, _PLAIN, [sentence.encode() + b"\n"])

"""The HTTP endpoint, on virtual time: pages, hostile clients, slow ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from random import Random

import pytest

from tidelog.model.pending import Pending
from tidelog.net.http_endpoint import (
    ANSWER_TIMEOUT_S,
    CONNECTIONS_MAX,
    HEAD_BYTES_MAX,
    HEARTBEAT_S,
    PUSHED_MAX,
    REQUEST_TIMEOUT_S,
    STALLED_TIMEOUT_S,
    HttpAccess,
    HttpEndpoint,
    HttpRequest,
    Page,
    PushedPage,
    is_loopback,
    parse_head,
)
from tidelog.simulation.loop import VirtualTimeLoop
from tidelog.simulation.network import SimulatedNetwork

PORT = 9404


class Client(asyncio.Protocol):
    """Somebody who connects, says things and reads what comes, unless told not to."""

    def __init__(self) -> None:
        self.received = b""
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(exc)


class World:
    def __init__(self) -> None:
        self.loop = VirtualTimeLoop()
        self.network = SimulatedNetwork(self.loop, Random(1))
        self.pages: dict[str, Callable[[HttpRequest], Page | PushedPage | Pending[Page]]] = {
            "/page": lambda _request: Page(200, "text/plain", [b"one", b"", b"two"])
        }
        self.access = HttpAccess()

    async def open(self) -> HttpEndpoint:
        return await HttpEndpoint.open(self.loop, self.network.host("node"), "node", PORT, self.pages, self.access)

    async def connect(self) -> Client:
        return await self.network.host("client").connect("node", PORT, Client)

    async def ask(self, request: bytes) -> bytes:
        client = await self.connect()
        client.transport.write(request)
        await client.ended
        return client.received


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.loop.close()


def status_of(answer: bytes) -> int:
    return int(answer.split()[1])


def test_a_page_comes_in_chunks(world: World) -> None:
    async def story() -> bytes:
        await world.open()
        return await world.ask(b"GET /page?x=1 HTTP/1.1\r\nHost: node\r\n\r\n")

    answer = world.loop.run_until_complete(story())

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.splitlines()[0] == b"HTTP/1.1 200 OK"
    assert b"Transfer-Encoding: chunked" in head
    assert body == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"


def test_an_old_client_gets_the_body_as_it_is(world: World) -> None:
    async def story() -> bytes:
        await world.open()
        return await world.ask(b"GET /page HTTP/1.0\r\n\r\n")

    head, _, body = world.loop.run_until_complete(story()).partition(b"\r\n\r\n")

    assert b"chunked" not in head
    assert body == b"onetwo"


def test_head_has_no_body(world: World) -> None:
    async def story() -> bytes:
        await world.open()
        return await world.ask(b"HEAD /page HTTP/1.1\r\n\r\n")

    answer = world.loop.run_until_complete(story())

    assert status_of(answer) == 200
    assert answer.endswith(b"\r\n\r\n")
    assert b"one" not in answer


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /other HTTP/1.1\r\n\r\n", 404),
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"POST /page HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"BREW /page HTTP/1.1\r\n\r\n", 405),
        (b"GET /page HTTP/2.0\r\n\r\n", 400),
        (b"GET  /page HTTP/1.1\r\n\r\n", 400),
        (b"get /page HTTP/1.1\r\n\r\n", 400),
        (b"GET page HTTP/1.1\r\n\r\n", 400),
        (b"GET /page HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /page HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"GET /page HTTP/1.1\nHost: x\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"\x00\x00\x00\x10\x00\x12\x00\x03\x00\x00\x00\x01\r\n\r\n", 400),
        (b"GET /page HTTP/1.1\r\nX: " + b"y" * HEAD_BYTES_MAX + b"\r\n\r\n", 431),
        (b"G" * (HEAD_BYTES_MAX + 1), 431),
    ],
)
def test_what_cannot_be_answered_is_told_so(world: World, request_bytes: bytes, status: int) -> None:
    async def story() -> bytes:
        await world.open()
        return await world.ask(request_bytes)

    assert status_of(world.loop.run_until_complete(story())) == status


def test_a_head_may_come_byte_by_byte(world: World) -> None:
    async def story() -> bytes:
        await world.open()
        client = await world.connect()
        for byte in b"GET /page HTTP/1.0\r\nA: b\r\n\r\n":
            client.transport.write(bytes([byte]))
            await asyncio.sleep(0.001)
        await client.ended
        return client.received

    assert world.loop.run_until_complete(story()).endswith(b"onetwo")


def test_who_never_ends_a_request_is_cut_off(world: World) -> None:
    async def story() -> tuple[float, bytes]:
        await world.open()
        client = await world.connect()
        begun = world.loop.time()
        while not client.ended.done():
            client.transport.write(b"A")
            await asyncio.wait([client.ended], timeout=0.5)
        return world.loop.time() - begun, client.received

    elapsed, received = world.loop.run_until_complete(story())

    assert elapsed <= REQUEST_TIMEOUT_S + 1
    assert received == b""


def test_who_does_not_read_is_cut_off_and_no_more_is_made_for_it(world: World) -> None:
    made = 0

    def endless() -> Iterator[bytes]:
        nonlocal made
        while True:
            made += 1
            yield b"x" * 65_536

    world.pages["/page"] = lambda _request: Page(200, "text/plain", endless())

    async def story() -> int:
        endpoint = await world.open()
        client = await world.connect()
        client.transport.write(b"GET /page HTTP/1.1\r\n\r\n")
        client.transport.pause_reading()
        await asyncio.sleep(ANSWER_TIMEOUT_S / 2)
        halfway = made
        await asyncio.sleep(ANSWER_TIMEOUT_S)
        endpoint.close()
        return halfway

    halfway = world.loop.run_until_complete(story())

    assert halfway == made < 1000


def test_a_crowd_is_kept_out_until_somebody_goes(world: World) -> None:
    async def story() -> tuple[bytes, bytes]:
        await world.open()
        crowd = [await world.connect() for _ in range(CONNECTIONS_MAX)]
        one_more = await world.connect()
        await one_more.ended
        crowd[0].transport.close()
        await crowd[0].ended
        await asyncio.sleep(0.1)
        return one_more.received, await world.ask(b"GET /page HTTP/1.0\r\n\r\n")

    refused, answer = world.loop.run_until_complete(story())

    assert refused == b""
    assert status_of(answer) == 200


def test_a_page_that_fails_is_a_500_and_the_next_request_is_answered(world: World) -> None:
    def broken(_request: HttpRequest) -> Page:
        raise ZeroDivisionError

    world.pages["/broken"] = broken

    async def story() -> tuple[bytes, bytes]:
        await world.open()
        return await world.ask(b"GET /broken HTTP/1.1\r\n\r\n"), await world.ask(b"GET /page HTTP/1.1\r\n\r\n")

    first, second = world.loop.run_until_complete(story())

    assert (status_of(first), status_of(second)) == (500, 200)


def test_a_page_that_fails_halfway_breaks_off(world: World) -> None:
    def breaking() -> Iterator[bytes]:
        yield b"begun"
        raise ZeroDivisionError

    world.pages["/page"] = lambda _request: Page(200, "text/plain", breaking())

    async def story() -> bytes:
        await world.open()
        return await world.ask(b"GET /page HTTP/1.1\r\n\r\n")

    assert not world.loop.run_until_complete(story()).endswith(b"0\r\n\r\n")


def test_a_head_is_read_as_it_is_written() -> None:
    assert parse_head(b"GET /metrics?name[]=a HTTP/1.1\r\nAccept: */*\r\nX:") == HttpRequest(
        "GET", "/metrics", 1, query="name[]=a"
    )


# With a token


@pytest.mark.parametrize(
    ("headers", "bearer"),
    [
        ([b"Authorization: Bearer abc"], b"abc"),
        ([b"authorization:bearer   abc "], b"abc"),
        ([b"Host: x", b"AUTHORIZATION: BEARER abc"], b"abc"),
        ([b"Authorization: Basic abc"], None),
        ([b"Authorization: Bearer"], b""),
        ([b"Authorization: Bearer abc", b"Authorization: Bearer abd"], None),
        ([b"Proxy-Authorization: Bearer abc"], None),
        ([], None),
    ],
)
def test_the_token_of_a_request_is_read(headers: list[bytes], bearer: bytes | None) -> None:
    request = parse_head(b"\r\n".join([b"GET /page HTTP/1.1", *headers]))

    assert request is not None
    assert request.bearer == bearer


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"Authorization: Bearer secret\r\n", b"200 OK"),
        (b"Authorization: Bearer secrets\r\n", b"401 Unauthorized"),
        (b"Authorization: Bearer \r\n", b"401 Unauthorized"),
        (b"Authorization: Bearer s\xe9cret\r\n", b"401 Unauthorized"),
        (b"Authorization: Basic secret\r\n", b"401 Unauthorized"),
        (b"", b"401 Unauthorized"),
    ],
)
@pytest.mark.parametrize("path", [b"/page", b"/absent"])
def test_only_those_with_the_token_see_anything(header: bytes, status: bytes, path: bytes) -> None:
    world = World()
    world.access = HttpAccess(token=b"secret")

    async def talk() -> bytes:
        await world.open()
        return await world.ask(b"GET " + path + b" HTTP/1.1\r\n" + header + b"\r\n")

    answer = world.loop.run_until_complete(talk())

    found = b"404 Not Found" if path == b"/absent" and status == b"200 OK" else status
    assert answer.startswith(b"HTTP/1.1 " + found)
    assert (b"WWW-Authenticate: Bearer" in answer) is (status != b"200 OK")
    assert b"/page" not in answer or status == b"200 OK"


def test_a_token_is_not_shown() -> None:
    assert "hush" not in repr(HttpAccess(token=b"hush"))


# Pages that go on


class Source:
    """Pushes what a test gives it."""

    def __init__(self) -> None:
        self.pieces: list[bytes | None] = []
        self.beats = 0
        self.is_closed = False
        self.wake: Callable[[], None] = lambda: None

    def open(self, wake: Callable[[], None]) -> None:
        self.wake = wake

    def push(self, piece: bytes | None) -> None:
        self.pieces.append(piece)
        self.wake()

    def take(self) -> bytes | None:
        return self.pieces.pop(0) if self.pieces else b""

    def heartbeat(self) -> None:
        self.beats += 1
        self.push(b"beat")

    def close(self) -> None:
        self.is_closed = True


def sources_of(world: World) -> list[Source]:
    sources: list[Source] = []

    def page(_request: HttpRequest) -> PushedPage:
        sources.append(Source())
        return PushedPage("text/plain", sources[-1])

    world.pages["/pushed"] = page
    return sources


async def listen(world: World) -> Client:
    client = await world.connect()
    client.transport.write(b"GET /pushed HTTP/1.0\r\n\r\n")
    await asyncio.sleep(0.1)
    return client


def test_a_pushed_page_goes_on_without_a_time_out_until_its_source_ends(world: World) -> None:
    sources = sources_of(world)

    async def story() -> bytes:
        await world.open()
        client = await listen(world)
        sources[0].push(b"one ")
        await asyncio.sleep(ANSWER_TIMEOUT_S * 3)
        sources[0].push(b" two")
        sources[0].push(None)
        await client.ended
        return client.received.partition(b"\r\n\r\n")[2]

    body = world.loop.run_until_complete(story())

    assert body.startswith(b"one beat")
    assert body.endswith(b"beat two")
    assert sources[0].beats == ANSWER_TIMEOUT_S * 3 // HEARTBEAT_S
    assert sources[0].is_closed


def test_one_listener_too_many_is_told_so_and_metrics_have_their_places_still(world: World) -> None:
    sources = sources_of(world)

    async def story() -> tuple[bytes, bytes, bytes]:
        await world.open()
        crowd = [await listen(world) for _ in range(PUSHED_MAX)]
        refused = await world.ask(b"GET /pushed HTTP/1.0\r\n\r\n")
        others = [await world.connect() for _ in range(CONNECTIONS_MAX - 1)]
        page = await world.ask(b"GET /page HTTP/1.0\r\n\r\n")
        for each in [*others, crowd[0]]:
            each.transport.close()
        await asyncio.sleep(0.1)
        again = await listen(world)
        return refused, page, again.received

    refused, page, again = world.loop.run_until_complete(story())

    assert (status_of(refused), status_of(page), status_of(again)) == (503, 200, 200)
    assert sources[0].is_closed
    # The source of the one that was refused was never opened.
    assert [source.wake.__name__ != "<lambda>" for source in sources] == [True] * PUSHED_MAX + [False, True]


def test_a_listener_that_never_reads_is_not_pushed_to_and_cut_off_in_the_end(world: World) -> None:
    sources = sources_of(world)

    async def story() -> tuple[int, bool]:
        await world.open()
        client = await listen(world)
        client.transport.pause_reading()
        for _ in range(1000):
            sources[0].push(b"x" * 65_536)
        await asyncio.sleep(STALLED_TIMEOUT_S / 2)
        left = len(sources[0].pieces)
        await asyncio.sleep(STALLED_TIMEOUT_S)
        return left, sources[0].is_closed

    left, is_closed = world.loop.run_until_complete(story())

    assert left > 900
    assert is_closed


def test_a_page_that_is_made_later_is_answered_then(world: World) -> None:
    later: Pending[Page] = Pending()
    world.pages["/later"] = lambda _request: later

    async def story() -> bytes:
        await world.open()
        world.loop.call_later(3, later.complete, Page(200, "text/plain", [b"late"]))
        return await world.ask(b"GET /later HTTP/1.0\r\n\r\n")

    assert world.loop.run_until_complete(story()).endswith(b"\r\n\r\nlate")


@pytest.mark.parametrize(
    ("query", "arguments"),
    [
        ("", {}),
        ("a=1&b=x%20y", {"a": "1", "b": "x y"}),
        ("a=", {"a": ""}),
        ("a=1&a=2", None),
        ("c=1", None),
        ("a", None),
        ("a=1&b=2&a=3", None),
        ("a=%ff", None),
    ],
)
def test_the_arguments_of_a_page(query: str, arguments: dict[str, str] | None) -> None:
    assert HttpRequest("GET", "/page", 1, query=query).arguments(("a", "b")) == arguments


@pytest.mark.parametrize(
    ("host", "is_private"), [("127.0.0.1", True), ("::1", True), ("0.0.0.0", False), ("10.1.2.3", False)]
)
def test_who_is_on_this_machine(host: str, is_private: bool) -> None:
    assert is_loopback(host) is is_private

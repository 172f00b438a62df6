"""The HTTP endpoint, on virtual time: pages, hostile clients, slow ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from random import Random

import pytest

from tidelog.net.http_endpoint import (
    ANSWER_TIMEOUT_S,
    CONNECTIONS_MAX,
    HEAD_BYTES_MAX,
    REQUEST_TIMEOUT_S,
    HttpAccess,
    HttpEndpoint,
    HttpRequest,
    Page,
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
        self.pages: dict[str, Callable[[], Page]] = {"/page": lambda: Page(200, "text/plain", [b"one", b"", b"two"])}
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

    world.pages["/page"] = lambda: Page(200, "text/plain", endless())

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
    def broken() -> Page:
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

    world.pages["/page"] = lambda: Page(200, "text/plain", breaking())

    async def story() -> bytes:
        await world.open()
        return await world.ask(b"GET /page HTTP/1.1\r\n\r\n")

    assert not world.loop.run_until_complete(story()).endswith(b"0\r\n\r\n")


def test_a_head_is_read_as_it_is_written() -> None:
    assert parse_head(b"GET /metrics?name[]=a HTTP/1.1\r\nAccept: */*\r\nX:") == HttpRequest("GET", "/metrics", 1)


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

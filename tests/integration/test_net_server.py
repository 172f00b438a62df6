"""A socket server on real sockets, over asyncio's own loop and over uvloop."""

from __future__ import annotations

import asyncio
import itertools
import logging
import multiprocessing
import os
import random
import resource
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.support.net import DEADLINE_S, RawClient, Recorder, eventually, framed, highest_descriptor, open_sockets
from tidelog.model.principal import ANONYMOUS
from tidelog.model.slow_work import ThreadSlowWork
from tidelog.net import transport
from tidelog.net.errors import ListenError
from tidelog.net.limits import ConnectionLimits, NodeLimits, SocketOptions
from tidelog.net.socket_server import Listener, SocketServer
from tidelog.net.transport import LoopTransport
from tidelog.storage.file_region import FileRegion
from tidelog.storage.os_files import OsFiles

Run = Callable[[Coroutine[Any, Any, None]], None]


LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    def run_it(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(main)

    return run_it


@asynccontextmanager
async def serving(
    handler: Recorder, limits: NodeLimits | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[tuple[SocketServer, Listener]]:
    loop = asyncio.get_running_loop()
    server = SocketServer(loop, LoopTransport(loop), limits)
    listener = await server.listen("PLAINTEXT", host, 0, handler)
    try:
        yield server, listener
    finally:
        server.abort()


@asynccontextmanager
async def client_of(listener: Listener) -> AsyncIterator[RawClient]:
    client = await RawClient.connect(*listener.address)
    try:
        yield client
    finally:
        await client.close()


def limited(**limits: int) -> NodeLimits:
    return NodeLimits(connection=ConnectionLimits(**limits))


def test_pipelined_requests_are_answered_in_order_whatever_completes_first(run: Run) -> None:
    async def main() -> None:
        handler = Recorder(hold=True)
        async with serving(handler) as (_, listener), client_of(listener) as client:
            client.send(*(b"%d" % number for number in range(50)))
            await handler.until(lambda: len(handler.slots) == 50)
            order = list(range(50))
            random.Random(1).shuffle(order)

            for number in order:
                handler.slots[number].send([b"answer ", b"%d" % number])

            assert [await client.receive() for _ in range(50)] == [b"answer %d" % number for number in range(50)]

    run(main())


def test_an_answer_can_leave_before_its_turn_ends_but_not_before_earlier_ones(run: Run) -> None:
    async def main() -> None:
        handler = Recorder(hold=True)
        async with serving(handler) as (server, listener), client_of(listener) as client:
            client.send(b"1", b"2", b"3", b"4")
            await handler.until(lambda: len(handler.slots) == 4)
            first, second, third, fourth = handler.slots
            [connection] = handler.connections

            with server.turn:
                second.send_at_once([b"two"])
                assert connection.bytes_out == 0
                first.send_at_once([b"one"])
                assert connection.bytes_out == 14
                third.send([b"three"])
                assert connection.bytes_out == 14
                fourth.send_at_once([b"four"])
                assert connection.bytes_out == 14 + 17

            assert [await client.receive() for _ in range(4)] == [b"one", b"two", b"three", b"four"]
            assert connection.bytes_out == 14 + 17

    run(main())


def test_a_request_may_arrive_byte_by_byte_and_many_at_once(run: Run) -> None:
    async def main() -> None:
        handler = Recorder()
        async with serving(handler) as (_, listener):
            with socket.create_connection(listener.address) as raw:
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                raw.setblocking(False)
                loop = asyncio.get_running_loop()
                for byte in framed(b"split") + framed(b"") + framed(b"again"):
                    await loop.sock_sendall(raw, bytes([byte]))
                    await asyncio.sleep(0)
                await handler.until(lambda: len(handler.frames) == 3)
                assert handler.frames == [b"split", b"", b"again"]
            async with client_of(listener) as client:
                client.send(*(b"%d" % number for number in range(1000)))
                assert [await client.receive() for _ in range(1000)] == [b"%d" % number for number in range(1000)]
                # One step of the loop for many requests, not one each.
                assert handler.reads < 500

    run(main())


def test_a_frame_of_many_megabytes_comes_whole_and_its_buffer_goes(run: Run) -> None:
    async def main() -> None:
        handler = Recorder(lambda frame: [frame[::-1]])
        large = random.Random(2).randbytes(20 * 1024 * 1024)
        async with serving(handler) as (server, listener), client_of(listener) as client:
            client.send(b"before", large, b"after")
            assert await client.receive() == b"erofeb"
            assert await client.receive() == large[::-1]
            assert await client.receive() == b"retfa"
            await handler.until(lambda: len(handler.frames) == 3)

            assert server.buffers.retained_bytes <= 16 * 1024 * 1024
            assert handler.connections[0].bytes_in == len(large) + len(b"beforeafter") + 12

    run(main())


@pytest.mark.parametrize(
    "garbage",
    [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", struct.pack(">i", 1001) + b"x" * 10, b"GET / HTTP/1.1\r\n\r\n"],
    ids=["negative", "huge", "over the limit", "another protocol"],
)
def test_garbage_closes_its_own_connection_with_one_line(
    run: Run, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        handler = Recorder()
        async with (
            serving(handler, limited(request_bytes_max=1000)) as (server, listener),
            client_of(listener) as good,
            client_of(listener) as bad,
        ):
            bad.send(b"first")
            assert await bad.receive() == b"first"
            bad.writer.write(framed(b"whole") + garbage)
            assert await bad.receive_end() in {b"", framed(b"whole")}
            # What came whole before the garbage was taken, and finished.
            assert handler.frames == [b"first", b"whole"]
            assert handler.unfinished == 0
            good.send(b"still here", b"x" * 1000)
            assert await good.receive() == b"still here"
            assert await good.receive() == b"x" * 1000
            assert len(server.connections) == 1
        assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1
        assert "PLAINTEXT connection 2 from 127.0.0.1:" in caplog.text

    with caplog.at_level(logging.INFO, "tidelog.net"):
        run(main())


def test_a_handler_that_fails_loses_only_its_connection(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        handler = Recorder()
        async with serving(handler) as (_, listener), client_of(listener) as good, client_of(listener) as bad:
            bad.send(b"before", b"fail here", b"never seen")
            await bad.receive_end()
            assert handler.unfinished == 0
            good.send(b"fine")
            assert await good.receive() == b"fine"
            assert handler.frames == [b"before", b"fail here", b"fine"]
            assert handler.closed == [handler.connections[1]]

    with caplog.at_level(logging.INFO, "tidelog.net"):
        run(main())
    # Not its text: what a library has made of the handlers' format is not the server's affair.
    (told,) = [each for each in caplog.records if "PLAINTEXT connection 2" in each.getMessage()]
    assert told.exc_info is not None
    assert repr(told.exc_info[1]) == "ValueError('fail here')"


def test_a_slot_can_close_the_connection_and_a_request_can_go_unanswered(run: Run) -> None:
    async def main() -> None:
        handler = Recorder()
        async with serving(handler) as (_, listener), client_of(listener) as client:
            client.send(b"silent", b"one", b"silent", b"two")
            assert [await client.receive(), await client.receive()] == [b"one", b"two"]
            client.send(b"close", b"never seen")
            await client.receive_end()
            await handler.until(lambda: len(handler.closed) == 1)
            assert handler.frames[-1] == b"close"

    run(main())


@pytest.fixture
def region_of(tmp_path: Path) -> Callable[[int, int], FileRegion]:
    content = random.Random(3).randbytes(3_000_000)
    (tmp_path / "log").write_bytes(content)
    file = OsFiles().open(str(tmp_path / "log"), writable=False)
    return lambda position, count: FileRegion(file, position, count)


def test_file_regions_and_bytes_leave_in_order(run: Run, region_of: Callable[[int, int], FileRegion]) -> None:
    chance = random.Random(4)
    answers: list[list[bytes | FileRegion]] = []
    for _ in range(60):
        parts: list[bytes | FileRegion] = []
        for _ in range(chance.randrange(1, 6)):
            if chance.random() < 0.5:
                parts.append(chance.randbytes(chance.choice([0, 1, 50, 5000, 200_000])))
            else:
                count = chance.choice([0, 1, 16_383, 16_384, 16_385, 100_000, 1_000_000])
                parts.append(region_of(chance.randrange(2_000_000), count))
        answers.append(parts)
    expected = [b"".join(each if isinstance(each, bytes) else each.read() for each in parts) for parts in answers]

    async def main() -> None:
        handler = Recorder(lambda frame: answers[int(frame)])
        async with serving(handler) as (_, listener), client_of(listener) as client:
            client.send(*(b"%d" % number for number in range(60)))
            for number in range(60):
                assert await client.receive() == expected[number]
            assert handler.connections[0].bytes_out == sum(len(each) + 4 for each in expected)

    run(main())


def test_a_file_that_is_not_in_memory_is_read_by_a_thread_and_arrives_whole(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = random.Random(5).randbytes(5_000_000)
    (tmp_path / "log").write_bytes(content)
    file = OsFiles().open(str(tmp_path / "log"), writable=False)
    # Not every file system can tell; every second look finds the file cold.
    looks = itertools.cycle([False, True])
    monkeypatch.setattr("tidelog.net.page_cache.is_warm", lambda _descriptor, _position: next(looks))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        slow_work = ThreadSlowWork(loop.call_soon_threadsafe)
        handler = Recorder(lambda _: [b"head", FileRegion(file, 0, 5_000_000), b"tail"])
        server = SocketServer(loop, LoopTransport(loop), slow_work=slow_work)
        listener = await server.listen("PLAINTEXT", "127.0.0.1", 0, handler)
        async with client_of(listener) as client, client_of(listener) as other:
            client.send(b"1", b"2", b"3")
            other.send(b"4")
            for each in (client, client, client, other):
                assert await each.receive() == b"head" + content + b"tail"
        server.abort()
        slow_work.close()

    run(main())


def test_a_region_whose_file_shrank_closes_the_connection(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "log").write_bytes(b"x" * 100_000)
    file = OsFiles().open(str(tmp_path / "log"))

    async def main() -> None:
        handler = Recorder(lambda _: [b"head", FileRegion(file, 50_000, 60_000), b"tail"])
        async with serving(handler) as (_, listener), client_of(listener) as client:
            client.send(b"read")
            received = await client.receive_end()
            assert len(received) <= 4 + 4 + 50_000
            assert b"tail" not in received

    with caplog.at_level(logging.INFO, "tidelog.net"):
        run(main())
    assert "before the region" in caplog.text


def test_a_peer_that_does_not_read_is_not_read_from_and_costs_little(run: Run) -> None:
    async def main() -> None:
        answer = b"a" * 100_000
        handler = Recorder(lambda _: [answer[:50_000], answer[50_000:]])
        async with serving(handler, limited(output_bytes_max=300_000)) as (_, listener):
            with socket.create_connection(listener.address) as raw:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 50_000)
                raw.setblocking(False)
                requests = framed(b"please") * 2000
                loop = asyncio.get_running_loop()
                sending = asyncio.ensure_future(loop.sock_sendall(raw, requests))
                await handler.until(lambda: len(handler.frames) > 3)
                connection = handler.connections[0]
                await eventually(lambda: not connection._reading)
                seen = len(handler.frames)
                assert connection.output_bytes <= 300_000 + 100_004
                assert seen < 500
                async with client_of(listener) as other:
                    other.send(b"others are served")
                    assert await other.receive() == answer

                received = 0
                async with asyncio.timeout(DEADLINE_S):
                    while received < 2000 * 100_004:
                        received += len(await loop.sock_recv(raw, 1 << 20))
                        assert connection.output_bytes <= 300_000 + 100_004
                    await sending
                assert len(handler.frames) == 2001

    run(main())


def test_a_peer_is_read_from_until_it_sends_more_than_is_taken(run: Run) -> None:
    async def main() -> None:
        handler = Recorder(lambda _: [bytes(20_000_000)])
        async with serving(handler, limited(output_bytes_max=1000)) as (_, listener):
            with socket.create_connection(listener.address) as raw:
                raw.sendall(framed(b"much"))
                await handler.until(lambda: len(handler.frames) == 1)
                [connection] = handler.connections
                await eventually(lambda: connection.bytes_out > 0)
                assert connection.output_bytes > 1000
                assert connection._reading

                raw.sendall(framed(b"more"))
                await eventually(lambda: not connection._reading)
                assert handler.frames == [b"much"]

                raw.setblocking(False)
                loop, received = asyncio.get_running_loop(), 0
                async with asyncio.timeout(DEADLINE_S):
                    while received < 2 * 20_000_004:
                        received += len(await loop.sock_recv(raw, 1 << 20))
                assert handler.frames == [b"much", b"more"]
                assert connection._reading

    run(main())


def test_unanswered_requests_are_bounded(run: Run) -> None:
    async def main() -> None:
        handler = Recorder(hold=True)
        async with (
            serving(handler, limited(unanswered_requests_max=10)) as (_, listener),
            client_of(listener) as client,
        ):
            client.send(*(b"%d" % number for number in range(100)))
            await handler.until(lambda: len(handler.slots) == 10)
            for number in range(100):
                expected = min(100, number + 10)
                await handler.until(lambda expected=expected: len(handler.slots) == expected)  # type: ignore[misc]
                assert handler.connections[0].unanswered_requests <= 10
                handler.slots[number].send([b"answer %d" % number])
                assert await client.receive() == b"answer %d" % number

    run(main())


def test_a_peer_that_resets_in_the_middle_of_an_answer_frees_everything(
    run: Run, region_of: Callable[[int, int], FileRegion]
) -> None:
    async def main() -> None:
        handler = Recorder(lambda _: [b"head", region_of(0, 3_000_000)] * 10)
        async with serving(handler) as (server, listener):
            before = open_sockets()
            with socket.create_connection(listener.address) as raw:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                raw.sendall(framed(b"read") * 3 + b"\x00\x00")
                await handler.until(lambda: len(handler.frames) > 0)
                raw.setblocking(False)
                await asyncio.get_running_loop().sock_recv(raw, 100_000)
            await handler.until(lambda: len(handler.closed) == 1)
            assert server.connections == {}
            assert handler.connections[0].output_bytes == 0
            await eventually(lambda: open_sockets() == before)

    run(main())


def test_answers_after_the_end_are_dropped(run: Run) -> None:
    async def main() -> None:
        handler = Recorder(hold=True)
        async with serving(handler) as (_, listener):
            async with client_of(listener) as client:
                client.send(b"one", b"two")
                await handler.until(lambda: len(handler.slots) == 2)
            await handler.until(lambda: len(handler.closed) == 1)
            handler.slots[1].send([b"late"])
            handler.slots[0].send([b"late"])
            assert handler.connections[0].output_bytes == 0

    run(main())


def test_connections_beyond_the_limit_wait_to_be_accepted(run: Run) -> None:
    async def main() -> None:
        handler = Recorder()
        async with (
            serving(handler, NodeLimits(connections_max=2)) as (server, listener),
            client_of(listener) as first,
            client_of(listener) as second,
            client_of(listener) as third,
        ):
            second.send(b"second")
            assert await second.receive() == b"second"
            third.send(b"third")
            first.send(b"first")
            assert await first.receive() == b"first"
            assert len(server.connections) == 2
            assert handler.frames == [b"second", b"first"]

            await first.close()

            assert await third.receive() == b"third"

    run(main())


def test_connections_of_one_address_beyond_its_limit_are_closed(run: Run) -> None:
    async def main() -> None:
        handler = Recorder()
        limits = NodeLimits(connections_per_ip_max=2, connections_per_ip_overrides={"127.0.0.2": 3, "localhost": 1})
        async with serving(handler, limits) as (server, listener):
            async with client_of(listener) as one, client_of(listener) as two:
                one.send(b"one")
                assert await one.receive() == b"one"
                assert await two.receive_end() == b""
                assert len(server.connections) == 1
            await handler.until(lambda: len(handler.closed) == 1)
            async with client_of(listener) as again:
                again.send(b"again")
                assert await again.receive() == b"again"

    run(main())


def test_idle_connections_are_closed_and_waiting_ones_are_not(run: Run) -> None:
    async def main() -> None:
        handler = Recorder(hold=True)
        async with (
            serving(handler, limited(idle_ms_max=60)) as (server, listener),
            client_of(listener) as idle,
            client_of(listener) as waiting,
        ):
            waiting.send(b"takes its time")
            await handler.until(lambda: len(handler.slots) == 1)
            assert await idle.receive_end() == b""
            await handler.until(lambda: len(handler.closed) == 1)
            # Its silence is ours.
            assert [each.unanswered_requests for each in server.connections.values()] == [1]
            handler.slots[0].send([b"here"])
            assert await waiting.receive() == b"here"
            assert await waiting.receive_end() == b""

    run(main())


def test_drain_answers_what_is_in_flight_then_closes(run: Run) -> None:
    async def main() -> None:
        handler = Recorder(hold=True)
        async with serving(handler) as (server, listener), client_of(listener) as client, client_of(listener) as quiet:
            client.send(b"one", b"two")
            await handler.until(lambda: len(handler.slots) == 2)
            draining = asyncio.ensure_future(server.drain(timeout_ms=int(DEADLINE_S * 1000)))
            assert await quiet.receive_end() == b""
            await quiet.close()
            client.send(b"too late")
            with pytest.raises(OSError, match="Connect"):
                await asyncio.open_connection(*listener.address)

            handler.slots[1].send([b"second"])
            handler.slots[0].send([b"first"])

            assert [await client.receive(), await client.receive()] == [b"first", b"second"]
            assert await client.receive_end() == b""
            await client.close()
            async with asyncio.timeout(DEADLINE_S):
                await draining
            assert handler.frames == [b"one", b"two"]
            assert server.connections == {}

    run(main())


def test_an_answer_that_was_sent_before_the_close_arrives_whatever_the_peer_still_sends(run: Run) -> None:
    async def main() -> None:
        handler = Recorder(hold=True)
        async with serving(handler) as (server, listener):
            with socket.create_connection(listener.address) as raw:
                raw.sendall(framed(b"one"))
                await handler.until(lambda: len(handler.slots) == 1)
                draining = asyncio.ensure_future(server.drain(timeout_ms=int(DEADLINE_S * 1000)))
                await asyncio.sleep(0)
                raw.sendall(framed(b"unread") * 1000)
                answer = bytes(50_000)
                handler.slots[0].send([answer])
                await eventually(lambda: not server.connections or handler.connections[0].output_bytes == 0)
                # Had the server closed with requests unread, its reset would have thrown the answer away.
                raw.setblocking(False)
                loop = asyncio.get_running_loop()
                received = b""
                async with asyncio.timeout(DEADLINE_S):
                    while piece := await loop.sock_recv(raw, 1 << 20):
                        received += piece
                assert received == framed(answer)
            await draining

    run(main())


def test_drain_cuts_off_at_its_deadline(run: Run) -> None:
    async def main() -> None:
        handler = Recorder(hold=True)
        async with serving(handler) as (server, listener), client_of(listener) as client:
            client.send(b"never answered")
            await handler.until(lambda: len(handler.slots) == 1)
            async with asyncio.timeout(DEADLINE_S):
                await server.drain(timeout_ms=20)
            assert await client.receive_end() == b""

    run(main())


def test_connections_know_who_and_where(run: Run) -> None:
    async def main() -> None:
        handler = Recorder()
        loop = asyncio.get_running_loop()
        server = SocketServer(loop, LoopTransport(loop))
        inside = await server.listen("INTERNAL", "127.0.0.1", 0, handler)
        outside = await server.listen("EXTERNAL", "localhost", 0, handler)
        async with client_of(inside) as client:
            client.send(b"hello")
            assert await client.receive() == b"hello"
            async with client_of(outside) as another:
                another.send(b"hello")
                assert await another.receive() == b"hello"
        first, second = handler.connections
        assert (first.listener_name, second.listener_name) == ("INTERNAL", "EXTERNAL")
        assert first.local_address == inside.address
        assert first.peer_address.host == "127.0.0.1"
        assert first.principal == ANONYMOUS
        assert str(first.principal) == "User:ANONYMOUS"
        assert first.client_software == ("unknown", "unknown")
        assert (first.bytes_in, first.bytes_out) == (9, 9)
        assert first.connection_id != second.connection_id
        server.abort()

    run(main())


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_both_families_are_served_and_an_ipv4_peer_has_an_ipv4_address(run: Run) -> None:
    async def main() -> None:
        handler = Recorder()
        async with serving(handler, host="") as (_, listener):
            for host in ("127.0.0.1", "::1"):
                client = await RawClient.connect(host, listener.address.port)
                client.send(host.encode())
                assert await client.receive() == host.encode()
                await client.close()
            assert [each.peer_address.host for each in handler.connections] == ["127.0.0.1", "::1"]
        async with serving(handler, host="::1") as (_, listener):
            assert str(listener) == f"PLAINTEXT://[::1]:{listener.address.port}"
            client = await RawClient.connect("::1", listener.address.port)
            await client.close()

    run(main())


def test_an_address_that_cannot_be_had_is_said_in_one_sentence(run: Run) -> None:
    async def main() -> None:
        async with serving(Recorder()) as (server, listener):
            with pytest.raises(
                ListenError, match=r"cannot listen on 127\.0\.0\.1:\d+: Address already in use; stop the program"
            ):
                await server.listen("SECOND", "127.0.0.1", listener.address.port, Recorder())
            with pytest.raises(ListenError, match=r"cannot listen on no-such-host\.invalid:9092"):
                await server.listen("SECOND", "no-such-host.invalid", 9092, Recorder())

    run(main())


def test_socket_options_are_set(run: Run) -> None:
    async def main() -> None:
        handler = Recorder()
        limits = NodeLimits(socket=SocketOptions(send_buffer_bytes=30_000, receive_buffer_bytes=40_000))
        async with serving(handler, limits) as (_, listener), client_of(listener) as client:
            client.send(b"x")
            await client.receive()
            transport = handler.connections[0]._transport
            assert transport is not None
            sock = transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) != 0
            # Linux doubles what it is asked for.
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) in {30_000, 60_000}
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) in {40_000, 80_000}

    run(main())


@pytest.mark.parametrize("loop", LOOPS)
def test_running_out_of_descriptors_delays_connections_and_breaks_none(loop: str) -> None:
    """In a process of its own: the tests' own may have a cluster in it, which needs descriptors too, and gives some back."""
    process = multiprocessing.get_context("spawn").Process(target=run_out_of_descriptors, args=(loop,))
    process.start()
    process.join(4 * DEADLINE_S)
    if process.is_alive():
        process.kill()
        process.join()
    assert process.exitcode == 0


def run_out_of_descriptors(loop_name: str) -> None:
    transport.OUT_OF_DESCRIPTORS_PAUSE_S = 0.3
    # A codec is a file that is imported at its first use, here by the loop when it connects.
    "127.0.0.1".encode("idna")
    said: list[str] = []
    listening = logging.Handler(logging.INFO)
    listening.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("tidelog.net").addHandler(listening)

    def refusals() -> int:
        return sum("no connection can be accepted" in line for line in said)

    async def main() -> None:
        handler = Recorder()
        async with serving(handler) as (_, listener), client_of(listener) as early:
            early.send(b"early")
            assert await early.receive() == b"early"
            raw = socket.socket()
            raw.setblocking(False)
            before = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest_descriptor() + 1, before[1]))
            filler = []
            try:
                while True:
                    try:
                        filler.append(os.dup(0))
                    except OSError:
                        break
                loop = asyncio.get_running_loop()
                await loop.sock_connect(raw, tuple(listener.address))
                await eventually(lambda: refusals() > 0)
                early.send(b"still served")
                assert await early.receive() == b"still served"
                # It is not tried, and said, again and again.
                assert refusals() == 1
            finally:
                for descriptor in filler:
                    os.close(descriptor)
                resource.setrlimit(resource.RLIMIT_NOFILE, before)
            await loop.sock_sendall(raw, framed(b"late"))
            assert await asyncio.wait_for(loop.sock_recv(raw, 100), DEADLINE_S) == framed(b"late")
            raw.close()

    with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
        runner.run(main())

"""TLS on real sockets, over asyncio's own loop and over uvloop. The other side is asyncio's own TLS, no code of ours."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
import uvloop

from tests.support.net import DEADLINE_S, RawClient, Recorder, eventually, framed, open_sockets
from tests.support.tls_files import material, new_authority, trusted
from tidelog.model.principal import ANONYMOUS, Principal
from tidelog.model.slow_work import ThreadSlowWork
from tidelog.net.connection_security import ConnectionSecurity
from tidelog.net.errors import AuthenticationError, ConnectFailedError, ConnectionLostError
from tidelog.net.limits import ConnectionLimits, NodeLimits
from tidelog.net.node_connection import ConnectionParts, NodeConnection
from tidelog.net.socket_server import Listener, SocketServer
from tidelog.net.tls import ClientTls, ServerTls
from tidelog.net.transport import LoopTransport
from tidelog.security.certificate_authority import Certificate, CertificateAuthority
from tidelog.security.listener_settings import ListenerSettings
from tidelog.security.tls_contexts import client_context, server_context
from tidelog.security.tls_settings import TlsSettings
from tidelog.security.tls_stores import TlsStores
from tidelog.storage.file_region import FileRegion
from tidelog.storage.os_files import OsFiles

Run = Callable[[Coroutine[Any, Any, None]], None]

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
AUTHORITY, OTHER = new_authority(), new_authority("Other CA")
NODE = AUTHORITY.node_certificate(["localhost", "127.0.0.1"])
ALICE = AUTHORITY.client_certificate("alice")


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    def run_it(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(main)

    return run_it


def settings(**given: object) -> TlsSettings:
    return TlsSettings.of(ListenerSettings({name.replace("_", "."): value for name, value in given.items()}, "L"))


def stores(certificate: Certificate | None, *authorities: CertificateAuthority) -> TlsStores:
    key = None if certificate is None else material(certificate)
    return TlsStores(key, trusted(*authorities) if authorities else None, (None, None))


def accepting(certificate: Certificate = NODE, /, **given: object) -> ssl.SSLContext:
    return server_context(settings(**given), stores(certificate, AUTHORITY))


def calling(certificate: Certificate | None = None, authority: CertificateAuthority = AUTHORITY) -> ssl.SSLContext:
    return client_context(settings(), stores(certificate, authority))


class TlsClient(RawClient):
    """Frames over asyncio's TLS."""

    @classmethod
    async def open(cls, listener: Listener, context: ssl.SSLContext) -> TlsClient:
        async with asyncio.timeout(DEADLINE_S):
            return cls(*await asyncio.open_connection("127.0.0.1", listener.address.port, ssl=context))


@asynccontextmanager
async def serving(
    handler: Recorder,
    tls: ServerTls | None = None,
    limits: NodeLimits | None = None,
    slow_work: ThreadSlowWork | None = None,
) -> AsyncIterator[tuple[SocketServer, Listener, ServerTls]]:
    loop = asyncio.get_running_loop()
    server = SocketServer(loop, LoopTransport(loop), limits, slow_work=slow_work)
    tls = tls or ServerTls(accepting())
    listener = await server.listen("SSL", "127.0.0.1", 0, handler, tls=tls)
    try:
        yield server, listener, tls
    finally:
        server.abort()


@asynccontextmanager
async def client_of(listener: Listener, context: ssl.SSLContext | None = None) -> AsyncIterator[TlsClient]:
    client = await TlsClient.open(listener, context or calling())
    try:
        yield client
    finally:
        with contextlib.suppress(ssl.SSLError):
            await client.close()


def name_of(certificate: bytes) -> Principal:
    return Principal("User", f"{len(certificate) > 0}")


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_requests_are_answered_in_order_over_both_versions(run: Run, version: str) -> None:
    async def main() -> None:
        handler = Recorder()
        tls = ServerTls(accepting(ssl_enabled_protocols=(version,)))
        async with serving(handler, tls) as (_, listener, _), client_of(listener) as client:
            client.send(b"one", b"two", b"three")
            answers = [await client.receive() for _ in range(3)]

            assert answers == [b"one", b"two", b"three"]
            session = handler.connections[0].tls
            assert session is not None
            assert session.version == version
            assert session.cipher
            assert session.peer_certificate is None
            assert handler.connections[0].principal is ANONYMOUS
            assert (tls.handshakes, tls.failed_handshakes) == (1, 0)

    run(main())


def test_frames_of_every_size_arrive_and_leave_whole(run: Run) -> None:
    async def main() -> None:
        handler = Recorder()
        random = Random(1)
        frames = [
            random.randbytes(size) for size in (0, 1, 16_380, 16_384, 16_385, 65_536, 262_145, 1_048_576, 3_000_000)
        ]
        async with serving(handler) as (server, listener, _), client_of(listener) as client:
            client.send(*frames)
            answers = [await client.receive() for _ in frames]

            assert answers == frames
            assert server.backlog.held_bytes == 0

    run(main())


def test_the_holder_of_a_certificate_is_named_by_it(run: Run) -> None:
    async def main() -> None:
        handler = Recorder()
        tls = ServerTls(accepting(ssl_client_auth="required"), name_of)
        async with serving(handler, tls) as (_, listener, _), client_of(listener, calling(ALICE)) as client:
            client.send(b"hello")
            await client.receive()

            connection = handler.connections[0]
            assert connection.principal == Principal("User", "True")
            assert connection.tls is not None
            assert connection.tls.peer_certificate == material(ALICE).certificate

    run(main())


async def refused(listener: Listener, context: ssl.SSLContext) -> None:
    """A handshake fails on this side at once, or with the first answer that does not come (TLS 1.3)."""

    async def ask() -> None:
        async with client_of(listener, context) as client:
            client.send(b"hello")
            await client.receive()

    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await ask()


def refuse(_certificate: bytes) -> Principal:
    raise ValueError("No rules apply to CN=alice")


@pytest.mark.parametrize(
    ("given", "client", "principal_of", "told"),
    [
        (
            {"ssl_client_auth": "required"},
            calling,
            None,
            "the client showed no certificate, and ssl.client.auth",
        ),
        (
            {"ssl_client_auth": "required"},
            lambda: calling(OTHER.client_certificate("mallory")),
            None,
            "the certificate of the client is not accepted: its authority is not in the trust store",
        ),
        (
            {"ssl_client_auth": "requested"},
            lambda: calling(AUTHORITY.client_certificate("late", lifetime=timedelta(hours=-1))),
            None,
            "the certificate of the client is not accepted: certificate has expired",
        ),
        ({"ssl_client_auth": "required"}, lambda: calling(ALICE), refuse, "closed: No rules apply to CN=alice"),
        (
            {},
            lambda: calling(None, OTHER),
            None,
            "closed the connection during the TLS handshake (does it trust the certificate here?)",
        ),
    ],
    ids=["none", "unknown authority", "expired", "no rule", "not trusted by the client"],
)
def test_who_is_not_accepted_is_told_in_one_line(
    run: Run,
    caplog: pytest.LogCaptureFixture,
    given: dict[str, object],
    client: Callable[[], ssl.SSLContext],
    principal_of: Callable[[bytes], Principal] | None,
    told: str,
) -> None:
    async def main() -> None:
        handler = Recorder()
        tls = ServerTls(accepting(**given), principal_of)
        async with serving(handler, tls) as (server, listener, _):
            await refused(listener, client())
            await eventually(lambda: not server.connections)

            assert handler.connections == handler.closed == []
            assert (tls.handshakes, tls.failed_handshakes) == (0, 1)

    with caplog.at_level(logging.INFO):
        run(main())

    lines = [record.getMessage() for record in caplog.records if record.name.startswith("tidelog")]
    assert len(lines) == 1
    assert told in lines[0]


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (framed(b"\0\x12\0\3\0\0\0\0"), "a frame of the Kafka protocol without TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request"),
        (b"\xff\xff\xff", "bytes that no TLS connection begins with"),
    ],
)
def test_plain_bytes_on_a_tls_listener_are_told_in_one_line(
    run: Run, caplog: pytest.LogCaptureFixture, sent: bytes, told: str
) -> None:
    async def main() -> None:
        handler = Recorder()
        async with serving(handler) as (server, listener, _):
            client = await RawClient.connect(*listener.address)
            client.writer.write(sent)

            assert await client.receive_end() == b""
            await eventually(lambda: not server.connections)
            await client.close()
            assert handler.frames == []

    run(main())

    assert [told in record.getMessage() for record in caplog.records] == [True]


def test_tls_on_a_plain_listener_is_told_in_one_line(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = SocketServer(loop, LoopTransport(loop))
        listener = await server.listen("PLAINTEXT", "127.0.0.1", 0, Recorder())
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await TlsClient.open(listener, calling())
        await eventually(lambda: not server.connections)
        server.abort()

    run(main())

    assert ["the start of a TLS connection" in record.getMessage() for record in caplog.records] == [True]


def test_a_handshake_that_does_not_end_is_cut_off(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        tls = ServerTls(accepting(), handshake_ms_max=50)
        async with serving(Recorder(), tls) as (server, listener, _):
            client = await RawClient.connect(*listener.address)
            client.writer.write(b"\x16\x03\x01")

            assert await client.receive_end() == b""
            await client.close()
            await eventually(lambda: not server.connections)

    run(main())

    assert "the TLS handshake was not done within 0.05 s" in caplog.text


def test_a_failed_handshake_is_closed_after_the_configured_delay(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        limits = NodeLimits(connection=ConnectionLimits(failed_authentication_delay_ms=200))
        async with serving(Recorder(), limits=limits) as (_, listener, _):
            client = await RawClient.connect(*listener.address)
            begun_s = loop.time()
            client.writer.write(b"\0\0\0\1x")
            await client.receive_end()

            assert loop.time() - begun_s >= 0.19
            await client.close()

    run(main())


def half_hello() -> bytes:
    """The beginning of what a client says, without its end."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    end = calling().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        end.do_handshake()
    return outgoing.read()[:-20]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_thousand_half_handshakes_leave_the_node_serving_and_its_memory_small(run: Run) -> None:
    async def main() -> None:
        handler = Recorder()
        count = 1000 if open_sockets() < 100 else 500
        async with serving(handler) as (server, listener, _), client_of(listener) as client:
            hello = half_hello()
            before_bytes = resident_bytes()
            waiting = []
            for _ in range(count):
                each = await RawClient.connect(*listener.address)
                each.writer.write(hello)
                waiting.append(each)
            await eventually(lambda: len(server.connections) == count + 1)
            client.send(b"still there")

            assert await client.receive() == b"still there"
            assert len(handler.connections) == 1
            # asyncio's own client objects included.
            assert resident_bytes() - before_bytes < count * 128 * 1024
            for each in waiting:
                each.writer.transport.abort()
            await eventually(lambda: len(server.connections) == 1)

    run(main())


def test_a_new_context_is_for_new_connections_and_old_ones_go_on(run: Run) -> None:
    async def main() -> None:
        async with serving(Recorder()) as (_, listener, tls), client_of(listener) as before:
            before.send(b"before")
            assert await before.receive() == b"before"

            tls.context = accepting(OTHER.node_certificate(["127.0.0.1"]))

            before.send(b"goes on")
            assert await before.receive() == b"goes on"
            async with client_of(listener, calling(None, OTHER)) as after:
                after.send(b"after")
                assert await after.receive() == b"after"

    run(main())


def test_files_are_encrypted_and_arrive_whole(run: Run, tmp_path: Path) -> None:
    content = Random(2).randbytes(2_500_000)
    path = tmp_path / "file"
    path.write_bytes(content)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        file = OsFiles().open(str(path))
        regions = [(0, len(content)), (5, 100), (1_000_000, 20_000), (17, 1_200_000)]
        handler = Recorder(lambda frame: [frame, FileRegion(file, *regions[int(frame)]), b"end"])
        slow_work = ThreadSlowWork(loop.call_soon_threadsafe)
        async with serving(handler, slow_work=slow_work) as (_, listener, _), client_of(listener) as client:
            client.send(b"0", b"1", b"2", b"3")
            for number, (position, count) in enumerate(regions):
                answer = await client.receive()
                assert answer == str(number).encode() + content[position : position + count] + b"end"
        slow_work.close()

    run(main())


def test_a_peer_that_does_not_read_is_not_asked_for_more(run: Run) -> None:
    async def main() -> None:
        handler = Recorder(lambda frame: [frame * 1000])
        async with serving(handler) as (server, listener, _), client_of(listener) as client:
            client.reader._transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(400):
                client.send(b"x" * 100)
            await handler.until(lambda: len(handler.frames) > 10)
            await eventually(lambda: next(iter(server.connections.values())).output_bytes > 1024 * 1024)
            taken = len(handler.frames)
            assert taken < 400

            client.reader._transport.resume_reading()  # type: ignore[attr-defined]
            answers = [await client.receive() for _ in range(400)]
            assert answers == [b"x" * 100_000] * 400

    run(main())


def test_draining_sends_what_is_owed_and_says_that_it_ends(run: Run) -> None:
    async def main() -> None:
        handler = Recorder(hold=True)
        async with serving(handler) as (server, listener, _), client_of(listener) as client:
            client.send(b"owed")
            await handler.until(lambda: bool(handler.slots))
            drained = asyncio.create_task(server.drain(20_000))
            await asyncio.sleep(0)
            handler.slots[0].send([b"a" * 500_000])

            assert await client.receive() == b"a" * 500_000
            # Not a truncation, which asyncio would raise.
            assert await client.receive_end() == b""
            await client.close()
            await drained

    run(main())


def test_a_client_that_says_goodbye_is_closed_in_good_order(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        handler = Recorder()
        async with serving(handler) as (server, listener, _):
            async with client_of(listener) as client:
                client.send(b"hello")
                await client.receive()
            await handler.until(lambda: bool(handler.closed))
            assert not server.connections

    run(main())

    assert caplog.records == []


def test_garbage_after_the_handshake_closes_the_connection_with_one_line(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        handler = Recorder()
        async with serving(handler) as (server, listener, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.address.port)
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            end = calling().wrap_bio(incoming, outgoing, server_hostname="localhost")
            while True:
                try:
                    end.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    writer.write(outgoing.read())
                    incoming.write(await reader.read(65536))
            writer.write(outgoing.read() + b"\x17\x03\x03\x00\x20" + bytes(32))
            await handler.until(lambda: bool(handler.closed))
            assert not server.connections
            writer.close()

    run(main())

    assert len([record for record in caplog.records if record.name.startswith("tidelog")]) == 1


# Calling other nodes.


def node_connection(listener: Listener, tls: ClientTls, host: str = "127.0.0.1") -> NodeConnection:
    loop = asyncio.get_running_loop()
    parts = ConnectionParts(loop, LoopTransport(loop), Random(1))
    return NodeConnection(parts, host, listener.address.port, security=ConnectionSecurity(tls))


def request(connection: NodeConnection, body: bytes = b"") -> list[bytes]:
    return [struct.pack(">hhi", 18, 0, connection.next_correlation_id()), body]


def echo(frame: bytes) -> list[bytes]:
    return [frame[4:]]


def test_a_node_is_called_over_tls_and_shows_its_certificate(run: Run) -> None:
    async def main() -> None:
        handler = Recorder(echo)
        tls = ServerTls(accepting(ssl_client_auth="required"), name_of)
        async with serving(handler, tls) as (_, listener, _):
            connection = node_connection(listener, ClientTls(calling(NODE)))
            bodies = [b"", b"x" * 100, b"y" * 2_000_000]
            answers = [await connection.request(request(connection, body), timeout_ms=10_000) for body in bodies]

            assert [answer[4:] for answer in answers] == bodies
            assert handler.connections[0].principal == Principal("User", "True")
            connection.close()

    run(main())


@pytest.mark.parametrize(
    ("context", "host", "problem"),
    [
        (lambda: calling(None, OTHER), "127.0.0.1", "its authority is not in the trust store"),
        (calling, "127.0.0.2", "IP address mismatch, certificate is not valid for '127.0.0.2'"),
    ],
)
def test_a_node_that_is_not_the_right_one_is_not_called(
    run: Run, caplog: pytest.LogCaptureFixture, context: Callable[[], ssl.SSLContext], host: str, problem: str
) -> None:
    async def main() -> None:
        async with serving(Recorder(echo)) as (server, listener, _):
            await server.listen("OTHER", "127.0.0.2", listener.address.port, Recorder(echo), tls=ServerTls(accepting()))
            connection = node_connection(listener, ClientTls(context()), host)

            for _ in range(2):
                with pytest.raises(AuthenticationError, match=problem):
                    await connection.request(request(connection), timeout_ms=10_000)
            connection.close()

    run(main())

    told = [record.getMessage() for record in caplog.records if record.name == "tidelog.net.node_connection"]
    assert len(told) == 1
    assert problem in told[0]


def test_a_host_name_is_not_checked_where_that_is_off(run: Run) -> None:
    async def main() -> None:
        certificate = AUTHORITY.node_certificate(["elsewhere.example"])
        context = client_context(settings(ssl_endpoint_identification_algorithm=""), stores(None, AUTHORITY))
        async with serving(Recorder(echo), ServerTls(accepting(certificate))) as (_, listener, _):
            connection = node_connection(listener, ClientTls(context))

            assert await connection.request(request(connection, b"hi"), timeout_ms=10_000)
            connection.close()

    run(main())


def test_a_node_without_tls_is_said_to_be_one(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = SocketServer(loop, LoopTransport(loop))
        listener = await server.listen("PLAINTEXT", "127.0.0.1", 0, Recorder(echo))
        connection = node_connection(listener, ClientTls(calling()))

        with pytest.raises(
            (AuthenticationError, ConnectFailedError), match="closed the connection during the TLS handshake"
        ):
            await connection.request(request(connection), timeout_ms=10_000)
        connection.close()
        server.abort()

    run(main())


def test_a_node_that_wants_a_certificate_refuses_one_without(run: Run) -> None:
    async def main() -> None:
        tls = ServerTls(accepting(ssl_client_auth="required"))
        async with serving(Recorder(echo), tls) as (_, listener, _):
            connection = node_connection(listener, ClientTls(calling()))

            with pytest.raises(
                (AuthenticationError, ConnectionLostError), match="requires a certificate, and none was shown"
            ):
                await connection.request(request(connection), timeout_ms=10_000)
            connection.close()

    run(main())


def test_a_call_that_is_given_up_leaves_no_socket(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        parts = ConnectionParts(loop, LoopTransport(loop), Random(1))
        security = ConnectionSecurity(ClientTls(calling()))
        with socket.create_server(("127.0.0.1", 0)) as silent:
            before = open_sockets()
            connection = NodeConnection(parts, "127.0.0.1", silent.getsockname()[1], security=security)
            connection.connect()
            await eventually(lambda: open_sockets() == before + 1)
            connection.close()
            await eventually(lambda: open_sockets() == before)

    run(main())

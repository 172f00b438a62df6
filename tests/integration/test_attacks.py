"""Peers that mean no good, or too much, at once: a node goes on serving others, soon, and in little memory."""

from __future__ import annotations

import os
import resource
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.cluster_load import ClientSettings, OurLoad, wait_until
from tests.support.running_node import DEADLINE_S, RunningNode
from tests.support.sasl_conversations import GOOD, api_versions, authenticate, authenticated, handshake, shaken
from tests.support.sasl_node import sasl_settings
from tests.support.sasl_peer import Peer
from tests.support.secure_node import SSL, SecureNode
from tidelog import Admin

HALF_HANDSHAKES = 2000
BURST = 600
SILENT = 300


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def half_hello() -> bytes:
    """The beginning of what a TLS client says, without its end."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    end = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        end.do_handshake()
    return outgoing.read()[:-20]


@contextmanager
def peers(bootstrap: str, count: int, said: bytes) -> Iterator[list[socket.socket]]:
    """So many connections that have said this much, and say nothing more. Both ends of each are in this process."""
    host, _, port = bootstrap.rpartition(":")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * count + 500)), hard))
    with ExitStack() as held:
        opened = []
        for _ in range(count):
            opened.append(held.enter_context(socket.create_connection((host, int(port)), DEADLINE_S / 2)))
            if said:
                opened[-1].sendall(said)
        yield opened


def test_thousands_of_half_handshakes_do_not_keep_a_good_client_from_its_work(tmp_path: Path) -> None:
    with SecureNode(tmp_path) as node:
        with Admin(bootstrap_servers=node.bootstrap()) as admin:
            admin.create_topic("orders")
        settings = ClientSettings({name: value for name, value in node.tls().items() if "bootstrap" not in name}, {})
        with OurLoad(node.bootstrap(SSL), "orders", 0, settings=settings) as load:
            load.until_written()
            before_bytes, began_s = resident_bytes(), time.monotonic()
            with peers(node.bootstrap(SSL), HALF_HANDSHAKES, half_hello()):
                load.until_written()
                # Somebody new is let in too.
                with Admin(**node.tls()) as admin:
                    admin.list_topics()
                grown_bytes, gap_s = resident_bytes() - before_bytes, load.longest_gap_s(began_s)

    assert load.failed == []
    assert gap_s < 5
    # The peers' own sockets and the producer's records included.
    assert grown_bytes < HALF_HANDSHAKES * 64 * 1024


def test_all_of_a_burst_of_clients_find_room_to_wait_while_the_node_is_busy(tmp_path: Path) -> None:
    frame = api_versions()
    busy, done = threading.Event(), threading.Event()

    async def hold() -> None:
        """The loop does nothing else, and so accepts nobody."""
        busy.set()
        done.wait(DEADLINE_S)

    with RunningNode(tmp_path) as node, ThreadPoolExecutor(1) as other_thread:
        held = other_thread.submit(node.run, hold())
        assert busy.wait(DEADLINE_S)
        # Whoever finds no room is not answered, and would wait here.
        with peers(node.bootstrap, BURST, struct.pack(">i", len(frame)) + frame) as opened:
            done.set()
            held.result(DEADLINE_S)
            answers = [each.recv(4) for each in opened]

    assert all(len(each) == 4 for each in answers)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\0\0", id="half a size"),
        pytest.param(struct.pack(">i", 500_000) + handshake()[:5], id="the start of a large frame"),
        pytest.param(struct.pack(">i", len(handshake())) + handshake(), id="a handshake"),
        pytest.param(
            struct.pack(">i", len(handshake()))
            + handshake()
            + struct.pack(">i", len(authenticate(GOOD)))
            + authenticate(GOOD)[:-3],
            id="half a token",
        ),
    ],
)
def test_whoever_does_not_finish_to_log_in_is_closed_and_costs_little(tmp_path: Path, said: bytes) -> None:
    settings = sasl_settings(("PLAIN",), **{"connections.max.idle.ms": "1500"})
    with RunningNode(tmp_path, settings=settings) as node:
        endpoint = node.node.endpoint("CLIENTS")
        before_bytes = resident_bytes()
        with peers(f"{endpoint.host}:{endpoint.port}", SILENT, said) as opened, Peer(node) as good:
            good.send(handshake(), authenticate(GOOD), api_versions())
            assert [good.answer(), good.answer()] == [shaken(), authenticated()]
            assert good.answer() is not None
            assert resident_bytes() - before_bytes < SILENT * 64 * 1024
            for each in opened:
                while each.recv(1000):
                    pass
        wait_until(lambda: not node.node._server.connections, "nobody is connected any more")


def test_the_largest_request_before_a_login_is_what_is_configured(tmp_path: Path) -> None:
    settings = sasl_settings(("PLAIN",), **{"sasl.server.max.receive.size": "1000"})
    with RunningNode(tmp_path, settings=settings) as node:
        with Peer(node) as peer:
            peer.socket.sendall(struct.pack(">i", 1001))
            assert peer.answer() is None
        with Peer(node) as peer:
            peer.send(handshake(), authenticate(b"\0alice\0" + b"x" * 900))
            assert peer.answer() == shaken()
            assert peer.answer() is not None
        with Peer(node) as peer:
            peer.send(handshake(), authenticate(GOOD), api_versions(0) + b"x" * 5000)
            assert [peer.answer(), peer.answer()] == [shaken(), authenticated()]
            assert peer.answer() is not None

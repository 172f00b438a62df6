"""A metrics port with TLS and a token, of a node in a process of its own."""

from __future__ import annotations

import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from tests.support.apache_kafka import free_ports
from tests.support.command_process import CommandProcess
from tests.support.pem_files import write_certificate
from tests.support.running_node import DEADLINE_S

TOKEN = "a-secret-of-the-scraper"


class Watched:
    """The metrics port of a node, and somebody who trusts its certificate."""

    def __init__(self, port: int, certificate: Path) -> None:
        self.port = port
        self._trust = ssl.create_default_context(cafile=str(certificate))

    def get(self, token: str | None, path: str = "/metrics") -> tuple[int, str]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        request = Request(f"https://127.0.0.1:{self.port}{path}", headers=headers)
        try:
            with urlopen(request, timeout=DEADLINE_S, context=self._trust) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def get_in_time(self, token: str) -> int:
        """The status, once those who came before have left."""
        deadline_s = time.monotonic() + DEADLINE_S
        while True:
            try:
                return self.get(token)[0]
            except (URLError, ConnectionError):
                # Refused, since there are as many as there may be.
                assert time.monotonic() < deadline_s


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    directory = tmp_path_factory.mktemp("watched")
    certificate, key = write_certificate(directory)
    (directory / "token").write_text(f"{TOKEN}\n")
    (port,) = free_ports(1)
    with CommandProcess(
        *("broker", "--set", "node.id=1", "--set", f"log.dirs={directory}/data"),
        *("--set", "process.roles=broker,controller", "--set", "controller.listener.names=CONTROLLER"),
        *("--set", "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"),
        *("--set", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"),
        *("--metrics-port", str(port), "--metrics-cert", str(certificate), "--metrics-key", str(key)),
        *("--metrics-token-file", str(directory / "token")),
    ) as node:
        node.ready_line()
        yield Watched(port, certificate)
        node.send(signal.SIGTERM)
        code, errors = node.end()
    assert code == 0
    assert f"metrics are at https://127.0.0.1:{port}/metrics" in errors
    assert TOKEN not in errors
    assert "Traceback" not in errors
    assert "eof_received" not in errors


def test_metrics_are_shown_to_those_who_have_the_token(watched: Watched) -> None:
    status, text = watched.get(TOKEN)

    assert status == 200
    assert "kafka_server_kafka_server_broker_state" in text
    assert watched.get(TOKEN, "/health")[0] == 200


@pytest.mark.parametrize("token", [None, "", "another"])
@pytest.mark.parametrize("path", ["/metrics", "/health", "/absent"])
def test_others_are_shown_nothing(watched: Watched, token: str | None, path: str) -> None:
    status, text = watched.get(token, path)

    assert status == 401
    assert "kafka" not in text


def test_plain_bytes_are_not_answered(watched: Watched) -> None:
    with pytest.raises((URLError, ConnectionError)):
        urlopen(f"http://127.0.0.1:{watched.port}/metrics", timeout=DEADLINE_S).read()

    assert watched.get(TOKEN)[0] == 200


def test_those_who_begin_a_handshake_and_leave_do_no_harm(watched: Watched) -> None:
    for _ in range(40):
        with socket.create_connection(("127.0.0.1", watched.port), DEADLINE_S) as sock:
            sock.sendall(b"\x16\x03\x01")

    assert watched.get_in_time(TOKEN) == 200

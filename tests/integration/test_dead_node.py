"""A node that is not there, dies and comes back, and what clients and the command line say of it: over real sockets."""

from __future__ import annotations

import logging
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import pytest

from tests.support.command_process import command, environment
from tests.support.node_process import NodeProcess
from tidelog import Admin, Consumer, ConsumerRecord, Producer
from tidelog.client.errors import ClientError, TimedOutError

# A line is promised within two seconds; what it took before was a minute. A busy machine may need more than the promise.
SOON_S = 20.0
DEADLINE_S = 60.0


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nothing listens, and nothing else will."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def wait_for(condition: Callable[[], bool], within_s: float = SOON_S) -> None:
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come in time"
        time.sleep(0.01)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name.startswith("tidelog.client")]


class Command:
    """A command as a process; its lines as they come, told apart by where."""

    def __init__(self, *arguments: str, bootstrap: str) -> None:
        self._arguments = command(*arguments)
        self._environment = environment({"TIDELOG_BOOTSTRAP": bootstrap})
        self.errors: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.output: queue.SimpleQueue[str] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self._arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=self._environment,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read, args=args)
            for args in ((self.process.stdout, self.output), (self.process.stderr, self.errors))
        ]
        for reader in self._readers:
            reader.start()
        return self

    def _read(self, stream: IO[str], lines: queue.SimpleQueue[str]) -> None:
        for line in stream:
            lines.put(line.rstrip("\n"))

    def enter(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")

    def end(self) -> list[str]:
        """Ctrl-C; what was left unread on standard error."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(DEADLINE_S)
        for reader in self._readers:
            reader.join(DEADLINE_S)
        return [self.errors.get_nowait() for _ in range(self.errors.qsize())]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE_S)
        for reader in self._readers:
            reader.join(DEADLINE_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def test_commands_say_that_their_node_has_died_and_that_it_is_back_and_go_on(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        port, bootstrap = node.port, f"localhost:{node.port}"
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topic("orders", partitions=1)
        with (
            Command("consume", "orders", "--follow", bootstrap=bootstrap) as reader,
            Command("produce", "orders", bootstrap=bootstrap) as writer,
        ):
            writer.enter("before")
            assert reader.output.get(timeout=DEADLINE_S) == "before"
            node.kill()
            for each, name in ((reader, "consume"), (writer, "produce")):
                line = each.errors.get(timeout=SOON_S)
                assert line.startswith(f"tidelog {name}: ")
                assert re.search(rf"(localhost|127\.0\.0\.1):{port}\b.*(refused|reset|closed).*; trying again$", line)
            with NodeProcess(tmp_path, port=port):
                for each in (reader, writer):
                    assert each.errors.get(timeout=SOON_S).endswith(f":{port} is reached again")
                writer.enter("after")
                assert reader.output.get(timeout=DEADLINE_S) == "after"
                assert reader.end() == []
                assert writer.end() == ["tidelog produce: 2 records written to orders"]


def test_clients_that_outlive_their_node_warn_once_and_polls_stay_quiet(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "tidelog.client")
    with NodeProcess(tmp_path) as node:
        port, bootstrap = node.port, node.bootstrap
        with (
            Admin(bootstrap_servers=bootstrap) as admin,
            Producer(bootstrap_servers=bootstrap) as producer,
            Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer,
        ):
            admin.create_topic("orders", partitions=1)
            producer.send("orders", b"before").result(DEADLINE_S)
            consumer.assign([("orders", 0)])
            assert [each.value for each in _next(consumer)] == [b"before"]
            node.kill()
            wait_for(lambda: bool(warnings(caplog)))
            waiting = producer.send("orders", b"after")
            for _ in range(5):
                assert consumer.poll(timeout_ms=300) == []
            assert len(warnings(caplog)) == 1
            assert warnings(caplog)[0].endswith("; trying again")
            assert bootstrap in warnings(caplog)[0]
            with NodeProcess(tmp_path, port=port):
                waiting.result(DEADLINE_S)
                assert [each.value for each in _next(consumer)] == [b"after"]
                wait_for(lambda: len(warnings(caplog)) > 1)
                assert warnings(caplog)[1:] == [f"{bootstrap} is reached again"]


def _next(consumer: Consumer) -> list[ConsumerRecord[Any, Any]]:
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        if rows := consumer.poll(timeout_ms=200):
            return rows
    raise AssertionError("no record came")


def _send(bootstrap: str) -> None:
    with Producer(bootstrap_servers=bootstrap, max_block_ms=1500) as producer:
        producer.send("orders", b"x")


def _list_topics(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap, default_api_timeout_ms=1500) as admin:
        admin.list_topics()


def _poll(bootstrap: str) -> None:
    with Consumer("orders", bootstrap_servers=bootstrap, group_id="billing", default_api_timeout_ms=1500) as consumer:
        for _ in consumer:
            pass


@pytest.mark.parametrize("call", [_send, _list_topics, _poll])
def test_where_nothing_listens_and_no_host_is_known_the_error_names_both(
    nobody: str, caplog: pytest.LogCaptureFixture, call: Callable[[str], None]
) -> None:
    caplog.set_level(logging.WARNING, "tidelog.client")
    with pytest.raises(TimedOutError) as raised:
        call(f"{nobody},no-such-host.invalid:9092")

    reasons = [
        f"cannot connect to {nobody}: connection refused",
        "cannot connect to no-such-host.invalid:9092: host not found",
    ]
    assert f"no bootstrap server was reached: {'; '.join(reasons)}" in str(raised.value)
    assert sorted(warnings(caplog)) == sorted(f"{each}; trying again" for each in reasons)


def test_a_server_that_is_silent_or_no_kafka_is_named_as_such(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "tidelog.client")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with Admin(bootstrap_servers=address, default_api_timeout_ms=int(SOON_S * 1000)) as admin:
            asking = threading.Thread(target=_expect_failure, args=(admin,))
            asking.start()
            wait_for(lambda: warnings(caplog) == [f"{address} has not answered for 2 s; trying again"])
        asking.join(DEADLINE_S)


def _expect_failure(admin: Admin) -> None:
    with pytest.raises(ClientError):
        admin.list_topics()


def test_a_program_without_any_logging_set_up_still_says_it(nobody: str) -> None:
    program = f"""
from tidelog import Consumer
with Consumer("orders", bootstrap_servers={nobody!r}, group_id="billing", auto_offset_reset="earliest") as consumer:
    for record in consumer.poll(timeout_ms=1500):
        print(record.partition, record.offset, record.value)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
        timeout=DEADLINE_S,
    )

    assert (ran.returncode, ran.stdout) == (0, "")
    assert ran.stderr == f"cannot connect to {nobody}: connection refused; trying again\n"


def test_a_command_that_waits_for_a_silent_node_says_so_before_it_gives_up() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        Command("topics", "list", bootstrap=f"127.0.0.1:{silent.getsockname()[1]}") as listing,
    ):
        line = listing.errors.get(timeout=SOON_S)

    assert re.fullmatch(r"tidelog topics: 127\.0\.0\.1:\d+ has not answered for 2 s; trying again", line)

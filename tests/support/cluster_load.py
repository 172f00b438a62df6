"""Clients that write to a partition all the time while its cluster is mistreated, and know what was acknowledged, and when."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import pairwise
from types import TracebackType
from typing import Any, NamedTuple, Self

import confluent_kafka

from tidelog import Consumer, Producer
from tidelog.client.errors import ClientError

DEADLINE_S = 60.0
# One record after the other, so that a gap shows; few enough to leave the machine to the nodes.
_PAUSE_S = 0.01
_POLL_S = 0.05
# Beyond this the cluster takes nothing, and what is new would only wait.
_UNACKNOWLEDGED_MAX = 20


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = DEADLINE_S) -> None:
    """Until something holds, which is looked at again and again."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {timeout_s:.0f} s in vain until {what}"
        time.sleep(_POLL_S)


class ClientSettings(NamedTuple):
    """How each client is told to reach a cluster that is secured; nothing, for one that is not."""

    ours: dict[str, Any]
    librdkafka: dict[str, Any]


PLAIN = ClientSettings({}, {})


class Load(ABC):
    """Writes numbered records inside a `with`. After it, all that was sent is acknowledged, or `failed` says what was not."""

    name: str

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.acknowledged: list[bytes] = []
        self.failed: list[str] = []
        self._times_s: list[float] = []
        self._sent = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write, name=f"load on {topic}-{partition}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        self._finish()

    def until_written(self, count: int = 20) -> None:
        """So many records more are acknowledged."""
        wanted = len(self.acknowledged) + count
        wait_until(
            lambda: len(self.acknowledged) >= wanted or bool(self.failed), f"{self.name} has written {wanted} records"
        )
        assert self.failed == []

    def longest_gap_s(self, since_s: float) -> float:
        """The longest time without an acknowledgement, as far as it lasted beyond a moment."""
        times_s = list(self._times_s)
        gaps = [(later - earlier, later) for earlier, later in pairwise(times_s)]
        return max((gap for gap, later in gaps if later >= since_s), default=0.0)

    def _write(self) -> None:
        while not self._is_over.wait(_PAUSE_S):
            if self._sent - len(self.acknowledged) < _UNACKNOWLEDGED_MAX:
                self._send(b"%s %d" % (self.name.encode(), self._sent))
                self._sent += 1
            self._poll()

    def _told(self, value: bytes, error: object) -> None:
        if error is None:
            self._times_s.append(time.monotonic())
            self.acknowledged.append(value)
        else:
            self.failed.append(f"{value.decode()}: {error}")

    @abstractmethod
    def _send(self, value: bytes) -> None: ...

    @abstractmethod
    def _poll(self) -> None: ...

    @abstractmethod
    def _finish(self) -> None: ...


class OurLoad(Load):
    """By our own producer, which is idempotent and retries by default."""

    name = "tidelog"

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partition: int,
        *,
        request_timeout_ms: int = 30_000,
        settings: ClientSettings = PLAIN,
    ) -> None:
        super().__init__(topic, partition)
        self._producer = Producer(bootstrap_servers=bootstrap, request_timeout_ms=request_timeout_ms, **settings.ours)

    def _send(self, value: bytes) -> None:
        def told(error: ClientError | None, _metadata: object) -> None:
            self._told(value, error)

        self._producer.send(self.topic, value, partition=self.partition, on_delivery=told)

    def _poll(self) -> None: ...

    def _finish(self) -> None:
        self._producer.flush(DEADLINE_S * 1000)
        self._producer.close()


class ConfluentLoad(Load):
    """By librdkafka, idempotent."""

    name = "librdkafka"

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partition: int,
        *,
        request_timeout_ms: int = 30_000,
        settings: ClientSettings = PLAIN,
    ) -> None:
        super().__init__(topic, partition)
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "request.timeout.ms": request_timeout_ms,
                "socket.timeout.ms": request_timeout_ms,
                **settings.librdkafka,
            }
        )

    def _send(self, value: bytes) -> None:
        def told(error: object, _message: object) -> None:
            self._told(value, error)

        self._producer.produce(self.topic, value, partition=self.partition, on_delivery=told)

    def _poll(self) -> None:
        self._producer.poll(0)

    def _finish(self) -> None:
        left = self._producer.flush(DEADLINE_S)
        if left:
            self.failed.append(f"{left} records are not acknowledged")
        # Otherwise it looks for its cluster for ever.
        del self._producer


def read_with_confluent(
    bootstrap: str, topic: str, partition: int, count: int, settings: ClientSettings = PLAIN
) -> list[bytes]:
    """The committed records of a partition from the first on; more than `count` only if more of them came with the last."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "enable.auto.commit": False,
            **settings.librdkafka,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
    found: list[bytes] = []
    _, end = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, partition), timeout=DEADLINE_S)
    deadline_s = time.monotonic() + DEADLINE_S
    while len(found) < max(count, end) and time.monotonic() < deadline_s:
        for message in consumer.consume(500, 1.0):
            value = message.value()
            assert message.error() is None
            assert isinstance(value, bytes)
            found.append(value)
    consumer.close()
    return found


def read_with_ours(
    bootstrap: str, topic: str, partition: int, count: int, settings: ClientSettings = PLAIN
) -> list[bytes]:
    """The same by our own consumer."""
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **settings.ours) as consumer:
        consumer.assign([(topic, partition)])
        end = next(iter(consumer.end_offsets([(topic, partition)]).values()))
        found: list[bytes] = []
        deadline_s = time.monotonic() + DEADLINE_S
        while len(found) < max(count, end) and time.monotonic() < deadline_s:
            found += [row.value for row in consumer.poll(1000)]
        return found


def check_nothing_lost_or_doubled(bootstrap: str, loads: Iterable[Load], settings: ClientSettings = PLAIN) -> None:
    """What each load was told of is there once, in order, and nothing else: read by the client that did not write it."""
    for load in loads:
        read = read_with_ours if isinstance(load, ConfluentLoad) else read_with_confluent
        assert load.failed == []
        found = read(bootstrap, load.topic, load.partition, len(load.acknowledged), settings)
        assert found == load.acknowledged

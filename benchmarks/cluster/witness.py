"""What an outsider sees of a cluster, through librdkafka: who leads, who is in sync, when writes are acknowledged."""

from __future__ import annotations

import itertools
import time

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, but not by a list
    AdminClient,
    PartitionMetadata,
)

from benchmarks.broker.load_client import LoadError

POLL_S = 0.02
TIMEOUT_S = 300.0
METADATA_TIMEOUT_S = 10.0

# So many writes are under way at a time, each a request of its own.
UNDER_WAY_MAX = 20


class Witness:
    """Looks at one topic, by way of the brokers named."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._topic = topic

    def leaders(self) -> dict[int, int]:
        """Of each partition; -1 where there is none."""
        return {number: each.leader for number, each in self._partitions().items()}

    def in_sync(self) -> dict[int, int]:
        """How many replicas of each partition are."""
        return {number: len(each.isrs) for number, each in self._partitions().items()}

    def _partitions(self) -> dict[int, PartitionMetadata]:
        while True:
            try:
                found = self._admin.list_topics(self._topic, timeout=METADATA_TIMEOUT_S).topics[self._topic]
            except KafkaException:
                # It asked the broker that has just been killed.
                continue
            if found.partitions:
                return found.partitions

    def wait_until_led(self, partitions: int, without: int) -> float:
        """The seconds until every partition has a leader that is another than the one named."""
        begun_s = time.monotonic()
        while True:
            leaders = self.leaders()
            if len(leaders) == partitions and all(each not in (-1, without) for each in leaders.values()):
                return time.monotonic() - begun_s
            self._again(begun_s, "led again")

    def wait_until_in_sync(self, partitions: int, replicas: int) -> float:
        """The seconds until all replicas of all partitions are in sync."""
        begun_s = time.monotonic()
        while True:
            in_sync = self.in_sync()
            if len(in_sync) == partitions and all(each == replicas for each in in_sync.values()):
                return time.monotonic() - begun_s
            self._again(begun_s, "in sync")

    def _again(self, begun_s: float, what: str) -> None:
        if time.monotonic() - begun_s > TIMEOUT_S:
            raise LoadError(f"{self._topic} is not {what} after {TIMEOUT_S:.0f} s")
        time.sleep(POLL_S)


class SteadyWriter:
    """Small records, one a request, acks=all, idempotent, a few under way at a time; notes when each is acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._acknowledged_s: list[float] = []
        self._under_way = 0
        self._error: str | None = None
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "batch.num.messages": 1,
                "log_level": 0,
            }
        )

    def _delivered(self, error: object, _message: object) -> None:
        self._under_way -= 1
        self._acknowledged_s.append(time.monotonic())
        if error is not None:
            self._error = str(error)

    def write_for(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self._write()

    def write_until_answered(self) -> None:
        """Until a record is acknowledged that was sent from now on, all those before it included."""
        begun_s = time.monotonic()
        answered = len(self._acknowledged_s) + self._under_way
        while len(self._acknowledged_s) <= answered:
            self._write()
            if time.monotonic() - begun_s > TIMEOUT_S:
                raise LoadError(f"no write to {self._topic} was acknowledged for {TIMEOUT_S:.0f} s")

    def _write(self) -> None:
        if self._under_way < UNDER_WAY_MAX:
            self._under_way += 1
            self._producer.produce(self._topic, b"x" * 100, partition=0, on_delivery=self._delivered)
        self._producer.poll(0.001)

    def longest_gap_s(self) -> float:
        """Between two acknowledgements one after the other. LoadError where a record was refused."""
        if self._producer.flush(TIMEOUT_S) or self._error:
            raise LoadError(f"a write to {self._topic} failed: {self._error or 'no answer'}")
        moments = self._acknowledged_s
        return max(later - earlier for earlier, later in itertools.pairwise(moments))

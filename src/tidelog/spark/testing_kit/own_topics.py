"""The topics of one test: made when they are first needed, and written to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tidelog.client.producer.producer import Producer
from tidelog.spark.testing_kit.given_records import GivenRecord

_SEND_TIMEOUT_S = 60


class OwnTopics:
    def __init__(self, create: Callable[..., None], settings: Mapping[str, Any], partitions: int) -> None:
        """`create` makes a topic, as `EmbeddedCluster.create_topic` does; `settings` are a client's."""
        self._create = create
        self._settings = settings
        self._partitions = partitions
        self._made: set[str] = set()

    def ensure(self, topic: str) -> None:
        if topic not in self._made:
            self._create(topic, partitions=self._partitions)
            self._made.add(topic)

    def send(self, topic: str, records: Iterable[GivenRecord]) -> None:
        """On return they can be read. ClientError. One that names no partition and has no key goes to the next one in turn."""
        self.ensure(topic)
        with Producer(**self._settings, linger_ms=0) as producer:
            sent = []
            for number, each in enumerate(records):
                partition = each.partition
                if partition is None and each.key is None:
                    # The same in every course of a test, however quickly it is sent.
                    partition = number % self._partitions
                sent.append(
                    producer.send(
                        topic,
                        each.value,
                        key=each.key,
                        partition=partition,
                        timestamp_ms=each.timestamp_ms,
                        headers=list(each.headers),
                    )
                )
            for delivery in sent:
                delivery.result(_SEND_TIMEOUT_S)

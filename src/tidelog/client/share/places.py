"""A partition as requests of share groups name it, and as the application does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.client.consumer.topic_partition import TopicPartition


class Place(NamedTuple):
    """A partition of the topic that has this id: another topic of the same name is another place."""

    topic_id: bytes
    partition: TopicPartition


def by_topic_id(places: Iterable[Place]) -> dict[bytes, list[int]]:
    """The partitions under their topics' ids, both in order: how messages list them."""
    grouped: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(places):
        grouped.setdefault(topic_id, []).append(partition.partition)
    return grouped

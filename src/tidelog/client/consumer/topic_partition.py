"""A partition of a topic, as an application names it: any pair of a topic and a number will do where one is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tidelog.client.errors import ConfigError


class TopicPartition(NamedTuple):
    """One partition of a topic. Equal to the plain tuple of the same two values.

    >>> TopicPartition("orders", 0) == ("orders", 0)
    True
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def topic_partition(given: Any) -> TopicPartition:
    """A partition as an application names it. ConfigError for anything but a topic and a number."""
    if isinstance(given, tuple | list) and len(given) == 2:
        topic, partition = given
        if isinstance(topic, str) and isinstance(partition, int) and partition >= 0:
            return TopicPartition(topic, partition)
    raise ConfigError(f"a partition is named by its topic and its number, such as ('orders', 0), not {given!r:.100}")


def topic_partitions(given: Iterable[Any]) -> list[TopicPartition]:
    """Partitions as an application names them. ConfigError for what is none, and for one where several are asked for."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError(f"partitions are given as a list such as [('orders', 0)], not {given!r:.100}")
    return [topic_partition(each) for each in given]


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """The partitions under their topics, both in order: how messages list them."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        grouped.setdefault(topic, []).append(partition)
    return grouped

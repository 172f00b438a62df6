"""A partition of a topic, as an application names it: any pair of a topic and a number will do where one is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of a topic. Equal to the plain tuple of the same two values.

    >>> TopicPartition("orders", 0) == ("orders", 0)
    True
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """The partitions under their topics, both in order: how messages list them."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        grouped.setdefault(topic, []).append(partition)
    return grouped

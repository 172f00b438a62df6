"""Where a record goes that does not say so itself.

`default` puts records of one key into one partition, the one that Kafka's Java client would choose, and spreads records
without a key by whole batches: they stick to a partition until a batch's worth of bytes has gone there (KIP-794). With adaptive
partitioning the next one is drawn by how few batches wait for it, so that a slow broker gets less.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol


class Partitioner(Protocol):
    """The caller's own choice, from 0 to `partition_count` - 1. Called for every record; key and value are bytes."""

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int, /) -> int: ...


class RoundRobin:
    """One partition after the other, keys or not."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int, /) -> int:  # noqa: ARG002
        chosen = self._next.get(topic, 0) % partition_count
        self._next[topic] = chosen + 1
        return chosen


def next_sticky(random: Random, current: int, available: Sequence[int], waiting: Sequence[int] | None) -> int:
    """The partition to stick to next, one of `available`, another one than `current` where there is a choice.

    `waiting` says how many batches wait for each of `available`: what has fewer is likelier. None for equal chances.
    """
    if len(available) == 1:
        return available[0]
    if waiting is None or max(waiting) == min(waiting):
        others = [partition for partition in available if partition != current]
        return others[random.randrange(len(others))]
    most = max(waiting) + 1
    weights = [most - each for each in waiting]
    return random.choices(available, weights)[0]

"""One record as an application gets it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

import msgspec

from tidelog.client.consumer.topic_partition import TopicPartition, topic_partition
from tidelog.client.errors import ConfigError
from tidelog.wire.record_batch import TimestampType

K = TypeVar("K")
V = TypeVar("V")


class ConsumerRecord(msgspec.Struct, Generic[K, V], frozen=True, gc=False):
    """A record and where it was read. The garbage collector never looks at it, so that a hundred thousand of them are cheap.

    >>> for record in consumer.poll(timeout_ms=1000):
    ...     print(record.topic, record.partition, record.offset, record.key, record.value)

    `key` and `value` are bytes or None, unless the consumer was given deserializers.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """Milliseconds since 1970; -1 where the record has none."""
    timestamp_type: TimestampType
    """Who gave it: the producer (CREATE_TIME) or the broker (LOG_APPEND_TIME)."""
    key: K
    value: V
    headers: tuple[tuple[str, bytes | None], ...]


class OffsetAndMetadata(NamedTuple):
    """A committed position: the next offset to read, the epoch of the record before it (-1 unknown), and a text of one's own."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


Offsets = Mapping[tuple[str, int], int | OffsetAndMetadata] | Mapping[TopicPartition, int | OffsetAndMetadata]
"""Positions to commit, as an application gives them."""


def offsets_to_commit(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """Positions as an application gives them, checked. ConfigError for what is none."""
    if not isinstance(offsets, Mapping):
        raise ConfigError(f"offsets are given by partition, such as {{('orders', 0): 42}}, not {offsets!r:.100}")
    made = {}
    for partition, each in offsets.items():
        known = each if isinstance(each, OffsetAndMetadata) else OffsetAndMetadata(each)
        if not isinstance(known.offset, int):
            raise ConfigError(f"an offset is a number, not {known.offset!r:.100}")
        if known.offset < 0:
            raise ConfigError(f"the offset {known.offset} is negative and cannot be committed")
        made[topic_partition(partition)] = known
    return made


class OffsetAndTimestamp(NamedTuple):
    """The first offset at or after a time, and that record's own time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


class GroupMetadata(NamedTuple):
    """Who a consumer is in its group: what a transactional producer needs to commit offsets on its behalf."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


def as_group_metadata(given: GroupMetadata | str) -> GroupMetadata:
    """The metadata of a group, or of nobody in particular where only its id is given. ConfigError for anything else."""
    if isinstance(given, GroupMetadata):
        return given
    if isinstance(given, str) and given:
        return GroupMetadata(given)
    raise ConfigError(
        f"group_metadata is {given!r:.100}; it is what a consumer's group_metadata() gives, or a group's id"
    )

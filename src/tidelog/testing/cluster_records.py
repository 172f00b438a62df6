"""Records into a topic and out of it, in one call each: what a test wants to see beside what it tests."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from tidelog.client.consumer.consumer import Consumer
from tidelog.client.consumer.fetched_partition import Row
from tidelog.client.errors import ClientError
from tidelog.client.producer.producer import Producer
from tidelog.client.producer.record_metadata import RecordMetadata
from tidelog.testing.errors import ClusterError

Written = bytes | str | None
Entry = Written | tuple[Written, Written] | Mapping[str, Any]
"""A value, a key and a value, or the arguments of `Producer.send` by their names."""

# What a poll waits for at most: the deadline is looked at in between.
_POLL_MS_MAX = 200


def write_records(options: Mapping[str, Any], topic: str, records: Iterable[Entry]) -> list[RecordMetadata]:
    """Return once all are acknowledged by all in sync: where each lies. ClusterError names the first that is not."""
    try:
        with Producer(**options) as producer:
            deliveries = [producer.send(topic, **_arguments(entry)) for entry in records]
            producer.flush()
            return [delivery.result() for delivery in deliveries]
    except ClientError as error:
        raise ClusterError(f"{topic} could not be written to: {error}") from error


def read_records(
    options: Mapping[str, Any], topic: str, count: int | None, *, timeout_s: float, committed: bool
) -> list[Row]:
    """From the beginning of each partition: `count` of them, or all that are there now. ClusterError if that takes too long."""
    isolation = "read_committed" if committed else "read_uncommitted"
    deadline = time.monotonic() + timeout_s
    found: list[Row] = []
    try:
        with Consumer(
            **options, group_id=None, auto_offset_reset="earliest", isolation_level=isolation, enable_auto_commit=False
        ) as consumer:
            partitions = consumer.partitions_for(topic)
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions) if count is None else {}

            def is_done() -> bool:
                if count is not None:
                    return len(found) >= count
                return all(consumer.position(each) >= end for each, end in ends.items())

            while not is_done():
                left_ms = int((deadline - time.monotonic()) * 1000)
                if left_ms <= 0:
                    of = "" if count is None else f" of {count}"
                    raise ClusterError(f"{topic} had {len(found)}{of} records after {timeout_s:g} s")
                found += consumer.poll(timeout_ms=min(left_ms, _POLL_MS_MAX))
    except ClientError as error:
        raise ClusterError(f"{topic} could not be read: {error}") from error
    return found if count is None else found[:count]


def _arguments(entry: Entry) -> dict[str, Any]:
    if isinstance(entry, Mapping):
        named = dict(entry)
    elif isinstance(entry, tuple):
        key, value = entry
        named = {"key": key, "value": value}
    else:
        named = {"value": entry}
    return {name: each.encode() if isinstance(each, str) else each for name, each in named.items()}

"""Offsets of partitions, and the JSON that stands for them in options and checkpoints: that of Spark's own Kafka connector.

    {"orders":{"0":23,"1":-1},"payments":{"0":-2}}

An offset is that of the next record to read, so that a checkpoint of either source is one of the other. Spark compares offsets
as text: topics and partitions are always written in the same order.

A stream's offsets also say which topics they are of, since a name can be given to another topic:

    {"orders":{"0":23},"orders#PYkOVJ8VTKmwPJe2qUfU8Q":{}}

No topic has a # in its name, and a topic without partitions is nothing to read: the connector and releases of Tidelog that know
of no ids read the same offsets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.model.ids import uuid_from_text
from tidelog.spark.errors import OptionError

T = TypeVar("T")

PartitionOffsets = Mapping[TopicPartition, int]
TopicIds = Mapping[str, str]
"""The id of each topic by its name, as Kafka writes them; without topics whose cluster tells none."""
OffsetDocument = dict[str, dict[str, int]]

LATEST = -1
EARLIEST = -2

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
ID_MARK = "#"
"""Between the name of a topic and its id, in the key that says which topic it is."""
_OF_CHECKPOINT = "an offset of this source"


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """How far a stream has read, and of which topics."""

    offsets: PartitionOffsets
    topic_ids: TopicIds = field(default_factory=dict)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> StreamOffset:
        """As Spark hands it back. OptionError for what no source has written."""
        ids = {}
        for key in document:
            topic, mark, written = key.partition(ID_MARK)
            if mark:
                if not topic or topic in ids or not _is_topic_id(written):
                    raise _unexpected(_OF_CHECKPOINT, str(document))
                ids[topic] = written
        return cls(from_document(document), ids)

    @property
    def document(self) -> OffsetDocument:
        """What Spark keeps of it."""
        document = to_document(self.offsets)
        for topic in sorted({each.topic for each in self.offsets} & self.topic_ids.keys()):
            document[f"{topic}{ID_MARK}{self.topic_ids[topic]}"] = {}
        return document


def created_again(known: TopicIds, now: TopicIds) -> list[str]:
    """The topics that are others now than those that were known by the same names."""
    return sorted(topic for topic, each in known.items() if now.get(topic, each) != each)


def to_document(offsets: PartitionOffsets) -> OffsetDocument:
    """What Spark's Python sources return for an offset: sorted, with strings for keys."""
    document: OffsetDocument = {}
    for partition in sorted(offsets):
        document.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return document


def to_json(offsets: PartitionOffsets) -> str:
    """The text of the connector, without a space."""
    return json.dumps(to_document(offsets), separators=(",", ":"), ensure_ascii=False)


def from_document(document: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Offsets as Spark hands them back. OptionError for what no source has written."""
    return _partition_numbers(document, _offset_of_checkpoint, _OF_CHECKPOINT, str(document))


def parse_offsets(name: str, text: str) -> dict[TopicPartition, int]:
    """The value of `startingOffsets` or `endingOffsets`; LATEST and EARLIEST are allowed in it."""
    example = '{"orders":{"0":23,"1":-1},"payments":{"0":-2}}, where -1 is latest and -2 earliest'
    return _partition_numbers(_object(name, text, example), _offset_of_option, f"{name} as in {example}", text)


def parse_timestamps(name: str, text: str) -> dict[TopicPartition, int]:
    """The value of `startingOffsetsByTimestamp` or `endingOffsetsByTimestamp`: milliseconds since 1970."""
    example = '{"orders":{"0":1700000000000,"1":1700000000000}}'
    return _partition_numbers(_object(name, text, example), _timestamp, f"{name} as in {example}", text)


def parse_partitions(name: str, text: str) -> list[TopicPartition]:
    """The value of `assign`."""
    example = '{"orders":[0,1],"payments":[0]}'
    chosen: list[TopicPartition] = []
    for topic, listed in _object(name, text, example).items():
        if not topic or not isinstance(listed, list):
            raise _unexpected(f"{name} as in {example}", text)
        for number in listed:
            if not _is_whole(number) or not 0 <= number <= _INT32_MAX:
                raise _unexpected(f"{name} as in {example}", text)
            chosen.append(TopicPartition(topic, number))
    if not chosen:
        raise OptionError(f"{name} names no partition: expected {example}")
    if len(set(chosen)) != len(chosen):
        raise OptionError(f"{name} names a partition twice: {text:.200}")
    return sorted(chosen)


def _object(name: str, text: str, example: str) -> dict[str, object]:
    try:
        parsed = json.loads(text, object_pairs_hook=_once_each)
    except (ValueError, RecursionError):
        raise _unexpected(f"{name} as in {example}", text) from None
    if not isinstance(parsed, dict):
        raise _unexpected(f"{name} as in {example}", text)
    return parsed


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key is there twice")
    return made


def _partition_numbers(
    document: Mapping[str, Any], check: Callable[[int], bool], what: str, text: str
) -> dict[TopicPartition, int]:
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in document.items():
        if not topic or not isinstance(partitions, dict) or (partitions and ID_MARK in topic):
            raise _unexpected(what, text)
        for index, number in partitions.items():
            if not _is_index(index) or not _is_whole(number) or not check(number):
                raise _unexpected(what, text)
            numbers[TopicPartition(topic, int(index))] = number
    return numbers


def _is_topic_id(written: str) -> bool:
    try:
        uuid_from_text(written)
    except ValueError:
        return False
    return True


def _is_index(key: object) -> bool:
    # "00" would be a second name for the same partition.
    return (
        isinstance(key, str)
        and key.isascii()
        and key.isdigit()
        and len(key) <= 10
        and str(int(key)) == key
        and int(key) <= _INT32_MAX
    )


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _offset_of_checkpoint(number: int) -> bool:
    return 0 <= number <= _INT64_MAX


def _offset_of_option(number: int) -> bool:
    return EARLIEST <= number <= _INT64_MAX


def _timestamp(number: int) -> bool:
    return 0 <= number <= _INT64_MAX


def _unexpected(what: str, text: str) -> OptionError:
    return OptionError(f"expected {what}, got {text:.200}")

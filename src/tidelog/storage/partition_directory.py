"""The names of partition directories: `topic-partition`, and the suffixes that give a directory another meaning.

    orders-0                                    the log of partition 0 of orders
    orders-0.<32 hex digits>-delete             deleted; its files go after file.delete.delay.ms
    orders-0.<32 hex digits>-future             being filled, to replace the same partition in another log directory
    orders-0.<32 hex digits>-stray              belongs to no topic that the cluster knows; kept for a person to look at

Topic names hold dots and dashes themselves, so a name is read from its end.
"""

from __future__ import annotations

import re
from enum import Enum
from random import Random
from typing import NamedTuple

from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition

# The longest name that common file systems take.
NAME_LENGTH_MAX = 255

_SUFFIXED = re.compile(r"(?P<name>\S+-\S+)\.(?P<unique>[^.\s]+)-(?P<suffix>delete|future|stray)\Z")
_INT32_MAX = 2**31 - 1


class DirectoryKind(Enum):
    """What a partition's directory is for."""

    CURRENT = ""
    DELETE = "delete"
    FUTURE = "future"
    STRAY = "stray"


class PartitionDirectory(NamedTuple):
    """What the name of a directory says. Of a deleted or stray one the topic may be cut short to fit."""

    topic_partition: TopicPartition
    kind: DirectoryKind


def directory_name(topic_partition: TopicPartition) -> str:
    """The name of a partition's directory."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def suffixed_name(topic_partition: TopicPartition, kind: DirectoryKind, random: Random) -> str:
    """A new name for a deleted, future or stray directory. A long topic is cut, except for a future one: it is needed whole."""
    suffix = f"-{topic_partition.partition}.{random.getrandbits(128):032x}-{kind.value}"
    topic: str = topic_partition.topic
    if kind is not DirectoryKind.FUTURE:
        topic = topic[: NAME_LENGTH_MAX - len(suffix)]
    return topic + suffix


def parse_name(name: str) -> PartitionDirectory | None:
    """What a directory of this name is, or None for one that is no partition's."""
    kind = DirectoryKind.CURRENT
    if name.endswith(("-delete", "-future", "-stray")):
        match = _SUFFIXED.match(name)
        if match is None:
            return None
        name, kind = match["name"], DirectoryKind(match["suffix"])
    topic, dash, partition = name.rpartition("-")
    if not topic or not dash or not (partition.isascii() and partition.isdigit()) or int(partition) > _INT32_MAX:
        return None
    return PartitionDirectory(TopicPartition(TopicName(topic), PartitionIndex(int(partition))), kind)

"""Where a read begins and ends: by name, by offset or by time, as the options say it, before the cluster has been asked.

    Earliest, Latest           either end of each partition
    AtOffsets                  an offset for each partition, or either end of it
    AtTimestamps, AtTimestamp  the first record not older than a time: one for each partition, or one for all

`questions` says what has to be asked of the cluster, `resolve` puts the answers in; `look_up` does both. A time after the last
record has no offset: for an end that is the end of the partition; for a start `on_no_match` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.errors import OptionError
from tidelog.spark.source.partition_offsets import EARLIEST, LATEST, PartitionOffsets


class OnNoMatch(Enum):
    """What to do where no record is as young as a starting time."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Earliest:
    pass


@dataclass(frozen=True, slots=True)
class Latest:
    pass


@dataclass(frozen=True, slots=True)
class AtOffsets:
    offsets: PartitionOffsets


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    timestamps_ms: PartitionOffsets


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    timestamp_ms: int


OffsetBound = Earliest | Latest | AtOffsets | AtTimestamps | AtTimestamp


def check_bounds(starting: OffsetBound, ending: OffsetBound) -> None:
    """OptionError where no records can lie between the two, whatever the cluster holds."""
    match starting, ending:
        case AtOffsets(starts), AtOffsets(ends):
            _check_pairs(starts, ends, "startingOffsets", "endingOffsets")
        case AtTimestamps(starts), AtTimestamps(ends):
            _check_pairs(starts, ends, "startingOffsetsByTimestamp", "endingOffsetsByTimestamp")
        case AtTimestamp(start_ms), AtTimestamp(end_ms) if start_ms > end_ms:
            raise OptionError(f"startingTimestamp {start_ms} is greater than endingTimestamp {end_ms}")


def _check_pairs(starts: PartitionOffsets, ends: PartitionOffsets, start_name: str, end_name: str) -> None:
    if starts.keys() != ends.keys():
        odd = min(starts.keys() ^ ends.keys())
        raise OptionError(f"{start_name} and {end_name} name different partitions: {odd} is in one of them only")
    for partition, start in sorted(starts.items()):
        end = ends[partition]
        # Either end of a partition is a negative number, and cannot be compared before it is known.
        if start > end >= 0:
            raise OptionError(f"{start_name} {start} of {partition} is greater than {end_name} {end}")


def questions(bound: OffsetBound, partitions: Collection[TopicPartition], *, name: str) -> dict[TopicPartition, int]:
    """What to ask of each partition: a time in milliseconds, LATEST or EARLIEST; nothing where the offset is given.

    OptionError where partitions are listed one by one and the list is not that of the partitions that are there.
    """
    match bound:
        case Earliest():
            return dict.fromkeys(partitions, EARLIEST)
        case Latest():
            return dict.fromkeys(partitions, LATEST)
        case AtTimestamp(timestamp_ms):
            return dict.fromkeys(partitions, timestamp_ms)
        case AtTimestamps(timestamps_ms):
            _check_all(timestamps_ms, partitions, f"{name}ByTimestamp")
            return dict(timestamps_ms)
        case AtOffsets(offsets):
            _check_all(offsets, partitions, name)
            return {partition: offset for partition, offset in offsets.items() if offset < 0}


def _check_all(given: PartitionOffsets, partitions: Collection[TopicPartition], name: str) -> None:
    missing = sorted(set(partitions) - given.keys())
    if missing:
        raise OptionError(
            f"{name} has to name every partition that is read, and {missing[0]} is missing: give -1 for latest, -2 for earliest"
            if not name.endswith("Timestamp")
            else f"{name} has to name every partition that is read, and {missing[0]} is missing"
        )
    unknown = sorted(given.keys() - set(partitions))
    if unknown:
        raise OptionError(f"{name} names {unknown[0]}, which is not among the partitions that are read")


def resolve(
    bound: OffsetBound, partitions: Collection[TopicPartition], answers: Mapping[TopicPartition, int | None]
) -> dict[TopicPartition, int | None]:
    """The offset of each partition: the given one, or the answer to its question; None where a time had no match."""
    given: PartitionOffsets = bound.offsets if isinstance(bound, AtOffsets) else {}
    return {
        partition: given[partition] if given.get(partition, LATEST) >= 0 else answers.get(partition)
        for partition in partitions
    }


def look_up(
    bound: OffsetBound,
    partitions: Collection[TopicPartition],
    ask: Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int | None]],
    *,
    is_start: bool,
    on_no_match: OnNoMatch,
) -> dict[TopicPartition, int]:
    """The offsets that a bound stands for. OptionError where it names other partitions, or a start that is too late."""
    asked = questions(bound, partitions, name="startingOffsets" if is_start else "endingOffsets")
    resolved = resolve(bound, partitions, ask(asked) if asked else {})
    late = [partition for partition, offset in resolved.items() if offset is None]
    if late and is_start and on_no_match is OnNoMatch.ERROR:
        raise unmatched(bound, late[0])
    ends = ask(dict.fromkeys(late, LATEST)) if late else {}
    return {
        partition: offset if offset is not None else ends.get(partition) or 0 for partition, offset in resolved.items()
    }


def unmatched(bound: OffsetBound, partition: TopicPartition) -> OptionError:
    """The error for a starting time that no record of a partition is as young as."""
    timestamp_ms = (
        bound.timestamp_ms
        if isinstance(bound, AtTimestamp)
        else bound.timestamps_ms.get(partition, -1)
        if isinstance(bound, AtTimestamps)
        else -1
    )
    return OptionError(
        f"no record of {partition} is as young as the starting time {timestamp_ms}: "
        "set startingOffsetsByTimestampStrategy to latest to begin at the end there"
    )

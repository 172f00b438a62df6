"""Kafka's small text files of numbers: a version, the number of entries, then one entry a line.

    0                                   version, always 0
    2                                   how many entries follow
    orders 0 1184                       of a partition: topic, partition, offset
    orders 1 977                        of a leader-epoch-checkpoint: epoch, start offset

The files of a log directory that hold offsets of partitions, and of a partition that hold its leader epochs, are of this
form. They are replaced as a whole and atomically. A missing or empty file has no entries: Kafka creates them empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.storage.errors import DamagedFileError
from tidelog.storage.files import Files, read_if_present

# In a log directory.
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
# In the directory of a partition.
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"

VERSION = 0

# Two hundred thousand partitions with the longest names there are.
FILE_BYTES_MAX = 64 * 1024 * 1024

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def read_lines(files: Files, path: str, fields: int) -> list[list[str]]:
    """The entries, each split into its `fields`. `DamagedFileError` for anything that Kafka would not read either."""
    content = read_if_present(files, path, FILE_BYTES_MAX)
    if content is None:
        return []
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DamagedFileError(path, f"byte {error.start} is not UTF-8") from None
    if not lines:
        return []
    if (version := to_int(path, lines[0])) != VERSION:
        raise DamagedFileError(path, f"it has version {version}; only version {VERSION} is known")
    if len(lines) == 1:
        return []
    entries = [line.split() for line in lines[2:]]
    for line, entry in zip(lines[2:], entries, strict=True):
        if len(entry) != fields:
            raise _malformed(path, line)
    if (count := to_int(path, lines[1])) != len(entries):
        raise DamagedFileError(path, f"it announces {count} entries but has {len(entries)}")
    return entries


def write_lines(files: Files, path: str, entries: Sequence[Iterable[object]]) -> None:
    """Replace the file, atomically and durably."""
    lines = [str(VERSION), str(len(entries)), *(" ".join(map(str, entry)) for entry in entries)]
    files.write_bytes_atomically(path, ("\n".join(lines) + "\n").encode("utf-8"))


def read_offsets(files: Files, path: str) -> dict[TopicPartition, Offset]:
    """The offset of each partition in one of a log directory's checkpoints."""
    return {
        TopicPartition(TopicName(topic), PartitionIndex(to_int(path, partition, bits=32))): Offset(to_int(path, offset))
        for topic, partition, offset in read_lines(files, path, fields=3)
    }


def write_offsets(files: Files, path: str, offsets: Mapping[TopicPartition, Offset]) -> None:
    """Replace one of a log directory's checkpoints. Sorted, so that two of them can be compared by eye."""
    write_lines(files, path, [(topic, partition, offset) for (topic, partition), offset in sorted(offsets.items())])


def to_int(path: str, text: str, *, bits: int = 64) -> int:
    """A whole number as Kafka writes it: digits, nothing that only Python would accept, and no more than fit its type."""
    if _INTEGER.fullmatch(text) is None or not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
        raise _malformed(path, text)
    return int(text)


def _malformed(path: str, line: str) -> DamagedFileError:
    return DamagedFileError(path, f"the line {line[:100]!r} is malformed")

"""Upkeep of a Delta table between batches: small files are made one, and files that nobody can ask for any more are deleted.

    if is_due(batch_id):
        report = upkeep(target, named, vacuums=is_vacuum_due(batch_id))

Every batch adds at least a file for each task that had rows, and every merge writes files anew: without upkeep a table that is
written to all day has a hundred thousand files. It is done by whoever has the pipeline's decisions, between two batches, and it
gives way: where somebody else changes the same files meanwhile, nothing is compacted this time.

A file is deleted once no version that may still be read has it (the table's `delta.deletedFileRetentionDuration`, a week unless
it says otherwise), and never one of an attempt that an open decision names. That is done after each compaction, and on a schedule
of its own: merges leave dead files, and seldom so many small ones that they are compacted. What attempts have staged and what
never came into the table is left to the sweep of whoever staged it: other pipelines may write to the same table.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from tidelog.spark.outputs.delta_log import DeltaLog, files_of, staged_by
from tidelog.spark.outputs.kind import Swept
from tidelog.spark.outputs.staged import Target
from tidelog.spark.outputs.storage import Storage

# A look at the table costs a read of its log: not after every batch.
BATCHES_BETWEEN = 16
# As large as files are made here; those of half the size are left alone.
TARGET_BYTES = 128 * 1024 * 1024
# A vacuum lists the table's directory. Between two of them dead files come, a few with each merge.
BATCHES_BETWEEN_VACUUMS = 8 * BATCHES_BETWEEN
_SMALL_BYTES = TARGET_BYTES // 2
# So many could be saved before it is worth a version of the table, and reading and writing them all.
SAVED_FILES_MIN = 24


class Upkeep(msgspec.Struct, frozen=True):
    """What was found and done."""

    files: int = 0
    """Of the table, before."""
    compacted: int = 0
    """Files that were made fewer; 0 where it was not worth it."""
    made: int = 0
    """Files that they were made into."""
    gave_way: bool = False
    """Somebody else changed the same files meanwhile: next time."""
    vacuumed: Swept = Swept()
    """Files that no version has any more, deleted."""


def is_due(batch_id: int) -> bool:
    """Whether a look is worth it after this batch."""
    return batch_id % BATCHES_BETWEEN == BATCHES_BETWEEN - 1


def is_vacuum_due(batch_id: int) -> bool:
    """Whether that look deletes what no version has, also where nothing is compacted."""
    return batch_id % BATCHES_BETWEEN_VACUUMS == BATCHES_BETWEEN_VACUUMS - 1


def upkeep(target: Target, named: frozenset[str], *, vacuums: bool = False) -> Upkeep:
    """Between two batches; `named` are attempts that an open decision names. OutputUnreachableError where the table does not
    answer, which costs nothing but another time."""
    log = DeltaLog(target)
    table = log.load()
    if table is None:
        return Upkeep()
    sizes = files_of(table)
    done: tuple[int, int] | None = (0, 0)
    if _can_be_saved(sizes) >= SAVED_FILES_MIN:
        done = log.compact(table, target_bytes=TARGET_BYTES)
    compacted, made = done or (0, 0)
    vacuumed = _vacuumed(log, target, named) if vacuums or compacted else Swept()
    return Upkeep(len(sizes), compacted, made, gave_way=done is None, vacuumed=vacuumed)


def _vacuumed(log: DeltaLog, target: Target, named: frozenset[str]) -> Swept:
    storage = Storage.at(target.place, target.storage)
    files = size = 0
    # A merge that found somebody faster leaves files of the library's own names behind: those are found here as well.
    for path in log.unread(log.loaded()):
        bytes_, staged = storage.size(path) or 0, staged_by(path)
        if (staged is None or staged[0] not in named) and storage.delete(path):
            files += 1
            size += bytes_
    return Swept(files, size)


def _can_be_saved(sizes: dict[str, int]) -> int:
    """Files that there would be less: of each directory one is left. Rows of several partitions never share a file."""
    small = Counter(path.rpartition("/")[0] for path, size in sizes.items() if size < _SMALL_BYTES)
    return sum(count - 1 for count in small.values())

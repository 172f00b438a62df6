"""What lies below a path that a person names: directories of partitions, data directories, or directories of those.

    /var/lib/kafka/orders-0          the directory of a partition
    /var/lib/kafka                   a data directory (one of `log.dirs`)
    DIR, DIR/node-1                  what `tidelog up --dir DIR` prints and makes: DIR/node-1/data is a data directory

Only reads. What cannot be listed on the way holds nothing.
"""

from __future__ import annotations

import os
import re

from tidelog.storage import clean_shutdown, meta_properties, partition_metadata
from tidelog.storage.checkpoint_file import (
    CLEANER_OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from tidelog.storage.errors import StorageError
from tidelog.storage.files import Files
from tidelog.storage.log_directory import LOCK_FILE
from tidelog.storage.partition_directory import parse_name
from tidelog.storage.segment import LOG_SUFFIX
from tidelog.storage.verification.metadata_check import BOOTSTRAP_SNAPSHOT

CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
DATA_DIRECTORY_NAMES = frozenset(
    {*CHECKPOINTS, meta_properties.FILE_NAME, clean_shutdown.FILE_NAME, BOOTSTRAP_SNAPSHOT, LOCK_FILE}
)

_SEGMENT = re.compile(rf"[0-9]{{20}}{re.escape(LOG_SUFFIX)}", re.ASCII)

# How far below the named directory a data directory may be: DIR/node-1/data. Whoever names / does not wait for all of a disk.
DEPTH_MAX = 2


class NotADataDirectoryError(Exception):
    """There is nothing here to check."""


def directories_at(files: Files, path: str) -> list[str]:
    """The directories of partitions and the data directories that `path` means, in order.

    That is `path` itself, the one that holds the file `path`, or those in a directory of such directories.
    NotADataDirectoryError where there is none; StorageError where `path` cannot be read.
    """
    if not files.is_dir(path):
        if not files.exists(path):
            raise NotADataDirectoryError(f"{path} does not exist")
        parent = os.path.dirname(path) or "."
        if not _is_one(files, parent, files.list_directory(parent)):
            raise NotADataDirectoryError(f"{path} is no file of a data directory")
        return [parent]
    directory = path.rstrip("/") or "/"
    found = _below(files, directory, files.list_directory(directory), DEPTH_MAX)
    if not found:
        raise NotADataDirectoryError(
            f"{path} holds no data directory: {meta_properties.FILE_NAME} or partitions are neither in it "
            f"nor up to {DEPTH_MAX} directories below"
        )
    return found


def is_partition(names: list[str]) -> bool:
    """Whether a directory that holds these names is a partition's."""
    # What a program says lies in files called .log as well, often beside the directories of its data.
    return any(
        name in {partition_metadata.FILE_NAME, LEADER_EPOCH_CHECKPOINT} or _SEGMENT.fullmatch(name) for name in names
    )


def _below(files: Files, directory: str, names: list[str], depth: int) -> list[str]:
    if _is_one(files, directory, names):
        return [directory]
    found: list[str] = []
    for name in names if depth else []:
        path = f"{directory.rstrip('/')}/{name}"
        listed = _listed(files, path)
        if listed is not None:
            found += _below(files, path, listed, depth - 1)
    return found


def _is_one(files: Files, directory: str, names: list[str]) -> bool:
    """Whether it is a data directory or a partition's. One without files of its own is known by the partitions in it."""
    if is_partition(names) or DATA_DIRECTORY_NAMES & set(names):
        return True
    partitions = (f"{directory}/{name}" for name in names if parse_name(name) is not None)
    return any(is_partition(_listed(files, path) or []) for path in partitions)


def _listed(files: Files, path: str) -> list[str] | None:
    """None where it is no directory, or none that may be read."""
    try:
        return files.list_directory(path) if files.is_dir(path) else None
    except StorageError:
        return None

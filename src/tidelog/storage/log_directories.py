"""The log directories of a node (`log.dirs`): which are usable, which holds a partition, where a new one goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelog.model.ids import DirectoryId, TopicId, TopicPartition
from tidelog.storage.errors import StorageError
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.partition_log import PartitionLog


class LogDirectories:
    """A node's directories, in the order of its configuration. One that goes offline stays in the list."""

    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        if not directories:
            raise ValueError("a node needs at least one log directory")
        self._directories = tuple(directories)

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self._directories)

    def __len__(self) -> int:
        return len(self._directories)

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self._directories if not directory.is_offline]

    @property
    def offline(self) -> list[LogDirectory]:
        return [directory for directory in self._directories if directory.is_offline]

    def by_id(self, directory_id: DirectoryId) -> LogDirectory | None:
        """The directory of this id, whatever its state."""
        for directory in self._directories:
            if directory.identity is not None and directory.identity.directory_id == directory_id:
                return directory
        return None

    def log_of(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """The log of a partition. It may be in a directory that is offline: then it raises when it is used."""
        for directory in self._directories:
            log = directory.partitions.get(topic_partition)
            if log is not None:
                return log
        return None

    def directory_of(self, topic_partition: TopicPartition) -> LogDirectory | None:
        """The directory that holds a partition."""
        for directory in self._directories:
            if topic_partition in directory.partitions:
                return directory
        return None

    def create_partition(
        self, topic_partition: TopicPartition, topic_id: TopicId | None, *, directory_id: DirectoryId | None = None
    ) -> PartitionLog:
        """The log of a partition, made if there is none: in the directory that is named, or in the one with the fewest.

        A directory that fails at it goes offline, and the next one is tried. StorageError if none is left.
        """
        existing = self.log_of(topic_partition)
        if existing is not None:
            return existing
        named = None if directory_id is None else self.by_id(directory_id)
        candidates = [named] if named is not None else sorted(self.online, key=_partition_count)
        problem: StorageError | None = None
        for directory in candidates:
            try:
                return directory.create_partition(topic_partition, topic_id)
            except StorageError as error:
                problem = error
        if problem is not None:
            raise problem
        tried = ", ".join(directory.path for directory in self._directories)
        raise StorageError(tried, "use", None, f"no log directory is online to hold {topic_partition}")

    def settle_new(self) -> None:
        """Have slow work force the new logs of all directories to disk."""
        for directory in self._directories:
            directory.settle_new()


def _partition_count(directory: LogDirectory) -> int:
    return len(directory.partitions) + len(directory.future_partitions)

"""A log reaches the disk: its records, its names, and whose it is.

What must be there before the recovery point may move: the topic id and the directory's name (a log is *settled* when both
are), and the leader epochs. `settling` settles many new logs at a time, `closing` closes many.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset, TopicId
from tidelog.storage.durability import SyncWork
from tidelog.storage.errors import StorageError
from tidelog.storage.files import parent_of
from tidelog.storage.log_state import LogState
from tidelog.storage.partition_metadata import (
    begin_partition_metadata,
    force_partition_metadata,
    name_partition_metadata,
)


class DurableLog(LogState):
    """A log that is flushed, settled, renamed and closed."""

    @property
    def recovery_point(self) -> Offset:
        """Everything before it has been forced to disk."""
        return self._durability.recovery_point

    def flush(self) -> None:
        """Force everything up to the log's end to disk, and wait for it."""
        with self._disk():
            if self.recovery_point < self.log_end_offset:
                self._flush()

    def _flush(self) -> None:
        self._before_sync()
        self._durability.flush(self.log_end_offset)

    def _before_sync(self) -> None:
        """What must be on disk before the recovery point may move: whose the records are, and in which epochs they begin."""
        self._settle()
        self.leader_epochs.flush()

    def flush_in_background(self, then: Callable[[], None] | None = None) -> None:
        """Force everything up to the log's end to disk, without waiting. When it is there, the recovery point moves and `then`
        is called; after a fault it never is."""
        with self._disk():
            self._before_sync()
            self._durability.flush_in_background(self.log_end_offset, then=then)

    def is_flush_due(self) -> bool:
        """Whether `flush.ms` asks for a flush now."""
        unflushed = self.recovery_point < self.log_end_offset
        return unflushed and self._durability.waited_ms() >= self.config.flush_ms

    def close(self) -> None:
        """Stop cleanly: afterwards the directory holds all there is to know, and opening it again reads no batch."""
        work = self.prepare_close()
        if work is None:
            self.release()
            return
        with self._disk():
            work()
        self.note_closed()

    def prepare_close(self) -> SyncWork | None:
        """Write down all there is to know. What is returned forces it to disk, on any thread, and then `note_closed` is due; None
        where all of it is there already. Nothing may be appended any more."""
        with self._disk():
            if self._is_durable:
                return None
            self._settle()
            producers = self.producers
            producers.map_end_offset = Offset(self.log_end_offset)
            # One that a roll has written may still be on its way to the disk.
            snapshot = producers.take_snapshot(sync=False) or producers.snapshot_path(self.log_end_offset)
            self._segments.active.finish()
            return self._durability.work_of_close(snapshot, self.leader_epochs.flush_elsewhere())

    def note_closed(self) -> None:
        """What `prepare_close` has returned is done: the log is as it will be found again."""
        self._durability.note_flushed(self.log_end_offset)
        self._is_durable = True
        self.release()

    def release(self) -> None:
        """Close all files as they are: what a crash would do, or what a log that is going away needs."""
        self._disturb_cleaning()
        for segment in self._segments:
            segment.release()

    # --- its name and topic ------------------------------------------------------------------------------------------------

    def assign_topic_id(self, topic_id: TopicId) -> ErrorCode:
        """Note whose log this is; INCONSISTENT_TOPIC_ID if it is another topic's already. On disk before the next record is."""
        if self.topic_id is None:
            with self._disk():
                begin_partition_metadata(self._seams.files, self.directory, topic_id)
                self.topic_id = topic_id
                self.is_settled = False
        return ErrorCode.NONE if self.topic_id == topic_id else ErrorCode.INCONSISTENT_TOPIC_ID

    def settle(self) -> None:
        """Have the topic id and the directory's name on disk, now if they are not."""
        with self._disk():
            self._settle()

    def _settle(self) -> None:
        if self.is_settled:
            return
        files = self._seams.files
        if self.topic_id is not None:
            force_partition_metadata(files, self.directory)
            self._name_topic_id()
        files.sync_directory(self.directory)
        files.sync_directory(parent_of(self.directory))
        self.is_settled = True

    def name_topic_id(self) -> None:
        """The content of `partition.metadata` is on disk: it may have its name."""
        with self._disk():
            self._name_topic_id()

    def _name_topic_id(self) -> None:
        try:
            name_partition_metadata(self._seams.files, self.directory)
        except StorageError as error:
            # It has its name already: slow work was between its two steps.
            if not error.is_missing:
                raise

    def note_settled(self) -> None:
        """The topic id and all names are on disk. Of a log without a record that is all there is."""
        self.is_settled = True
        if self.is_empty:
            # An epoch that was only announced says nothing to the next start.
            self._is_durable = True

    def rename_directory(self, directory: str, *, sync: bool = True) -> None:
        """Give the log's directory another name in the same log directory, durably unless told otherwise."""
        with self._disk():
            self._seams.files.rename(self.directory, directory)
            if sync:
                self._seams.files.sync_directory(parent_of(directory))
            self.directory = self._durability.directory = directory
            for segment in self._segments:
                segment.relocate(directory)
            self.producers.relocate(directory)
            self.leader_epochs.relocate(f"{directory}/{self.leader_epochs.path.rpartition('/')[2]}")

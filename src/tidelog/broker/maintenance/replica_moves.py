"""Replicas that move from one of this broker's log directories to another (AlterReplicaLogDirs, KIP-113).

    copying      a log of its own in the other directory (`-future`) follows the present one, a piece at a time
    flushing     it has all that there is, and is forced to disk: the present log's files will go
    swapped      it has what came meanwhile: it takes the other one's place, which is deleted

A move can be taken back until the swap, by a move to another directory or to where the replica is. A restart goes on with what it
finds half copied. The swap is two renames. After a crash between them there are two whole logs, and the longer one is kept.

Reading is left to a thread, since the older part of a log is hardly in memory; writing costs what an append costs. All moves
together copy no more than `replica.alter.log.dirs.io.max.bytes.per.second`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from msgspec import Struct

from tidelog.model import throttle_config as keys
from tidelog.model.clock import Clock
from tidelog.model.config import ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import DirectoryId, PartitionIndex, TopicId, TopicPartition
from tidelog.model.slow_work import SlowWork
from tidelog.model.timers import Timers
from tidelog.replication.partition import Partition
from tidelog.replication.partitions import Partitions
from tidelog.replication.roles import Offline
from tidelog.replication.throttles import Throttle
from tidelog.storage.append import AppendRefused, AppendRule
from tidelog.storage.checked_batches import check_copied
from tidelog.storage.errors import StorageError
from tidelog.storage.fetched import FetchIsolation
from tidelog.storage.leader_epochs import UNDEFINED_EPOCH_END
from tidelog.storage.log_directories import LogDirectories
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.partition_directory import NAME_LENGTH_MAX, directory_name
from tidelog.storage.partition_log import PartitionLog
from tidelog.wire.record_batch import read_header

logger = logging.getLogger(__name__)

# Short enough that requests which come meanwhile do not notice the write.
PIECE_BYTES = 1024 * 1024

# What the directory of a future log has behind the name of its partition: a dot, 32 digits, and the suffix.
_FUTURE_SUFFIX_LENGTH = 1 + 32 + len("-future")


class _Move(Struct, eq=False):
    """One replica on its way."""

    partition: Partition
    source: LogDirectory
    target: LogDirectory
    current: PartitionLog
    future: PartitionLog
    is_flushed: bool = False

    @property
    def topic_partition(self) -> TopicPartition:
        return self.partition.topic_partition


class ReplicaMoves:
    """The moves of one broker. `on_placed` is told where a replica lies afterwards."""

    def __init__(
        self,
        directories: LogDirectories,
        partitions: Partitions,
        timers: Timers,
        slow_work: SlowWork,
        throttle: Throttle,
        *,
        on_placed: Callable[[TopicId, PartitionIndex, DirectoryId], None] | None = None,
    ) -> None:
        self._directories = directories
        self._partitions = partitions
        self._timers = timers
        self._slow_work = slow_work
        self._throttle = throttle
        self._on_placed = on_placed
        self._moves: dict[TopicPartition, _Move] = {}
        self._is_stopped = False

    @property
    def under_way(self) -> list[TopicPartition]:
        return list(self._moves)

    def move(self, topic_partition: TopicPartition, path: str) -> ErrorCode:
        """Begin to move a replica into the log directory of this path, or take back a move if it is there already."""
        if len(directory_name(topic_partition)) + _FUTURE_SUFFIX_LENGTH > NAME_LENGTH_MAX:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        target = next((each for each in self._directories if each.path == path), None)
        if target is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if target.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._partitions.named(topic_partition.topic).get(topic_partition.partition)
        if partition is None:
            error = self._partitions.missing(topic_partition.topic, topic_partition.partition)
            return ErrorCode.REPLICA_NOT_AVAILABLE if error is ErrorCode.NOT_LEADER_OR_FOLLOWER else error
        source, log = self._directories.directory_of(topic_partition), partition.log
        if isinstance(partition.role, Offline) or source is None or log is None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        before = self._moves.get(topic_partition)
        if before is not None and before.target is target:
            return ErrorCode.NONE
        if before is not None:
            self._give_up(before, "it is to go elsewhere")
        if source is target:
            return ErrorCode.NONE
        if self._directories.offline:
            # The directory that is offline may hold an earlier move of the same replica: there must not be two.
            return ErrorCode.KAFKA_STORAGE_ERROR
        try:
            future = target.create_partition(topic_partition, partition.topic_id, is_future=True)
        except StorageError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._begin(_Move(partition, source, target, log, future))
        return ErrorCode.NONE

    def resume(self) -> None:
        """Go on with the moves that a stop has interrupted. Once the partitions are there."""
        for target in self._directories.online:
            for topic_partition, future in list(target.future_partitions.items()):
                partition = self._partitions.named(topic_partition.topic).get(topic_partition.partition)
                source = self._directories.directory_of(topic_partition)
                log = None if partition is None else partition.log
                if partition is None or log is None or source is None:
                    # Its present log may be in a directory that is offline: nothing is thrown away before that is known.
                    continue
                if source is target or future.topic_id not in {None, partition.topic_id}:
                    self._remove_future(target, topic_partition)
                elif topic_partition not in self._moves:
                    self._begin(_Move(partition, source, target, log, future))

    def stop(self) -> None:
        """Leave everything as it is."""
        self._is_stopped = True

    # --- copying -----------------------------------------------------------------------------------------------------------

    def _begin(self, move: _Move) -> None:
        logger.info("%s moves from %s to %s", move.topic_partition, move.source.path, move.target.path)
        self._moves[move.topic_partition] = move
        self._go_on_soon(move)

    def _go_on_soon(self, move: _Move) -> None:
        self._timers.after(0, lambda: self._go_on(move))

    def _go_on(self, move: _Move) -> None:
        if not self._is_current(move):
            return
        try:
            self._cut_what_the_log_has_lost(move)
            if move.future.log_end_offset < move.current.log_end_offset:
                if self._throttle.is_exceeded:
                    self._timers.after(self._throttle.delay_ms, lambda: self._go_on(move))
                else:
                    self._copy_from(move, move.future.log_end_offset)
            elif move.is_flushed:
                self._swap(move)
            else:
                move.future.flush_in_background(then=lambda: self._flushed(move))
        except StorageError as error:
            self._give_up(move, str(error))

    def _is_current(self, move: _Move) -> bool:
        """Whether the move still makes sense; ends it otherwise."""
        if self._is_stopped or self._moves.get(move.topic_partition) is not move:
            return False
        name, index = move.topic_partition
        if self._partitions.named(name).get(index) is not move.partition or move.partition.log is not move.current:
            self._give_up(move, "the replica is gone, or its disk has failed")
            return False
        if move.target.is_offline:
            self._give_up(move, f"{move.target.path} is offline")
            return False
        return True

    def _cut_what_the_log_has_lost(self, move: _Move) -> None:
        """The start of a log moves by retention, the end of one that follows by truncation: what was copied of that goes too."""
        current, future = move.current, move.future
        if future.log_end_offset < current.log_start_offset:
            future.truncate_fully_and_start_at(current.log_start_offset)
        epoch = future.leader_epochs.latest_epoch
        if epoch is not None:
            end = current.end_offset_for_epoch(epoch)
            if end != UNDEFINED_EPOCH_END and end.end_offset < future.log_end_offset:
                future.truncate_to(end.end_offset)

    def _copy_from(self, move: _Move, offset: int) -> None:
        fetched = move.current.read(offset, PIECE_BYTES, upper_bound=FetchIsolation.LOG_END)
        if isinstance(fetched, ErrorCode) or not fetched.regions:
            self._give_up(move, f"the log cannot be read at offset {offset}")
            return
        # The region holds its file: nothing that happens to the log meanwhile takes it away.
        self._slow_work.submit(fetched.regions[0].read, lambda outcome: self._copied(move, outcome))

    def _copied(self, move: _Move, outcome: bytes | BaseException) -> None:
        if isinstance(outcome, StorageError):
            move.source.report_fault(outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
        if not self._is_current(move) or isinstance(outcome, BaseException):
            return
        try:
            first = read_header(outcome).base_offset
            if not move.future.size_bytes and first != move.future.log_end_offset:
                # The log starts in the middle of a batch; the copy starts with the whole of it.
                move.future.truncate_fully_and_start_at(first)
            before_bytes = move.future.size_bytes
            batches = check_copied(outcome)
            outcomes = (
                [batches] if isinstance(batches, AppendRefused) else move.future.append(batches, AppendRule.FOLLOWER)
            )
        except StorageError as error:
            self._give_up(move, str(error))
            return
        last = outcomes[-1] if outcomes else None
        if isinstance(last, AppendRefused):
            self._give_up(move, last.reason)
        else:
            # What was read ends in the middle of a batch, mostly.
            self._throttle.record(move.future.size_bytes - before_bytes)
            self._go_on_soon(move)

    def _flushed(self, move: _Move) -> None:
        move.is_flushed = True
        self._go_on_soon(move)

    # --- the end -----------------------------------------------------------------------------------------------------------

    def _swap(self, move: _Move) -> None:
        topic_partition, current, future = move.topic_partition, move.current, move.future
        future.reconfigure(current.config)
        future.set_high_watermark(current.high_watermark)
        future.delete_records_before(current.log_start_offset)
        # First the new log gets its name, then the old one loses it: a crash between the two leaves one too many, not none.
        move.target.promote_future(topic_partition)
        move.partition.replace_log(future)
        del self._moves[topic_partition]
        logger.info("%s is in %s now", topic_partition, move.target.path)
        if not move.source.is_offline:
            move.source.delete_partition(topic_partition)
        move.target.save_recovery_points()
        identity = move.target.identity
        if self._on_placed is not None and identity is not None and identity.directory_id is not None:
            self._on_placed(move.partition.topic_id, topic_partition.partition, identity.directory_id)

    def _give_up(self, move: _Move, reason: str) -> None:
        if self._moves.get(move.topic_partition) is not move:
            return
        logger.warning("%s does not move to %s: %s", move.topic_partition, move.target.path, reason)
        del self._moves[move.topic_partition]
        self._remove_future(move.target, move.topic_partition)

    def _remove_future(self, target: LogDirectory, topic_partition: TopicPartition) -> None:
        if target.is_offline or topic_partition not in target.future_partitions:
            return
        try:
            target.delete_partition(topic_partition, is_future=True)
        except StorageError as error:
            # The directory has gone offline by this, and said so.
            logger.warning("what was copied of %s could not be removed: %s", topic_partition, error)


def moves_throttle(clock: Clock, config: Callable[[], ConfigValues]) -> Throttle:
    """What bounds all moves of a broker together. `config` gives its configuration as it is at the moment of the call."""
    return Throttle(
        clock,
        lambda: config()[keys.REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND],
        windows=config()[keys.ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_NUM],
        window_seconds=config()[keys.ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_SIZE_SECONDS],
    )


def keep_one_of_each(directories: LogDirectories) -> None:
    """After a crash in the middle of a swap a replica is there twice. Keeps the longer log; the other is set aside, not deleted.

    Before the partitions are opened.
    """
    found: dict[TopicPartition, LogDirectory] = {}
    for directory in directories.online:
        for topic_partition, log in list(directory.partitions.items()):
            other = found.get(topic_partition)
            if other is None:
                found[topic_partition] = directory
                continue
            shorter = directory
            if other.partitions[topic_partition].log_end_offset < log.log_end_offset:
                found[topic_partition], shorter = directory, other
            logger.warning("%s is in two log directories; that in %s is set aside", topic_partition, shorter.path)
            try:
                shorter.set_aside_stray(topic_partition)
            except StorageError as error:
                logger.warning("it could not be set aside: %s", error)

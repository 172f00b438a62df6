"""A log is cut: at an offset where another leader went on differently, or altogether.

Durable on return, and no offset is left without a batch before the log's end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model.ids import Offset
from tidelog.storage import rolling
from tidelog.storage.errors import DamagedFileError
from tidelog.storage.producer_replay import replay_producers
from tidelog.wire.batch_errors import CorruptBatchError

if TYPE_CHECKING:
    from tidelog.storage.partition_log import PartitionLog


def truncate_to(log: PartitionLog, offset: int) -> bool:
    """Make the log end at `offset`, or where the batch that holds it begins. Whether anything went."""
    if offset >= log.log_end_offset:
        # An epoch that was announced but never appended to may be the other leader's by now.
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        log.leader_epochs.flush()
        log.forget_assigned_epoch()
        return False
    if offset < log.segments.first.base_offset:
        start_anew(log, offset, offset)
        return True
    log.disturb_cleaning()
    log.is_durable = False
    for segment in [each for each in reversed(log.segments) if each.base_offset > offset]:
        rolling.discard(log, segment)
        # One by one, from the end: a crash must not bring back a later one without those before it.
        log.seams.files.sync_directory(log.directory)
    try:
        _end_at(log, log.segments.active.truncate_to(offset))
        _rebuild_producers(log)
    except CorruptBatchError as error:
        raise DamagedFileError(log.segments.active.path(".log"), str(error)) from error
    _finish(log)
    return True


def start_anew(log: PartitionLog, offset: int, log_start_offset: int) -> None:
    """Remove everything; the next append gets `offset`."""
    log.disturb_cleaning()
    log.is_durable = False
    for segment in list(reversed(log.segments)):
        rolling.discard(log, segment)
        log.seams.files.sync_directory(log.directory)
    rolling.create_segment(log, offset)
    log.log_start_offset = Offset(log_start_offset)
    _end_at(log, Offset(offset))
    log.leader_epochs.clear()
    log.producers.truncate_fully_and_start_at(offset)
    log.high_watermark = Offset(offset)
    _finish(log)


def _end_at(log: PartitionLog, end: Offset) -> None:
    log.log_end_offset = end
    log.log_start_offset = min(log.log_start_offset, end)
    log.durability.truncated_to(end)
    log.reader.forget_positions()
    log.leader_epochs.truncate_from_end(end)
    log.leader_epochs.flush()
    log.forget_assigned_epoch()


def _finish(log: PartitionLog) -> None:
    log.set_high_watermark(log.high_watermark)
    log.seams.files.sync_directory(log.directory)
    # Before anything is appended: what the checkpoint calls durable must be so.
    log.host.save_recovery_points()
    log.host.save_log_start_offsets()
    log.host.note_truncated(log.topic_partition, log.log_end_offset)


def _rebuild_producers(log: PartitionLog) -> None:
    """Bring the producers' state back to the end of a log that has become shorter."""
    producers, end = log.producers, log.log_end_offset
    had_none = producers.is_empty and producers.map_end_offset >= end
    producers.truncate_and_reload(log.log_start_offset, end, log.seams.clock.now_ms())
    if not had_none:
        replay_producers(producers, log.segments, log.log_start_offset, end)
    producers.map_end_offset = Offset(end)
    producers.take_snapshot()

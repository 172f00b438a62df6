"""The segments of a log come and go: a new one begins, one goes, compaction puts one in the place of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.model.ids import Offset
from tidelog.storage.segment import DELETED_SUFFIX, RELATIVE_OFFSET_MAX, SWAP_SUFFIX, Segment

if TYPE_CHECKING:
    from tidelog.storage.partition_log import PartitionLog


def roll_for(log: PartitionLog, first_offset: int, last_offset: int) -> Segment:
    """A new active segment for an append of these offsets. The old one is made durable in the background."""
    # A gap before the append belongs to the new segment, so that on disk no gap ever lies between two segments; unless it is
    # too wide for one.
    base_offset = log.log_end_offset
    if last_offset - base_offset > RELATIVE_OFFSET_MAX:
        base_offset = Offset(first_offset)
    rolled = log.segments.active
    rolled.finish()
    log.durability.prepare_roll(rolled, log.log_end_offset)
    new = create_segment(log, base_offset)
    log.producers.map_end_offset = Offset(base_offset)
    snapshot = log.producers.take_snapshot(sync=False)
    log.before_sync()
    log.durability.flush_in_background(base_offset, snapshot=snapshot, is_roll=True)
    return new


def create_segment(log: PartitionLog, base_offset: int) -> Segment:
    """A new segment, the last one of the log."""
    segment = Segment.create(log.seams, log.host.open_segments, log.directory, base_offset, log.config)
    log.segments.add(segment)
    log.is_durable = False
    return segment


def discard(log: PartitionLog, segment: Segment, *, with_snapshot: bool = True) -> None:
    """Take a segment out of the log. Its files get another name now and go later, the producers' snapshot with them."""
    log.segments.remove(segment)
    segment.release()
    segment.rename(DELETED_SUFFIX)
    paths = segment.all_paths()
    snapshot = log.producers.snapshots.mark_for_deletion(segment.base_offset) if with_snapshot else None
    if snapshot is not None:
        paths.append(snapshot)
    log.host.removals.add(paths, log.config.file_delete_delay_ms)


def replace_segments(log: PartitionLog, cleaned: Segment, old: Sequence[Segment]) -> bool:
    """Put a segment that is on disk as `.cleaned` in the place of those that it was made from. False if one of them is gone.

    Names change in an order of which a crash leaves a first part: up to the last `.swap` the old segments are the log, from
    there on the new one is, and the next start finishes what is missing. Nobody waits for the disk.
    """
    if any(log.segments.floor(each.base_offset) is not each for each in old):
        return False
    log.is_durable = False
    cleaned.rename(SWAP_SUFFIX)
    for segment in old:
        # What producers had done before a segment began stays true of the one that begins at the same offset.
        discard(log, segment, with_snapshot=segment.base_offset != cleaned.base_offset)
    cleaned.rename("")
    log.segments.add(
        Segment(
            log.seams,
            log.host.open_segments,
            log.directory,
            cleaned.base_offset,
            log.config,
            size_bytes=cleaned.size_bytes,
        )
    )
    log.reader.forget_positions()
    return True

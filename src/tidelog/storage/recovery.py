"""Opens a partition's directory, after a clean stop or after a crash, Apache Kafka's included.

After a clean stop nothing is read but names, sizes and the small files: where the log ends is in the recovery-point checkpoint,
and the producer snapshot of that name confirms it. Otherwise, in order:

    1. leftovers     `.deleted` and `.cleaned` files go; `.swap` files, the finished result of a compaction, replace what they
                     were made from, unless a `.cleaned` one shows that the set is not complete
    2. loading       every `.log` is a segment. One whose index is missing or plainly wrong is indexed again
    3. recovering    from the segment that holds the recovery point on, batches are read again, CRC and all. At the first one
                     that is not whole and correct the log ends: the file is cut there, later segments go. Indexes are built
                     anew on the way, producers and leader epochs are followed
    4. agreeing      log start, leader epochs and producer snapshots are cut to what the log still has

Of the segment that holds the recovery point, batches before that point are not checked again, but their headers are walked:
the indexes of the file are built from them. Earlier segments are not read at all, unless one has lost its index, or the
producer snapshot that should lie between is gone.
"""

from __future__ import annotations

import logging
import re
import zlib
from struct import Struct as Layout

from msgspec import Struct

from tidelog.model.ids import Offset, TopicId, TopicPartition
from tidelog.storage.batch_scan import each_checked_batch
from tidelog.storage.checkpoint_file import LEADER_EPOCH_CHECKPOINT
from tidelog.storage.durability import SyncWork
from tidelog.storage.errors import DamagedFileError
from tidelog.storage.leader_epochs import LeaderEpochs
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_parts import LogHost, LogParts
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.partition_metadata import begin_partition_metadata, read_partition_metadata
from tidelog.storage.producer_replay import replay_batch, replay_producers
from tidelog.storage.producer_state import ProducerStateTable
from tidelog.storage.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    RELATIVE_OFFSET_MAX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
    file_name,
)
from tidelog.storage.segment_list import SegmentList
from tidelog.wire.batch_errors import CorruptBatchError, UnsupportedMagicError
from tidelog.wire.record_batch import BatchHeader

logger = logging.getLogger(__name__)

_SEGMENT_FILE = re.compile(r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex)(\.deleted|\.cleaned|\.swap)?\Z", re.ASCII)

_ZERO = Offset(0)

# Of a message in the formats before magic 2: offset, size, CRC-32 of what follows, magic.
_OLD_MESSAGE = Layout(">qiIb")


class LastKnown(Struct, frozen=True):
    """What the log directory's checkpoints say of a log."""

    log_start_offset: Offset = _ZERO
    recovery_point: Offset = _ZERO
    was_clean: bool = False
    """Whether the node stopped cleanly, so that nothing has to be recovered."""
    was_compacted: bool = False
    """Whether the log was compacted at some time, so that gaps between its segments are to be expected whatever it is now."""


def open_log(
    host: LogHost,
    directory: str,
    topic_partition: TopicPartition,
    config: LogConfig,
    known: LastKnown,
    *,
    producer_id_expiration_ms: int,
) -> PartitionLog:
    """The log in `directory`, which exists. An empty directory is an empty log, which begins at the known start."""
    return _Opening(host, directory, config, known, producer_id_expiration_ms).open(topic_partition)


def new_log(
    host: LogHost,
    directory: str,
    topic_partition: TopicPartition,
    config: LogConfig,
    topic_id: TopicId | None,
    *,
    producer_id_expiration_ms: int,
) -> PartitionLog:
    """An empty log in `directory`, which has just been made. Nothing of it is forced to disk: see `settling`."""
    files = host.seams.files
    segments = SegmentList()
    segments.add(Segment.create(host.seams, host.open_segments, directory, 0, config, is_first=True))
    if topic_id is not None:
        begin_partition_metadata(files, directory, topic_id)
    parts = LogParts(
        segments,
        LeaderEpochs(files, f"{directory}/{LEADER_EPOCH_CHECKPOINT}"),
        ProducerStateTable(files, directory, producer_id_expiration_ms=producer_id_expiration_ms),
        log_start_offset=_ZERO,
        log_end_offset=_ZERO,
        recovery_point=_ZERO,
        topic_id=topic_id,
        is_durable=False,
        is_settled=False,
    )
    return PartitionLog(host, directory, topic_partition, config, parts)


class _Opening:
    """One opening of one directory."""

    def __init__(
        self, host: LogHost, directory: str, config: LogConfig, known: LastKnown, producer_id_expiration_ms: int
    ) -> None:
        self._host = host
        self._seams = host.seams
        self._files = host.seams.files
        self._directory = directory
        self._config = config
        self._known = known
        self._segments = SegmentList()
        self._names = self._files.list_directory(directory)
        self._epochs = LeaderEpochs(self._files, f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
        self._producers = ProducerStateTable(
            self._files, directory, producer_id_expiration_ms=producer_id_expiration_ms
        )
        self._changed = False
        self._may_have_gaps = config.compacts or known.was_compacted

    def open(self, topic_partition: TopicPartition) -> PartitionLog:
        if any(name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)) for name in self._names):
            self._clear_leftovers()
            self._names = self._files.list_directory(self._directory)
        unindexed = self._load_segments()
        bases = set(self._segments.base_offsets)
        if sum(1 for offset in self._producers.snapshots.offsets if offset not in bases) > 1:
            self._producers.snapshots.remove_stray(bases)
        if self._known.was_clean:
            for segment in unindexed:
                self._reindex(segment)
            end = self._clean_end()
        else:
            self._recover(unindexed)
            end = self._measured_end()
        if end < self._known.log_start_offset:
            self._start_empty(end)
            end = self._known.log_start_offset
        if not len(self._segments):
            self._changed = True
            self._segments.add(
                Segment.create(self._seams, self._host.open_segments, self._directory, end, self._config)
            )
        return self._agree(topic_partition, Offset(end))

    # 1. leftovers

    def _clear_leftovers(self) -> None:
        suffixed = [(int(match[1]), match[3], name) for name in self._names if (match := _SEGMENT_FILE.match(name))]
        first_cleaned = min((base for base, suffix, _ in suffixed if suffix == CLEANED_SUFFIX), default=None)
        swaps: list[tuple[int, str]] = []
        for base, suffix, name in suffixed:
            if suffix == SWAP_SUFFIX and (first_cleaned is None or base < first_cleaned):
                swaps.append((base, name))
            elif suffix is not None:
                self._remove(name)
        for name in self._names:
            if name.endswith(".snapshot" + DELETED_SUFFIX):
                self._remove(name)
        if swaps:
            self._finish_swap(swaps)
        self._files.sync_directory(self._directory)

    def _finish_swap(self, swaps: list[tuple[int, str]]) -> None:
        """Put a compaction's finished segments in the place of those that they were made from."""
        bases = sorted({base for base, name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)})
        swapped_until = -1
        for base in bases:
            segment = self._segment(base, SWAP_SUFFIX)
            swapped_until = max(swapped_until, self._end_of(segment))
            segment.release()
        for name in self._files.list_directory(self._directory):
            match = _SEGMENT_FILE.match(name)
            if match is None or match[3] is not None or not bases:
                continue
            # Also of one that has kept no record, and so does not reach beyond its first offset.
            if int(match[1]) in bases or bases[0] <= int(match[1]) < swapped_until:
                self._remove(name)
        self._files.sync_directory(self._directory)
        for _, name in swaps:
            path = f"{self._directory}/{name}"
            self._files.rename(path, path.removesuffix(SWAP_SUFFIX))

    def _remove(self, name: str) -> None:
        self._files.remove(f"{self._directory}/{name}")

    # 2. loading

    def _load_segments(self) -> list[Segment]:
        """Fill the list of segments. Returns those that have to be indexed again."""
        present = set(self._names)
        for name in self._names:
            match = _SEGMENT_FILE.match(name)
            if match is None or match[3] is not None:
                continue
            base = int(match[1])
            if match[2] != LOG_SUFFIX:
                if file_name(base, LOG_SUFFIX) not in present:
                    self._remove(name)
                continue
            self._segments.add(self._segment(base, ""))
        self._drop_before_start()
        return [segment for segment in self._segments if not self._is_indexed(segment, present)]

    def _drop_before_start(self) -> None:
        """Remove the segments of which no record is in the log: they were on their way out, and need not even be whole."""
        start = self._known.log_start_offset
        gone = [each for each in self._segments if self._begins_by(self._segments.after(each.base_offset), start)]
        for segment in gone:
            self._segments.remove(segment)
            for path in segment.all_paths():
                self._files.remove(path)
        self._changed = self._changed or bool(gone)

    @staticmethod
    def _begins_by(segment: Segment | None, offset: int) -> bool:
        return segment is not None and segment.base_offset <= offset

    def _segment(self, base_offset: int, suffix: str) -> Segment:
        size = self._files.size_of(f"{self._directory}/{file_name(base_offset, LOG_SUFFIX)}{suffix}")
        return Segment(
            self._seams,
            self._host.open_segments,
            self._directory,
            base_offset,
            self._config,
            size_bytes=size,
            suffix=suffix,
        )

    def _is_indexed(self, segment: Segment, present: set[str]) -> bool:
        """Whether the segment's indexes are there and not plainly wrong. After a clean stop only their names are looked at."""
        base = segment.base_offset
        if file_name(base, INDEX_SUFFIX) not in present or file_name(base, TIME_INDEX_SUFFIX) not in present:
            return False
        if self._known.was_clean:
            return True
        return segment.index_damage() is None

    def _reindex(self, segment: Segment) -> None:
        """Build the indexes of a segment that is not to be recovered: its batches are believed, whole as they are."""
        logger.warning("%s: an index is missing or damaged; building it again", segment.path(LOG_SUFFIX))
        self._changed = True
        self._reload_producers(segment.base_offset)
        cut = self._walk(segment, checked_from=None)
        if cut is not None:
            raise DamagedFileError(
                segment.path(LOG_SUFFIX),
                f"byte {cut} begins no whole batch, although the log was stopped cleanly or flushed",
            )
        # The recovery point is behind it already: nobody would build it again.
        segment.finish()
        SyncWork(self._files, segment.open_for_sync(), None)()

    # 3. recovering

    def _recover(self, unindexed: list[Segment]) -> None:
        unflushed = self._segments.from_offset(self._known.recovery_point)
        first_unflushed = unflushed[0].base_offset if unflushed else Offset(0)
        for segment in unindexed:
            if segment.base_offset < first_unflushed:
                self._reindex(segment)
        if not unflushed:
            return
        self._reload_producers(first_unflushed)
        self._changed = True
        following: Offset | None = None
        for number, segment in enumerate(unflushed):
            if following is not None and segment.base_offset != following and not self._may_have_gaps:
                # The end of the segment before never reached the disk, at a batch's boundary by chance.
                self._drop_from(unflushed[number:], f"the log ends at {following}, before them")
                return
            self._producers.map_end_offset = Offset(max(self._producers.map_end_offset, segment.base_offset))
            self._producers.take_snapshot(sync=False)
            cut = self._walk(segment, checked_from=self._known.recovery_point)
            if cut is not None:
                logger.warning(
                    "%s: cut at byte %d of %d, where no whole and correct batch follows",
                    segment.path(LOG_SUFFIX),
                    cut,
                    segment.size_bytes,
                )
                segment.cut(cut)
            # Nobody waits for the disk: the recovery point stays where it is, so the next flush forces all of this there, and a
            # crash before that has it built again.
            segment.finish()
            if cut is not None:
                self._drop_from(unflushed[number + 1 :], "the log is damaged before them")
                return
            following = Offset(max(self._producers.map_end_offset, segment.base_offset))

    def _walk(self, segment: Segment, checked_from: Offset | None) -> int | None:
        """Build the indexes of a segment and follow its producers and epochs. Returns where its correct batches end, if not at
        the end of the file. Batches from `checked_from` on have their CRC checked."""
        segment.begin_rebuild()
        valid_end, following = 0, segment.base_offset
        try:
            for position, header in segment.headers_from(0):
                if checked_from is not None and header.last_offset >= checked_from:
                    break
                following = self._follow(segment, position, header, following)
                valid_end = position + header.size_bytes
            if checked_from is not None:
                for position, header in each_checked_batch(segment.file, valid_end, segment.size_bytes):
                    following = self._follow(segment, position, header, following)
                    valid_end = position + header.size_bytes
        except CorruptBatchError as error:
            if isinstance(error, UnsupportedMagicError):
                self._refuse_old_format(segment, valid_end)
            return valid_end
        return None

    def _follow(self, segment: Segment, position: int, header: BatchHeader, following: Offset) -> Offset:
        if header.base_offset < following or header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
            raise CorruptBatchError(f"a batch at offset {header.base_offset} cannot follow offset {following}")
        replay_batch(self._producers, segment, position, header, with_index=True)
        segment.index_batch(position, header)
        epoch = header.partition_leader_epoch
        latest = self._epochs.latest_epoch
        if epoch >= 0 and (latest is None or epoch > latest):
            self._epochs.assign(epoch, header.base_offset, flush=False)
        return Offset(header.next_offset)

    def _refuse_old_format(self, segment: Segment, position: int) -> None:
        """Zeros and garbage are cut; messages that an old Kafka wrote, and that we cannot read, must not be."""
        prefix = segment.file.pread(_OLD_MESSAGE.size, position)
        if len(prefix) < _OLD_MESSAGE.size:
            return
        _, size, crc, magic = _OLD_MESSAGE.unpack(prefix)
        fits = 14 <= size <= segment.size_bytes - position - 12
        if magic in {0, 1} and fits and zlib.crc32(segment.file.pread(size - 4, position + 16)) == crc:
            raise DamagedFileError(
                segment.path(LOG_SUFFIX),
                f"byte {position} begins a message of format {magic}; only format 2 can be read. Let Apache Kafka "
                "rewrite the topic, or move the directory away",
            )

    def _drop_from(self, segments: list[Segment], reason: str) -> None:
        for segment in reversed(segments):
            logger.warning("%s: removed, since %s", segment.path(LOG_SUFFIX), reason)
            self._segments.remove(segment)
            segment.release()
            for path in segment.all_paths():
                self._files.remove(path)
            self._files.sync_directory(self._directory)

    # 4. agreeing

    def _clean_end(self) -> Offset:
        """Where the log ends after a clean stop: as the checkpoint says, if the name of a snapshot says the same."""
        if not len(self._segments):
            return self._known.log_start_offset
        active = self._segments.active
        if active.size_bytes == 0:
            return active.base_offset
        point = self._known.recovery_point
        if point > active.base_offset and self._producers.snapshots.latest == point:
            return point
        return self._measured_end()

    def _measured_end(self) -> Offset:
        if not len(self._segments):
            return self._known.log_start_offset
        return self._end_of(self._segments.active)

    def _end_of(self, segment: Segment) -> Offset:
        try:
            return segment.next_offset()
        except CorruptBatchError as error:
            raise DamagedFileError(segment.path(LOG_SUFFIX), str(error)) from error

    def _start_empty(self, end: Offset) -> None:
        """Segments were deleted from outside: what is left lies before the start of the log."""
        start = self._known.log_start_offset
        self._drop_from(list(self._segments), f"the log should start at {start}, and they end at {end}")
        self._epochs.clear()
        self._producers.truncate_fully_and_start_at(start)

    def _agree(self, topic_partition: TopicPartition, end: Offset) -> PartitionLog:
        start = Offset(max(self._known.log_start_offset, self._segments.first.base_offset))
        self._epochs.truncate_from_end(end)
        self._epochs.truncate_from_start(start)
        # Without a snapshot a clean stop means that there were no producers, as in Kafka; unless we have just removed it.
        if not self._known.was_clean or self._changed or self._producers.snapshots.latest is not None:
            self._reload_producers(end, start)
        self._producers.map_end_offset = Offset(end)
        if self._producers.snapshots.latest != end:
            # One that does not survive a crash is built again; a clean stop forces it to disk.
            self._producers.take_snapshot(sync=self._known.was_clean)
        if self._known.was_clean or self._known.recovery_point > start:
            # Otherwise nothing of the log was ever forced to disk, and a flush writes them before it says so.
            self._epochs.flush()
        recovery_point = end if self._known.was_clean else min(self._known.recovery_point, end)
        parts = LogParts(
            self._segments,
            self._epochs,
            self._producers,
            log_start_offset=start,
            log_end_offset=end,
            recovery_point=recovery_point,
            topic_id=read_partition_metadata(self._files, self._directory),
            is_durable=self._known.was_clean and not self._changed,
        )
        return PartitionLog(self._host, self._directory, topic_partition, self._config, parts)

    def _reload_producers(self, end: Offset, start: Offset | None = None) -> None:
        """Have the producers' state as of `end`: from the newest snapshot, and the batches after it."""
        start = self._known.log_start_offset if start is None else start
        try:
            self._producers.truncate_and_reload(start, end, self._seams.clock.now_ms())
            replay_producers(self._producers, self._segments, start, end)
        except CorruptBatchError as error:
            raise DamagedFileError(self._directory, str(error)) from error

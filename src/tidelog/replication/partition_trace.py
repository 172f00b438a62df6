"""What a replica tells of while somebody listens to its partition: `Partition.trace`, which is None as long as nobody does.

    trace = PartitionTrace(partition, now_ns)
    partition.trace = trace                 from now on the data path tells it, on its own stack
    partition.trace = None                  the last listener has left

It looks at what an append has left in the log's memory (sizes of segments, entries of indexes) and reads no file for it. Nothing
in it fails an append or a fetch: where an index cannot be looked at, its entries are not told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from tidelog.model import trace_events as events
from tidelog.model.errors import ErrorCode
from tidelog.model.trace import Trace
from tidelog.replication.roles import Following, Leading
from tidelog.storage.append import AppendInfo, AppendOutcome, AppendRefused, AppendRule
from tidelog.storage.errors import StorageError
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.segment import LOG_SUFFIX, Segment, file_name
from tidelog.wire.record_batch import TRANSACTIONAL_BIT

if TYPE_CHECKING:
    from tidelog.replication.metadata_view import PartitionMetadata
    from tidelog.replication.partition import Partition
    from tidelog.replication.roles import Role
    from tidelog.storage.checked_batches import CheckedBatch
    from tidelog.storage.partition_log import PartitionLog

_BY = {
    AppendRule.LEADER: "leader",
    AppendRule.FOLLOWER: "follower",
    AppendRule.COORDINATOR: "coordinator",
    AppendRule.MARKER: "marker",
    AppendRule.RAFT: "follower",
}
_ISOLATIONS = {
    FetchIsolation.LOG_END: "log_end",
    FetchIsolation.HIGH_WATERMARK: "read_uncommitted",
    FetchIsolation.LAST_STABLE_OFFSET: "read_committed",
}


def role_name(role: Role) -> str:
    """A role as events have it."""
    return "leader" if isinstance(role, Leading) else "follower" if isinstance(role, Following) else "none"


class PartitionTrace(Trace):
    """The listeners of one partition, and what they were told last of it."""

    def __init__(self, partition: Partition, now_ns: Callable[[], int]) -> None:
        super().__init__(now_ns)
        self._partition = partition
        log = partition.log
        self._high_watermark: int = -1 if log is None else log.high_watermark
        self._last_stable_offset: int = -1 if log is None else log.last_stable_offset
        self._role = (role_name(partition.role), -1, partition.leader_epoch)
        self._isr: tuple[int, ...] | None = None
        self._end: _LogTail | None = None

    # --- producing ---------------------------------------------------------------------------------------------------------

    def produce_received(self, batch: CheckedBatch, client_id: str | None, correlation_id: int, acks: int) -> None:
        """A batch that nothing is said against so far: it is appended next."""
        self.tell(
            events.ProduceReceived(
                client_id=events.short(client_id),
                correlation_id=correlation_id,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                acks=acks,
                bytes=batch.size_bytes,
                records=batch.record_count,
            )
        )

    def produce_refused(self, error: ErrorCode) -> None:
        self.tell(events.ProduceRefused(ErrorCode.of(error).name))

    def produce_answered(self, client_id: str | None, correlation_id: int, base_offset: int, error: int) -> None:
        self.tell(
            events.ProduceAnswered(events.short(client_id), correlation_id, base_offset, ErrorCode.of(error).name)
        )

    # --- appending ---------------------------------------------------------------------------------------------------------

    def before_append(self, log: PartitionLog) -> None:
        """What is appended next is told by `appended`, from here on."""
        self._end = None
        with suppress(StorageError):  # the append itself is going to meet it
            self._end = _LogTail(log.segments.active)

    def appended(
        self, log: PartitionLog, batches: Sequence[CheckedBatch], outcomes: Sequence[AppendOutcome], rule: AppendRule
    ) -> None:
        """What became of each batch, in their order."""
        tail = self._end
        self._end = None
        if tail is None:
            return
        is_produced = rule is AppendRule.LEADER
        for batch, outcome in zip(batches, outcomes, strict=True):
            if isinstance(outcome, AppendRefused):
                if is_produced:
                    self.produce_refused(outcome.error)
                continue
            if isinstance(outcome, AppendInfo) and outcome.is_duplicate:
                self.tell(events.ProduceDuplicate(outcome.first_offset, outcome.last_offset))
                continue
            offset: int = outcome.first_offset if isinstance(outcome, AppendInfo) else outcome
            segment = log.segments.floor(offset)
            if segment is not None and segment is not tail.segment:
                # The log has rolled: what the old segment's indexes got last, and then a new file from its start.
                for each in tail.entries():
                    self.tell(each)
                tail = _LogTail(segment, is_new=True)
            self._tell_appended(batch, offset, tail, _BY[rule])
        for each in tail.entries():
            self.tell(each)
        self._tell_stable(log)

    def _tell_appended(self, batch: CheckedBatch, offset: int, tail: _LogTail, by: str) -> None:
        last_offset = offset + batch.last_offset_delta
        position = tail.position
        tail.position += batch.size_bytes
        is_theirs = by == "follower"
        self.tell(
            events.Appended(
                by=by,
                base_offset=offset,
                last_offset=last_offset,
                leo=last_offset + 1,
                leader_epoch=batch.leader_epoch if is_theirs else self._partition.leader_epoch,
                file=tail.file,
                position=position,
                size=batch.size_bytes,
                records=batch.record_count,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                is_transactional=bool(batch.attributes & TRANSACTIONAL_BIT),
                max_timestamp_ms=batch.max_timestamp,
            )
        )
        if batch.marker is not None:
            self.tell(events.Marker(batch.producer_id, batch.producer_epoch, batch.marker.is_commit, offset))
        for each in tail.entries(position):
            self.tell(each)

    # --- offsets -----------------------------------------------------------------------------------------------------------

    def high_watermark_is(self, log: PartitionLog, by: int | str) -> None:
        """The high watermark may have moved, by what `by` says."""
        high_watermark = log.high_watermark
        if high_watermark != self._high_watermark:
            self._high_watermark = high_watermark
            self.tell(events.HighWatermarkMoved(high_watermark, by))
        self._tell_stable(log)

    def _tell_stable(self, log: PartitionLog) -> None:
        stable = log.last_stable_offset
        if stable != self._last_stable_offset:
            self._last_stable_offset = stable
            self.tell(events.LastStableOffsetMoved(stable))

    def truncated(self, log: PartitionLog) -> None:
        self.tell(events.Truncated(log.log_end_offset))
        self.high_watermark_is(log, "leader")

    # --- fetching ----------------------------------------------------------------------------------------------------------

    def follower_fetch(self, replica: int, fetch_offset: int) -> None:
        self.tell(events.FollowerFetch(replica, fetch_offset))

    def follower_fetch_answered(self, replica: int, fetch_offset: int, result: Fetched, is_full: bool) -> None:
        to_offset = self._end_of(fetch_offset, result, result.log_end_offset, is_full)
        self.tell(events.FollowerFetchAnswered(replica, fetch_offset, to_offset, result.size_bytes))

    def fetch_answered(
        self,
        client_id: str | None,
        correlation_id: int,
        fetch_offset: int,
        result: Fetched,
        isolation: FetchIsolation,
        is_full: bool,
    ) -> None:
        bound = result.log_end_offset
        if isolation is FetchIsolation.HIGH_WATERMARK:
            bound = result.high_watermark
        elif isolation is FetchIsolation.LAST_STABLE_OFFSET:
            bound = result.last_stable_offset
        self.tell(
            events.FetchAnswered(
                client_id=events.short(client_id),
                correlation_id=correlation_id,
                from_offset=fetch_offset,
                to_offset=self._end_of(fetch_offset, result, bound, is_full),
                bytes=result.size_bytes,
                isolation=_ISOLATIONS[isolation],
            )
        )

    def _end_of(self, fetch_offset: int, result: Fetched, bound: int, is_full: bool) -> int:
        """Where the next fetch goes on after an answer, as far as that is known without reading what it holds; -1: unknown."""
        if not result.regions:
            return fetch_offset
        log = self._partition.log
        if is_full or log is None:
            return -1
        # What is read is of one segment.
        segment = log.segments.floor(fetch_offset)
        following = None if segment is None else log.segments.after(segment.base_offset)
        return bound if following is None else min(bound, following.base_offset)

    # --- the role ----------------------------------------------------------------------------------------------------------

    def became(self, metadata: PartitionMetadata | None) -> None:
        """The replica has the role that it has now, by this metadata if it was not the disk."""
        partition = self._partition
        leader = -1 if metadata is None else metadata.leader
        role = (role_name(partition.role), leader, partition.leader_epoch)
        if role != self._role:
            self._role = role
            self.tell(events.RoleChanged(*role))
        if metadata is not None and metadata.isr != self._isr:
            self._isr = metadata.isr
            self.tell(events.InSyncSetChanged(metadata.isr, metadata.leader_epoch, metadata.partition_epoch))

    def knows(self, leader: int, isr: tuple[int, ...]) -> None:
        """What the listeners have been told of the metadata already."""
        self._role = (role_name(self._partition.role), leader, self._partition.leader_epoch)
        self._isr = isr

    def end_with(self, reason: str) -> None:
        """There is no such replica any more."""
        self.end(events.Ended(reason))


class _LogTail:
    """A segment as it ends before an append, and so what the append has added to it."""

    __slots__ = ("_offset_entries", "_time_entries", "file", "position", "segment")

    def __init__(self, segment: Segment, *, is_new: bool = False) -> None:
        """`is_new`: the append has begun it."""
        self.segment = segment
        self.file = file_name(segment.base_offset, LOG_SUFFIX)
        self.position: int = 0 if is_new else segment.size_bytes
        self._offset_entries: int = 0 if is_new else segment.offset_index.entries
        self._time_entries: int = 0 if is_new else segment.time_index.entries

    def entries(self, position: int | None = None) -> Iterator[events.IndexEntry]:
        """The index entries that were added for the batch at `position`; None: all that are left."""
        try:
            yield from self._entries(position)
        except (StorageError, IndexError):
            # The log tells of its disk itself.
            return

    def _entries(self, position: int | None) -> Iterator[events.IndexEntry]:
        offset_index, time_index = self.segment.offset_index, self.segment.time_index
        while self._offset_entries < offset_index.entries:
            entry = offset_index.entry(self._offset_entries)
            if position is not None and entry.position > position:
                return
            yield events.IndexEntry(
                index="offset",
                entry_number=self._offset_entries,
                offset=entry.offset,
                position=entry.position,
                timestamp_ms=-1,
                file=file_name(self.segment.base_offset, ".index"),
            )
            self._offset_entries += 1
            yield from self._time_entries_up_to(entry.offset)
        if position is None:
            while self._time_entries < time_index.entries:
                yield self._time_entry()

    def _time_entries_up_to(self, offset: int) -> Iterator[events.IndexEntry]:
        """A time entry is added with the offset entry of a batch that has brought a larger timestamp, or follows one."""
        time_index = self.segment.time_index
        while self._time_entries < time_index.entries and time_index.entry(self._time_entries).offset <= offset:
            yield self._time_entry()

    def _time_entry(self) -> events.IndexEntry:
        entry = self.segment.time_index.entry(self._time_entries)
        number = self._time_entries
        self._time_entries += 1
        return events.IndexEntry(
            index="time",
            entry_number=number,
            offset=entry.offset,
            position=-1,
            timestamp_ms=entry.timestamp,
            file=file_name(self.segment.base_offset, ".timeindex"),
        )

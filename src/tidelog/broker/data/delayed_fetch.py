# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""One Fetch: what is there now, the wait for more where that is too little, and the answer.

A fetch is answered at once if it will not wait, if it has `min_bytes`, or if something is wrong with a partition. Otherwise it
waits for its partitions: one without a session watches them itself, one of a session is told by the session's watch. A change
makes it read that one partition again; it completes when that was enough, when something went wrong, or when `max_wait_ms` is
over.

While it waits it holds what it has read so far: as long as it was not told of a change, that is still the answer. Only stretches
of files are read anew in the end, since the log may have been cut under them. Where ACLs have changed meanwhile, it is asked
again what the caller may read: who has lost the right to a partition gets nothing more of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tidelog.broker.data.fetch_answer import FetchAnswer
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER_EPOCH
from tidelog.model.pending import Pending
from tidelog.storage.fetched import Fetched

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.broker.data.fetch_entry import FetchEntry
    from tidelog.broker.data.fetch_sessions import FetchSession
    from tidelog.broker.data.session_watch import SessionWatch
    from tidelog.broker.quotas.meter import Meter
    from tidelog.broker.requests.caller import Caller
    from tidelog.broker.requests.node_view import Node
    from tidelog.model.ids import NodeId
    from tidelog.model.timers import Timer
    from tidelog.replication.partition import Partition
    from tidelog.storage.fetched import FetchIsolation
    from tidelog.wire.typed.fetch import FetchResponse, PartitionData

# A client that is gone is noticed when its answer is sent. One that asked to wait for weeks must not be kept for weeks.
WAIT_MS_MAX = 5 * 60 * 1000

# The same for this module alone: what C knows by its type, Python does not see.
_WAIT_MS_MAX = WAIT_MS_MAX
_NO_LEADER_EPOCH = NO_LEADER_EPOCH


class DelayedFetch:
    """One request, and the `Watcher` of its partitions where it has no session. The handler fills it in, and starts it."""

    __slots__ = (
        "_pending",
        "_timer",
        "_total",
        "caller",
        "client_id",
        "correlation_id",
        "elsewhere",
        "entries",
        "expected_epoch",
        "follower",
        "follower_epoch",
        "is_waiting",
        "isolation",
        "leader_only",
        "listener_name",
        "max_bytes",
        "max_wait_ms",
        "meter",
        "min_bytes",
        "node",
        "refused",
        "resolve_again",
        "revision",
        "session",
        "version",
        "wants_session",
        "watch",
    )

    node: Node
    version: int
    client_id: str | None
    correlation_id: int
    listener_name: str
    isolation: FetchIsolation
    min_bytes: int
    max_bytes: int
    max_wait_ms: int
    leader_only: bool
    follower: NodeId | None
    """The replica that asks; None for a consumer."""
    follower_epoch: int
    session: FetchSession | None
    expected_epoch: int
    """Of the session: another request of it may come in before this one is answered."""
    wants_session: bool
    entries: list[FetchEntry]
    """What is looked at, in the order in which it is answered."""
    refused: list[tuple[FetchEntry, ErrorCode]]
    """What is refused without a look at a replica. Unknown ids first, as in Kafka's answers."""
    elsewhere: list[tuple[FetchEntry, PartitionData]]
    """What the consumer had better read from another replica."""
    caller: Caller
    revision: int
    """By which rules it was decided what the caller may read, if by any."""

    def __init__(self) -> None:
        self.resolve_again: Callable[[DelayedFetch], None] | None = None
        """Decides that anew; None where everything is allowed."""
        self.watch: SessionWatch | None = None
        self.meter: Meter | None = None
        """What the answer takes of the client's quotas, where there are any."""
        self.is_waiting = False
        self._pending: Pending[FetchResponse] | None = None
        self._timer: Timer | None = None
        self._total = 0

    def reads(self, entry: FetchEntry, partition: Partition | None, error: ErrorCode | None) -> None:
        """`entry` is read from `partition`; or from none, with or without an error of the replica."""
        if entry.is_linked and entry.partition is not partition:
            assert self.watch is not None
            self.watch.unlink(entry)
        entry.partition = partition
        entry.error = error

    def start(self) -> FetchResponse | Pending[FetchResponse]:
        """Read, and answer now or later."""
        watch = self.watch
        if watch is None:
            is_settled = self._read_all(True)
            stale: list[FetchEntry] | None = None
        else:
            watch.begin_reading(self.entries)
            is_settled = self._read_all(True)
            if self.follower is not None:
                watch.fetched_at(self.node.clock.monotonic_ms(), self.entries)
            stale = watch.end_reading()
        if is_settled or self.max_wait_ms <= 0 or self._total >= self.min_bytes or not self._waits_for_any():
            return self._answer()
        pending: Pending[FetchResponse] = Pending()
        self._pending = pending
        self._timer = self.node.timers.after(min(self.max_wait_ms, _WAIT_MS_MAX), self.expired)
        self.is_waiting = True
        if watch is None:
            for entry in self.entries:
                if entry.partition is not None:
                    entry.partition.watch(self)
            if self.follower is not None:
                stale = self._missed()
        else:
            watch.wait(self)
        if stale is not None:
            for entry in stale:
                entry.is_stale = False
                if self.is_waiting:
                    self.entry_changed(entry)
        return pending

    def _waits_for_any(self) -> bool:
        """Whether there is a partition that may get more. What a session's watch leaves alone may."""
        session = self.session
        if session is not None and len(session.entries) > len(self.entries):
            return True
        for entry in self.entries:  # noqa: SIM110 - a generator costs more
            if entry.partition is not None:
                return True
        return False

    def _missed(self) -> list[FetchEntry]:
        """A follower's progress commits records, on which a coordinator may append at once to a partition that this fetch has
        read already and did not watch yet."""
        missed = []
        for entry in self.entries:
            result, log = entry.result, None if entry.partition is None else entry.partition.log
            if type(result) is Fetched and log is not None and log.log_end_offset != result.log_end_offset:
                missed.append(entry)
        return missed

    # --- changes -----------------------------------------------------------------------------------------------------------

    def partition_changed(self, partition: Partition) -> None:
        """A partition that is waited for has more, or nothing any more."""
        for entry in self.entries:
            if entry.partition is partition:
                self.entry_changed(entry)
                return

    def entry_changed(self, entry: FetchEntry) -> None:
        """The same, of the partition of `entry`."""
        others = self._total - entry.size_bytes
        is_settled = self._read(entry, self.max_bytes - others, not others, False)
        if is_settled or self._total >= self.min_bytes:
            self._complete(others > 0)

    def expired(self) -> None:
        """Too little has come in time."""
        self._complete(self._total > 0)

    def give_up(self) -> None:
        """Another request of the session has come: the client would apply this one's answer to a newer state."""
        self.expected_epoch = -1
        self._complete(False)

    def _complete(self, read_again: bool) -> None:
        self.is_waiting = False
        # It is the timer's and the answer's callback that hold this fetch: none of them is to be left for the garbage collector.
        timer = self._timer
        self._timer = None
        if timer is not None:
            timer.cancel()
        watch = self.watch
        if watch is None:
            for entry in self.entries:
                if entry.partition is not None:
                    entry.partition.unwatch(self)
        # Of a session that has moved on nothing is told but that.
        is_given_up = watch is not None and self.expected_epoch < 0
        has_other_rules = self.resolve_again is not None and not is_given_up and self.caller.revision() != self.revision
        read_again = read_again or has_other_rules
        if watch is not None:
            watch.wait_is_over()
            if has_other_rules and self.session is not None:
                for entry in self.session.entries.values():
                    watch.note(entry)
            if read_again:
                # All that is there, also of a request that has written to several partitions, one of which was told first.
                watch.note_all(self.node.partitions.wakeups.untold())
                self.entries = watch.noted_entries()
        if has_other_rules and self.resolve_again is not None:
            self.resolve_again(self)
        if read_again:
            self._read_all(False)
        pending = self._pending
        self._pending = None
        assert pending is not None
        pending.complete(self._answer())

    # --- reading -----------------------------------------------------------------------------------------------------------

    def _read_all(self, note_progress: bool) -> bool:
        """Read every partition. Whether one of them is reason enough to answer, whatever was found."""
        self._total = 0
        may_skip = self.session is not None and self.follower is None
        is_settled = False
        for entry in self.entries:
            entry.result = None
            entry.size_bytes = 0
            partition = entry.partition
            if partition is None:
                if entry.error is not None:
                    entry.result = entry.error
                    is_settled = True
                continue
            if may_skip:
                asked = entry.asked
                if asked.last_fetched_epoch == _NO_LEADER_EPOCH and partition.has_nothing_new(
                    asked.fetch_offset, asked.current_leader_epoch, entry.high_watermark, entry.log_start_offset
                ):
                    continue
            if self._read(entry, self.max_bytes - self._total, not self._total, note_progress):
                is_settled = True
        return is_settled

    def _read(self, entry: FetchEntry, bytes_max: int, is_first: bool, note_progress: bool) -> bool:
        """Read one partition. However small the limits, the first that has anything gives a whole batch."""
        partition, asked = entry.partition, entry.asked
        assert partition is not None
        bytes_max = max(0, min(bytes_max, asked.partition_max_bytes))
        follower = self.follower
        if follower is None:
            result = partition.read(
                asked.fetch_offset,
                bytes_max,
                self.isolation,
                asked.current_leader_epoch,
                is_first,
                self.leader_only,
                asked.last_fetched_epoch,
            )
        else:
            result = partition.read_as_follower(
                follower,
                asked.fetch_offset,
                bytes_max,
                self.follower_epoch,
                asked.log_start_offset,
                asked.current_leader_epoch,
                asked.last_fetched_epoch,
                is_first,
                note_progress,
            )
            if (
                type(result) is Fetched
                and result.regions
                and self.node.partitions.throttles.holds_back(partition, follower)
            ):
                result = replace(result, regions=())
        entry.result = result
        if type(result) is not Fetched:
            self._total -= entry.size_bytes
            entry.size_bytes = 0
            return True
        size_bytes = result.regions[0].count if result.regions else 0
        self._total += size_bytes - entry.size_bytes
        entry.size_bytes = size_bytes
        return False

    def trace(self, entry: FetchEntry, result: Fetched) -> None:
        """Tell those who listen to a partition of what is answered of it. Nothing new is told to consumers all the time."""
        partition = entry.partition
        trace = None if partition is None else partition.trace
        if trace is None:
            return
        offset = entry.asked.fetch_offset
        # Then it may be cut off.
        is_full = entry.size_bytes >= entry.asked.partition_max_bytes or self._total >= self.max_bytes
        if self.follower is not None:
            trace.follower_fetch_answered(self.follower, offset, result, is_full)
        elif entry.size_bytes:
            trace.fetch_answered(self.client_id, self.correlation_id, offset, result, self.isolation, is_full)

    # --- the answer --------------------------------------------------------------------------------------------------------

    def _answer(self) -> FetchResponse:
        watch = self.watch
        if watch is not None:
            self.entries = watch.noted_entries()
        return FetchAnswer(self).build()

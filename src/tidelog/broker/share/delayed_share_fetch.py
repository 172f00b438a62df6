"""One ShareFetch: what can be acquired now, the wait for more where that is too little, and what was acquired in the end.

It is answered at once if there are `min_bytes` in partitions that have records to acquire, or if none of its partitions can be
fetched. Otherwise it waits for all of them: a high watermark, an acknowledgement, a release, a lock that ends, a share partition
that has been read, or another leader makes it look again. After `max_wait_ms` it takes what there is.

Nothing is acquired before it is answered: what is only looked at stays there for others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tidelog.broker.share.aborted_records import without_aborted
from tidelog.broker.share.acknowledgement import Refusal
from tidelog.broker.share.acquisition import Acquired, Wish, acquire, records_in
from tidelog.broker.share.led_share_partition import LedSharePartition, ShareStage
from tidelog.broker.share.log_batches import aborted_batches, batches_of, region_between
from tidelog.broker.share.share_metrics import ShareMetrics
from tidelog.broker.share.share_sessions import FetchedPartition, ShareSession
from tidelog.model.clock import Clock
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.model.pending import Pending
from tidelog.model.timers import Timer, Timers
from tidelog.storage.errors import StorageError
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.file_region import FileRegion

# A client that is gone is noticed when its answer is sent. One that asked to wait for weeks must not be kept for weeks.
WAIT_MS_MAX = 5 * 60 * 1000

# A read that finds nothing to acquire may have found out why: that records are gone. Then the next one begins behind them.
READS_MAX = 4


class ShareFetchEntry:
    """One partition of a fetch: what is fetched, and what has come of it."""

    __slots__ = ("acquired", "led", "offset", "partition", "records", "refusal", "result", "topic")

    def __init__(self, topic: TopicName | None, partition: FetchedPartition) -> None:
        self.topic = topic
        """None where nobody knows the topic's id."""
        self.partition = partition
        self.led: LedSharePartition | None = None
        self.refusal: Refusal | None = None
        self.offset = 0
        self.result: Fetched | ErrorCode | None = None
        self.acquired: list[Acquired] = []
        self.records: FileRegion | None = None

    def refuse(self, error: ErrorCode) -> None:
        """Nothing can be fetched of it, whatever was read."""
        self.led = None
        self.result = None
        self.refusal = Refusal(error, error.message)


class FetchBounds(NamedTuple):
    """How much is fetched, and how long it may wait."""

    min_bytes: int
    max_bytes: int
    max_wait_ms: int


class DelayedShareFetch:
    """See the module. It completes with False where it was given up: then nothing was acquired."""

    def __init__(
        self,
        entries: Sequence[ShareFetchEntry],
        wish: Wish,
        bounds: FetchBounds,
        isolation: FetchIsolation,
        session: ShareSession,
        *,
        clock: Clock,
        timers: Timers,
        metrics: ShareMetrics,
        may_read: Callable[[ShareFetchEntry], bool],
    ) -> None:
        """`may_read` says whether the caller still may, if it is asked again after a wait."""
        self.entries = entries
        self._wish = wish
        self._bounds = bounds
        self._isolation = isolation
        self._session = session
        self._clock = clock
        self._timers = timers
        self._metrics = metrics
        self._may_read = may_read
        self._pending: Pending[bool] | None = None
        self._timer: Timer | None = None
        self._begun_ms = clock.monotonic_ms()

    def start(self) -> bool | Pending[bool]:
        """Acquire now, or later."""
        if not self.entries or self._wish.records_max <= 0 or self._bounds.max_bytes <= 0:
            return True
        if self._is_enough():
            self._acquire()
            return True
        if self._bounds.max_wait_ms <= 0:
            self._take_what_there_is()
            return True
        pending: Pending[bool] = Pending()
        self._pending = pending
        self._session.waiting = self
        self._timer = self._timers.after(min(self._bounds.max_wait_ms, WAIT_MS_MAX), self.expired)
        for entry in self.entries:
            if entry.led is not None:
                entry.led.waiting[self] = None
        return pending

    # --- what ends the wait ------------------------------------------------------------------------------------------------

    def share_partition_changed(self) -> None:
        """There may be more to acquire, or nothing any more."""
        # A read that fails takes the partition offline, of which all who wait are told, this one within this call.
        if self._is_enough() and self._pending is not None:
            self._end_wait()
            self._acquire()
            self._complete(True)

    def expired(self) -> None:
        """Too little has come in time."""
        self._metrics.expired_fetches += 1
        self._timer = None
        self._end_wait()
        self._take_what_there_is()
        self._complete(True)

    def give_up(self) -> None:
        """The session has gone on without it, or is over."""
        self._end_wait()
        self._complete(False)

    def _end_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for entry in self.entries:
            if entry.led is not None:
                entry.led.waiting.pop(self, None)
        if self._session.waiting is self:
            self._session.waiting = None
        for entry in self.entries:
            if entry.led is not None and not self._may_read(entry):
                entry.refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def _complete(self, has_acquired: bool) -> None:
        pending, self._pending = self._pending, None
        assert pending is not None
        pending.complete(has_acquired)

    # --- looking -----------------------------------------------------------------------------------------------------------

    def _is_enough(self) -> bool:
        """Look at the partitions. Whether what is there is enough of an answer."""
        ready = self._ready()
        if not ready:
            return all(entry.refusal is not None for entry in self.entries)
        self._metrics.times_of(self._session.key.group_id).acquire_ms.observe(
            self._clock.monotonic_ms() - self._begun_ms
        )
        self._read(ready)
        if any(isinstance(entry.result, ErrorCode) for entry in ready):
            return True
        return sum(_bytes_of(entry) for entry in ready) >= self._bounds.min_bytes

    def _take_what_there_is(self) -> None:
        ready = self._ready()
        if ready:
            self._read(ready)
            self._acquire()

    def _ready(self) -> list[ShareFetchEntry]:
        """The partitions of which something may be acquired."""
        ready = []
        for entry in self.entries:
            entry.result = None
            led = entry.led
            if led is None:
                continue
            if led.stage is ShareStage.ACTIVE:
                led.current_limits()
                if led.machine.has_room():
                    ready.append(entry)
            elif led.refusal is not None:
                entry.refusal = led.refusal
                led.waiting.pop(self, None)
                entry.led = None
        return ready

    def _read(self, ready: list[ShareFetchEntry]) -> None:
        """The bytes are shared out evenly, what is left over for the first: with each fetch another one is."""
        max_bytes = self._bounds.max_bytes
        share, rest = divmod(max_bytes, len(ready))
        left = max_bytes
        for entry in ready:
            if entry.led is not None:
                left -= self._read_one(entry, entry.led, min(left, share + rest), left == max_bytes)
            rest = 0

    def _read_one(self, entry: ShareFetchEntry, led: LedSharePartition, bytes_max: int, is_first: bool) -> int:
        """However small the limits, the first that has anything gives a whole batch. How many bytes there are."""
        entry.offset = led.machine.next_fetch_offset()
        result = led.partition.read(entry.offset, max(0, bytes_max), self._isolation, led.leader_epoch, is_first)
        entry.result = result if isinstance(result, Fetched | ErrorCode) else ErrorCode.NOT_LEADER_OR_FOLLOWER
        return _bytes_of(entry)

    # --- acquiring ---------------------------------------------------------------------------------------------------------

    def _acquire(self) -> None:
        """Acquire of what was read, until there are as many records as were asked for."""
        records_left = self._wish.records_max
        ready = [entry for entry in self.entries if entry.result is not None]
        for entry in ready:
            if entry.led is not None:
                self._acquire_of(entry, entry.led, records_left)
                records_left -= records_in(entry.acquired)
        if ready and self.entries:
            ratio = self._metrics.times_of(self._session.key.group_id).fetch_ratio
            ratio.observe(100 * len(ready) // len(self.entries))

    def _acquire_of(self, entry: ShareFetchEntry, led: LedSharePartition, records_max: int) -> None:
        wish = self._wish._replace(records_max=records_max)
        for _ in range(READS_MAX):
            result = entry.result
            if isinstance(result, ErrorCode):
                if not self._follow_log_start(entry, led, result):
                    return
            elif result is not None and result.regions:
                self._acquire_in(entry, led, wish, result)
            if entry.acquired or records_max <= 0 or led.machine.next_fetch_offset() == entry.offset:
                return
            self._read_one(entry, led, self._bounds.max_bytes, True)

    def _follow_log_start(self, entry: ShareFetchEntry, led: LedSharePartition, error: ErrorCode) -> bool:
        """Where the log begins behind what is to be fetched, the group goes on there, and the client sees no error."""
        leading = led.partition.leading
        if error is ErrorCode.OFFSET_OUT_OF_RANGE and leading is not None:
            log_start_offset = leading.log.log_start_offset
            if log_start_offset > entry.offset:
                led.machine.log_start_moved(log_start_offset)
                entry.result = None
                return True
        entry.refuse(error)
        return False

    def _acquire_in(self, entry: ShareFetchEntry, led: LedSharePartition, wish: Wish, fetched: Fetched) -> None:
        machine, region = led.machine, fetched.regions[0]
        # Nothing behind this can be acquired, so that no header there is to be read.
        last = max(machine.end_offset, entry.offset) + wish.records_max
        try:
            batches = batches_of(region, last)
        except StorageError as error:
            entry.refuse(led.partition.disk_failed(error))
            return
        acquired = acquire(machine, wish, entry.offset, batches, self._clock.monotonic_ms())
        led.look_at_locks()
        if acquired and fetched.aborted_transactions:
            acquired = without_aborted(machine, acquired, aborted_batches(batches, fetched.aborted_transactions))
        if acquired:
            entry.acquired = acquired
            entry.records = region_between(region, batches, acquired[0].first_offset, acquired[-1].last_offset)

    def give_back(self) -> None:
        """What was acquired is not sent after all."""
        for entry in self.entries:
            if entry.led is None or not entry.acquired:
                continue
            for each in entry.acquired:
                entry.led.machine.give_back(self._wish.member_id, each.first_offset, each.last_offset)
            entry.acquired = []
            entry.records = None
            entry.led.tell_waiting()


def _bytes_of(entry: ShareFetchEntry) -> int:
    result = entry.result
    return result.regions[0].count if isinstance(result, Fetched) and result.regions else 0

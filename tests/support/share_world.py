"""A share partition with a log of batches beside it, for tests: members fetch, say what they have done, or fall silent."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.broker.share.acknowledgement import Acknowledged, AcknowledgeType, Refusal, acknowledge, release
from tidelog.broker.share.acquisition import Acquired, Wish, acquire
from tidelog.broker.share.delivery import RecordState
from tidelog.broker.share.log_batches import LogBatch
from tidelog.broker.share.persister import NO_START_OFFSET, ShareState, StateBatch
from tidelog.broker.share.share_partition import Change, SharePartition, ShareSettings

LOCK_MS = 30_000
SETTINGS = ShareSettings(lock_duration_ms=LOCK_MS, deliveries_max=5, record_locks_max=2000, may_renew=True)
UNSET = ShareState(0, NO_START_OFFSET, ())

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


def batches(*sizes: int, start: int = 0) -> list[LogBatch]:
    """Batches of the log, one behind the other."""
    made = []
    for size in sizes:
        made.append(LogBatch(start, start + size - 1))
        start += size
    return made


class ShareWorld:
    """One share partition; what it writes is committed at once unless a test does that itself."""

    def __init__(
        self,
        log: Sequence[LogBatch],
        settings: ShareSettings = SETTINGS,
        state: ShareState = UNSET,
        start_offset: int | None = None,
    ) -> None:
        self.log = list(log)
        self.now_ms = 0
        self.written: list[StateBatch] = []
        self.partition = SharePartition(settings)
        if start_offset is None:
            start_offset = max(state.start_offset, 0)
        problem = self.partition.load(state, start_offset)
        assert problem is None, problem

    def readable(self, offset: int) -> list[LogBatch]:
        """What a read from an offset on gives: whole batches from the one that contains it."""
        return [batch for batch in self.log if batch.last_offset >= offset]

    def fetch(
        self, member: str = "a", records: int = 500, *, is_exact: bool = False, batch_size: int | None = None
    ) -> list[Acquired]:
        offset = self.partition.next_fetch_offset()
        wish = Wish(member, records, batch_size or records, is_exact)
        return acquire(self.partition, wish, offset, self.readable(offset), self.now_ms)

    def begin(self, member: str, first: int, last: int, *types: int) -> Change | Refusal:
        return acknowledge(self.partition, member, [Acknowledged(first, last, types)], self.now_ms)

    def say(self, member: str, first: int, last: int, *types: int) -> Refusal | None:
        """Acknowledge, and commit what that writes."""
        change = self.begin(member, first, last, *types)
        if isinstance(change, Refusal):
            return change
        self.commit(change)
        return None

    def leave(self, member: str) -> None:
        self.commit(release(self.partition, member))

    def commit(self, change: Change, is_written: bool = True) -> bool:
        if is_written:
            self.written += change.batches
        return self.partition.settle(change, is_written, self.now_ms)

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self.written += self.partition.time_out(self.now_ms)
        self.partition.move_start()

    def states(self) -> dict[int, tuple[RecordState, int, str]]:
        """The fate of each offset in flight."""
        return {
            offset: (delivery.state, delivery.count, delivery.member_id)
            for batch in self.partition.batches
            for offset in range(batch.first, batch.last + 1)
            for delivery in [batch.delivery_of(offset)]
        }

    def state_of(self, offset: int) -> RecordState:
        return self.states()[offset][0]

    def split_count(self) -> int:
        """How many batches have a fate for each offset."""
        return sum(batch.offsets is not None for batch in self.partition.batches)

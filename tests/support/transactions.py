"""A transaction shard without a broker: carries decisions out as a coordinator's host does, on a clock that a test moves."""

from __future__ import annotations

from typing import Any, TypeVar

from tidelog.coordination.decision import Decision
from tidelog.coordination.transaction.markers_due import MarkersDue
from tidelog.coordination.transaction.metadata import TransactionMetadata
from tidelog.coordination.transaction.records import transaction_record
from tidelog.coordination.transaction.transaction_settings import TransactionSettings
from tidelog.coordination.transaction.transaction_shard import TransactionShard
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition
from tidelog.model.pending import Pending
from tidelog.wire.internal_records import (
    CoordinatorLog,
    CoordinatorRecord,
    decode_coordinator_record,
    encode_coordinator_key,
    encode_coordinator_value,
)
from tidelog.wire.messages.internal.transaction_records import TransactionLogValue
from tidelog.wire.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.transactions import EndTxnRequest, EndTxnResponse

A = TypeVar("A")

ID = "payments"
START_MS = 1_000_000
TIMEOUT_MS = 60_000
COORDINATOR_EPOCH = 7

TV1, TV2 = 1, 2


def partition(topic: str, index: int = 0) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(index))


ORDERS = partition("orders")
AUDIT = partition("audit", 3)


def init_request(transactional_id: str | None = ID, **changes: Any) -> InitProducerIdRequest:
    fields: dict[str, Any] = {"transactional_id": transactional_id, "transaction_timeout_ms": TIMEOUT_MS}
    return InitProducerIdRequest(**{**fields, **changes})


class TransactionDriver:
    """A shard, its log, and a host. Appends are committed and markers written at once, unless they are held."""

    def __init__(
        self, settings: TransactionSettings | None = None, *, log: list[tuple[bytes, bytes | None]] | None = None
    ):
        self.settings = settings or TransactionSettings(is_two_phase_commit_enabled=True)
        self.now_ms = START_MS
        self.next_producer_id = 4_000
        self.log: list[tuple[bytes, bytes | None]] = log if log is not None else []
        self.holds_commits = False
        self.holds_markers = False
        self.append_error = ErrorCode.NONE
        self.sent: list[MarkersDue] = []
        """Every outcome that was to be written, in its order."""
        self.due: list[MarkersDue] = []
        """Those whose markers are not written yet."""
        self._uncommitted: list[tuple[Decision[Any], list[tuple[bytes, bytes | None]]]] = []
        self.shard = TransactionShard(self.settings, COORDINATOR_EPOCH, self._send_markers)
        self._load()

    def _load(self) -> None:
        for offset, (key, value) in enumerate(self.log):
            record = decode_coordinator_record(CoordinatorLog.TRANSACTION_STATE, key, value)
            self.shard.replay(record, offset, -1, self.now_ms)
        for decision in self.shard.loaded(self.now_ms):
            self.carry_out(decision)

    def restarted(self, *, keeps_uncommitted: bool = False, **changes: Any) -> TransactionDriver:
        """Another coordinator, from what the log says. This one is unloaded."""
        log = list(self.log)
        if keeps_uncommitted:
            for _decision, rows in self._uncommitted:
                log.extend(rows)
        self.shard.unload()
        driver = TransactionDriver.__new__(TransactionDriver)
        driver.settings = self.settings
        driver.now_ms = self.now_ms
        driver.next_producer_id = self.next_producer_id
        driver.log = log
        driver.holds_commits = False
        driver.holds_markers = changes.get("holds_markers", self.holds_markers)
        driver.append_error = ErrorCode.NONE
        driver.sent, driver.due = [], []
        driver._uncommitted = []
        driver.shard = TransactionShard(self.settings, COORDINATOR_EPOCH + 1, driver._send_markers)
        driver._load()
        return driver

    # The host

    def carry_out(self, decision: Decision[A]) -> A:
        answer = decision.answer
        assert not isinstance(answer, Pending)
        if not decision.records:
            if decision.settled is not None:
                decision.settled(ErrorCode.NONE)
            return answer
        assert not decision.replays, "the shard takes in what is committed by itself"
        if self.append_error:
            assert decision.settled is not None
            decision.settled(self.append_error)
            return answer
        self._uncommitted.append((decision, [_row(each) for each in decision.records]))
        if not self.holds_commits:
            self.commit()
        return answer

    def commit(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Settle all that was appended."""
        decisions, self._uncommitted = self._uncommitted, []
        for decision, rows in decisions:
            if error is ErrorCode.NONE:
                self.log.extend(rows)
            assert decision.settled is not None
            decision.settled(error)

    def advance(self, duration_ms: int) -> None:
        """Let time pass; what is due happens at its time."""
        end_ms = self.now_ms + duration_ms
        deadlines = self.shard.deadlines
        while (next_ms := deadlines.next_ms) is not None and next_ms <= end_ms:
            self.now_ms = max(self.now_ms, next_ms)
            while (due := deadlines.take_due(self.now_ms)) is not None:
                decision = due[1](self.now_ms)
                if decision is not None:
                    self.carry_out(decision)
        self.now_ms = end_ms

    def _send_markers(self, due: MarkersDue) -> None:
        self.sent.append(due)
        self.due.append(due)
        if not self.holds_markers:
            self.write_markers()

    def write_markers(self) -> None:
        """Every marker that is due is written."""
        due, self.due = self.due, []
        for each in due:
            self.carry_out(
                self.shard.markers_written(each.transactional_id, each.producer_id, each.producer_epoch, self.now_ms)
            )

    # Requests

    def init(self, transactional_id: str | None = ID, **changes: Any) -> InitProducerIdResponse:
        request = init_request(transactional_id, **changes)
        fresh = -1
        if self.shard.needs_producer_id(request):
            fresh = self._fresh_producer_id()
        return self.carry_out(self.shard.init_producer_id(request, fresh, self.now_ms))

    def add(
        self,
        producer_id: int,
        epoch: int,
        *partitions: TopicPartition,
        version: int = TV2,
        transactional_id: str = ID,
    ) -> ErrorCode:
        return self.carry_out(
            self.shard.add_partitions(transactional_id, producer_id, epoch, partitions, version, self.now_ms)
        )

    def end(
        self, producer_id: int, epoch: int, *, commit: bool, version: int = TV2, transactional_id: str = ID
    ) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=commit
        )
        fresh = -1
        if self.shard.end_needs_producer_id(request, version):
            fresh = self._fresh_producer_id()
        return self.carry_out(self.shard.end(request, version, self.now_ms, fresh))

    def _fresh_producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id

    # What is there

    def known(self, transactional_id: str = ID) -> TransactionMetadata:
        return self.shard._transactions[transactional_id]

    def plant(self, metadata: TransactionMetadata) -> None:
        """Have the shard know an id as if a log had said so."""
        record = transaction_record(metadata, self.settings.transaction_version())
        self.log.append(_row(record))
        self.shard.replay(record, 0, -1, self.now_ms)

    def values(self) -> list[TransactionLogValue | None]:
        """What was recorded, in its order."""
        found: list[TransactionLogValue | None] = []
        for key, value in self.log:
            decoded = decode_coordinator_record(CoordinatorLog.TRANSACTION_STATE, key, value).value
            assert decoded is None or isinstance(decoded, TransactionLogValue)
            found.append(decoded)
        return found

    def statuses(self) -> list[int]:
        return [-1 if value is None else value.transaction_status for value in self.values()]


def _row(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    value = None if record.value is None else encode_coordinator_value(record.value, record.version)
    return encode_coordinator_key(record.key), value

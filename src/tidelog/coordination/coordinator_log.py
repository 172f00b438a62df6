"""A coordinator's partition of its log: what is appended to, and how it is read back from the start."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.storage.append import AppendOutcome, AppendRule
from tidelog.storage.checked_batches import CheckedBatch
from tidelog.storage.fetched import FetchIsolation
from tidelog.storage.partition_log import PartitionLog
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.control_records import ControlType, read_control_type
from tidelog.wire.errors import MalformedError, UnknownRecordError
from tidelog.wire.internal_records import CoordinatorLog, CoordinatorRecord, decode_coordinator_record
from tidelog.wire.record_batch import check_batch, each_batch
from tidelog.wire.records import Record, decode_batch

logger = logging.getLogger(__name__)


class CoordinatorPartition(Protocol):
    """The replica of the partition that this node leads."""

    @property
    def log(self) -> PartitionLog | None:
        """None while its disk is offline."""
        ...

    @property
    def message_bytes_max(self) -> int: ...

    @property
    def commits_at_once(self) -> bool:
        """Whether an append with acks=all has nobody to wait for."""
        ...

    def append(self, batches: list[CheckedBatch], rule: AppendRule, required_acks: int) -> list[AppendOutcome]:
        """Append; with acks=all only where `min.insync.replicas` are in sync."""
        ...

    def when_committed(self, offset: int) -> ErrorCode | Pending[ErrorCode]: ...


class UnreadableLogError(Exception):
    """The log of a coordinator has something in it that is not understood. Kafka does not load such a partition either."""


class EndedTransaction(NamedTuple):
    """A marker in the log."""

    producer_id: int
    offset: int
    is_committed: bool


class ReadRecord(NamedTuple):
    """A record of the log. The producer is the one whose transaction it belongs to (-1: none)."""

    record: CoordinatorRecord
    offset: int
    producer_id: int


class LogPiece:
    """Batches of the log, the last of which may be cut off."""

    __slots__ = ("_buffer", "_from_offset", "is_last", "next_offset")

    def __init__(self, buffer: bytes, from_offset: int, log_end_offset: int) -> None:
        self._buffer = buffer
        self._from_offset = from_offset
        self.next_offset = from_offset
        for _, header in each_batch(buffer):
            self.next_offset = header.next_offset
        self.is_last = self.next_offset >= log_end_offset

    def entries(self, log: CoordinatorLog) -> Iterator[ReadRecord | EndedTransaction]:
        """What the piece says, in its order. Raises UnreadableLogError."""
        try:
            for position, header in each_batch(self._buffer):
                check_batch(self._buffer, header, position)
                rows = decode_batch(self._buffer, header, position)
                if header.is_control:
                    for row in rows:
                        marker = read_control_type(row.key)
                        if marker in (ControlType.COMMIT, ControlType.ABORT):
                            yield EndedTransaction(header.producer_id, row.offset, marker is ControlType.COMMIT)
                    continue
                producer_id = header.producer_id if header.is_transactional else -1
                for row in rows:
                    if row.offset >= self._from_offset and (decoded := _decode(log, row)) is not None:
                        yield ReadRecord(decoded, row.offset, producer_id)
        except (CorruptBatchError, MalformedError) as error:
            raise UnreadableLogError(str(error)) from error


def _decode(log: CoordinatorLog, row: Record) -> CoordinatorRecord | None:
    try:
        return decode_coordinator_record(log, row.key, row.value)
    except UnknownRecordError as error:
        # As in Kafka: a newer release may have been tried and given up. What it wrote stays in the log.
        logger.warning("the record at offset %d of %s is passed over: %s", row.offset, log, error)
        return None


def pieces_of(partition: CoordinatorPartition, offset: int, bytes_max: int) -> Callable[[], LogPiece]:
    """How to read the batches from `offset` on, about `bytes_max` of them and at least one: to be called from any thread.

    Raises StorageError or UnreadableLogError, as what it returns does.
    """
    log = partition.log
    if log is None:
        raise UnreadableLogError("its log is offline")
    fetched = log.read(offset, bytes_max, upper_bound=FetchIsolation.LOG_END, min_one_batch=True)
    if isinstance(fetched, ErrorCode):
        raise UnreadableLogError(fetched.message)
    regions, log_end_offset = fetched.regions, fetched.log_end_offset

    def read() -> LogPiece:
        piece = LogPiece(b"".join(region.read() for region in regions), offset, log_end_offset)
        if piece.next_offset == offset:
            raise UnreadableLogError(f"there is no batch at offset {offset}, where the log ends at {log_end_offset}")
        return piece

    return read

"""Partitions that we write, with everything in them that a log can hold, for Apache Kafka to read.

write_partition(log, now_ms)      every codec, headers, nulls, idempotent producers, transactions committed, aborted and left
                                  open, two leader epochs, several segments; returns what a reader should find
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.appends import as_coordinator, as_leader
from tests.support.kafka_driver import Received
from tidelog.storage.append import AppendInfo
from tidelog.storage.log_config import LogConfig
from tidelog.storage.partition_log import PartitionLog
from tidelog.wire.compression import Compression
from tidelog.wire.control_records import ControlType, build_end_txn_marker
from tidelog.wire.records import Record, build_batch

# Small enough for several segments, and for indexes with entries.
SMALL_LOG = LogConfig(retention_ms=-1, segment_bytes=2000, index_interval_bytes=100, segment_index_bytes=4096)

IDEMPOTENT_PRODUCER = 1000
TRANSACTIONAL_PRODUCER = 1001
OTHER_PRODUCER = 1002
OPEN_PRODUCER = 1003
COORDINATOR_EPOCH = 5


@dataclass
class WrittenLog:
    """What was written: the rows that a reader gets, and those of them that are committed."""

    log: PartitionLog
    start_ms: int
    leader_epoch: int = 0
    rows: list[Received] = field(default_factory=list)
    undecided: dict[int, list[Received]] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    sequences: dict[tuple[int, int], int] = field(default_factory=dict)

    def append(
        self,
        rows: list[Record],
        *,
        codec: Compression = Compression.NONE,
        producer_id: int = -1,
        producer_epoch: int = -1,
        is_transactional: bool = False,
    ) -> None:
        """Appends one batch as a client's produce request would."""
        sequence = self.sequences.get((producer_id, producer_epoch), 0)
        batch = build_batch(
            [row._replace(offset=index) for index, row in enumerate(rows)],
            codec=codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence if producer_id >= 0 else -1,
            is_transactional=is_transactional,
        )
        info = as_leader(self.log, batch, self.leader_epoch)
        assert isinstance(info, AppendInfo), info
        assert not info.is_duplicate
        self.sequences[producer_id, producer_epoch] = sequence + len(rows)
        placed = [Received(*row._replace(offset=info.first_offset + index)) for index, row in enumerate(rows)]
        self.rows += placed
        if is_transactional:
            self.undecided.setdefault(producer_id, []).extend(placed)

    def end(self, producer_id: int, producer_epoch: int, kind: ControlType, timestamp: int) -> None:
        """Ends a transaction, as the coordinator does it."""
        marker = build_end_txn_marker(
            kind,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=COORDINATOR_EPOCH,
            timestamp=timestamp,
        )
        info = as_coordinator(self.log, marker, self.leader_epoch)
        assert isinstance(info, AppendInfo), info
        ended = self.undecided.pop(producer_id)
        if kind is ControlType.ABORT:
            self.aborted |= {row.offset for row in ended}

    @property
    def committed(self) -> list[Received]:
        """What a reader of committed records gets: nothing of an aborted transaction, nothing from the first open one on."""
        stable = min((rows[0].offset for rows in self.undecided.values()), default=self.log.log_end_offset)
        return [row for row in self.rows if row.offset < stable and row.offset not in self.aborted]


def varied_rows(word: str, at: int) -> list[Record]:
    """Null and empty keys and values, bytes that are no text, headers of every kind, timestamps that do not rise."""
    return [
        Record(0, at + 2, None, f"{word} without a key".encode()),
        Record(0, at, f"{word} without a value".encode(), None, (("note", b"gone"),)),
        Record(0, at + 3, b"", b"", (("", b""), ("twice", b"1"), ("twice", None))),
        Record(0, at + 1, bytes(range(128, 160)), bytes(range(256)), (("größe", "µ".encode()),)),
    ]


def plain_rows(word: str, count: int, at: int) -> list[Record]:
    return [Record(0, at + row, f"{word} key {row}".encode(), f"{word} value {row}".encode()) for row in range(count)]


def write_partition(log: PartitionLog, start_ms: int, *, leave_open: bool = True) -> WrittenLog:
    """Fills an empty log. With `leave_open` its last transaction is not ended."""
    written = WrittenLog(log, start_ms)
    at = start_ms
    for codec in Compression:
        for batch in range(3):
            written.append(varied_rows(f"{codec.name.lower()} {batch}", at), codec=codec)
            at += 1000
    for batch in range(7):
        written.append(
            plain_rows(f"idempotent {batch}", 3, at),
            codec=Compression(batch % 5),
            producer_id=IDEMPOTENT_PRODUCER,
            producer_epoch=0,
        )
        at += 1000
    written.leader_epoch = 1
    for turn, kind in enumerate([ControlType.COMMIT, ControlType.ABORT, ControlType.COMMIT, ControlType.ABORT]):
        # Two transactions that overlap: the one that began later ends first.
        for producer_id in (TRANSACTIONAL_PRODUCER, OTHER_PRODUCER):
            for batch in range(2):
                written.append(
                    plain_rows(f"{producer_id} {turn} {batch}", 2, at),
                    codec=Compression((turn + batch) % 5),
                    producer_id=producer_id,
                    producer_epoch=turn,
                    is_transactional=True,
                )
                at += 1000
        written.end(OTHER_PRODUCER, turn, ControlType.ABORT, at)
        written.end(TRANSACTIONAL_PRODUCER, turn, kind, at + 1)
        at += 1000
    if leave_open:
        written.append(
            plain_rows("undecided", 3, at), producer_id=OPEN_PRODUCER, producer_epoch=2, is_transactional=True
        )
        written.append(plain_rows("after the open one", 2, at + 1000))
    log.set_high_watermark(log.log_end_offset)
    return written

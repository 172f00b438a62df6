"""A data directory with everything in it that can go wrong, and ways to make it go wrong.

directory = DataDirectory(SimulatedDisk())
directory.write()
directory.flip("orders-0/00000000000000000000.log", 70)
assert directory.findings() == ...
"""

from __future__ import annotations

from random import Random

from tests.support.appends import as_coordinator, as_leader
from tests.support.log_builder import START_MS, ManualClock, accepted
from tidelog.model.ids import BrokerEpoch, DirectoryId, NodeId, PartitionIndex, TopicId, TopicName, TopicPartition
from tidelog.model.slow_work import InlineSlowWork
from tidelog.storage.files import Files
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.meta_properties import MetaProperties, write_meta_properties
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.seams import Seams
from tidelog.storage.verification.directory_check import verify
from tidelog.storage.verification.findings import Finding, Report, Severity
from tidelog.wire.compression import Compression
from tidelog.wire.control_records import ControlType, build_end_txn_marker
from tidelog.wire.record_batch import BatchHeader, each_batch, stamp_crc
from tidelog.wire.records import Record, build_batch

TOPIC_ID = TopicId(bytes(range(16)))
# Two or three entries in each index, and room for more.
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=150, segment_index_bytes=480, retention_ms=-1)

# The first offsets of the segments of each partition, and the offset after its last.
FIRST, SECOND, LAST = 0, 12, 26
END = 37

IDEMPOTENT, ABORTING, OPEN = 7, 8, 9
COORDINATOR_EPOCH = 3


class DataDirectory:
    """One data directory, named by paths relative to it."""

    def __init__(self, files: Files, path: str = "/data") -> None:
        self.files = files
        self.path = path

    def write(self, *, clean: bool = True) -> None:
        """Two partitions of a topic with three segments each, and a clean stop; or the state in which a kill leaves it."""
        clock = ManualClock()
        seams = Seams(self.files, clock, InlineSlowWork(), Random(1))
        self.files.make_directory(self.path)
        write_meta_properties(self.files, self.path, MetaProperties("cluster", NodeId(1), DirectoryId(bytes(16))))
        directory = LogDirectory.open(seams, self.path, config_of=lambda _: CONFIG)
        directory.load()
        for partition in range(2):
            name = TopicPartition(TopicName("orders"), PartitionIndex(partition))
            _fill(directory.create_partition(name, TOPIC_ID), clock)
        if clean:
            directory.close(BrokerEpoch(5))
        else:
            directory.save_recovery_points()
            directory.save_high_watermarks()
            directory.abandon()

    # Looking

    def read(self, name: str) -> bytes:
        return self.files.read_bytes(f"{self.path}/{name}", 1 << 30)

    def batches(self, name: str) -> list[tuple[int, BatchHeader]]:
        return list(each_batch(self.read(name)))

    def report(self, name: str | None = None, *, decodes_records: bool = False) -> Report:
        path = self.path if name is None else f"{self.path}/{name}"
        return verify(self.files, path, decodes_records=decodes_records)

    def findings(self, name: str | None = None, *, decodes_records: bool = False) -> list[Finding]:
        """What is found, notes left out."""
        found = self.report(name, decodes_records=decodes_records).findings
        return [finding for finding in found if finding.severity is not Severity.NOTE]

    # Damaging

    def write_file(self, name: str, content: bytes) -> None:
        file = self.files.open(f"{self.path}/{name}", create=True)
        file.truncate(0)
        file.pwritev([content], 0)
        file.close()

    def put(self, name: str, position: int, data: bytes) -> None:
        content = bytearray(self.read(name))
        content[position : position + len(data)] = data
        self.write_file(name, bytes(content))

    def flip(self, name: str, position: int) -> None:
        self.put(name, position, bytes([self.read(name)[position] ^ 1]))

    def truncate(self, name: str, size: int) -> None:
        self.write_file(name, self.read(name)[:size])

    def append(self, name: str, data: bytes) -> None:
        self.write_file(name, self.read(name) + data)

    def reseal(self, name: str, position: int) -> None:
        """Give the batch at `position` the checksum of what it now holds."""
        content = bytearray(self.read(name))
        stamp_crc(content, position)
        self.write_file(name, bytes(content))

    def swap(self, one: str, other: str) -> None:
        content = self.read(one)
        self.write_file(one, self.read(other))
        self.write_file(other, content)

    def remove(self, name: str) -> None:
        assert self.files.remove(f"{self.path}/{name}")


def log_file(base_offset: int, suffix: str = ".log", partition: int = 0) -> str:
    return f"orders-{partition}/{base_offset:020d}{suffix}"


def _fill(log: PartitionLog, clock: ManualClock) -> None:
    """Every kind of batch, twice around: plain, compressed, idempotent, aborted, committed, left open; two leader epochs."""
    clock.ms = START_MS

    def append(
        count: int, *, codec: Compression = Compression.NONE, producer: int = -1, sequence: int = -1, epoch: int
    ) -> None:
        clock.advance(1000)
        rows = [Record(number, clock.ms + number, b"key %d" % number, b"value %d" % number) for number in range(count)]
        batch = build_batch(
            rows,
            codec=codec,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence,
            is_transactional=producer in {ABORTING, OPEN},
        )
        accepted(as_leader(log, bytearray(batch), epoch))

    def end(producer: int, kind: ControlType, *, epoch: int) -> None:
        clock.advance(1000)
        marker = build_end_txn_marker(
            kind, producer_id=producer, producer_epoch=0, coordinator_epoch=COORDINATOR_EPOCH, timestamp=clock.ms
        )
        accepted(as_coordinator(log, bytearray(marker), epoch))

    for turn in range(2):
        append(3, epoch=turn)
        append(2, epoch=turn, codec=Compression.ZSTD)
        append(4, epoch=turn, producer=IDEMPOTENT, sequence=4 * turn)
        append(2, epoch=turn, producer=ABORTING, sequence=2 * turn)
        end(ABORTING, ControlType.ABORT, epoch=turn)
        append(3, epoch=turn, codec=Compression.GZIP)
    append(2, epoch=1, producer=OPEN, sequence=0)
    append(2, epoch=1, producer=ABORTING, sequence=4)
    end(ABORTING, ControlType.ABORT, epoch=1)
    append(2, epoch=1)
    log.set_high_watermark(log.log_end_offset)


def error(path: str, position: int | None, sentence: str) -> Finding:
    return Finding(Severity.ERROR, path, position, sentence)


def warning(path: str, position: int | None, sentence: str) -> Finding:
    return Finding(Severity.WARNING, path, position, sentence)

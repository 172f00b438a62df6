"""Both twins of the log's kernel do the same with the same appends, reads, cuts and faults: same answers, files and knowledge."""

from __future__ import annotations

from errno import EIO
from random import Random
from struct import pack_into
from typing import Any
from unittest import mock

import pytest

from tests.support import log_builder
from tests.support.kernel_twins import TWINS
from tests.support.log_builder import LOG_PATH, SMALL_SEGMENTS, START_MS, LogBuilder
from tests.support.log_twins import storage_modules
from tidelog.kernel_choice import Twin
from tidelog.model.errors import ErrorCode
from tidelog.storage.append import OFFSET_MAX, AppendRefused, CheckedBatch
from tidelog.storage.errors import StorageError
from tidelog.storage.fetched import FetchIsolation
from tidelog.storage.file_region import FreshRegion
from tidelog.storage.log_config import LogConfig
from tidelog.storage.partition_log import PartitionLog
from tidelog.wire.record_batch import read_header
from tidelog.wire.records import Record, build_batch

CONFIGS = [
    LogConfig(),
    SMALL_SEGMENTS,
    LogConfig(flush_messages=3),
    LogConfig(segment_ms=1000, segment_jitter_ms=1000, index_interval_bytes=200, segment_index_bytes=80),
]
TIMESTAMP_MAX = 2**63 - 1


class Replica:
    """A log of one twin on a disk of its own."""

    def __init__(self, twin: Twin, config: LogConfig) -> None:
        self.open_log = storage_modules(twin)["recovery"].open_log
        # So few open files that segments have to let go of theirs.
        self.logs = LogBuilder(open_segments_max=2)
        self.log = self.opened(config)

    def opened(self, config: LogConfig | None = None) -> PartitionLog:
        with mock.patch.object(log_builder, "open_log", self.open_log):
            return self.logs.reopen(config)

    def does(self, name: str, *arguments: object, **named: object) -> object:
        """What a method answers or raises, in words that can be compared."""
        try:
            return _in_words(getattr(self.log, name)(*arguments, **named))
        except StorageError as error:
            return str(error)

    @property
    def state(self) -> object:
        log = self.log
        return (
            (log.log_start_offset, log.log_end_offset, log.high_watermark, log.last_stable_offset),
            (log.recovery_point, log.leader_epochs.latest_epoch, log.producers.map_end_offset, str(log.fault)),
            [(each.base_offset, each.size_bytes) for each in log.segments],
            [each.to_snapshot() for each in log.producers.each_producer()],
            [str(fault) for fault in self.logs.faults],
        )

    @property
    def contents(self) -> dict[str, bytes]:
        disk = self.logs.disk
        names = disk.list_directory(LOG_PATH)
        return {name: disk.open(f"{LOG_PATH}/{name}").pread(1 << 20, 0) for name in names}


def _in_words(answer: Any) -> object:
    regions = getattr(answer, "regions", None)
    if regions is None:
        return answer
    words = [(type(each), each.position, each.count, each.read()) for each in regions]
    told = (answer.log_start_offset, answer.log_end_offset, answer.high_watermark, answer.last_stable_offset)
    return words, told, answer.first_batch_too_large, answer.aborted_transactions


class Clients:
    """Produce what clients produce, now and then out of order, or with a time that no clock has shown."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.sequences = dict.fromkeys(range(4), 0)

    def run(self) -> list[CheckedBatch]:
        return [self.batch() for _ in range(self.random.choice([1, 1, 1, 2, 5]))]

    def batch(self) -> CheckedBatch:
        random = self.random
        count = random.choice([1, 1, 2, 5])
        times = [START_MS, START_MS + 100, START_MS + random.randrange(3000), START_MS + 10**10, -1, 0, TIMESTAMP_MAX]
        time = random.choices(times, [40, 40, 40, 2, 2, 2, 1])[0]
        rows = [Record(at, time, None, random.randbytes(random.randrange(60))) for at in range(count)]
        producer = random.choice([-1, -1, 0, 1, 2, 3])
        epoch = sequence = -1
        if producer >= 0:
            epoch = random.choices([0, 1], [30, 1])[0]
            sequence = self.sequences[producer] if random.random() < 0.9 else random.randrange(10)
            self.sequences[producer] = sequence + count
        is_transactional = producer == 3
        batch = build_batch(
            rows,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        header = read_header(batch)
        told = (header.last_offset_delta, header.max_timestamp, producer, epoch, sequence)
        view = memoryview(bytearray(batch))
        return CheckedBatch(view, *told, None) if is_transactional else CheckedBatch(view, *told)


def _copied(run: list[CheckedBatch]) -> list[CheckedBatch]:
    return [batch._replace(view=memoryview(bytearray(batch.view))) for batch in run]


@pytest.mark.parametrize("seed", range(12))
def test_both_end_alike(seed: int) -> None:
    random = Random(seed)
    config = CONFIGS[seed % len(CONFIGS)]
    replicas = [Replica(twin, config) for twin in TWINS]
    clients = Clients(random)
    epoch = 0
    fresh_reads = refusals = 0

    def both(name: str, *arguments: object, **named: object) -> Any:
        plain, compiled = (each.does(name, *arguments, **named) for each in replicas)
        assert plain == compiled, name
        return plain

    for _ in range(150):
        first = replicas[0].log
        start = first.log_end_offset
        epoch += random.random() < 0.02
        run = clients.run()
        is_awaited = random.random() < 0.5
        if random.random() < 0.02:
            for each in replicas:
                each.logs.disk.fail("pwritev", "*.log", EIO, times=1)
        plain, compiled = (each.does("append_run", _copied(run), epoch, is_awaited=is_awaited) for each in replicas)
        assert plain == compiled
        refusals += isinstance(plain, list | tuple) and any(isinstance(each, AppendRefused) for each in plain)
        if random.random() < 0.8:
            both("commit_up_to", random.randrange(first.high_watermark, first.log_end_offset + 1))
        for _ in range(random.randrange(4)):
            upper_bound = random.choice(list(FetchIsolation))
            offset = start if random.random() < 0.7 else random.randrange(-1, first.log_end_offset + 2)
            limit = random.choice([1 << 20, 0, random.randrange(1000)])
            answer = both("read", offset, limit, upper_bound=upper_bound, min_one_batch=random.random() < 0.7)
            fresh_reads += isinstance(answer, tuple) and any(region[0] is FreshRegion for region in answer[0])
        both("forget_fresh", also_uncommitted=random.random() < 0.2)
        if random.random() < 0.03 and first.fault is None:
            both("truncate_to", random.randrange(first.log_end_offset + 1))
        if random.random() < 0.03:
            changed = random.choice(CONFIGS)
            both("reconfigure", changed)
        if first.fault is not None or random.random() < 0.02:
            for each in replicas:
                each.logs.disk.heal()
                each.log = each.opened()
        plain_state, compiled_state = (each.state for each in replicas)
        assert plain_state == compiled_state
    assert replicas[0].contents == replicas[1].contents
    assert fresh_reads > 2
    assert refusals > 2


@pytest.mark.parametrize("left", [1, 2, 3])
def test_both_stop_where_offsets_end(left: int) -> None:
    for size in (1, 2):
        replicas = [Replica(twin, LogConfig()) for twin in TWINS]
        rows = [Record(0, START_MS, None, b"a")]
        answers = []
        for each in replicas:
            given = bytearray(build_batch(rows, leader_epoch=0))
            pack_into(">q", given, 0, OFFSET_MAX - left - 1)
            each.does("append_as_follower", bytes(given))
            assert each.log.log_end_offset == OFFSET_MAX - left
            run = [CheckedBatch(memoryview(bytearray(build_batch(rows))), 0, START_MS, -1, -1, -1) for _ in range(size)]
            answers.append(each.does("append_run", run, 0))
        assert answers[0] == answers[1]
        assert replicas[0].state == replicas[1].state


def test_an_offset_that_no_log_has_is_out_of_range() -> None:
    for twin in TWINS:
        log = Replica(twin, LogConfig()).log
        assert log.read(-1, 100) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert log.read(OFFSET_MAX, 100) is ErrorCode.OFFSET_OUT_OF_RANGE

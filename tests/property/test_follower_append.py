"""What a follower appends the quick way is what it appends the ordinary way: same answers, bytes and knowledge of producers."""

from __future__ import annotations

from random import Random
from struct import pack_into
from unittest import mock

import pytest

from tests.support.kernel_twins import TWINS, twin_of
from tests.support.log_builder import SMALL_SEGMENTS, START_MS, LogBuilder
from tidelog.kernel_choice import Twin
from tidelog.storage import appendable_log
from tidelog.storage.log_config import LogConfig
from tidelog.storage.partition_log import PartitionLog
from tidelog.wire.compression import Compression
from tidelog.wire.record_batch import TimestampType
from tidelog.wire.records import Record, build_batch

CONFIGS = [LogConfig(), SMALL_SEGMENTS, LogConfig(flush_messages=3)]


class Replica:
    def __init__(self, config: LogConfig) -> None:
        self.logs = LogBuilder()
        self.log: PartitionLog = self.logs.open(config)

    @property
    def state(self) -> object:
        log = self.log
        return (
            log.log_end_offset,
            log.high_watermark,
            log.recovery_point,
            log.segment_base_offsets,
            log.leader_epochs.latest_epoch,
            log.producers.map_end_offset,
            log.last_stable_offset,
            {
                each.producer_id: (*each.to_snapshot(), [known.last_offset for known in each.batches])
                for each in log.producers.each_producer()
            },
            b"".join(segment.file.pread(segment.size_bytes, 0) for segment in log.segments),
        )


class Leader:
    """Sends what leaders send, and now and then what they never would."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.epoch = 0
        self.sequences = dict.fromkeys(range(3), 0)

    def records(self, offset: int) -> bytes:
        random = self.random
        if random.random() < 0.05:
            self.epoch += 1
        sent = b""
        for _ in range(random.choice([1, 1, 1, 2, 3])):
            batch = self.batch(offset)
            offset += random.choice([0, 1]) if random.random() < 0.05 else len(self.rows)
            sent += batch
        if random.random() < 0.15:
            damaged = bytearray(sent)
            damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
            sent = bytes(damaged)
        if random.random() < 0.05:
            sent = sent[: random.randrange(len(sent))]
        return sent

    def batch(self, offset: int) -> bytes:
        random = self.random
        self.rows = [
            Record(at, START_MS + random.choice([0, at, -at, 1_000_000]), b"k", random.randbytes(random.randrange(60)))
            for at in range(random.choice([1, 1, 2, 5]))
        ]
        producer = random.choice([-1, -1, -1, -1, 0, 1, 2])
        sequence = -1
        if producer >= 0:
            sequence = self.sequences[producer] if random.random() < 0.9 else random.randrange(10)
            self.sequences[producer] = sequence + len(self.rows)
        batch = bytearray(
            build_batch(
                self.rows,
                codec=random.choice([Compression.NONE, Compression.NONE, Compression.GZIP]),
                timestamp_type=random.choice([TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]),
                producer_id=producer,
                producer_epoch=-1 if producer < 0 else 0,
                base_sequence=sequence,
                leader_epoch=self.epoch,
                is_transactional=producer == 2 and random.random() < 0.5,
            )
        )
        pack_into(">q", batch, 0, offset)
        return bytes(batch)


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("seed", range(12))
def test_both_ways_end_alike(twin: Twin, seed: int) -> None:
    random = Random(seed)
    config = random.choice(CONFIGS)
    quick, ordinary = Replica(config), Replica(config)
    leader = Leader(random)
    kernel = twin_of("replica_kernel", twin)
    went_quickly = went_together = 0
    for _ in range(80):
        sent = leader.records(quick.log.log_end_offset)
        with (
            mock.patch.object(appendable_log, "_read_plain_batch", kernel.read_plain_batch),
            mock.patch.object(appendable_log, "_read_plain_run", kernel.read_plain_run),
        ):
            answer = quick.log.append_as_follower(memoryview(bytearray(sent)))
        with (
            mock.patch.object(appendable_log, "_read_plain_batch", return_value=None),
            mock.patch.object(appendable_log, "_read_plain_run", return_value=None),
        ):
            assert ordinary.log.append_as_follower(memoryview(bytearray(sent))) == answer
        assert quick.state == ordinary.state
        went_quickly += kernel.read_plain_batch(memoryview(sent)) is not None
        run = kernel.read_plain_run(memoryview(sent))
        went_together += run is not None and len(run[3]) > 1
        if random.random() < 0.05:
            end = random.randrange(quick.log.log_end_offset + 1)
            for each in (quick, ordinary):
                each.log.truncate_to(end)
    assert went_quickly > 10
    assert went_together > 2

"""What a follower appends in one go is what it appends batch by batch: same answers, bytes, segments and producers."""

from __future__ import annotations

from random import Random
from struct import pack_into

import pytest

from tests.support.appends import as_follower
from tests.support.log_builder import SMALL_SEGMENTS, START_MS, LogBuilder
from tidelog.storage.append import AppendRefused, AppendRule
from tidelog.storage.checked_batches import check_copied
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


@pytest.mark.parametrize("seed", range(12))
def test_a_run_ends_as_its_batches_do_one_by_one(seed: int) -> None:
    random = Random(seed)
    config = random.choice(CONFIGS)
    together, one_by_one = Replica(config), Replica(config)
    leader = Leader(random)
    went_together = refusals = 0
    for _ in range(80):
        sent = leader.records(together.log.log_end_offset)
        answer = as_follower(together.log, memoryview(bytearray(sent)))
        if isinstance(answer, AppendRefused):
            # Then nothing of it is appended, or what comes before a batch that does not fit its producer.
            refusals += 1
            assert as_follower(one_by_one.log, sent) == answer
        else:
            batches = check_copied(sent)
            assert not isinstance(batches, AppendRefused)
            went_together += len(batches) > 1
            for batch in batches:
                assert one_by_one.log.append([batch], AppendRule.FOLLOWER) == [batch.base_offset]
        assert together.state == one_by_one.state
        if random.random() < 0.05:
            end = random.randrange(together.log.log_end_offset + 1)
            for each in (together, one_by_one):
                each.log.truncate_to(end)
    assert went_together > 5
    assert refusals > 5

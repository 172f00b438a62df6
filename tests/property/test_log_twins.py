"""What happens to a log, with appends, reads, cuts and faults, ends the same with the compiled modules and in plain Python.

Each process has one twin of them. So what both must come to is written down: a digest of every answer, all that is known of the
log and its producers after every step, and the files. `python -m tests.property.test_log_twins` prints it, for a change that is
meant.
"""

from __future__ import annotations

import hashlib
from errno import EIO
from random import Random
from typing import Any

import pytest

from tests.support.appends import checked
from tests.support.log_builder import LOG_PATH, SMALL_SEGMENTS, START_MS, LogBuilder
from tidelog.model.errors import ErrorCode
from tidelog.storage.append import OFFSET_MAX, AppendRefused, AppendRule
from tidelog.storage.checked_batches import CheckedBatch
from tidelog.storage.errors import StorageError
from tidelog.storage.fetched import FetchIsolation
from tidelog.storage.log_config import LogConfig
from tidelog.wire.records import Record, build_batch

CONFIGS = [
    LogConfig(),
    SMALL_SEGMENTS,
    LogConfig(flush_messages=3),
    LogConfig(segment_ms=1000, segment_jitter_ms=1000, index_interval_bytes=200, segment_index_bytes=80),
]
TIMESTAMP_MAX = 2**63 - 1

HISTORIES = [
    "27a4a566e25b38e4",
    "1c37b7aa61265be6",
    "d70315d6975001e1",
    "bb0a463c609e9dc5",
    "f2a2a56f9b948096",
    "5ce16272d973e409",
    "3e246aba708f744d",
    "cebde3ecd5701515",
    "afdb41c570183f54",
    "391b8de7f5d77e42",
    "100d0e0b4a85f7ba",
    "b59aa1d65b5fb0db",
]


class Replica:
    """A log on a disk of its own, and all that it was heard to say."""

    def __init__(self, config: LogConfig) -> None:
        # So few open files that segments have to let go of theirs.
        self.logs = LogBuilder(open_segments_max=2)
        self.log = self.logs.reopen(config)
        self.heard = hashlib.sha256()

    def does(self, name: str, *arguments: object, **named: object) -> Any:
        """What a method answers or raises, in words that can be compared."""
        try:
            answer = _in_words(getattr(self.log, name)(*arguments, **named))
        except StorageError as error:
            answer = str(error)
        self.hear((name, answer))
        return answer

    def hear(self, words: object) -> None:
        self.heard.update(repr(words).encode())

    @property
    def state(self) -> object:
        log = self.log
        return (
            (log.log_start_offset, log.log_end_offset, log.high_watermark, log.last_stable_offset),
            (log.recovery_point, log.leader_epochs.latest_epoch, log.producers.map_end_offset, str(log.fault)),
            [(each.base_offset, each.size_bytes) for each in log.segments],
            [tuple(each.to_snapshot()) for each in log.producers.each_producer()],
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
    words = [(type(each).__name__, each.position, each.count, each.read()) for each in regions]
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
        return checked(batch)


def history(seed: int) -> str:
    """Some of what happens to logs. The digest of all that was answered, known and written."""
    random = Random(seed)
    config = CONFIGS[seed % len(CONFIGS)]
    replica = Replica(config)
    does = replica.does
    clients = Clients(random)
    epoch = 0
    fresh_reads = refusals = 0
    for _ in range(150):
        log = replica.log
        start = log.log_end_offset
        epoch += random.random() < 0.02
        run = clients.run()
        is_awaited = random.random() < 0.5
        if random.random() < 0.02:
            replica.logs.disk.fail("pwritev", "*.log", EIO, times=1)
        outcomes = does("append", run, AppendRule.LEADER, epoch, is_awaited)
        refusals += isinstance(outcomes, list) and any(isinstance(each, AppendRefused) for each in outcomes)
        if random.random() < 0.8:
            does("commit_up_to", random.randrange(log.high_watermark, log.log_end_offset + 1))
        for _ in range(random.randrange(4)):
            upper_bound = random.choice(list(FetchIsolation))
            offset = start if random.random() < 0.7 else random.randrange(-1, log.log_end_offset + 2)
            limit = random.choice([1 << 20, 0, random.randrange(1000)])
            answer = does("read", offset, limit, upper_bound=upper_bound, min_one_batch=random.random() < 0.7)
            fresh_reads += isinstance(answer, tuple) and any(region[0] == "FreshRegion" for region in answer[0])
        does("forget_fresh", also_uncommitted=random.random() < 0.2)
        if random.random() < 0.03 and log.fault is None:
            does("truncate_to", random.randrange(log.log_end_offset + 1))
        if random.random() < 0.03:
            does("reconfigure", random.choice(CONFIGS))
        if log.fault is not None or random.random() < 0.02:
            replica.logs.disk.heal()
            replica.log = replica.logs.reopen()
        replica.hear(replica.state)
    replica.hear(replica.contents)
    assert fresh_reads > 2
    assert refusals > 2
    return replica.heard.hexdigest()[:16]


@pytest.mark.parametrize("seed", range(len(HISTORIES)))
def test_a_history_ends_as_it_did(seed: int) -> None:
    assert history(seed) == HISTORIES[seed]


def test_an_offset_that_no_log_has_is_out_of_range() -> None:
    log = Replica(LogConfig()).log
    assert log.read(-1, 100) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(OFFSET_MAX, 100) is ErrorCode.OFFSET_OUT_OF_RANGE


if __name__ == "__main__":
    for number in range(12):
        print(f'    "{history(number)}",')

"""Compaction against a dictionary: random keys, tombstones, codecs, producers and transactions, cleaned again and again, with
crashes at every change of the disk.

What a reader of committed records gathers from the log is what the dictionary holds, whenever it looks. Offsets, order, keys,
values and times are those of the append. A tombstone is there for `delete.retention.ms` after it was first cleaned. What is clean
holds a key once and nothing that was aborted. Producers are known by their last number, from the log alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from tests.support.appends import as_coordinator
from tests.support.kernel_twins import TWINS
from tests.support.log_builder import LogBuilder, accepted
from tests.support.log_cleaning import append_keyed, batches_of, clean, using
from tests.support.log_reader import read_rows
from tidelog.kernel_choice import Twin
from tidelog.model.ids import Offset
from tidelog.simulation.disk import SimulatedCrash
from tidelog.storage.cleaning.cleaning import CleaningEnd, CleaningLimits
from tidelog.storage.log_config import LogConfig
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.verification.findings import PartitionFacts, Report, Severity
from tidelog.storage.verification.partition_check import PartitionCheck
from tidelog.wire.compression import Compression
from tidelog.wire.control_records import ControlType, build_end_txn_marker

DELETE_RETENTION_MS = 500
CONFIG = LogConfig(
    cleanup_policy=("compact",),
    segment_bytes=700,
    segment_index_bytes=120,
    index_interval_bytes=100,
    file_delete_delay_ms=1000,
    delete_retention_ms=DELETE_RETENTION_MS,
)
# Large enough for everything, and so small that it takes several rounds.
LIMITS = (CleaningLimits(1 << 16, 0.9, 1 << 16), CleaningLimits(1, 0.5, 150))
KEYS = "abcdef"


class Written(NamedTuple):
    """A record as it was appended."""

    offset: int
    key: str
    value: str | None
    timestamp: int
    producer_id: int
    is_transactional: bool


@dataclass
class Story:
    """One run: a log, and all that was ever written to it."""

    seed: int
    logs: LogBuilder = field(default_factory=LogBuilder)
    written: dict[int, Written] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    open_transactions: dict[int, list[int]] = field(default_factory=dict)
    next_sequence: dict[int, int] = field(default_factory=dict)
    tombstones_cleaned_ms: dict[int, int] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.log: PartitionLog = self.logs.open(CONFIG)

    # --- what happens

    def append(self) -> None:
        random = self.random
        producer_id = random.choice((-1, 1, 2, 3, 4))
        is_transactional = producer_id in {3, 4}
        self.count += 1
        pairs: list[tuple[str | None, str | None]] = []
        for number in range(random.choice((1, 1, 2, 4))):
            value = None if random.random() < 0.25 else f"{self.count}.{number}" + "x" * random.choice((0, 5, 40))
            pairs.append((random.choice(KEYS), value))
        base, timestamp = self.log.log_end_offset, self.logs.clock.ms + random.randrange(-20, 20)
        sequence = self.next_sequence.get(producer_id, 0)
        append_keyed(
            self.log,
            *pairs,
            timestamp_ms=timestamp,
            codec=random.choice((Compression.NONE, Compression.NONE, *Compression)),
            producer=None if producer_id < 0 else (producer_id, 0, sequence),
            is_transactional=is_transactional,
        )
        self.next_sequence[producer_id] = sequence + len(pairs)
        for number, (key, value) in enumerate(pairs):
            assert key is not None
            offset = base + number
            self.written[offset] = Written(offset, key, value, timestamp, producer_id, is_transactional)
            if is_transactional:
                self.open_transactions.setdefault(producer_id, []).append(offset)

    def end_transaction(self, producer_id: int) -> None:
        offsets = self.open_transactions.pop(producer_id, None)
        if offsets is None:
            return
        kind = self.random.choice((ControlType.COMMIT, ControlType.ABORT))
        marker = build_end_txn_marker(
            kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=self.logs.clock.ms
        )
        accepted(as_coordinator(self.log, marker, 0))
        self.log.set_high_watermark(self.log.log_end_offset)
        if kind is ControlType.ABORT:
            self.aborted.update(offsets)

    def step(self, choice: int) -> None:
        if choice < 6:
            self.append()
        elif choice < 8:
            self.end_transaction(self.random.choice((3, 4)))
        elif choice < 9:
            self.log.roll()
        elif choice < 10:
            self.logs.clock.advance(self.random.choice((10, 200, DELETE_RETENTION_MS)))
        else:
            self.clean()

    def clean(self) -> None:
        now_ms = self.logs.clock.ms
        result = clean(self.logs, self.log, self.random.choice(LIMITS))
        assert result.end is CleaningEnd.DONE, result
        stable = self.log.first_unstable_offset
        assert stable is None or result.cleaned_until <= stable
        self.check_clean_part(result.cleaned_until)
        self.note_tombstones(now_ms)
        self.check()

    def note_tombstones(self, now_ms: int) -> None:
        """From the first cleaning that can have come across it, a tombstone's time runs."""
        for offset, record in self.written.items():
            if record.value is None and offset < self.logs.cleaner_offset:
                self.tombstones_cleaned_ms.setdefault(offset, now_ms)

    # --- what must hold

    def check(self) -> None:
        self.check_records()
        self.check_readers()

    def committed(self) -> dict[int, Written]:
        """What a reader of committed records may see, by offset."""
        stable = self.log.last_stable_offset
        return {
            offset: record for offset, record in self.written.items() if offset < stable and offset not in self.aborted
        }

    def check_records(self) -> None:
        last = -1
        for header, records in batches_of(self.log):
            assert header.base_offset > last
            last = header.last_offset
            for row in () if header.is_control else records:
                was = self.written[row.offset]
                value = None if row.value is None else row.value.decode()
                assert ((row.key or b"").decode(), value, row.timestamp) == (was.key, was.value, was.timestamp)
        assert last < self.log.log_end_offset

    def check_readers(self) -> None:
        committed = self.committed()
        expected: dict[str, Written] = {}
        for record in committed.values():
            expected[record.key] = record
        seen = {row.offset for row in read_rows(self.log, committed=True)}
        assert seen <= committed.keys()
        gathered: dict[str, Written] = {}
        for offset in sorted(seen):
            gathered[committed[offset].key] = committed[offset]
        now_ms = self.logs.clock.ms
        for key, record in expected.items():
            if record.value is not None or key in gathered:
                assert gathered[key] == record
            else:
                # Only one whose time is over may be gone, and then nothing of the key is left.
                assert now_ms - self.tombstones_cleaned_ms[record.offset] >= DELETE_RETENTION_MS

    def check_clean_part(self, end: Offset) -> None:
        keys: set[str] = set()
        for header, records in batches_of(self.log):
            for row in () if header.is_control else records:
                if row.offset < end:
                    assert row.offset not in self.aborted
                    assert self.written[row.offset].key not in keys
                    keys.add(self.written[row.offset].key)

    def check_producers(self) -> None:
        """The log alone tells what the producers did last."""
        before = {state.producer_id: (state.epoch, state.last_sequence) for state in self.log.producers.each_producer()}
        unstable = self.log.first_unstable_offset
        self.logs.stop(self.log)
        for name in self.logs.disk.list_directory(self.log.directory):
            if name.endswith(".snapshot"):
                self.logs.disk.remove(f"{self.log.directory}/{name}")
        self.logs.recovery_point = Offset(0)
        self.reopen()
        after = {state.producer_id: (state.epoch, state.last_sequence) for state in self.log.producers.each_producer()}
        assert after == before
        assert self.log.first_unstable_offset == unstable

    def check_files(self) -> None:
        """After a clean stop every file agrees with every other, gaps and all."""
        self.logs.stop(self.log)
        report = Report()
        facts = PartitionFacts(
            was_clean=True,
            recovery_point=self.log.log_end_offset,
            high_watermark=self.log.log_end_offset,
            cleaner_offset=self.logs.cleaner_offset,
        )
        PartitionCheck(self.logs.disk, self.log.directory, "", report, facts, decodes_records=True).run()
        assert [each for each in report.findings if each.severity is Severity.ERROR] == []
        self.log = self.logs.reopen(CONFIG, was_clean=True)
        self.log.set_high_watermark(self.log.log_end_offset)

    def reopen(self) -> None:
        self.log = self.logs.reopen(CONFIG)
        self.log.set_high_watermark(self.log.log_end_offset)


STEPS = st.lists(st.integers(0, 10), min_size=5, max_size=60)


@pytest.mark.parametrize("twin", TWINS)
@given(seed=st.integers(0, 2**32), steps=STEPS)
@settings(max_examples=20, deadline=None)
def test_the_last_value_of_every_key_survives(twin: Twin, seed: int, steps: list[int]) -> None:
    with using(twin):
        story = Story(seed)
        for step in steps:
            story.step(step)
        story.log.roll()
        story.clean()
        story.check_files()
        story.check_producers()
        story.check()
        story.append()
        story.check()


@pytest.mark.parametrize("is_kill", [True, False])
@given(seed=st.integers(0, 2**32), steps=STEPS, share=st.floats(0, 1))
@settings(max_examples=20, deadline=None)
def test_a_crash_at_any_change_of_the_disk_loses_nothing(
    is_kill: bool, seed: int, steps: list[int], share: float
) -> None:
    story = ready_to_clean(seed, steps)
    changes = changes_of_a_cleaning(seed, steps)
    story.logs.disk.crash_at(story.logs.disk.changes + 1 + int(share * (changes - 1)))

    crash_while_cleaning(story, is_kill=is_kill)


def crash_while_cleaning(story: Story, *, is_kill: bool) -> None:
    """Clean until the disk is gone, come back, and look; then clean again."""
    end = story.log.log_end_offset
    now_ms = story.logs.clock.ms
    checkpoint = story.logs.cleaner_offset
    with pytest.raises(SimulatedCrash):
        clean(story.logs, story.log, LIMITS[0])
    if is_kill:
        story.logs.disk.kill()
    else:
        story.logs.disk.crash(story.random)
    story.logs.removals = type(story.logs.removals)(story.logs.seams, story.logs.report_fault)
    story.logs.cleaner_offset = checkpoint
    story.reopen()
    assert story.log.log_end_offset == end
    for offset, record in story.written.items():
        if record.value is None:
            story.tombstones_cleaned_ms.setdefault(offset, now_ms)
    story.check()
    leftovers = [
        name for name in story.logs.disk.list_directory(story.log.directory) if name.endswith((".cleaned", ".swap"))
    ]
    assert not leftovers
    story.clean()
    story.check_producers()
    story.check()


def ready_to_clean(seed: int, steps: list[int]) -> Story:
    story = Story(seed)
    for step in steps:
        story.step(step)
    story.append()
    story.log.roll()
    story.log.flush()
    story.logs.save_recovery_points()
    return story


def changes_of_a_cleaning(seed: int, steps: list[int]) -> int:
    """How many changes of the disk a cleaning makes."""
    story = ready_to_clean(seed, steps)
    before = story.logs.disk.changes
    clean(story.logs, story.log, LIMITS[0])
    return story.logs.disk.changes - before


@pytest.mark.parametrize("is_kill", [True, False])
def test_a_crash_at_every_change_of_one_cleaning(is_kill: bool) -> None:
    steps = [0, 0, 0, 0, 6, 0, 0, 8, 0, 0, 7, 0, 0, 0, 8, 0, 0, 10, 0, 0, 0, 6, 7, 0, 8, 0, 0, 9, 0, 8, 0, 0]
    changes = changes_of_a_cleaning(11, steps)
    assert changes > 30
    for number in range(changes):
        story = ready_to_clean(11, steps)
        story.logs.disk.crash_at(story.logs.disk.changes + 1 + number)
        crash_while_cleaning(story, is_kill=is_kill)

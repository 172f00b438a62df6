"""What a log takes, from whom, and what it answers: leaders, followers, producers that repeat themselves, markers."""

from __future__ import annotations

from errno import EIO
from struct import pack_into

import pytest

from tests.support.appends import as_coordinator, as_follower, as_leader, checked, own_batch
from tests.support.log_builder import SMALL_SEGMENTS, START_MS, LogBuilder, accepted, refused
from tidelog.model.errors import ErrorCode
from tidelog.storage.append import OFFSET_MAX, AppendInfo, AppendRefused, AppendRule
from tidelog.storage.checked_batches import CheckedBatch, check_copied
from tidelog.storage.errors import StorageError
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.log_config import LogConfig
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.producer_snapshot import read_snapshot
from tidelog.storage.segment import RELATIVE_OFFSET_MAX
from tidelog.wire.control_records import ControlType, build_end_txn_marker
from tidelog.wire.record_batch import TimestampType, read_header
from tidelog.wire.records import Record, build_batch

LOG_END = FetchIsolation.LOG_END
APPEND_TIME = TimestampType.LOG_APPEND_TIME


class TestAppendingAsLeader:
    def test_gives_the_next_offsets_and_its_epoch(self, logs: LogBuilder, log: PartitionLog) -> None:
        first = logs.append(log, "a", "b", epoch=3)
        second = logs.append(log, "c", epoch=4)

        assert (first.first_offset, first.last_offset) == (0, 1)
        assert (second.first_offset, second.last_offset) == (2, 2)
        fetched = log.read(2, 1000, upper_bound=LOG_END)
        assert isinstance(fetched, Fetched)
        assert read_header(fetched.regions[0].read()).partition_leader_epoch == 4
        assert [tuple(entry) for entry in log.leader_epochs.entries] == [(3, 0), (4, 2)]

    def test_several_batches_go_with_one_write(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "warm")
        writes = logs.disk.changes

        outcomes = log.append(
            [checked(batch) for batch in (logs.batch("a"), logs.batch("b", "c"), logs.batch("d"))], AppendRule.LEADER, 0
        )

        assert logs.disk.changes - writes == 1
        assert outcomes == [1, 2, 4]
        assert logs.values(log) == ["warm", "a", "b", "c", "d"]

    def test_bytes_that_cannot_be_changed_are_copied(self, logs: LogBuilder, log: PartitionLog) -> None:
        batch = bytes(logs.batch("a"))
        view = memoryview(batch)

        accepted(as_leader(log, batch, 5))
        accepted(as_leader(log, view, 5))

        assert batch == bytes(logs.batch("a"))
        assert logs.values(log) == ["a", "a"]

    def test_log_append_time_is_stamped_and_answered(self, logs: LogBuilder) -> None:
        log = logs.open(LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))

        info = logs.append(log, "a", "b", timestamps=[5, 6])

        assert info.append_time_ms == START_MS
        assert [record.timestamp for record in logs.records(log)] == [START_MS, START_MS]
        assert log.offset_for_timestamp(START_MS) == (START_MS, 0, 0)

    @pytest.mark.parametrize(
        ("damage", "error"),
        [
            (lambda batch: batch[:-1], ErrorCode.INVALID_RECORD),
            (lambda batch: batch[:40], ErrorCode.INVALID_RECORD),
            (lambda batch: batch + bytes(12), ErrorCode.CORRUPT_MESSAGE),
            (lambda batch: batch[:-1] + b"\xff", ErrorCode.CORRUPT_MESSAGE),
            (lambda batch: batch[:16] + b"\x01" + batch[17:], ErrorCode.INVALID_RECORD),
            (lambda batch: batch[:16] + b"\x03" + batch[17:], ErrorCode.CORRUPT_MESSAGE),
            (lambda batch: batch[:0], ErrorCode.INVALID_RECORD),
        ],
        ids=["cut off", "half a header", "no length behind it", "wrong CRC", "old magic", "new magic", "nothing"],
    )
    def test_damage_is_refused_and_nothing_written(
        self, logs: LogBuilder, log: PartitionLog, damage: object, error: ErrorCode
    ) -> None:
        batch = damage(bytes(logs.batch("a", "b")))  # type: ignore[operator]

        assert refused(as_leader(log, bytearray(batch), 0)).error is error
        assert (log.log_end_offset, log.size_bytes) == (0, 0)

    @pytest.mark.parametrize(
        ("batch", "error"),
        [
            (build_batch([Record(9, 1, None, b"a")], base_offset=9), ErrorCode.INVALID_RECORD),
            (build_batch([Record(0, 1, None, b"a")], last_offset=4), ErrorCode.INVALID_RECORD),
            (build_batch([Record(0, 1, None, b"a")], producer_id=4, producer_epoch=0), ErrorCode.INVALID_RECORD),
            (
                build_end_txn_marker(
                    ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=1
                ),
                ErrorCode.INVALID_RECORD,
            ),
        ],
        ids=["an offset of its own", "more offsets than records", "no sequence", "a control batch"],
    )
    def test_what_a_producer_may_not_send_is_refused(self, log: PartitionLog, batch: bytes, error: ErrorCode) -> None:
        assert refused(as_leader(log, batch, 0)).error is error
        assert log.size_bytes == 0

    def test_batches_larger_than_a_segment_are_refused(self, logs: LogBuilder) -> None:
        log = logs.open(LogConfig(segment_bytes=100))

        assert refused(as_leader(log, logs.batch("x" * 100), 0)).error is ErrorCode.RECORD_LIST_TOO_LARGE


def test_an_answer_of_refusal_is_a_sentence(logs: LogBuilder, log: PartitionLog) -> None:
    answer = as_leader(log, logs.batch("a")[:-1], 0)

    assert isinstance(answer, AppendRefused)
    assert answer.reason == "the batch is cut off: 1 of its 69 bytes are missing"


class TestIdempotence:
    def test_a_duplicate_is_answered_as_the_first_time(self, logs: LogBuilder, log: PartitionLog) -> None:
        first = logs.append(log, "a", "b", producer=(1, 0, 0))
        logs.append(log, "c", producer=(1, 0, 2))

        again = logs.append(log, "a", "b", producer=(1, 0, 0))

        assert again.is_duplicate
        assert (again.first_offset, again.last_offset) == (first.first_offset, first.last_offset)
        assert logs.values(log) == ["a", "b", "c"]

    def test_a_duplicate_of_a_topic_with_append_time_has_the_first_time(self, logs: LogBuilder) -> None:
        log = logs.open(LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
        logs.append(log, "a", producer=(1, 0, 0))
        logs.clock.advance(1000)

        assert logs.append(log, "a", producer=(1, 0, 0)).append_time_ms == START_MS

    def test_a_gap_in_the_sequence_is_refused(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a", producer=(1, 0, 0))
        late = logs.batch("c", producer_id=1, producer_epoch=0, base_sequence=2)

        assert refused(as_leader(log, late, 0)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_an_old_epoch_is_refused(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a", producer=(1, 5, 0))
        old = logs.batch("b", producer_id=1, producer_epoch=4, base_sequence=1)

        assert refused(as_leader(log, old, 0)).error is ErrorCode.INVALID_PRODUCER_EPOCH

    def test_silent_producers_are_forgotten(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a", producer=(1, 0, 0))
        logs.clock.advance(24 * 60 * 60 * 1000)

        assert log.expire_producers() == 1
        assert log.producers.producer(1) is None


class TestAppendingAsFollower:
    def test_takes_offsets_and_epochs_as_they_come(self, logs: LogBuilder, log: PartitionLog) -> None:
        accepted(as_follower(log, logs.batch("a", "b", leader_epoch=2)))
        accepted(as_follower(log, logs.batch("c", base_offset=7, leader_epoch=3)))

        assert (log.log_end_offset, log.end_offset_for_epoch(2)) == (8, (2, 7))
        assert [record.offset for record in logs.records(log)] == [0, 1, 7]

    def test_leaves_out_what_a_fetch_has_cut_off(self, logs: LogBuilder, log: PartitionLog) -> None:
        info = accepted(as_follower(log, logs.batch("a") + logs.batch("b", base_offset=1)[:-3]))

        assert (info.last_offset, log.log_end_offset) == (0, 1)
        assert log.size_bytes == len(logs.batch("a"))

    def test_of_nothing_whole_is_no_append(self, logs: LogBuilder, log: PartitionLog) -> None:
        info = accepted(as_follower(log, logs.batch("a")[:-1]))

        assert (info.first_offset, info.last_offset, log.size_bytes) == (0, -1, 0)

    def test_refuses_offsets_that_the_log_has(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a", "b")

        answer = refused(as_follower(log, logs.batch("x", base_offset=1)))

        assert answer.error is ErrorCode.OFFSET_OUT_OF_RANGE

    def test_refuses_offsets_that_fall(self, logs: LogBuilder, log: PartitionLog) -> None:
        both = logs.batch("a", base_offset=5) + logs.batch("b", base_offset=4)

        assert refused(as_follower(log, both)).error is ErrorCode.INVALID_RECORD
        assert log.size_bytes == 0

    def test_checks_the_checksum(self, logs: LogBuilder, log: PartitionLog) -> None:
        batch = logs.batch("a")
        batch[-1] ^= 1

        assert refused(as_follower(log, batch)).error is ErrorCode.CORRUPT_MESSAGE

    def test_rolls_where_an_offset_is_too_far_for_the_segment(self, logs: LogBuilder, log: PartitionLog) -> None:
        far = RELATIVE_OFFSET_MAX + 10
        accepted(as_follower(log, logs.batch("a") + logs.batch("b", base_offset=far)))

        assert log.segment_base_offsets == [0, far]
        assert [record.offset for record in logs.records(log)] == [0, far]

    def test_spreads_a_fetch_that_is_larger_than_its_own_segments(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        fetched = b"".join(bytes(logs.batch("x" * 50, base_offset=number)) for number in range(10))

        accepted(as_follower(log, fetched))

        assert len(log.segment_base_offsets) > 2
        assert len(logs.values(log)) == 10

    def test_does_not_judge_producers(self, logs: LogBuilder, log: PartitionLog) -> None:
        batch = logs.batch("a", producer_id=1, producer_epoch=0, base_sequence=17)

        accepted(as_follower(log, batch))

        state = log.producers.producer(1)
        assert state is not None
        assert state.last_sequence == 17


class TestAppendingForTheQuorum:
    def test_keeps_offsets_and_epochs_without_a_gap_or_a_step_back(self, logs: LogBuilder, log: PartitionLog) -> None:
        raft = AppendRule.RAFT
        accepted(as_follower(log, logs.batch("a", leader_epoch=4), raft))

        late = refused(as_follower(log, logs.batch("b", base_offset=2, leader_epoch=4), raft))
        old = refused(as_follower(log, logs.batch("b", base_offset=1, leader_epoch=3), raft))

        assert late.reason == "the batch at offset 2 does not follow the log, which ends at 1"
        assert old.reason == "the batch at offset 1 is of epoch 3, after 4"
        assert log.log_end_offset == 1


class TestMarkers:
    def test_a_marker_of_a_replaced_coordinator_is_refused(self, logs: LogBuilder, log: PartitionLog) -> None:
        def marker(coordinator_epoch: int) -> bytes:
            return build_end_txn_marker(
                ControlType.ABORT,
                producer_id=1,
                producer_epoch=0,
                coordinator_epoch=coordinator_epoch,
                timestamp=START_MS,
            )

        logs.append(log, "a", producer=(1, 0, 0), is_transactional=True)
        accepted(as_coordinator(log, marker(3), 0))

        answer = refused(as_coordinator(log, marker(2), 0))

        assert answer.error is ErrorCode.TRANSACTION_COORDINATOR_FENCED

    @pytest.mark.parametrize("config", [LogConfig(), SMALL_SEGMENTS, LogConfig(message_timestamp_type=APPEND_TIME)])
    def test_one_marker_serves_several_logs_and_a_follower_reads_the_same_from_it(self, config: LogConfig) -> None:
        logs = [LogBuilder() for _ in range(3)]
        first, second, follower = (each.open(config) for each in logs)
        for number in range(24):
            for builder, log in zip(logs[:2], (first, second), strict=True):
                if number % 4:
                    builder.append(log, "a", epoch=5, producer=(1, number, 0), is_transactional=True)
            # The last ones are of a replaced coordinator, of a fenced producer, and of an end that raises no epoch.
            epoch = number - (number == 22)
            version = 2 * (number == 23)
            marker = own_batch(
                build_end_txn_marker(
                    ControlType.COMMIT if number % 2 == 0 else ControlType.ABORT,
                    producer_id=1,
                    producer_epoch=epoch,
                    coordinator_epoch=3 - (number == 21),
                    timestamp=START_MS + number,
                ),
                transaction_version=version,
            )
            outcomes = [log.append([marker], AppendRule.MARKER, 5) for log in (first, second)]
            assert outcomes[0] == outcomes[1]
            assert isinstance(outcomes[0][0], AppendRefused) == (number > 20)
        for segment in first.segments:
            accepted(as_follower(follower, segment.file.pread(segment.size_bytes, 0)))

        def known(log: PartitionLog) -> object:
            producers = [each.to_snapshot() for each in log.producers.each_producer()]
            contents = b"".join(segment.file.pread(segment.size_bytes, 0) for segment in log.segments)
            aborted = log.aborted_transactions(0, log.log_end_offset)
            return log.first_unstable_offset, aborted, producers, contents

        assert known(first) == known(second) == known(follower)

    def test_a_control_batch_that_is_no_marker_is_refused(self, log: PartitionLog) -> None:
        batch = build_batch(
            [Record(0, 1, b"\0\0\0\x01", b"\0")],
            producer_id=1,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        )

        assert refused(as_follower(log, batch)).error is ErrorCode.CORRUPT_MESSAGE


class TestRuns:
    def test_each_batch_has_its_own_outcome(self, logs: LogBuilder, log: PartitionLog) -> None:
        def of(sequence: int) -> CheckedBatch:
            return checked(logs.batch("a", producer_id=1, producer_epoch=0, base_sequence=sequence))

        outcomes = log.append([of(0), of(1), of(3), of(1), of(2)], AppendRule.LEADER, 0)

        assert [outcomes[0], outcomes[1], outcomes[4]] == [0, 1, 2]
        assert isinstance(outcomes[2], AppendRefused)
        assert isinstance(outcomes[3], AppendInfo)
        assert (outcomes[3].first_offset, outcomes[3].is_duplicate) == (1, True)
        assert log.log_end_offset == 3

    def test_a_roll_within_a_run_writes_down_what_producers_had_done_before_it(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        run = [
            checked(logs.batch("x" * 60, producer_id=1, producer_epoch=0, base_sequence=number)) for number in range(8)
        ]

        assert log.append(run, AppendRule.LEADER, 0) == list(range(8))

        bases = log.segment_base_offsets
        assert len(bases) > 2
        for base in bases[1:]:
            (entry,) = read_snapshot(logs.disk, log.producers.snapshots.path(base))
            assert (entry.last_sequence, entry.last_offset) == (base - 1, base - 1)
        assert len(logs.values(log)) == 8

    def test_a_follower_stops_at_what_it_must_refuse(self, logs: LogBuilder, log: PartitionLog) -> None:
        opened = logs.batch("a", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        outside = logs.batch("b", base_offset=1, producer_id=1, producer_epoch=0, base_sequence=1)
        behind = logs.batch("c", base_offset=2)

        batches = check_copied(opened + outside + behind)

        assert not isinstance(batches, AppendRefused)
        first, *others = log.append(batches, AppendRule.FOLLOWER)
        assert first == 0
        assert [isinstance(each, AppendRefused) for each in others] == [True, True]
        assert log.log_end_offset == 1

    @pytest.mark.parametrize("rule", [AppendRule.LEADER, AppendRule.COORDINATOR])
    def test_stops_where_offsets_end(self, logs: LogBuilder, log: PartitionLog, rule: AppendRule) -> None:
        last = bytearray(logs.batch("a", leader_epoch=0))
        pack_into(">q", last, 0, OFFSET_MAX - 2)
        accepted(as_follower(log, last))

        outcomes = log.append([checked(logs.batch("b")), checked(logs.batch("c"))], rule, 0)

        assert outcomes[0] == OFFSET_MAX - 1
        assert isinstance(outcomes[1], AppendRefused)
        assert outcomes[1].error is ErrorCode.CORRUPT_MESSAGE
        assert log.log_end_offset == OFFSET_MAX

    def test_a_fault_of_the_disk_is_one_of_the_whole_run(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.disk.fail("pwritev", "*0000000003.log", EIO)

        with pytest.raises(StorageError):
            log.append([checked(logs.batch("x" * 60)) for _ in range(8)], AppendRule.LEADER, 0)
        assert log.fault is not None
        assert len(logs.faults) == 1

"""What a log takes, from whom, and what it answers: leaders, followers, producers that repeat themselves, markers."""

from __future__ import annotations

import pytest

from tests.support.log_builder import LOG_PATH, SMALL_SEGMENTS, START_MS, LogBuilder, accepted, refused
from tests.support.log_twins import log_twin
from tidelog.model.errors import ErrorCode
from tidelog.storage.append import AppendRefused
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.log_config import LogConfig
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.producer_append import AppendOrigin, EndTransactionMarker
from tidelog.storage.segment import RELATIVE_OFFSET_MAX
from tidelog.wire.control_records import ControlType, build_end_txn_marker
from tidelog.wire.record_batch import TimestampType, read_header
from tidelog.wire.records import Record, build_batch

__all__ = ["log_twin"]

pytestmark = pytest.mark.usefixtures("log_twin")

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

        info = accepted(log.append_as_leader(logs.batch("a") + logs.batch("b", "c") + logs.batch("d"), 0))

        assert logs.disk.changes - writes == 1
        assert (info.first_offset, info.last_offset) == (1, 4)
        assert logs.values(log) == ["warm", "a", "b", "c", "d"]

    def test_bytes_that_cannot_be_changed_are_copied(self, logs: LogBuilder, log: PartitionLog) -> None:
        batch = bytes(logs.batch("a"))
        view = memoryview(batch)

        accepted(log.append_as_leader(batch, 5))
        accepted(log.append_as_leader(view, 5))

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
            (lambda batch: batch[:-1], ErrorCode.CORRUPT_MESSAGE),
            (lambda batch: batch[:40], ErrorCode.CORRUPT_MESSAGE),
            (lambda batch: batch + b"\0", ErrorCode.CORRUPT_MESSAGE),
            (lambda batch: batch[:-1] + b"\xff", ErrorCode.CORRUPT_MESSAGE),
            (lambda batch: batch[:16] + b"\x01" + batch[17:], ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
            (lambda batch: batch[:0], ErrorCode.INVALID_RECORD),
        ],
        ids=["cut off", "half a header", "a byte too many", "wrong CRC", "old magic", "nothing"],
    )
    def test_damage_is_refused_and_nothing_written(
        self, logs: LogBuilder, log: PartitionLog, damage: object, error: ErrorCode
    ) -> None:
        batch = damage(bytes(logs.batch("a", "b")))  # type: ignore[operator]

        assert refused(log.append_as_leader(bytearray(batch), 0)).error is error
        assert (log.log_end_offset, log.size_bytes) == (0, 0)

    def test_a_second_batch_that_is_damaged_takes_the_first_with_it(self, logs: LogBuilder, log: PartitionLog) -> None:
        both = logs.batch("a") + logs.batch("b")
        both[-1] ^= 1

        assert refused(log.append_as_leader(both, 0)).error is ErrorCode.CORRUPT_MESSAGE
        assert log.size_bytes == 0

    @pytest.mark.parametrize(
        ("batch", "error"),
        [
            (build_batch([Record(9, 1, None, b"a")], base_offset=9), ErrorCode.INVALID_RECORD),
            (build_batch([Record(0, 1, None, b"a")], last_offset=4), ErrorCode.INVALID_RECORD),
            (build_batch([Record(0, 1, None, b"a")], producer_id=4, producer_epoch=0), ErrorCode.INVALID_RECORD),
            (
                build_batch([Record(0, 1, None, b"a")], timestamp_type=TimestampType.LOG_APPEND_TIME),
                ErrorCode.INVALID_TIMESTAMP,
            ),
            (
                build_end_txn_marker(
                    ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=1
                ),
                ErrorCode.INVALID_RECORD,
            ),
        ],
        ids=["an offset of its own", "more offsets than records", "no sequence", "append time", "a control batch"],
    )
    def test_what_a_producer_may_not_send_is_refused(self, log: PartitionLog, batch: bytes, error: ErrorCode) -> None:
        assert refused(log.append_as_leader(batch, 0)).error is error
        assert log.size_bytes == 0

    def test_batches_larger_than_a_segment_are_refused(self, logs: LogBuilder) -> None:
        log = logs.open(LogConfig(segment_bytes=100))

        assert refused(log.append_as_leader(logs.batch("x" * 100), 0)).error is ErrorCode.RECORD_LIST_TOO_LARGE


def test_an_answer_of_refusal_is_a_sentence(logs: LogBuilder, log: PartitionLog) -> None:
    answer = log.append_as_leader(logs.batch("a")[:-1], 0)

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

        assert refused(log.append_as_leader(late, 0)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_an_old_epoch_is_refused(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a", producer=(1, 5, 0))
        old = logs.batch("b", producer_id=1, producer_epoch=4, base_sequence=1)

        assert refused(log.append_as_leader(old, 0)).error is ErrorCode.INVALID_PRODUCER_EPOCH

    def test_silent_producers_are_forgotten(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a", producer=(1, 0, 0))
        logs.clock.advance(24 * 60 * 60 * 1000)

        assert log.expire_producers() == 1
        assert log.producers.producer(1) is None


class TestAppendingAsFollower:
    def test_takes_offsets_and_epochs_as_they_come(self, logs: LogBuilder, log: PartitionLog) -> None:
        accepted(log.append_as_follower(logs.batch("a", "b", leader_epoch=2)))
        accepted(log.append_as_follower(logs.batch("c", base_offset=7, leader_epoch=3)))

        assert (log.log_end_offset, log.end_offset_for_epoch(2)) == (8, (2, 7))
        assert [record.offset for record in logs.records(log)] == [0, 1, 7]

    def test_leaves_out_what_a_fetch_has_cut_off(self, logs: LogBuilder, log: PartitionLog) -> None:
        info = accepted(log.append_as_follower(logs.batch("a") + logs.batch("b", base_offset=1)[:-3]))

        assert (info.last_offset, log.log_end_offset) == (0, 1)
        assert log.size_bytes == len(logs.batch("a"))

    def test_of_nothing_whole_is_no_append(self, logs: LogBuilder, log: PartitionLog) -> None:
        info = accepted(log.append_as_follower(logs.batch("a")[:-1]))

        assert (info.first_offset, info.last_offset, log.size_bytes) == (0, -1, 0)

    def test_refuses_offsets_that_the_log_has(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a", "b")

        answer = refused(log.append_as_follower(logs.batch("x", base_offset=1)))

        assert answer.error is ErrorCode.OFFSET_OUT_OF_RANGE

    def test_refuses_offsets_that_fall(self, logs: LogBuilder, log: PartitionLog) -> None:
        both = logs.batch("a", base_offset=5) + logs.batch("b", base_offset=4)

        assert refused(log.append_as_follower(both)).error is ErrorCode.INVALID_RECORD
        assert log.size_bytes == 0

    def test_checks_the_checksum(self, logs: LogBuilder, log: PartitionLog) -> None:
        batch = logs.batch("a")
        batch[-1] ^= 1

        assert refused(log.append_as_follower(batch)).error is ErrorCode.CORRUPT_MESSAGE

    def test_rolls_where_an_offset_is_too_far_for_the_segment(self, logs: LogBuilder, log: PartitionLog) -> None:
        far = RELATIVE_OFFSET_MAX + 10
        accepted(log.append_as_follower(logs.batch("a") + logs.batch("b", base_offset=far)))

        assert log.segment_base_offsets == [0, far]
        assert [record.offset for record in logs.records(log)] == [0, far]

    def test_spreads_a_fetch_that_is_larger_than_its_own_segments(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        fetched = b"".join(bytes(logs.batch("x" * 50, base_offset=number)) for number in range(10))

        accepted(log.append_as_follower(fetched))

        assert len(log.segment_base_offsets) > 2
        assert len(logs.values(log)) == 10

    def test_does_not_judge_producers(self, logs: LogBuilder, log: PartitionLog) -> None:
        batch = logs.batch("a", producer_id=1, producer_epoch=0, base_sequence=17)

        accepted(log.append_as_follower(batch))

        state = log.producers.producer(1)
        assert state is not None
        assert state.last_sequence == 17


class TestAppendingAsRaftLeader:
    def test_keeps_offsets_and_insists_on_the_epoch(self, logs: LogBuilder, log: PartitionLog) -> None:
        accepted(log.append_as_raft_leader(logs.batch("a", leader_epoch=4), 4))

        assert refused(log.append_as_raft_leader(logs.batch("b", base_offset=1, leader_epoch=3), 4)).error
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
        accepted(log.append_as_leader(marker(3), 0, origin=AppendOrigin.COORDINATOR))

        answer = refused(log.append_as_leader(marker(2), 0, origin=AppendOrigin.COORDINATOR))

        assert answer.error is ErrorCode.TRANSACTION_COORDINATOR_FENCED

    @pytest.mark.parametrize("config", [LogConfig(), SMALL_SEGMENTS, LogConfig(message_timestamp_type=APPEND_TIME)])
    def test_a_marker_that_is_known_goes_the_way_of_any_other(self, config: LogConfig) -> None:
        def history(*, is_known: bool) -> tuple[list[object], dict[str, bytes]]:
            logs = LogBuilder()
            log = logs.open(config)
            outcomes: list[object] = []
            for number in range(24):
                if number % 4:
                    logs.append(log, "a", epoch=5, producer=(1, number, 0), is_transactional=True)
                # The last ones are of a replaced coordinator, of a fenced producer, and of an end that raises no epoch.
                epoch = number - (number == 22)
                version = 2 * (number == 23)
                end = EndTransactionMarker(number % 2 == 0, 3 - (number == 21), START_MS + number)
                batch = build_end_txn_marker(
                    ControlType.COMMIT if end.is_commit else ControlType.ABORT,
                    producer_id=1,
                    producer_epoch=epoch,
                    coordinator_epoch=end.coordinator_epoch,
                    timestamp=end.timestamp,
                )
                if is_known:
                    outcomes.append(log.append_marker(batch, end, 1, epoch, 5, version))
                    continue
                answer = log.append_as_leader(batch, 5, origin=AppendOrigin.COORDINATOR, transaction_version=version)
                outcomes.append(answer if isinstance(answer, AppendRefused) else answer.first_offset)
            assert [isinstance(each, AppendRefused) for each in outcomes] == [False] * 21 + [True] * 3
            outcomes += [log.first_unstable_offset, log.aborted_transactions(0, log.log_end_offset)]
            logs.stop(log)
            names = logs.disk.list_directory(LOG_PATH)
            return outcomes, {name: logs.disk.read_bytes(f"{LOG_PATH}/{name}", 1 << 20) for name in names}

        assert history(is_known=True) == history(is_known=False)

    def test_a_control_batch_that_is_no_marker_is_refused(self, log: PartitionLog) -> None:
        batch = build_batch(
            [Record(0, 1, b"\0\0\0\x01", b"\0")],
            producer_id=1,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        )

        answer = refused(log.append_as_leader(batch, 0, origin=AppendOrigin.COORDINATOR))

        assert answer.error is ErrorCode.CORRUPT_MESSAGE

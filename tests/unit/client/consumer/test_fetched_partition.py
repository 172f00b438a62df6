"""What is taken out of a fetch: whole batches in, the wanted records out, and the position behind all of it."""

from __future__ import annotations

import pytest

from tests.support.kernel_twins import twin  # noqa: F401 - a fixture
from tidelog.client.consumer.fetched_partition import FetchedPartition
from tidelog.client.consumer.records import ConsumerRecord
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.compression import Compression
from tidelog.wire.control_records import ControlType, build_end_txn_marker
from tidelog.wire.messages.fetch import AbortedTransaction
from tidelog.wire.record_batch import TimestampType
from tidelog.wire.records import Record, build_batch

PLACE = TopicPartition("orders", 3)

pytestmark = pytest.mark.usefixtures("twin")


def batch(first: int, count: int, *, producer_id: int = -1, codec: Compression = Compression.NONE) -> bytes:
    rows = [Record(first + each, 1000 + each, b"k", b"%d" % (first + each), (("h", None),)) for each in range(count)]
    return build_batch(
        rows,
        base_offset=first,
        producer_id=producer_id,
        is_transactional=producer_id >= 0,
        codec=codec,
        leader_epoch=7,
    )


def marker(offset: int, producer_id: int, control_type: ControlType) -> bytes:
    return build_end_txn_marker(
        control_type, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=0, base_offset=offset
    )


def offsets(rows: list[ConsumerRecord[object, object]]) -> list[int]:
    return [row.offset for row in rows]


def test_a_record_says_where_it_was_read() -> None:
    fetched = FetchedPartition(PLACE, 5, batch(5, 1))

    assert fetched.take_rows(10) == [
        ConsumerRecord("orders", 3, 5, 1000, TimestampType.CREATE_TIME, b"k", b"5", (("h", None),))
    ]
    assert fetched.last_leader_epoch == 7


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_reading_begins_in_the_middle_of_a_batch_and_goes_on_in_steps(codec: Compression) -> None:
    fetched = FetchedPartition(PLACE, 3, batch(0, 6, codec=codec) + batch(6, 4, codec=codec))

    steps = [(offsets(fetched.take_rows(4)), fetched.next_offset) for _ in range(3)]

    assert steps == [([3, 4, 5, 6], 7), ([7, 8, 9], 10), ([], 10)]
    assert fetched.is_drained
    assert fetched.end_offset == 10


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    fetched = FetchedPartition(PLACE, 0, batch(0, 2) + batch(2, 2)[:-1])

    assert offsets(fetched.take_rows(10)) == [0, 1]
    assert fetched.end_offset == fetched.next_offset == 2


def test_aborted_transactions_and_markers_are_passed_over() -> None:
    log = (
        batch(0, 2, producer_id=1)
        + batch(2, 2, producer_id=2)
        + marker(4, 1, ControlType.ABORT)
        + batch(5, 1, producer_id=1)
        + marker(6, 2, ControlType.COMMIT)
        + marker(7, 1, ControlType.COMMIT)
    )
    aborted = [AbortedTransaction(producer_id=1, first_offset=0)]

    committed = FetchedPartition(PLACE, 0, log, aborted=aborted)
    everything = FetchedPartition(PLACE, 0, log)

    assert offsets(committed.take_rows(10)) == [2, 3, 5]
    assert committed.next_offset == 8, "the position is behind the markers"
    assert offsets(everything.take_rows(10)) == [0, 1, 2, 3, 5]


def test_columns_leave_out_the_same_and_go_on_after_rows() -> None:
    log = batch(0, 3) + batch(3, 2, producer_id=1) + marker(5, 1, ControlType.ABORT) + batch(6, 2)
    fetched = FetchedPartition(PLACE, 0, log, aborted=[AbortedTransaction(producer_id=1, first_offset=3)])
    assert offsets(fetched.take_rows(1)) == [0]

    taken = fetched.take_columns()

    assert taken is not None
    assert taken[0].column("offset").to_pylist() == [1, 2, 6, 7]
    assert fetched.next_offset == 8
    assert fetched.is_drained
    assert fetched.take_columns() is None


def test_damage_shows_after_what_lies_before_it() -> None:
    damaged = bytearray(batch(2, 2))
    damaged[-1] ^= 0xFF
    fetched = FetchedPartition(PLACE, 0, batch(0, 2) + bytes(damaged) + batch(4, 1))

    assert offsets(fetched.take_rows(10)) == [0, 1]
    for _ in range(2):
        with pytest.raises(CorruptBatchError, match="checksum"):
            fetched.take_rows(10)
        assert fetched.next_offset == 2


def test_without_the_check_a_wrong_checksum_passes() -> None:
    damaged = bytearray(batch(0, 1))
    damaged[17] ^= 0xFF
    assert offsets(FetchedPartition(PLACE, 0, bytes(damaged), check_crcs=False).take_rows(9)) == [0]


def test_bytes_that_are_no_batch_are_damage_too() -> None:
    fetched = FetchedPartition(PLACE, 0, batch(0, 1) + bytes(100))

    assert offsets(fetched.take_rows(10)) == [0]
    with pytest.raises(CorruptBatchError):
        fetched.take_rows(10)


def test_a_compacted_batch_without_its_last_records_is_passed_whole() -> None:
    gap = build_batch([Record(0, 0, None, b"0")], base_offset=0, last_offset=9)
    fetched = FetchedPartition(PLACE, 0, gap)

    assert offsets(fetched.take_rows(5)) == [0]
    assert fetched.next_offset == 10


def test_columns_stay_in_front_of_a_damaged_batch_and_pass_it_when_that_is_said() -> None:
    pytest.importorskip("pyarrow")
    damaged = batch(2, 2)[:-1] + b"\xff"
    fetched = FetchedPartition(PLACE, 0, batch(0, 2) + damaged + batch(4, 2))

    for _ in range(2):
        with pytest.raises(CorruptBatchError):
            fetched.take_columns()
        assert fetched.next_offset == 0
    first = fetched.take_columns(batches_max=1)
    with pytest.raises(CorruptBatchError):
        fetched.take_columns(batches_max=1)
    assert fetched.skip_damaged() == 4
    last = fetched.take_columns()

    assert first is not None
    assert last is not None
    assert [each[0].column("offset").to_pylist() for each in (first, last)] == [[0, 1], [4, 5]]

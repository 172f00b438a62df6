"""What the batches of a log say about its producers."""

from __future__ import annotations

import pytest

from tidelog.storage.producer_snapshot import ProducerSnapshotEntry
from tidelog.storage.verification.expected_producers import ExpectedProducers
from tidelog.storage.verification.index_scan import TransactionEntry
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.control_records import ControlType, build_end_txn_marker
from tidelog.wire.record_batch import read_header
from tidelog.wire.records import Record, build_batch, build_empty_batch


def add(expected: ExpectedProducers, batch: bytes) -> None:
    expected.add(read_header(batch), batch)


def records(
    base_offset: int,
    count: int = 1,
    *,
    producer: int = 7,
    epoch: int = 0,
    sequence: int = 0,
    transactional: bool = False,
) -> bytes:
    return build_batch(
        [Record(base_offset + number, 1000 + base_offset + number, None, b"") for number in range(count)],
        base_offset=base_offset,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )


def marker(offset: int, kind: ControlType, *, producer: int = 7, epoch: int = 0) -> bytes:
    return build_end_txn_marker(
        kind,
        producer_id=producer,
        producer_epoch=epoch,
        coordinator_epoch=4,
        timestamp=9000,
        base_offset=offset,
    )


def test_a_batch_without_a_producer_changes_nothing() -> None:
    expected = ExpectedProducers()
    add(expected, build_batch([Record(0, 1, None, b"")]))
    assert expected.producers == {}


def test_the_last_batch_counts() -> None:
    expected = ExpectedProducers()
    add(expected, records(0, 3))
    add(expected, records(5, 2, sequence=3))
    assert expected.producers == {7: ProducerSnapshotEntry(7, 0, 4, 6, 1, 1006, -1, -1)}


def test_a_transaction_begins_with_its_first_batch_and_ends_with_its_marker() -> None:
    expected = ExpectedProducers()
    add(expected, records(0, 2, transactional=True))
    add(expected, records(2, 2, sequence=2, transactional=True))
    assert expected.producers[7].transaction_first_offset == 0

    add(expected, marker(4, ControlType.COMMIT))

    assert expected.producers == {7: ProducerSnapshotEntry(7, 0, 3, 3, 1, 9000, 4, -1)}
    assert expected.take_aborted() == []


def test_a_marker_of_another_epoch_forgets_the_last_batch() -> None:
    expected = ExpectedProducers()
    add(expected, records(0, 2, transactional=True))
    add(expected, marker(2, ControlType.COMMIT, epoch=1))
    assert expected.producers == {7: ProducerSnapshotEntry(7, 1, -1, -1, 0, 9000, 4, -1)}


def test_an_abort_knows_which_transaction_holds_back_the_last_stable_offset() -> None:
    expected = ExpectedProducers()
    add(expected, records(0, producer=8, transactional=True))
    add(expected, records(1, producer=7, transactional=True))
    add(expected, marker(2, ControlType.ABORT, producer=7))
    add(expected, marker(3, ControlType.ABORT, producer=8))

    assert expected.take_aborted() == [TransactionEntry(0, 7, 1, 2, 0), TransactionEntry(0, 8, 0, 3, 4)]
    assert expected.take_aborted() == []


def test_an_abort_of_nothing_aborts_nothing() -> None:
    expected = ExpectedProducers()
    add(expected, marker(0, ControlType.ABORT))
    assert expected.take_aborted() == []
    assert expected.producers[7].coordinator_epoch == 4


def test_a_snapshot_is_gone_on_from() -> None:
    expected = ExpectedProducers([ProducerSnapshotEntry(7, 0, 1, 11, 1, 500, 2, 10)])
    add(expected, marker(12, ControlType.ABORT))
    assert expected.take_aborted() == [TransactionEntry(0, 7, 10, 12, 13)]


def test_a_control_batch_without_its_marker_changes_nothing() -> None:
    expected = ExpectedProducers()
    add(
        expected,
        build_empty_batch(base_offset=0, last_offset=0, timestamp=1, producer_id=7, producer_epoch=0, is_control=True),
    )
    assert expected.producers == {}


def test_a_marker_that_is_none_is_refused() -> None:
    expected = ExpectedProducers()
    batch = build_batch(
        [Record(0, 1, b"x", b"")], producer_id=7, producer_epoch=0, is_transactional=True, is_control=True
    )
    with pytest.raises(CorruptBatchError):
        add(expected, batch)
    assert expected.producers == {}

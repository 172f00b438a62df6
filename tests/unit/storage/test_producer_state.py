"""What a partition remembers of its producers, in memory."""

from __future__ import annotations

import pytest

from tests.unit.storage.disks import Place, simulated_place
from tests.unit.storage.producers import EXPIRATION_MS, ProducerLog, batch, checked, control_batch
from tidelog.model.bugs import BugError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset, ProducerId
from tidelog.storage.append import AppendRule
from tidelog.storage.producer import NO_TRANSACTION, Duplicate, EndTransactionMarker, ProducerState
from tidelog.storage.transaction_index import AbortedTransaction

INT32_MAX = 2**31 - 1
LEADER, COORDINATOR, FOLLOWER = AppendRule.LEADER, AppendRule.COORDINATOR, AppendRule.FOLLOWER


@pytest.fixture
def log() -> ProducerLog:
    place: Place = simulated_place()
    return ProducerLog(place.files, place.directory)


# Sequences and duplicates


def test_a_batch_that_continues_the_sequence_is_taken(log: ProducerLog) -> None:
    assert isinstance(log.append(batch(sequence=0, count=5)), ProducerState)
    assert isinstance(log.append(batch(sequence=5, count=2)), ProducerState)

    state = log.table.producer(1)
    assert state is not None
    assert (state.last_sequence, state.last_offset, state.epoch) == (6, 6, 0)
    assert len(log.table) == 1


@pytest.mark.parametrize("sequence", [1, 4, 6, 100, INT32_MAX])
def test_a_gap_or_a_step_back_is_out_of_order(log: ProducerLog, sequence: int) -> None:
    log.append(batch(sequence=0, count=5))

    assert log.append(batch(sequence=sequence)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.end_offset == 5


def test_each_of_the_last_five_batches_is_known_again_and_gets_its_first_answer(log: ProducerLog) -> None:
    for number in range(7):
        log.append(batch(sequence=3 * number, count=3, timestamp=100 + number))

    answers = [log.append(batch(sequence=3 * number, count=3)) for number in range(7)]

    assert answers[:2] == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 2
    assert answers[2:] == [Duplicate(Offset(3 * n), Offset(3 * n + 2), 100 + n) for n in range(2, 7)]
    assert log.end_offset == 21


def test_a_batch_of_another_length_is_no_duplicate(log: ProducerLog) -> None:
    log.append(batch(sequence=0, count=5))

    assert log.append(batch(sequence=0, count=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(batch(sequence=1, count=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("producer_epoch", [0, 5])
def test_an_unknown_producer_may_begin_anywhere(log: ProducerLog, producer_epoch: int) -> None:
    assert isinstance(log.append(batch(sequence=77, epoch=producer_epoch)), ProducerState)
    assert isinstance(log.append(batch(sequence=78, epoch=producer_epoch)), ProducerState)
    assert log.append(batch(sequence=80, epoch=producer_epoch)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_to_zero_after_the_largest(log: ProducerLog) -> None:
    log.append(batch(sequence=INT32_MAX - 1, count=2))
    assert isinstance(log.append(batch(sequence=0, count=2)), ProducerState)

    assert log.append(batch(sequence=0, count=2)) == Duplicate(Offset(2), Offset(3), 0)


def test_a_batch_may_wrap_within_itself_and_is_still_known_again(log: ProducerLog) -> None:
    log.append(batch(sequence=INT32_MAX - 1, count=5))

    state = log.table.producer(1)
    assert state is not None
    assert state.last_sequence == 2
    assert log.append(batch(sequence=INT32_MAX - 1, count=5)) == Duplicate(Offset(0), Offset(4), 0)
    assert isinstance(log.append(batch(sequence=3)), ProducerState)


def test_a_new_epoch_begins_at_zero_and_forgets_the_batches_before(log: ProducerLog) -> None:
    log.append(batch(sequence=0, count=5))

    assert log.append(batch(epoch=1, sequence=5)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(log.append(batch(epoch=1, sequence=0, count=5)), ProducerState)
    assert log.append(batch(epoch=0, sequence=5)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.append(batch(epoch=0, sequence=0, count=5)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.append(batch(epoch=1, sequence=0, count=5)) == Duplicate(Offset(5), Offset(9), 0)


def test_a_coordinator_has_no_sequence_but_an_epoch(log: ProducerLog) -> None:
    assert isinstance(log.append(batch(epoch=3, sequence=-1), COORDINATOR), ProducerState)
    assert isinstance(log.append(batch(epoch=3, sequence=-1), COORDINATOR), ProducerState)
    assert log.append(batch(epoch=2, sequence=-1), COORDINATOR) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_batch_is_known_again_behind_one_without_a_sequence(log: ProducerLog) -> None:
    log.append(batch(sequence=0, count=2, timestamp=7))
    log.append(batch(sequence=-1, count=3), COORDINATOR)

    # It follows the -1 of the batch before it, and is the first one all the same.
    assert log.append(batch(sequence=0, count=2)) == Duplicate(Offset(0), Offset(1), 7)
    assert isinstance(log.append(batch(sequence=0, count=4)), ProducerState)


def test_a_batch_is_known_again_where_a_sequence_began_anew(log: ProducerLog) -> None:
    log.append(batch(sequence=0, count=2))
    log.append(batch(sequence=2, count=3, timestamp=7))
    log.append(batch(sequence=0, count=2), FOLLOWER)

    assert log.append(batch(sequence=2, count=3)) == Duplicate(Offset(2), Offset(4), 7)


def test_what_is_replicated_is_not_judged(log: ProducerLog) -> None:
    log.append(batch(epoch=3, sequence=9), FOLLOWER)
    log.append(batch(epoch=3, sequence=7), FOLLOWER)
    log.append(batch(epoch=1, sequence=100), FOLLOWER)

    state = log.table.producer(1)
    assert state is not None
    assert (state.epoch, state.last_sequence, len(state.batches)) == (1, 100, 1)
    assert log.end_offset == 3


def test_to_judge_changes_nothing(log: ProducerLog) -> None:
    log.append(batch(sequence=0, transactional=True))

    for _ in range(2):
        assert isinstance(log.table.judge(checked(batch(sequence=1, transactional=True)), LEADER), ProducerState)
        marker = checked(control_batch(), marker=EndTransactionMarker(True, 0, 0))
        assert isinstance(log.table.judge(marker, AppendRule.MARKER), ProducerState)
        assert isinstance(log.table.judge(checked(batch(producer_id=2, transactional=True)), LEADER), ProducerState)

    state = log.table.producer(1)
    assert state is not None
    assert (state.last_sequence, state.transaction_first_offset) == (0, 0)
    assert log.table.producer(2) is None
    assert log.table.first_unstable_offset == 0


def test_of_more_than_five_batches_the_last_five_are_kept(log: ProducerLog) -> None:
    for number in range(8):
        log.append(batch(sequence=number), FOLLOWER)

    state = log.table.producer(1)
    assert state is not None
    assert [known.last_sequence for known in state.batches] == [3, 4, 5, 6, 7]


# Transactions


def test_a_transaction_holds_the_first_unstable_offset_until_its_marker_is_replicated(log: ProducerLog) -> None:
    log.append(batch(producer_id=9))
    log.append(batch(sequence=0, count=3, transactional=True))
    log.append(batch(sequence=3, transactional=True))
    assert log.table.first_unstable_offset == 1
    assert log.table.has_ongoing_transaction(1, 0)
    assert not log.table.has_ongoing_transaction(1, 1)
    assert not log.table.has_ongoing_transaction(9, 0)

    judged = log.end_transaction(commit=True)

    assert isinstance(judged, ProducerState)
    assert judged.transaction_first_offset == NO_TRANSACTION
    assert dict(log.table.unreplicated) == {1: 5}
    assert not log.table.has_ongoing_transaction(1, 0)
    watermarks = []
    for high_watermark in (4, 5, 6):
        log.table.on_high_watermark_updated(high_watermark)
        watermarks.append(log.table.first_unstable_offset)
    assert watermarks == [1, 1, None]


def test_the_oldest_of_open_and_unreplicated_transactions_counts(log: ProducerLog) -> None:
    for producer_id in (1, 2, 3):
        log.append(batch(producer_id, transactional=True))
    log.end_transaction(2, commit=True)
    log.end_transaction(1, commit=False)
    first = [log.table.first_unstable_offset]
    log.table.on_high_watermark_updated(4)
    first.append(log.table.first_unstable_offset)
    log.table.on_high_watermark_updated(5)
    first.append(log.table.first_unstable_offset)
    log.append(batch(1, sequence=1, transactional=True))
    log.end_transaction(3, commit=True)
    first.append(log.table.first_unstable_offset)
    log.table.on_high_watermark_updated(7)
    first.append(log.table.first_unstable_offset)

    assert first == [0, 0, 2, 2, 5]
    assert log.table.first_undecided_offset == 5


def test_an_abort_is_indexed_with_the_last_stable_offset_of_that_moment(log: ProducerLog) -> None:
    for producer_id in (1, 2):
        log.append(batch(producer_id, transactional=True))

    log.end_transaction(1, commit=False)
    log.end_transaction(2, commit=False)

    assert log.aborted == [(1, 0, 2, 1), (2, 1, 3, 4)]


def test_a_marker_without_records_before_it_ends_nothing(log: ProducerLog) -> None:
    judged = log.end_transaction(1, commit=True, epoch=4, coordinator_epoch=2, timestamp=55)

    assert isinstance(judged, ProducerState)
    assert not log.table.unreplicated
    state = log.table.producer(1)
    assert state is not None
    assert (state.epoch, state.coordinator_epoch, state.last_timestamp, state.last_offset) == (4, 2, 55, -1)
    assert log.append(batch(epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert isinstance(log.append(batch(epoch=4, sequence=0)), ProducerState)


def test_the_sequence_goes_on_behind_a_marker_of_the_same_epoch(log: ProducerLog) -> None:
    log.append(batch(sequence=0, count=5, transactional=True))
    log.end_transaction(commit=True)

    assert isinstance(log.append(batch(sequence=5, transactional=True)), ProducerState)
    assert log.table.first_undecided_offset == 6


def test_an_old_coordinator_is_fenced(log: ProducerLog) -> None:
    log.append(batch(transactional=True))
    log.end_transaction(commit=True, coordinator_epoch=5)
    log.append(batch(sequence=1, transactional=True))

    assert log.end_transaction(commit=False, coordinator_epoch=4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert isinstance(log.end_transaction(commit=False, coordinator_epoch=5), ProducerState)
    replicated = log.end_transaction(commit=False, coordinator_epoch=1, rule=FOLLOWER)
    assert isinstance(replicated, ProducerState)


def test_a_marker_of_an_old_epoch_is_refused(log: ProducerLog) -> None:
    log.append(batch(epoch=3, transactional=True))

    assert log.end_transaction(commit=True, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.table.has_ongoing_transaction(1, 3)


def test_with_version_2_a_marker_raises_the_epoch_or_repeats_one_that_did(log: ProducerLog) -> None:
    log.append(batch(epoch=3, transactional=True))

    assert log.end_transaction(commit=True, epoch=3, transaction_version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert isinstance(log.end_transaction(commit=True, epoch=4, transaction_version=2), ProducerState)
    assert isinstance(log.end_transaction(commit=True, epoch=4, transaction_version=2), ProducerState)
    assert log.end_transaction(commit=True, epoch=3, transaction_version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert isinstance(log.append(batch(epoch=4, sequence=0, transactional=True)), ProducerState)


def test_at_the_last_epoch_there_is_nothing_to_raise_it_to(log: ProducerLog) -> None:
    log.append(batch(epoch=32767, transactional=True))

    assert isinstance(log.end_transaction(commit=True, epoch=32767, transaction_version=2), ProducerState)


def test_within_a_transaction_every_batch_is_of_it(log: ProducerLog) -> None:
    log.append(batch(sequence=0, transactional=True))

    assert log.append(batch(sequence=1)) is ErrorCode.INVALID_TXN_STATE
    assert log.append(batch(sequence=1), FOLLOWER) is ErrorCode.INVALID_TXN_STATE


def test_a_transaction_may_end_and_another_begin(log: ProducerLog) -> None:
    log.append(batch(transactional=True))
    log.end_transaction(commit=False, rule=FOLLOWER)
    log.append(batch(sequence=1, transactional=True), FOLLOWER)

    assert log.aborted == [AbortedTransaction(ProducerId(1), Offset(0), Offset(1), Offset(2))]
    assert log.table.first_undecided_offset == 2
    assert log.table.first_unstable_offset == 0
    log.table.on_high_watermark_updated(2)
    assert log.table.first_undecided_offset == log.table.first_unstable_offset


def test_to_end_what_is_not_open_is_a_bug(log: ProducerLog) -> None:
    log.append(batch(transactional=True))
    log.table.ongoing.clear()

    with pytest.raises(BugError, match="was not open"):
        log.end_transaction(commit=True)


def test_to_begin_before_what_is_open_is_a_bug(log: ProducerLog) -> None:
    log.append(batch(transactional=True))
    log.end_offset = 0

    with pytest.raises(BugError, match="begins at offset 0"):
        log.append(batch(producer_id=2, transactional=True))


# Time


def test_a_silent_producer_expires_unless_its_transaction_is_open(log: ProducerLog) -> None:
    log.append(batch(1, timestamp=100))
    log.append(batch(2, timestamp=100, transactional=True))
    log.append(batch(3, timestamp=101))

    assert log.table.remove_expired(100 + EXPIRATION_MS - 1) == 0
    assert log.table.remove_expired(100 + EXPIRATION_MS) == 1

    assert sorted(state.producer_id for state in log.table.each_producer()) == [2, 3]
    assert isinstance(log.append(batch(1, sequence=70)), ProducerState)


def test_the_start_of_the_log_takes_ended_transactions_along(log: ProducerLog) -> None:
    log.append(batch(transactional=True))
    log.end_transaction(commit=True)

    log.table.on_log_start_offset_incremented(2)

    assert log.table.first_unstable_offset is None
    assert log.table.map_end_offset == 2
    log.table.on_log_start_offset_incremented(10)
    assert log.table.map_end_offset == 10
    assert len(log.table) == 1

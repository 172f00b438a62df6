"""Transactional batches enter a log only while their transaction's coordinator is known to know of it."""

from __future__ import annotations

import pytest

from tests.unit.storage.disks import Place, simulated_place
from tests.unit.storage.producers import EXPIRATION_MS, Judged, ProducerLog, batch
from tidelog.model.errors import ErrorCode
from tidelog.storage.append import AppendRule
from tidelog.storage.producer import Duplicate, ProducerState
from tidelog.storage.verification_guard import NO_GUARD
from tidelog.wire.record_batch import BatchHeader

LEADER, COORDINATOR, FOLLOWER = AppendRule.LEADER, AppendRule.COORDINATOR, AppendRule.FOLLOWER


class GuardedLog(ProducerLog):
    """A log that asks for guards."""

    def ask(self, epoch: int = 0, sequence: int = 0, *, now_ms: int = 0, raises_epochs: bool = False) -> int:
        guard = self.table.begin_verification(1, epoch, sequence, now_ms, raises_epochs=raises_epochs)
        assert not isinstance(guard, ErrorCode)
        return guard

    def append_with(self, guard: int | None, wanted: BatchHeader, rule: AppendRule = LEADER) -> Judged:
        return self.append(wanted, rule, guard=guard)


@pytest.fixture
def log() -> GuardedLog:
    place: Place = simulated_place()
    return GuardedLog(place.files, place.directory)


def test_the_first_batch_of_a_transaction_needs_its_guard(log: GuardedLog) -> None:
    first = batch(transactional=True)

    assert log.append_with(NO_GUARD, first) is ErrorCode.INVALID_TXN_STATE
    guard = log.ask()
    assert log.append_with(guard + 1, first) is ErrorCode.INVALID_TXN_STATE
    assert isinstance(log.append_with(guard, first), ProducerState)


def test_an_open_transaction_has_nothing_to_ask(log: GuardedLog) -> None:
    log.append_with(log.ask(), batch(transactional=True))

    assert log.ask() == NO_GUARD
    assert isinstance(log.append_with(NO_GUARD, batch(sequence=1, transactional=True)), ProducerState)


def test_a_marker_takes_the_guard_away(log: GuardedLog) -> None:
    guard = log.ask()
    log.end_transaction(commit=False)

    assert log.append_with(guard, batch(transactional=True)) is ErrorCode.INVALID_TXN_STATE
    again = log.ask()
    assert again != guard
    assert log.append_with(guard, batch(transactional=True)) is ErrorCode.INVALID_TXN_STATE
    assert isinstance(log.append_with(again, batch(transactional=True)), ProducerState)


def test_a_retry_asks_with_the_same_guard(log: GuardedLog) -> None:
    assert log.ask() == log.ask()


def test_an_older_epoch_is_fenced_before_anybody_is_asked(log: GuardedLog) -> None:
    log.append_with(log.ask(epoch=3), batch(epoch=3, transactional=True))

    assert log.table.begin_verification(1, 2, 0, 0, raises_epochs=True) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.append_with(NO_GUARD, batch(epoch=2, transactional=True)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_newer_epoch_does_not_go_on_with_the_open_transaction_unasked(log: GuardedLog) -> None:
    log.append_with(log.ask(), batch(transactional=True))

    assert log.append_with(NO_GUARD, batch(epoch=1, transactional=True)) is ErrorCode.INVALID_TXN_STATE
    assert isinstance(log.append_with(log.ask(epoch=1), batch(epoch=1, transactional=True)), ProducerState)


def test_a_batch_does_not_overtake_one_that_is_asked_about(log: GuardedLog) -> None:
    log.ask(sequence=0)
    guard = log.ask(sequence=5)

    assert log.append_with(guard, batch(sequence=5, transactional=True)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(log.append_with(guard, batch(sequence=0, transactional=True)), ProducerState)


def test_the_lowest_sequence_is_that_of_the_newest_epoch(log: GuardedLog) -> None:
    log.ask(epoch=0, sequence=0)
    guard = log.ask(epoch=1, sequence=7)
    log.ask(epoch=0, sequence=3)

    assert isinstance(log.append_with(guard, batch(epoch=1, sequence=7, transactional=True)), ProducerState)


def test_with_epochs_that_rise_an_unknown_producer_begins_at_zero(log: GuardedLog) -> None:
    old = log.append_with(log.ask(sequence=4), batch(sequence=4, transactional=True))
    assert isinstance(old, ProducerState)
    log.end_transaction(commit=True, epoch=1)

    guard = log.ask(epoch=1, sequence=4, raises_epochs=True)
    late = batch(epoch=1, sequence=4, transactional=True)
    assert log.append_with(guard, late) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_duplicate_is_answered_whatever_its_guard(log: GuardedLog) -> None:
    log.append_with(log.ask(), batch(transactional=True))
    log.end_transaction(commit=True)

    assert isinstance(log.append_with(NO_GUARD, batch(transactional=True)), Duplicate)


@pytest.mark.parametrize("guard", [NO_GUARD, None])
def test_batches_outside_of_transactions_need_none(log: GuardedLog, guard: int | None) -> None:
    assert isinstance(log.append_with(guard, batch()), ProducerState)


def test_nobody_is_asked_where_verification_is_off(log: GuardedLog) -> None:
    assert isinstance(log.append_with(None, batch(transactional=True)), ProducerState)


def test_what_a_coordinator_appends_in_a_transaction_needs_a_guard_as_well(log: GuardedLog) -> None:
    offsets = batch(sequence=-1, transactional=True)

    assert log.append_with(NO_GUARD, offsets, COORDINATOR) is ErrorCode.INVALID_TXN_STATE
    assert isinstance(log.append_with(log.ask(sequence=-1), offsets, COORDINATOR), ProducerState)


def test_a_question_that_was_never_answered_is_forgotten_with_the_silent_producers(log: GuardedLog) -> None:
    guard = log.ask(now_ms=10)

    log.table.remove_expired(9 + EXPIRATION_MS)
    assert log.ask(now_ms=50) == guard
    log.table.remove_expired(10 + EXPIRATION_MS)
    assert log.ask(now_ms=50) != guard


def test_what_is_asked_about_is_not_overtaken_outside_of_the_transaction_either(log: GuardedLog) -> None:
    log.append_with(None, batch())
    log.ask(sequence=0)
    next_one = batch(sequence=1)

    assert log.append_with(None, next_one) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

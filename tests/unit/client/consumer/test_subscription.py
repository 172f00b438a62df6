"""Positions and states of partitions, and the one way in which they are chosen."""

from __future__ import annotations

import re

import pytest

from tidelog.client.consumer.errors import ConsumerStateError
from tidelog.client.consumer.subscription import (
    EARLIEST_TIMESTAMP,
    AssignedPartition,
    Mode,
    PartitionState,
    Subscription,
)
from tidelog.client.consumer.topic_partition import TopicPartition

P = TopicPartition("t", 0)


def reading(position: int = 10, epoch: int = 3) -> tuple[Subscription, AssignedPartition]:
    subscription = Subscription()
    subscription.assign([P])
    assigned = subscription.of(P)
    assigned.seek(position, epoch)
    subscription.leaders_changed({P: epoch})
    assigned.validated()
    return subscription, assigned


def test_one_way_of_choosing_at_a_time() -> None:
    subscription = Subscription()
    assert subscription.subscribe(["a"])
    assert not subscription.subscribe(["a"])
    with pytest.raises(ConsumerStateError, match=r"unsubscribe\(\)"):
        subscription.assign([P])
    subscription.unsubscribe()
    subscription.assign([P])
    assert subscription.mode is Mode.ASSIGNED


def test_a_pattern_matches_whole_names() -> None:
    subscription = Subscription()
    subscription.subscribe_pattern(re.compile("a.*"))

    assert subscription.match(["ab", "ba", "a"])
    assert subscription.topics == {"ab", "a"}
    assert not subscription.match(["a", "ab", "xa"])


def test_what_stays_assigned_keeps_its_position() -> None:
    subscription, assigned = reading()

    subscription.assign([P, ("t", 1)])

    assert subscription.of(("t", 0)) is assigned
    assert subscription.of(("t", 1)).state is PartitionState.INITIALIZING
    assert subscription.consumed() == {P: (10, 3)}


def test_a_new_leader_epoch_has_the_position_validated() -> None:
    subscription, assigned = reading()
    version = assigned.version

    subscription.leaders_changed({P: 4})

    assert assigned.state is PartitionState.AWAIT_VALIDATION
    assert not assigned.is_fetchable
    assert not subscription.is_current(assigned, version), "what is under way comes from the leader before"
    assert subscription.consumed() == {P: (10, 3)}


@pytest.mark.parametrize("epoch", [-1, 2, 3])
def test_an_old_or_unknown_epoch_changes_nothing(epoch: int) -> None:
    subscription, assigned = reading()

    subscription.leaders_changed({P: epoch})

    assert assigned.state is PartitionState.FETCHING


def test_a_position_of_unknown_epoch_is_not_validated() -> None:
    subscription, assigned = reading(epoch=-1)

    subscription.leaders_changed({P: 4})

    assert assigned.is_fetchable


def test_seek_and_reset_void_what_is_under_way() -> None:
    subscription, assigned = reading()
    version = assigned.version

    assigned.await_reset(EARLIEST_TIMESTAMP)
    assert not subscription.is_current(assigned, version)
    assert subscription.consumed() == {}
    assigned.seek(0)

    assert assigned.is_fetchable
    assert assigned.fetch_offset == assigned.position == 0


def test_a_partition_that_was_given_back_is_another_one() -> None:
    subscription, assigned = reading()
    subscription.assign([])
    subscription.assign([P])

    assert not subscription.is_current(assigned, assigned.version)
    with pytest.raises(ConsumerStateError, match="not assigned"):
        subscription.of(("t", 1))


def test_lag_is_known_after_a_fetch() -> None:
    _, assigned = reading()
    assert assigned.lag(reads_committed=False) is None
    assigned.high_watermark, assigned.last_stable_offset = 15, 12

    assert (assigned.lag(reads_committed=False), assigned.lag(reads_committed=True)) == (5, 2)


def test_a_topic_of_the_same_name_with_another_id_has_nothing_of_the_old_one() -> None:
    subscription = Subscription()
    subscription.assign([("orders", 0)])
    assigned = subscription.of(("orders", 0))
    assigned.is_of(b"a" * 16)
    assigned.seek(10, 3)

    # An answer that names no id, or the same one, changes nothing.
    assigned.is_of(bytes(16))
    assigned.is_of(b"a" * 16)
    assert subscription.consumed() == {("orders", 0): (10, 3)}

    assigned.is_of(b"b" * 16)

    assert subscription.consumed() == {}
    assert assigned.state is PartitionState.INITIALIZING

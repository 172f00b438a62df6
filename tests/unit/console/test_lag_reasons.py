"""Why a group lags: each sentence by its evidence, and none without."""

from __future__ import annotations

from dataclasses import replace

from tidelog.client.admin import GroupDescription, GroupMember, GroupState, GroupType, ProducerState
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.console.groups.group_facts import GroupFacts, OpenProducer, PartitionFacts
from tidelog.console.groups.lag_reasons import reasons_of_group, reasons_of_partition

MEMBER = GroupMember("m-1", None, "worker", "/10.0.0.1", (TopicPartition("orders", 0),))
GROUP = GroupDescription("billing", GroupType.CLASSIC, GroupState.STABLE, "consumer", "range", 1, (MEMBER,))
READING = PartitionFacts(
    TopicPartition("orders", 0), 90, 100, 100, 10, 1.0, MEMBER, 50.0, 50.0, 1.0, None, is_shared=False, has_members=True
)


def why(*partitions: PartitionFacts, group: GroupDescription = GROUP, state_s: float | None = None) -> str:
    return " | ".join(reasons_of_group(GroupFacts(group, partitions, state_s)))


def test_whoever_has_no_lag_gets_no_reason() -> None:
    caught_up = replace(READING, committed=100, lag=0)
    assert reasons_of_partition(caught_up) == []
    assert why(caught_up) == ""


def test_an_empty_group_has_stopped() -> None:
    empty = replace(GROUP, state=GroupState.EMPTY, members=())
    assert why(replace(READING, member=None), group=empty, state_s=42) == (
        "Stopped: the group has no members, seen so for 42 s, and 10 records wait."
    )
    assert reasons_of_partition(replace(READING, member=None, has_members=False)) == [
        "Nobody reads it: the group has no members."
    ]


def test_a_group_whose_members_nobody_tells_is_not_called_empty() -> None:
    streams = replace(GROUP, type=GroupType.STREAMS, members=())
    assert "no members" not in why(replace(READING, member=None, is_shared=True), group=streams)


def test_a_member_that_commits_nothing_has_stopped() -> None:
    stuck = replace(READING, stuck_s=35.0, commit_rate=0.0)
    assert "worker on /10.0.0.1 has committed nothing for 35 s" in reasons_of_partition(stuck)[0]
    assert "Stopped: worker on /10.0.0.1" in why(stuck)
    assert "Stopped" not in why(replace(READING, stuck_s=3.0))


def test_a_rebalance_is_told_with_or_without_lag() -> None:
    rebalancing = replace(GROUP, state=GroupState.PREPARING_REBALANCE)
    assert why(replace(READING, lag=0), group=rebalancing, state_s=9).startswith("Rebalancing: the group is Preparing")


def test_one_partition_with_most_of_the_lag_is_hot() -> None:
    cold = [replace(READING, partition=TopicPartition("orders", each), lag=5) for each in range(1, 4)]
    hot = replace(READING, lag=900, in_rate=1200.0, commit_rate=1300.0)
    assert "One hot partition: orders-0 has 900 of 915 records of lag, where 1200 records/s come in." in why(hot, *cold)
    assert "hot" not in why(*cold)


def test_a_partition_of_nobody_is_named() -> None:
    assert reasons_of_partition(replace(READING, member=None)) == [
        "No member has this partition, although the group has some."
    ]
    assert "1 partitions with lag belong to no member" in why(replace(READING, member=None))
    shared = replace(READING, member=None, is_shared=True)
    assert "no member" not in why(shared).lower()


def test_an_open_transaction_is_named_with_its_producer() -> None:
    producer = OpenProducer(ProducerState(4711, 3, 9, 0, None, 90), "payments-1")
    held = replace(READING, lso=90, open_producer=producer, stuck_s=60.0)
    [reason] = reasons_of_partition(held)
    assert reason.startswith("A transaction of producer 4711 (transactional id payments-1) is open since offset 90")
    # Whoever waits for a transaction has not stopped.
    assert "Stopped" not in why(held)


def test_a_group_that_is_slower_than_its_producers_is_told_so() -> None:
    assert "Slower than what comes in: 50 records/s of 80 in 1 partitions." in why(replace(READING, in_rate=80.0))
    assert "Catching up" in reasons_of_partition(replace(READING, in_rate=10.0))[0]

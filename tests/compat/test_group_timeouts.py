"""Apache Kafka and Tidelog say the same about members that were silent or slow: each of the times that a member has.

No conversation waits for a certain time, only until a member is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.apache_kafka import ApacheKafka, wait_until
from tests.support.group_talk.classic import ALL_OF_ORDERS, orders_with
from tests.support.group_talk.sides import Conversation, Sides, assert_both_answer_alike, both_sides
from tests.support.group_talk.talk import Talk

pytestmark = pytest.mark.compat

ONE = {("orders", 0): 5}
SHORT_MS = 1_000
SETTINGS = {
    "group.min.session.timeout.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": str(SHORT_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
}


def rebalances(talk: Talk, member_id: str, generation_id: int) -> None:
    """Until a classic member, which stays alive by this, is told to join again."""
    wait_until(lambda: talk.ask_heartbeat(member_id, generation_id) == "REBALANCE_IN_PROGRESS", "the group rebalances")


def only(talk: Talk, stays: str, live: Callable[[], object]) -> None:
    """Until a consumer group has this member alone. `live` is what those say meanwhile who are not to be silent."""

    def is_alone() -> bool:
        live()
        return talk.ask_members() == {stays}

    wait_until(is_alone, "the others are gone")
    # Whether or not it has spoken since then, it has now.
    live()


# The classic protocol


def a_silent_member(talk: Talk, _version: int) -> None:
    member_id = talk.stable_member(session_ms=SHORT_MS)
    talk.commit(ONE, member_id=member_id, epoch=1)
    wait_until(lambda: talk.ask_state() == "Empty", "it is gone")
    talk.heartbeat(member_id, 1)
    talk.commit(ONE, member_id=member_id, epoch=1)
    talk.join(member_id)
    talk.describe()
    talk.list()
    talk.fetch(None)


def a_silent_static_member(talk: Talk, _version: int) -> None:
    member_id = talk.stable_member(instance="i", session_ms=SHORT_MS)
    wait_until(lambda: talk.ask_state() == "Empty", "it is gone")
    talk.heartbeat(member_id, 1, instance="i")
    talk.describe()
    talk.join(instance="i")


def one_of_two_is_silent(talk: Talk, _version: int) -> None:
    first = talk.stable_member()
    joining = talk.ask_join(talk.join(session_ms=SHORT_MS), session_ms=SHORT_MS)
    rebalances(talk, first, 1)
    talk.join(first)
    second = talk.heard(joining)
    talk.sync(first, 2, {first: b"a", second: b"b"})
    rebalances(talk, first, 2)
    talk.join(first)
    talk.heartbeat(second, 2)
    talk.heartbeat(first, 3)
    talk.describe()


def one_of_two_does_not_join_again(talk: Talk, _version: int) -> None:
    """It says that it lives, but does not come within its rebalance time-out."""
    first = talk.stable_member(rebalance_ms=SHORT_MS)
    joining = talk.ask_join(talk.join(rebalance_ms=SHORT_MS), rebalance_ms=SHORT_MS)
    wait_until(lambda: talk.ask_heartbeat(first, 1) == "UNKNOWN_MEMBER_ID", "it is dropped")
    second = talk.heard(joining)
    talk.join(first)
    talk.heartbeat(second, 2)
    talk.describe()


def the_leader_does_not_sync(talk: Talk, _version: int) -> None:
    first = talk.stable_member(rebalance_ms=SHORT_MS)
    joining = talk.ask_join(talk.join(rebalance_ms=SHORT_MS), rebalance_ms=SHORT_MS)
    rebalances(talk, first, 1)
    talk.join(first, rebalance_ms=SHORT_MS)
    second = talk.heard(joining)
    syncing = talk.ask_sync(second, 2)
    wait_until(lambda: talk.ask_heartbeat(first, 2) == "UNKNOWN_MEMBER_ID", "the leader is dropped")
    talk.heard_sync(syncing)
    talk.heartbeat(second, 2)
    talk.join(second, rebalance_ms=SHORT_MS)
    talk.describe()


# The new protocol


def a_silent_consumer(talk: Talk, _version: int) -> None:
    epoch = talk.enter()
    talk.commit(ONE, member_id="member", epoch=epoch)
    wait_until(lambda: not talk.ask_members(), "it is gone")
    talk.beat("member", epoch)
    talk.commit(ONE, member_id="member", epoch=epoch)
    talk.describe_consumer()
    talk.enter()
    talk.fetch(None)


def a_static_consumer_that_does_not_come_back(talk: Talk, _version: int) -> None:
    talk.enter(instance="i")
    talk.beat("member", -2, instance="i")
    wait_until(lambda: not talk.ask_members(), "its place is gone")
    talk.describe_consumer()
    talk.enter("other", instance="i")
    talk.describe_consumer()


def a_consumer_that_does_not_give_up_its_partitions(talk: Talk, _version: int) -> None:
    first = talk.enter("one", rebalance_ms=SHORT_MS)
    talk.beat("one", first, owned={"orders": [0, 1, 2]})
    second = talk.enter("two")
    talk.beat("one", first)

    def both_live() -> None:
        talk.ask_beat("one", first, owned={"orders": [0, 1, 2]})
        talk.ask_beat("two", second)

    only(talk, "two", both_live)
    talk.beat("one", first, owned={"orders": [0, 1, 2]})
    talk.describe_consumer()


def one_of_two_consumers_is_silent(talk: Talk, _version: int) -> None:
    first = talk.enter("one")
    second = talk.enter("two")
    talk.beat("one", first, owned={"orders": [0, 1]})
    talk.beat("one", first, owned={"orders": [0, 1]})
    only(talk, "two", lambda: talk.ask_beat("two", second))
    talk.beat("one", first)
    talk.describe_consumer()


# Classic members of a group of the new protocol


def a_classic_member_among_consumers_is_silent(talk: Talk, _version: int) -> None:
    epoch = talk.enter("new")
    talk.beat("new", epoch, owned={"orders": [0, 1, 2]})
    classic = talk.member(protocols=orders_with(), session_ms=SHORT_MS)
    talk.sync(classic, epoch + 1)

    # It gives nothing up, which it has eight seconds for.
    only(talk, "new", lambda: talk.ask_beat("new", epoch))
    talk.heartbeat(classic, epoch + 1)
    talk.describe_consumer()


def a_classic_member_among_consumers_does_not_join_again(talk: Talk, _version: int) -> None:
    classic = talk.stable_member(protocols=orders_with(), assignment=ALL_OF_ORDERS, rebalance_ms=SHORT_MS)
    epoch = talk.enter("new")
    talk.heartbeat(classic, 1)

    def both_live() -> None:
        talk.ask_beat("new", epoch)
        talk.ask_heartbeat(classic, 1)

    only(talk, "new", both_live)
    talk.heartbeat(classic, 1)
    talk.describe_consumer()
    talk.list()


CONVERSATIONS: list[Conversation] = [
    a_silent_member,
    a_silent_static_member,
    one_of_two_is_silent,
    one_of_two_does_not_join_again,
    the_leader_does_not_sync,
    a_silent_consumer,
    a_static_consumer_that_does_not_come_back,
    a_consumer_that_does_not_give_up_its_partitions,
    one_of_two_consumers_is_silent,
    a_classic_member_among_consumers_is_silent,
    a_classic_member_among_consumers_does_not_join_again,
]


@pytest.fixture(scope="module")
def hasty_sides(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    with both_sides(kafka, tmp_path_factory.mktemp("hasty"), SETTINGS) as sides:
        yield sides


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=[each.__name__ for each in CONVERSATIONS])
def test_both_lose_patience_alike(conversation: Conversation, hasty_sides: Sides) -> None:
    assert_both_answer_alike(conversation, 0, hasty_sides)

"""Apache Kafka and Tidelog say the same while a group changes its protocol, and to requests of the one that it does not speak."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.apache_kafka import ApacheKafka, wait_until
from tests.support.group_talk.classic import ALL_OF_ORDERS, orders_with
from tests.support.group_talk.sides import Conversation, Sides, assert_both_answer_alike, both_sides
from tests.support.group_talk.talk import Talk

pytestmark = pytest.mark.compat

ONE = {("orders", 0): 5}


def the_wrong_protocol(talk: Talk, version: int) -> None:
    """A group with members of one protocol, and requests of the other one that cannot convert it."""
    member_id = talk.join(protocol_type="connect")
    talk.join(member_id, protocol_type="connect")
    talk.enter(version=version)
    talk.describe_consumer()
    talk.leave((member_id, None))
    talk.enter(version=version)
    talk.describe_consumer()


def classic_requests_to_a_consumer_group(talk: Talk, version: int) -> None:
    epoch = talk.enter(version=version)
    talk.heartbeat("member", epoch)
    talk.heartbeat("nobody", epoch)
    talk.sync("member", epoch)
    talk.sync("nobody", epoch)
    talk.leave(("nobody", None))
    talk.leave(("nobody", None), version=2)
    talk.join(protocol_type="connect")
    talk.join("nobody")
    # An id is given before the subscription is read.
    talk.join(protocols={"range": b"\0"})
    talk.join("torn", protocols={"range": b"\0"})
    talk.leave(("member", None), version=2)
    talk.describe_consumer()
    talk.list()


def an_empty_group_changes_its_kind(talk: Talk, version: int) -> None:
    member_id = talk.stable_member()
    talk.commit(ONE, member_id=member_id, epoch=1)
    talk.leave((member_id, None))
    epoch = talk.enter(version=version)
    talk.list()
    talk.fetch(None)
    talk.commit({("orders", 1): 9}, member_id="member", epoch=epoch)
    talk.beat("member", -1, version=version)
    talk.stable_member()
    talk.list()
    talk.fetch(None)


def a_classic_group_is_upgraded_and_downgraded(talk: Talk, _version: int) -> None:
    classic = talk.stable_member()
    talk.commit(ONE, member_id=classic, epoch=1)
    epoch = talk.enter("new")
    talk.list()
    talk.describe_consumer()
    talk.describe()
    talk.heartbeat(classic, 1)
    talk.commit(ONE, member_id=classic, epoch=1)
    talk.commit(ONE, member_id="new", epoch=epoch)
    talk.beat("new", -1)
    talk.list()
    talk.describe()
    talk.heartbeat(classic, 2)
    talk.fetch(None)


def a_consumer_group_is_downgraded(talk: Talk, _version: int) -> None:
    epoch = talk.enter("new")
    talk.beat("new", epoch, owned={"orders": [0, 1, 2]})
    joined = talk.member()
    talk.list()
    talk.describe_consumer()
    talk.sync(joined, epoch + 1)
    talk.heartbeat(joined, epoch + 1)
    talk.leave((joined, None))
    talk.describe_consumer()
    talk.list()


def members_move_to_the_new_protocol_one_by_one(talk: Talk, version: int) -> None:
    """They keep reading what they had until they are asked to give it up."""
    first = talk.stable_member(protocols=orders_with(), assignment=ALL_OF_ORDERS)
    talk.commit(ONE, member_id=first, epoch=1)
    epoch = talk.enter("new", version=version)
    talk.describe_consumer()
    talk.heartbeat(first, 1)
    talk.sync(first, 1)
    # It says what it has, is told what it keeps, and says that it has no more than that.
    talk.join(first, protocols=orders_with(0, 1, 2))
    talk.describe_consumer()
    talk.sync(first, 1)
    talk.sync(first, epoch)
    talk.beat("new", epoch, version=version)
    talk.join(first, protocols=orders_with(0))
    talk.sync(first, epoch)
    talk.heartbeat(first, epoch)
    talk.describe_consumer()
    epoch = talk.beat("new", epoch, version=version).member_epoch
    talk.commit(ONE, member_id=first, epoch=epoch)
    talk.leave((first, None))
    epoch = talk.beat("new", epoch, version=version).member_epoch
    talk.describe_consumer()
    talk.list()
    talk.beat("new", -1, version=version)
    talk.list()
    talk.fetch(None)


def the_last_of_the_new_protocol_leaves(talk: Talk, version: int) -> None:
    """The others are a classic group again, which rebalances."""
    epoch = talk.enter("new", version=version)
    talk.beat("new", epoch, owned={"orders": [0, 1, 2]}, version=version)
    classic = talk.member(protocols=orders_with())
    talk.describe_consumer()
    talk.sync(classic, epoch + 1)
    talk.beat("new", epoch, version=version)
    talk.beat("new", epoch, owned={"orders": [0, 1]}, version=version)
    talk.heartbeat(classic, epoch + 1)
    talk.beat("new", -1, version=version)
    talk.list()
    talk.describe()
    talk.describe_consumer()
    talk.heartbeat(classic, epoch + 1)
    talk.join(classic, protocols=orders_with())
    talk.heartbeat(classic, epoch + 2)
    talk.sync(classic, epoch + 2, {classic: ALL_OF_ORDERS})
    talk.describe()


def a_static_member_changes_its_protocol(talk: Talk, version: int) -> None:
    """It takes its own place, there and back, with what it had."""
    classic = talk.stable_member(instance="i", protocols=orders_with(), assignment=ALL_OF_ORDERS)
    epoch = talk.enter("new", instance="i", version=version)
    talk.describe_consumer()
    talk.heartbeat(classic, 1, instance="i")
    talk.beat("new", epoch, instance="i", owned={"orders": [0, 1, 2]}, version=version)
    talk.beat("new", -2, instance="i", version=version)
    talk.describe_consumer()
    again = talk.join(instance="i", protocols=orders_with())
    talk.list()
    talk.describe()
    talk.beat("new", epoch, instance="i", version=version)
    talk.heartbeat(again, epoch, instance="i")


def two_classic_members_are_converted(talk: Talk, version: int) -> None:
    first = talk.stable_member(protocols=orders_with(), assignment=ALL_OF_ORDERS)
    joining = talk.ask_join(talk.join(protocols=orders_with()), protocols=orders_with())
    wait_until(lambda: talk.ask_heartbeat(first, 1) == "REBALANCE_IN_PROGRESS", "the group rebalances")
    # While some have joined and others have not, those who wait are sent to join again.
    talk.enter("new", version=version)
    second = talk.heard(joining)
    talk.describe_consumer()
    talk.heartbeat(first, 1)
    talk.join(first, protocols=orders_with(0, 1, 2))
    talk.join(second, protocols=orders_with())
    talk.describe_consumer()


VERSIONED: list[tuple[Conversation, tuple[int, ...]]] = [
    (the_wrong_protocol, (1,)),
    (classic_requests_to_a_consumer_group, (1,)),
    (an_empty_group_changes_its_kind, (1,)),
    (a_classic_group_is_upgraded_and_downgraded, (1,)),
    (a_consumer_group_is_downgraded, (1,)),
    (members_move_to_the_new_protocol_one_by_one, (0, 1)),
    (the_last_of_the_new_protocol_leaves, (0, 1)),
    (a_static_member_changes_its_protocol, (1,)),
    (two_classic_members_are_converted, (1,)),
]
CASES = [(conversation, version) for conversation, versions in VERSIONED for version in versions]


@pytest.mark.parametrize(
    ("conversation", "version"), CASES, ids=[f"{conversation.__name__}-v{version}" for conversation, version in CASES]
)
def test_both_answer_alike(conversation: Conversation, version: int, group_sides: Sides) -> None:
    assert_both_answer_alike(conversation, version, group_sides)


# Where conversion is not allowed


def an_upgrade_that_is_not_allowed(talk: Talk, version: int) -> None:
    classic = talk.stable_member(protocols=orders_with(), assignment=ALL_OF_ORDERS)
    talk.enter("new", version=version)
    talk.heartbeat(classic, 1)
    talk.list()
    talk.leave((classic, None))
    talk.enter("new", version=version)
    talk.list()


def a_downgrade_that_is_not_allowed(talk: Talk, version: int) -> None:
    talk.enter("new", version=version)
    talk.member(protocols=orders_with())
    talk.describe_consumer()
    talk.beat("new", -1, version=version)
    talk.list()
    talk.member(protocols=orders_with())
    talk.list()


@pytest.fixture(scope="module")
def strict_sides(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    settings = {"group.consumer.assignment.interval.ms": "0", "group.consumer.migration.policy": "disabled"}
    with both_sides(kafka, tmp_path_factory.mktemp("strict"), settings) as sides:
        yield sides


FORBIDDEN: list[Conversation] = [an_upgrade_that_is_not_allowed, a_downgrade_that_is_not_allowed]


@pytest.mark.parametrize("conversation", FORBIDDEN, ids=[each.__name__ for each in FORBIDDEN])
def test_both_forbid_conversion_alike(conversation: Conversation, strict_sides: Sides) -> None:
    assert_both_answer_alike(conversation, 1, strict_sides)

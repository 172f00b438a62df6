"""Groups whose members keep what they can: cooperative ones of the classic protocol, and those of the new one (librdkafka).

In both, a rebalance takes from a member only what another one is to have.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

from tests.support.group_members import MemberProcess, are_shared, wait_for_all
from tests.support.group_topics import GROUP_SETTINGS, TIMEOUT_S, Topics, new_name, numbers
from tests.support.running_node import RunningNode

COOPERATIVE: dict[str, object] = {"partition.assignment.strategy": "cooperative-sticky"}
CONSUMER: dict[str, object] = {"group.protocol": "consumer"}
KEEPING = pytest.mark.parametrize("settings", [COOPERATIVE, CONSUMER], ids=["cooperative", "consumer"])


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with RunningNode(tmp_path_factory.mktemp("node"), settings=GROUP_SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def topics(node: RunningNode) -> Topics:
    return Topics(node.bootstrap)


@pytest.fixture
def group() -> str:
    return new_name("group")


@KEEPING
def test_members_keep_what_stays_theirs(
    node: RunningNode, topics: Topics, group: str, settings: dict[str, object]
) -> None:
    topic = topics.make(6)
    every = [(topic, index) for index in range(6)]

    def member() -> MemberProcess:
        return MemberProcess("confluent", node.bootstrap, group, [topic], settings=settings)

    with member() as first:
        first.wait_until(lambda: first.assigned == set(every), "it has all partitions")
        with member() as second:
            both = [first, second]
            wait_for_all(both, lambda: are_shared(both, every), "two share the partitions")
            assert len(first.assigned) == 3
            # It gave up only what the other one got, and never was without the rest.
            assert sorted(first.revoked) == sorted(second.assigned)
            assert all(first.assigned <= had for had in first.assignments[1:])
            with member() as third:
                wait_for_all([*both, third], lambda: are_shared([*both, third], every), "three share the partitions")
                assert [len(each.assigned) for each in (first, second, third)] == [2, 2, 2]
                topics.send(topic, 6, numbers(0, 60))
                wait_for_all(
                    [*both, third],
                    lambda: len(first.records) + len(second.records) + len(third.records) == 60,
                    "all records are read",
                )
            kept = first.assigned | second.assigned
            wait_for_all(both, lambda: are_shared(both, every), "two share the partitions again")
            assert kept <= first.assigned | second.assigned
    assert topics.committed(group, topic, 6) == [10] * 6


@KEEPING
def test_a_dead_members_share_goes_to_the_others(
    node: RunningNode, topics: Topics, group: str, settings: dict[str, object]
) -> None:
    topic = topics.make(4)
    every = [(topic, index) for index in range(4)]
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(MemberProcess("confluent", node.bootstrap, group, [topic], settings=settings))
            for _ in range(2)
        )
        wait_for_all([first, second], lambda: are_shared([first, second], every), "two share the partitions")
        kept = second.assigned.copy()
        lost_before = len(second.revoked)
        first.kill()
        topics.send(topic, 4, numbers(0, 20))
        second.wait_until(lambda: second.assigned == set(every), "the other has it all")
        second.wait_until(lambda: len(set(second.values)) == 20, "all records are read")
        assert not kept & set(second.revoked[lost_before:])


def test_a_consumer_group_goes_on_where_it_was(node: RunningNode, topics: Topics, group: str) -> None:
    topic = topics.make(2)
    topics.send(topic, 2, numbers(0, 10))
    with MemberProcess("confluent", node.bootstrap, group, [topic], settings=CONSUMER) as first:
        first.wait_until(lambda: len(first.records) == 10, "all records are read")
        first.wait_until(lambda: len(first.committed) == 2, "both partitions are committed")
    topics.send(topic, 2, numbers(10, 16))
    with MemberProcess("confluent", node.bootstrap, group, [topic], settings=CONSUMER) as second:
        second.wait_until(lambda: len(second.records) == 6, "the rest is read")
    assert sorted(second.values, key=int) == numbers(10, 16)
    assert topics.committed(group, topic, 2) == [8, 8]
    described = topics.admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)
    assert (described.state.name, described.type.name) == ("EMPTY", "CONSUMER")


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_the_coordinator_assigns_as_the_members_ask(
    node: RunningNode, topics: Topics, group: str, assignor: str
) -> None:
    names = [topics.make(2), topics.make(2)]
    every = [(topic, index) for topic in names for index in range(2)]
    settings = CONSUMER | {"group.remote.assignor": assignor}
    with ExitStack() as stack:
        members = [
            stack.enter_context(MemberProcess("confluent", node.bootstrap, group, names, settings=settings))
            for _ in range(2)
        ]
        wait_for_all(members, lambda: are_shared(members, every), "two share the partitions")
        wait_for_all(members, lambda: [len(each.assigned) for each in members] == [2, 2], "they share evenly")
        if assignor == "range":
            # The same partition of each topic: that is what it is for.
            assert all(len({index for _, index in each.assigned}) == 1 for each in members)
        described = topics.admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)
        assert described.partition_assignor == assignor
        assert sorted(
            (each.topic, each.partition) for one in described.members for each in one.assignment.topic_partitions
        ) == sorted(every)


def test_a_regular_expression_finds_topics_also_later_ones(node: RunningNode, topics: Topics, group: str) -> None:
    prefix = new_name("shop")
    first_topic = topics.make(1, f"{prefix}.orders")
    topics.make(1, f"other.{prefix}")
    pattern = f"^{prefix}\\..*"
    with MemberProcess("confluent", node.bootstrap, group, [pattern], settings=CONSUMER) as member:
        member.wait_until(lambda: member.assigned == {(first_topic, 0)}, "the topic is found")
        later = topics.make(2, f"{prefix}.payments")
        member.wait_until(
            lambda: member.assigned == {(first_topic, 0), (later, 0), (later, 1)}, "the later topic is found"
        )
        topics.send(later, 2, numbers(0, 4))
        member.wait_until(lambda: len(member.records) == 4, "the later topic is read")
        topics.delete(first_topic)
        member.wait_until(lambda: member.assigned == {(later, 0), (later, 1)}, "the deleted topic is given up")


def test_partitions_that_are_added_are_shared_out(node: RunningNode, topics: Topics, group: str) -> None:
    topic = topics.make(1)
    with MemberProcess("confluent", node.bootstrap, group, [topic], settings=CONSUMER) as member:
        member.wait_until(lambda: member.assigned == {(topic, 0)}, "it has the partition")
        topics.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(TIMEOUT_S)
        member.wait_until(lambda: len(member.assigned) == 3, "it has the new ones")
        assert member.revoked == []


def test_a_static_member_of_the_new_protocol_comes_back_to_what_it_had(
    node: RunningNode, topics: Topics, group: str
) -> None:
    topic = topics.make(4)
    every = [(topic, index) for index in range(4)]

    def member(instance: str) -> MemberProcess:
        return MemberProcess("confluent", node.bootstrap, group, [topic], instance=instance, settings=CONSUMER)

    with ExitStack() as stack:
        first, second = (stack.enter_context(member(instance)) for instance in ("one", "two"))
        wait_for_all([first, second], lambda: are_shared([first, second], every), "two share the partitions")
        had = second.assigned.copy()
        changes = len(first.assignments)
        # A static member that is closed says that it will be back.
        second.leave()
        again = stack.enter_context(member("two"))
        again.wait_until(lambda: again.assigned == had, "it has what it had")
        assert len(first.assignments) == changes


def test_a_group_changes_to_the_new_protocol_and_back_while_it_works(
    node: RunningNode, topics: Topics, group: str
) -> None:
    topic = topics.make(4)
    every = [(topic, index) for index in range(4)]

    def member(settings: dict[str, object]) -> MemberProcess:
        return MemberProcess("confluent", node.bootstrap, group, [topic], settings=settings)

    def kind() -> str:
        found = topics.admin.list_consumer_groups().result(TIMEOUT_S)
        assert found is not None
        return str(next(each.type.name for each in found.valid if each.group_id == group))

    with ExitStack() as stack:
        old = stack.enter_context(member(COOPERATIVE))
        old.wait_until(lambda: old.assigned == set(every), "it has all partitions")
        topics.send(topic, 4, numbers(0, 20))
        old.wait_until(lambda: len(old.records) == 20, "all records are read")
        assert kind() == "CLASSIC"

        new = stack.enter_context(member(CONSUMER))
        wait_for_all([old, new], lambda: are_shared([old, new], every), "both protocols share the partitions")
        assert kind() == "CONSUMER"
        topics.send(topic, 4, numbers(20, 40))
        wait_for_all([old, new], lambda: len(old.records) + len(new.records) == 40, "all records are read")
        assert new.records

        old.leave()
        new.wait_until(lambda: new.assigned == set(every), "the new protocol has it all")
        last = stack.enter_context(member(COOPERATIVE))
        wait_for_all([last, new], lambda: are_shared([last, new], every), "both share the partitions again")
        new.leave()
        last.wait_until(lambda: last.assigned == set(every), "the classic protocol has it all")
        assert kind() == "CLASSIC"
        topics.send(topic, 4, numbers(40, 60))
        last.wait_until(lambda: set(numbers(40, 60)) <= set(last.values), "the rest is read")
    assert topics.committed(group, topic, 4) == [15] * 4

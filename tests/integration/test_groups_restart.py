"""What groups are after their coordinator has stopped or was killed, and after their topic is gone.

All state comes from `__consumer_offsets`: a coordinator that starts knows nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition

from tests.support.group_members import CLIENTS, MemberProcess, are_shared, wait_for_all
from tests.support.group_topics import GROUP_SETTINGS, TIMEOUT_S, Topics, new_name, numbers
from tests.support.tidelog_node import TidelogNode

CONSUMER: dict[str, object] = {"group.protocol": "consumer"}
# The members of one group: of each library, and of the new protocol.
KINDS: dict[str, list[tuple[str, dict[str, object]]]] = {
    "classic": [(client, {}) for client in CLIENTS],
    "consumer": [("confluent", CONSUMER), ("confluent", CONSUMER)],
}
NOTHING = -1001


@pytest.fixture
def place(tmp_path: Path) -> Iterator[TidelogNode]:
    node = TidelogNode.at(tmp_path, **GROUP_SETTINGS)
    yield node
    node.kill()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", [TidelogNode.stop, TidelogNode.kill], ids=["stopped", "killed"])
def test_members_go_on_after_their_coordinator_was(
    place: TidelogNode, end: Callable[[TidelogNode], None], kind: str
) -> None:
    place.start()
    topics, group = Topics(place.bootstrap), new_name("group")
    topic = topics.make(6)
    every = [(topic, index) for index in range(6)]
    with ExitStack() as stack:
        members = [
            stack.enter_context(
                MemberProcess(client, place.bootstrap, group, [topic], session_ms=10_000, settings=settings)
            )
            for client, settings in KINDS[kind]
        ]

        def is_read(end: int) -> bool:
            return {value for member in members for value in member.values} == set(numbers(0, end))

        wait_for_all(members, lambda: are_shared(members, every), "they share the partitions")
        topics.send(topic, 6, numbers(0, 60))
        wait_for_all(members, lambda: is_read(60), "all records are read")
        wait_for_all(members, lambda: topics.committed(group, topic, 6) == [10] * 6, "all is committed")

        end(place)
        place.start()

        assert topics.committed(group, topic, 6) == [10] * 6
        topics.send(topic, 6, numbers(60, 120))
        wait_for_all(members, lambda: is_read(120), "what came later is read")
        wait_for_all(members, lambda: are_shared(members, every), "they share the partitions")
        wait_for_all(members, lambda: topics.committed(group, topic, 6) == [20] * 6, "all is committed")
    # Nothing that was committed before the restart was read again: positions survived it.
    for member in members:
        assert len(member.values) == len(set(member.values))


@pytest.mark.parametrize("end", [TidelogNode.stop, TidelogNode.kill], ids=["stopped", "killed"])
def test_static_members_and_generations_survive_their_coordinator(
    place: TidelogNode, end: Callable[[TidelogNode], None]
) -> None:
    place.start()
    topics, group = Topics(place.bootstrap), new_name("group")
    topic = topics.make(2)
    every = [(topic, index) for index in range(2)]

    def member(instance: str) -> MemberProcess:
        return MemberProcess("confluent", place.bootstrap, group, [topic], instance=instance, session_ms=60_000)

    with ExitStack() as stack:
        first, second = (stack.enter_context(member(instance)) for instance in ("one", "two"))
        wait_for_all([first, second], lambda: are_shared([first, second], every), "two share the partitions")
        had, changes = second.assigned.copy(), len(first.assignments)
        second.kill()
        end(place)
        place.start()
        again = stack.enter_context(member("two"))
        again.wait_until(lambda: again.assigned == had, "it has what it had")
        topics.send(topic, 2, numbers(0, 10))
        wait_for_all([first, again], lambda: len(first.records) + len(again.records) == 10, "all is read")
        assert len(first.assignments) == changes


def test_a_deleted_topics_offsets_are_deleted_also_for_its_successor(place: TidelogNode) -> None:
    place.start()
    topics, group = Topics(place.bootstrap), new_name("group")
    gone, kept = topics.make(2), topics.make(1)
    topics.send(gone, 2, numbers(0, 10))
    topics.send(kept, 1, numbers(0, 3))
    with MemberProcess("confluent", place.bootstrap, group, [gone, kept]) as member:
        member.wait_until(lambda: sum(member.committed.values()) == 13, "all is committed")

    topics.delete(gone)

    wait_for_all([], lambda: offsets_of(topics, group) == {(kept, 0): 3}, "its offsets are deleted")
    topics.make(2, gone)
    assert topics.committed(group, gone, 2) == [NOTHING, NOTHING]
    place.stop()
    place.start()
    assert offsets_of(topics, group) == {(kept, 0): 3}


def offsets_of(topics: Topics, group: str) -> dict[tuple[str, int], int]:
    """All that a group has committed."""
    asked = topics.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = asked[group].result(TIMEOUT_S).topic_partitions
    return {(each.topic, each.partition): each.offset for each in found}


def test_a_simple_consumer_keeps_its_offsets_without_a_group(place: TidelogNode) -> None:
    place.start()
    topics, group = Topics(place.bootstrap), new_name("group")
    topic = topics.make(1)
    topics.send(topic, 1, numbers(0, 5))
    consumer = Consumer({"bootstrap.servers": place.bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    consumer.commit(offsets=[TopicPartition(topic, 0, 4, "done by hand")], asynchronous=False)
    consumer.close()
    place.kill()
    place.start()

    again = Consumer({"bootstrap.servers": place.bootstrap, "group.id": group})
    (found,) = again.committed([TopicPartition(topic, 0)], TIMEOUT_S)
    again.close()
    assert (found.offset, found.metadata) == (4, "done by hand")

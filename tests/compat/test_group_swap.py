"""Groups whose coordinator is Tidelog, then Apache Kafka on the same directory, then Tidelog again; and the other way round.

The members run through all of it: they have to find their group, their generation or epoch, and their offsets, in whatever the
other program wrote to `__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.apache_kafka import ApacheKafka, Node
from tests.support.group_members import MemberProcess, are_shared, wait_for_all
from tests.support.group_topics import GROUP_SETTINGS, TIMEOUT_S, Topics, numbers
from tests.support.tidelog_node import TidelogNode

pytestmark = pytest.mark.compat

AnyNode = Node | TidelogNode
PARTITIONS = 4
# No member may be lost while a program stops and the other one starts, however slowly.
SESSION_MS = 60_000
SETTINGS = GROUP_SETTINGS | {"group.consumer.session.timeout.ms": str(SESSION_MS)}
# librdkafka gives up what an answer to Metadata leaves out, and Apache Kafka's answers name no broker while its only one stops.
# So its members ask no oftener than by default, and one that asks then all the same has a minute to find its way back.
CONFLUENT: dict[str, object] = {"topic.metadata.refresh.interval.ms": 300_000}
CHANGE_TIMEOUT_S = 150.0
SIMPLE = "by-hand"
GROUPS: dict[str, list[tuple[str, str | None, dict[str, object]]]] = {
    "classic": [("confluent", None, CONFLUENT), ("kafka-python", None, {}), ("aiokafka", None, {})],
    "cooperative": [
        ("confluent", f"static-{name}", CONFLUENT | {"partition.assignment.strategy": "cooperative-sticky"})
        for name in "ab"
    ],
    "consumer": [("confluent", None, CONFLUENT | {"group.protocol": "consumer"}) for _ in range(2)],
    "static-consumer": [("confluent", f"static-{name}", CONFLUENT | {"group.protocol": "consumer"}) for name in "ab"],
}


def stopped(node: AnyNode) -> None:
    node.stop()


def killed(node: AnyNode) -> None:
    node.kill()


@pytest.mark.parametrize("end", [stopped, killed])
@pytest.mark.parametrize("starts", ["tidelog", "kafka"])
def test_groups_outlive_the_program_that_coordinates_them(
    kafka: ApacheKafka, tmp_path: Path, starts: str, end: Callable[[AnyNode], None]
) -> None:
    place = Node(kafka, tmp_path, SETTINGS)
    place.format()
    programs: list[AnyNode] = [TidelogNode(place), place]
    if starts == "kafka":
        programs.reverse()
    first, second = programs
    with ExitStack() as stack:
        stack.callback(place.kill)
        stack.callback(lambda: [each.kill() for each in programs])
        first.start()
        topics = Topics(place.bootstrap)
        topic = topics.make(PARTITIONS)
        every = [(topic, index) for index in range(PARTITIONS)]
        commit_by_hand(place.bootstrap, topic, 3)
        members = {
            group: [
                stack.enter_context(
                    MemberProcess(
                        client,
                        place.bootstrap,
                        group,
                        [topic],
                        instance=instance,
                        session_ms=SESSION_MS,
                        settings=settings,
                    )
                )
                for client, instance, settings in kinds
            ]
            for group, kinds in GROUPS.items()
        }
        everyone = [member for group in members.values() for member in group]

        def all_have_read(count: int) -> bool:
            return all(
                {value for member in group for value in member.values} == set(numbers(0, count))
                for group in members.values()
            )

        def all_is_committed(count: int) -> bool:
            return all(
                topics.committed(group, topic, PARTITIONS) == [count // PARTITIONS] * PARTITIONS for group in GROUPS
            )

        def all_is_shared() -> bool:
            return all(are_shared(group, every) for group in members.values())

        def types() -> dict[str, str]:
            found = topics.admin.list_consumer_groups().result(TIMEOUT_S)
            assert found is not None
            return {each.group_id: each.type.name for each in found.valid}

        wait_for_all(everyone, all_is_shared, "each group shares the partitions")
        known = types()
        assert known == {
            **dict.fromkeys(("classic", "cooperative", SIMPLE), "CLASSIC"),
            **dict.fromkeys(("consumer", "static-consumer"), "CONSUMER"),
        }
        sent = 0
        for program, successor in ((first, second), (second, first), (first, None)):
            topics.send(topic, PARTITIONS, numbers(sent, sent + 20))
            sent += 20
            waits = (
                (all_have_read, "each group has read everything"),
                (all_is_committed, "all have committed everything"),
            )
            for is_done, what in waits:
                wait_for_all(everyone, partial(is_done, sent), what, CHANGE_TIMEOUT_S)
            assert types() == known
            changes = [len(member.assignments) for member in members["static-consumer"] + members["consumer"]]
            if successor is None:
                break
            end(program)
            successor.start()
            topics = Topics(place.bootstrap)
            assert all_is_committed(sent)
            assert committed_by_hand(place.bootstrap, topic) == (3, "as of today")
            # The new protocol's members go on with what they have.
            assert changes == [len(member.assignments) for member in members["static-consumer"] + members["consumer"]]
        wait_for_all(everyone, all_is_shared, "each group shares the partitions at the end")
    # What was committed under one program was not read again under the other.
    for member in everyone:
        assert len(member.values) == len(set(member.values)), str(member)


def commit_by_hand(bootstrap: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": SIMPLE, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    consumer.commit(offsets=[TopicPartition(topic, 0, offset, "as of today")], asynchronous=False)
    consumer.close()


def committed_by_hand(bootstrap: str, topic: str) -> tuple[int, str | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": SIMPLE})
    (found,) = consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)
    consumer.close()
    return found.offset, found.metadata

"""Share groups whose coordinators are Tidelog, then Apache Kafka on the same directory, then Tidelog again; and the reverse.

A member goes on in its epoch, and groups are where they were, by what the other program wrote to `__consumer_offsets` and
`__share_group_state`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.apache_kafka import ApacheKafka, Node
from tests.support.beating_member import BeatingMember
from tests.support.group_topics import GROUP_SETTINGS, Topics, numbers
from tests.support.tidelog_node import TidelogNode
from tidelog import Admin
from tidelog.client.admin import GroupDescription, GroupType
from tidelog.client.consumer.topic_partition import TopicPartition

pytestmark = pytest.mark.compat

AnyNode = Node | TidelogNode
PARTITIONS = 2
RECORDS = 10


def stopped(node: AnyNode) -> None:
    node.stop()


def killed(node: AnyNode) -> None:
    node.kill()


@pytest.mark.parametrize("end", [stopped, killed])
@pytest.mark.parametrize("starts", ["tidelog", "kafka"])
def test_share_groups_outlive_the_program_that_coordinates_them(
    kafka: ApacheKafka, tmp_path: Path, starts: str, end: Callable[[AnyNode], None]
) -> None:
    place = Node(kafka, tmp_path, GROUP_SETTINGS)
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
        topics.send(topic, PARTITIONS, numbers(0, PARTITIONS * RECORDS))
        member = BeatingMember(place.bootstrap, "with-a-member", topic).join(PARTITIONS)
        epoch, described = member.epoch, _described(place.bootstrap, "with-a-member")
        _alter(place.bootstrap, topic, 3)
        before = _positions(place.bootstrap)
        for number, (old, new) in enumerate([(first, second), (second, first)]):
            end(old)
            new.start()
            member.find_coordinator(place.bootstrap)
            member.beat_on()
            assert member.epoch == epoch
            assert _described(place.bootstrap, "with-a-member") == described
            assert _positions(place.bootstrap) == before == {TopicPartition(topic, 0): (3 + number, 7 - number)}
            _alter(place.bootstrap, topic, 4 + number)
            before = _positions(place.bootstrap)
        member.leave()
        with Admin(bootstrap_servers=place.bootstrap) as admin:
            assert admin.delete_groups(["with-a-member", "moved"]) == {"with-a-member": None, "moved": None}
            assert admin.list_groups(types=[GroupType.SHARE]) == []


def _alter(bootstrap: str, topic: str, offset: int) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        outcomes = admin.alter_share_group_offsets("moved", {(topic, 0): offset})
    assert list(outcomes.values()) == [None]


def _positions(bootstrap: str) -> dict[TopicPartition, tuple[int, int | None]]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        found = admin.list_share_group_offsets("moved")
    return {partition: (where.start_offset, where.lag) for partition, where in found.items()}


def _described(bootstrap: str, group: str) -> GroupDescription:
    with Admin(bootstrap_servers=bootstrap) as admin:
        return admin.describe_group(group)

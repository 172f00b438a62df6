"""Streams groups whose coordinators are Tidelog, then Apache Kafka on the same directory, then Tidelog again; and the reverse.

Members go on in their epochs with their tasks, and the group is described alike, by what the other program wrote to
`__consumer_offsets`: nothing is assigned anew, since also the hash of the topics is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.apache_kafka import ApacheKafka, Node
from tests.support.group_topics import GROUP_SETTINGS, Topics, new_name
from tests.support.streams_groups import info, part, topology
from tests.support.streams_member import BeatingStreamsMember
from tests.support.tidelog_node import TidelogNode
from tidelog import Admin
from tidelog.client.admin import GroupType, StreamsGroupDescription

pytestmark = pytest.mark.compat

AnyNode = Node | TidelogNode
PARTITIONS = 3
SETTINGS = {
    **GROUP_SETTINGS,
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.num.standby.replicas": "1",
    # Nobody beats while one program ends and the other begins.
    "group.streams.max.session.timeout.ms": "600000",
    "group.streams.session.timeout.ms": "600000",
}


def stopped(node: AnyNode) -> None:
    node.stop()


def killed(node: AnyNode) -> None:
    node.kill()


@pytest.mark.parametrize("end", [stopped, killed])
@pytest.mark.parametrize("starts", ["tidelog", "kafka"])
def test_streams_groups_outlive_the_program_that_coordinates_them(
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
        topic, group = Topics(place.bootstrap).make(PARTITIONS), new_name("group")
        of = topology(part("0", [topic], changelogs=[info(f"{group}-log", replicas=1, cleanup_policy="compact")]))
        members = [BeatingStreamsMember(place.bootstrap, group, of, name) for name in ("a", "b")]
        members[0].join(PARTITIONS)
        _settle(members)
        epochs, tasks, described = _epochs(members), [each.has for each in members], _described(place.bootstrap, group)
        for old, new in ((first, second), (second, first)):
            end(old)
            new.start()
            for member in members:
                member.find_coordinator(place.bootstrap)
                member.beat_on()
            assert _epochs(members) == epochs
            assert [each.has for each in members] == tasks
            assert _described(place.bootstrap, group) == described
        # What either program wrote is no more to the other than to itself: the group goes on, and ends.
        members[0].leave()
        members[1].join(PARTITIONS)
        members[1].leave()
        with Admin(bootstrap_servers=place.bootstrap) as admin:
            assert admin.delete_groups([group]) == {group: None}
            assert admin.list_groups(types=[GroupType.STREAMS]) == []


def _settle(members: list[BeatingStreamsMember]) -> None:
    """Both have joined, one has let go of what the other has now, and each keeps what the other has."""
    for _ in range(20):
        for member in members:
            member.beat_on()
        if len(set(_epochs(members))) == 1 and all(member.has[1] for member in members):
            return
    raise AssertionError([member.has for member in members])


def _epochs(members: list[BeatingStreamsMember]) -> list[int]:
    return [member.epoch for member in members]


def _described(bootstrap: str, group: str) -> StreamsGroupDescription:
    with Admin(bootstrap_servers=bootstrap) as admin:
        described = admin.describe_streams_groups([group])[group]
    assert isinstance(described, StreamsGroupDescription)
    # Kafka tells the counts of internal topics again only once it has written something of the group.
    names = [part.subtopology_id for part in described.subtopologies]
    assert names == ["0"]
    return replace(described, subtopologies=())

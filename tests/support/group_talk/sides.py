"""Apache Kafka and Tidelog side by side, with the same topics and the same settings, and the same conversation with both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.apache_kafka import ApacheKafka, Node, wait_until
from tests.support.group_talk.notes import TOPICS
from tests.support.group_talk.talk import Talk
from tests.support.raw_client import RawClient
from tidelog.model.errors import ErrorCode
from tidelog.testing.embedded_cluster import EmbeddedCluster
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.groups_classic import LeaveGroupRequest, LeaveGroupResponse
from tidelog.wire.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

Conversation = Callable[[Talk, int], None]
"""What is said, given the version of the request that it is about."""

# A coordinator that has just been made is not ready at once.
NOT_READY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
# Enough names to reach every partition of the groups' log.
_PROBES = 60


class Sides(NamedTuple):
    """Where each of the two listens."""

    kafka: str
    tidelog: str


@contextmanager
def both_sides(kafka: ApacheKafka, root: Path, settings: Mapping[str, str]) -> Iterator[Sides]:
    """Both, with topics, and with coordinators that are ready."""
    with Node(kafka, root, dict(settings)) as node, EmbeddedCluster(config=dict(settings)) as cluster:
        sides = Sides(node.bootstrap, cluster.bootstrap_servers)
        for bootstrap in sides:
            prepare(bootstrap)
        yield sides


def prepare(bootstrap: str) -> None:
    """Make the topics, and wait for the coordinators of all groups."""
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])
        for name, count in TOPICS.items()
    ]
    with RawClient(bootstrap) as client:
        request = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
        assert {each.error_code for each in client.call(request, CreateTopicsResponse, 5).topics} == {0}
        wait_until(
            lambda: all(is_coordinated(client, f"probe-{number}") for number in range(_PROBES)), "all coordinate"
        )


def is_coordinated(client: RawClient, group: str) -> bool:
    """Whether the coordinator of a group is ready."""
    find = FindCoordinatorRequest(key=group, key_type=0, coordinator_keys=[])
    if client.call(find, FindCoordinatorResponse, 3).error_code:
        return False
    probe = LeaveGroupRequest(group_id=group, member_id="nobody", members=[])
    return client.call(probe, LeaveGroupResponse, 2).error_code not in NOT_READY


def assert_both_answer_alike(conversation: Conversation, version: int, sides: Sides) -> None:
    """Hold a conversation with both, in a group of its own."""
    group = f"{conversation.__name__}-{version}"
    with Talk(sides.kafka, group) as theirs, Talk(sides.tidelog, group) as ours:
        conversation(theirs, version)
        conversation(ours, version)
    differences = [
        (place, *each) for place, each in enumerate(zip(ours.told, theirs.told, strict=True)) if each[0] != each[1]
    ]
    assert differences == [], "ours, then Kafka's:\n" + "\n".join(map(repr, differences))

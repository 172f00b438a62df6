"""Apache Kafka and Tidelog say the same to members of the consumer protocol (KIP-848), good ones and bad ones.

Each conversation is a list of heartbeats, held with both over raw sockets in a group of its own. What is compared is the whole
answer, sentences included; of an assignment only how many partitions of which topic, since Kafka's choice among equals is free.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.apache_kafka import ApacheKafka, Node, wait_until
from tests.support.raw_client import RawClient
from tests.support.tidelog_node import TidelogNode
from tidelog.model.errors import ErrorCode
from tidelog.testing.embedded_cluster import EmbeddedCluster
from tidelog.wire.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

pytestmark = pytest.mark.compat

NOT_READY = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}

Step = dict[str, Any]


def joins(member: str, *names: str, **said: Any) -> Step:
    base = {"rebalance_timeout_ms": 60_000, "owned": [], "subscribed_topic_names": list(names) or ["orders"]}
    return {"member": member, "epoch": 0} | base | said


def beats(member: str, epoch: int, **said: Any) -> Step:
    return {"member": member, "epoch": epoch} | said


CONVERSATIONS: dict[str, list[Step]] = {
    "one member": [joins("A"), beats("A", 2), beats("A", 2), beats("A", -1)],
    "full request": [
        joins("A"),
        beats("A", 2, owned=None, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"]),
        beats("A", 2, owned=[0], rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"]),
    ],
    "wrong epochs": [joins("A"), beats("A", 3), beats("A", 1), beats("A", 7), beats("X", 2), beats("X", -1)],
    "join again": [joins("A"), joins("A"), beats("A", 2)],
    "no such group": [beats("A", 1), beats("A", -1), beats("A", -2, instance_id="i")],
    "bad fields": [
        joins("A", rebalance_timeout_ms=-1),
        joins("A", owned=[0]),
        joins("A", owned=None),
        joins("A", subscribed_topic_names=None),
        joins("A", instance_id=""),
        joins("A", rack_id=""),
        joins("A", server_assignor="best"),
        joins("", version=1),
        beats("", 1, version=0),
        beats("", -1, version=0),
        beats("A", -2),
        beats("A", -3),
    ],
    "static": [
        joins("A", instance_id="i"),
        joins("B", instance_id="i"),
        beats("B", 2, instance_id="i"),
        beats("B", -1, instance_id="i"),
        beats("A", 2, instance_id="j"),
        beats("A", -2, instance_id="i"),
        joins("B", instance_id="i"),
        beats("A", 2, instance_id="i"),
        beats("A", 2),
        beats("B", 2, instance_id="i"),
        beats("B", -1, instance_id="i"),
    ],
    "leave topics": [
        joins("A", "orders", "payments"),
        beats("A", 2, subscribed_topic_names=["payments"]),
        beats("A", 2, owned=[0]),
        beats("A", 2, owned=[]),
    ],
    "two members at once": [joins("A"), joins("B"), beats("A", 2), beats("B", 2), beats("B", -1), beats("A", 2)],
    "lost answer": [
        joins("A"),
        beats("A", 0, version=1),
        beats("A", 2, subscribed_topic_names=["payments"], owned=[0]),
    ],
    "missing topic": [joins("A", "nowhere"), beats("A", 2)],
    "bad regular expression": [
        joins("A", subscribed_topic_names=None, subscribed_topic_regex="(", version=1, without_sentence=True),
        joins("A", subscribed_topic_names=None, subscribed_topic_regex="a(?=b)", version=1, without_sentence=True),
    ],
    "assignors": [joins("A", server_assignor="range"), beats("A", 2, server_assignor="uniform"), beats("A", 2)],
}


@pytest.fixture(scope="module")
def apache(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root: Path = tmp_path_factory.mktemp("apache")
    with Node(kafka, root) as node:
        _prepare(node.bootstrap)
        yield node.bootstrap


@pytest.fixture(scope="module")
def tidelog() -> Iterator[str]:
    # Kafka's default; an embedded cluster's own is 0.
    with EmbeddedCluster(config={"group.consumer.assignment.interval.ms": 1_000}) as cluster:
        _prepare(cluster.bootstrap_servers)
        yield cluster.bootstrap_servers


def _prepare(bootstrap: str) -> None:
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])
        for name, count in (("orders", 4), ("payments", 2))
    ]
    with RawClient(bootstrap) as client:
        client.call(CreateTopicsRequest(topics=topics, timeout_ms=30_000, validate_only=False), CreateTopicsResponse, 7)

        def is_ready() -> bool:
            find = FindCoordinatorRequest(key_type=0, coordinator_keys=["ready"])
            client.call(find, FindCoordinatorResponse, 4)
            return _send(client, "ready", {}, joins("A")).error_code == 0

        wait_until(is_ready, "the coordinator serves")


def _send(client: RawClient, group: str, ids: dict[str, bytes], step: Step) -> ConsumerGroupHeartbeatResponse:
    said = dict(step)
    version = said.pop("version", 1)
    said.pop("without_sentence", None)
    owned = said.pop("owned", None)
    partitions = None
    if owned is not None:
        topic_id = ids.get("orders", bytes(16))
        partitions = [TopicPartitions(topic_id=topic_id, partitions=owned)] if owned else []
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=said.pop("member"),
        member_epoch=said.pop("epoch"),
        topic_partitions=partitions,
        **said,
    )
    return client.call(request, ConsumerGroupHeartbeatResponse, version)


def _hold(bootstrap: str, group: str, steps: list[Step]) -> list[object]:
    told: list[object] = []
    ids: dict[str, bytes] = {}
    with RawClient(bootstrap) as client:
        for step in steps:
            answer = _send(client, group, ids, step)
            while answer.error_code in NOT_READY:
                client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), FindCoordinatorResponse, 4)
                answer = _send(client, group, ids, step)
            assignment = None
            if answer.assignment is not None:
                assignment = sorted(len(topic.partitions) for topic in answer.assignment.topic_partitions)
                for topic in answer.assignment.topic_partitions:
                    if len(topic.partitions) == 4:
                        ids["orders"] = topic.topic_id
            sentence = None if step.get("without_sentence") else answer.error_message
            told.append(
                (
                    answer.error_code,
                    sentence,
                    answer.member_id,
                    answer.member_epoch,
                    answer.heartbeat_interval_ms,
                    assignment,
                )
            )
        described = client.call(
            ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False),
            ConsumerGroupDescribeResponse,
            1,
        ).groups[0]
        told.append((described.error_code, described.group_state, described.group_epoch, described.assignment_epoch))
        told.append(
            (described.assignor_name, [(m.member_id, m.instance_id, m.member_epoch) for m in described.members])
        )
    return told


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_both_say_the_same(name: str, apache: str, tidelog: str) -> None:
    steps = CONVERSATIONS[name]
    group = name.replace(" ", "-")
    assert _hold(tidelog, group, steps) == _hold(apache, group, steps)


def test_a_group_goes_on_in_the_other_program(kafka: ApacheKafka, tmp_path: Path) -> None:
    """Its members stay in their epochs: each program finds the topics that the other one hashed unchanged."""
    theirs = Node(kafka, tmp_path)
    ours = TidelogNode(theirs)
    theirs.format()
    turns: list[Node | TidelogNode] = [ours, theirs, ours, theirs]
    for turn, node in enumerate(turns):
        with node.running(), RawClient(node.bootstrap) as client:
            if turn == 0:
                _prepare(node.bootstrap)
            if turn < 2:
                # Ours makes a group, then Kafka does; the others find them.
                joined = _beat_when_ready(client, f"made-{turn}", joins("A", instance_id="i"))
                assert (joined.member_epoch, joined.assignment is not None) == (2, True)
            for group in range(min(turn + 1, 2)):
                answer = _beat_when_ready(client, f"made-{group}", beats("A", 2, instance_id="i"))
                assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, 2, None)


def _beat_when_ready(client: RawClient, group: str, step: Step) -> ConsumerGroupHeartbeatResponse:
    answers: list[ConsumerGroupHeartbeatResponse] = []

    def is_answered() -> bool:
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), FindCoordinatorResponse, 4)
        answers.append(_send(client, group, {}, step))
        return answers[-1].error_code not in NOT_READY

    wait_until(is_answered, "the coordinator of the group serves")
    return answers[-1]

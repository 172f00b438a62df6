"""The hashes that Apache Kafka 4.3.1 itself computed for these topics."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.coordination.consumer.consumer_harness import (
    FakeBroker,
    FakePartition,
    FakeTopic,
    FakeTopics,
    topics_of,
)
from tidelog.coordination.consumer.metadata_hash import MetadataHashes, topic_hash
from tidelog.model.ids import NodeId, PartitionIndex, TopicId, TopicName

FOO = TopicName("foo")
LONG = TopicName("bar.baz_longer-name-than-the-others-to-fill-the-small-input-paths")
SHORT = TopicName("q")
BROKERS = {
    NodeId(1): FakeBroker("rack-b"),
    NodeId(2): FakeBroker("rack-a"),
    NodeId(3): FakeBroker("rack-b"),
    NodeId(4): FakeBroker("zoné"),
    NodeId(9): FakeBroker(""),
}
FROM_KAFKA = {FOO: -5563325653920319838, LONG: -1409800645843922617, SHORT: 2490170080008912267}


def _topic(name: TopicName, topic_id: str, *replicas: tuple[int, ...]) -> FakeTopic:
    partitions = {
        PartitionIndex(index): FakePartition(tuple(NodeId(node) for node in nodes))
        for index, nodes in enumerate(replicas)
    }
    return FakeTopic(name, TopicId(bytes.fromhex(topic_id)), partitions)


def _view() -> FakeTopics:
    topics = [
        _topic(FOO, "0123456789abcdeffedcba9876543210", (1, 2, 3), (9,), (2, 4), (4, 1, 9)),
        _topic(LONG, "00000000000000050000000000000006", *((1 + index % 4,) for index in range(300))),
        _topic(SHORT, "00000000000000080000000000000009", (9,)),
    ]
    return FakeTopics({t.topic_id: t for t in topics}, {t.name: t.topic_id for t in topics}, BROKERS)


def test_hash_of_a_topic_is_kafkas() -> None:
    view = _view()
    assert {topic.name: topic_hash(topic, view) for topic in view.topics.values()} == FROM_KAFKA


def test_hash_of_a_group_is_kafkas_in_any_order_of_names() -> None:
    hashes = MetadataHashes()
    assert hashes.of_group([FOO, LONG, SHORT], _view()) == -892911922466021116
    assert hashes.of_group([SHORT, FOO, LONG], _view()) == -892911922466021116
    assert hashes.of_group([FOO], _view()) == 7956286774024507512


def test_topics_that_do_not_exist_do_not_count() -> None:
    hashes = MetadataHashes()
    assert hashes.of_group([], _view()) == 0
    assert hashes.of_group([TopicName("absent")], _view()) == 0
    assert hashes.of_group([FOO, TopicName("absent")], _view()) == 7956286774024507512


def test_a_broker_without_a_rack_does_not_count() -> None:
    with_rack, without = topics_of(a=1), topics_of(a=1)
    without = replace(without, brokers={})
    assert MetadataHashes().of_group([TopicName("a")], with_rack) == MetadataHashes().of_group(
        [TopicName("a")], without
    )


def test_a_topic_that_grows_has_another_hash() -> None:
    hashes = MetadataHashes()
    before = hashes.of_group([TopicName("a")], topics_of(a=1))
    assert hashes.of_group([TopicName("a")], topics_of(a=2)) != before
    assert hashes.of_group([TopicName("a")], topics_of(a=1)) == before

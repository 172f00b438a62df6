"""Brokers and clients do what they like, in any order; the metadata stays sound.

After every request: the image that the controller goes by is the one that is committed; every partition keeps the rules below; a
snapshot of the image gives the image again; and the whole log, replayed, gives it too.
"""

from __future__ import annotations

from random import Random

from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.metadata_node import SOMEBODY, MetadataNode, creatable, directory_id
from tidelog.controller.decision import Refusal
from tidelog.controller.image import NO_LEADER, ClusterImage
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.image_records import image_records
from tidelog.controller.placement import UsableBroker, place_replicas
from tidelog.model.ids import NodeId, Offset, PartitionIndex, TopicName
from tidelog.wire.messages import alter_partition as alter
from tidelog.wire.messages.broker_lifecycle import UnregisterBrokerRequest, UnregisterBrokerResponse
from tidelog.wire.messages.configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from tidelog.wire.messages.reassignments import ElectLeadersRequest, ElectLeadersResponse
from tidelog.wire.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

BROKERS = st.integers(1, 4)
TOPICS = st.sampled_from(["a", "b", "c.d", "c_d"])


class Cluster(RuleBasedStateMachine):
    """Four brokers and a handful of topics."""

    @initialize(seed=st.integers(0, 1000), eligible=st.booleans())
    def begin(self, seed: int, eligible: bool) -> None:
        self.node = MetadataNode(
            config={"metadata.max.idle.interval.ms": "0", "metadata.log.max.record.bytes.between.snapshots": "3000"},
            seed=seed,
        )
        self.node.start()
        if not eligible:
            update = FeatureUpdateKey(feature="eligible.leader.replicas.version", max_version_level=0, upgrade_type=2)
            answer = self.node.ask(UpdateFeaturesRequest(feature_updates=[update]), UpdateFeaturesResponse)
            assert answer.error_code == 0

    @property
    def image(self) -> ClusterImage:
        return self.node.image

    # Brokers

    @rule(broker=BROKERS, is_clean=st.booleans(), directories=st.integers(1, 2))
    def comes_up(self, broker: int, is_clean: bool, directories: int) -> None:
        known = self.image.brokers.get(NodeId(broker))
        request = self.node.registration(
            broker, previous_epoch=known.epoch if known and is_clean else -1, directories=directories
        )
        self.node.controller.handle(request, SOMEBODY)

    @rule(
        broker=BROKERS,
        want_fence=st.booleans(),
        want_shut_down=st.booleans(),
        is_behind=st.booleans(),
        loses=st.booleans(),
    )
    def reports(self, broker: int, want_fence: bool, want_shut_down: bool, is_behind: bool, loses: bool) -> None:
        known = self.image.brokers.get(NodeId(broker))
        if known is not None:
            self.node.heartbeat(
                broker,
                known.epoch,
                offset=0 if is_behind else None,
                want_fence=want_fence,
                want_shut_down=want_shut_down,
                offline=[directory_id(broker, 1)] if loses else (),
            )

    @rule(broker=BROKERS)
    def serves(self, broker: int) -> None:
        known = self.image.brokers.get(NodeId(broker))
        if known is not None:
            self.node.heartbeat(broker, known.epoch)

    @rule(milliseconds=st.sampled_from([100, 5000, 9500]))
    def time_passes(self, milliseconds: int) -> None:
        self.node.advance(milliseconds)

    @rule(broker=BROKERS)
    def is_forgotten(self, broker: int) -> None:
        self.node.ask(UnregisterBrokerRequest(broker_id=broker), UnregisterBrokerResponse)

    # Topics

    @rule(name=TOPICS, partitions=st.integers(0, 3), replicas=st.integers(-1, 4))
    def created(self, name: str, partitions: int, replicas: int) -> None:
        self.node.ask(CreateTopicsRequest(topics=[creatable(name, partitions, replicas)]), CreateTopicsResponse)

    @rule(name=TOPICS)
    def deleted(self, name: str) -> None:
        request = DeleteTopicsRequest(topics=[], topic_names=[name], timeout_ms=1)
        self.node.ask(request, DeleteTopicsResponse)

    @rule(name=TOPICS, count=st.integers(1, 5))
    def grown(self, name: str, count: int) -> None:
        topics = [CreatePartitionsTopic(name=name, count=count, assignments=None)]
        request = CreatePartitionsRequest(topics=topics, timeout_ms=1, validate_only=False)
        self.node.ask(request, CreatePartitionsResponse)

    @rule(
        name=TOPICS,
        key=st.sampled_from(["min.insync.replicas", "unclean.leader.election.enable"]),
        value=st.sampled_from(["1", "2", "true", "false", None]),
    )
    def configured(self, name: str, key: str, value: str | None) -> None:
        change = IncrementalAlterConfigsAlterableConfig(
            name=key, config_operation=1 if value is None else 0, value=value
        )
        resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=2, resource_name=name, configs=[change])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        self.node.ask(request, IncrementalAlterConfigsResponse)

    @rule(kind=st.sampled_from([0, 1]))
    def elected(self, kind: int) -> None:
        request = ElectLeadersRequest(election_type=kind, topic_partitions=None)
        self.node.ask(request, ElectLeadersResponse)

    @rule(name=TOPICS, data=st.data())
    def in_sync_set_changes(self, name: str, data: st.DataObject) -> None:
        topic = self.image.topic(TopicName(name))
        if topic is None:
            return
        index = data.draw(st.sampled_from(sorted(topic.partitions)))
        partition = topic.partitions[index]
        if partition.leader == NO_LEADER:
            return
        others = [node for node in partition.replicas if node != partition.leader]
        isr = [partition.leader, *data.draw(st.lists(st.sampled_from(others), unique=True) if others else st.just([]))]
        request = alter.AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=self.image.brokers[partition.leader].epoch,
            topics=[
                alter.TopicData(
                    topic_id=topic.topic_id,
                    partitions=[
                        alter.PartitionData(
                            partition_index=index,
                            leader_epoch=partition.leader_epoch,
                            partition_epoch=partition.partition_epoch,
                            new_isr_with_epochs=[alter.BrokerState(broker_id=node) for node in isr],
                        )
                    ],
                )
            ],
        )
        self.node.ask(request, alter.AlterPartitionResponse)

    # The node

    @rule(is_clean=st.booleans())
    def restarts(self, is_clean: bool) -> None:
        before = self.image
        if is_clean:
            self.node.stop()
        else:
            self.node.forget()
        self.node.start()
        assert self.image.topics == before.topics
        assert self.image.brokers == before.brokers
        assert self.image.configs == before.configs

    # What always holds

    @invariant()
    def what_is_decided_on_is_what_is_committed(self) -> None:
        term = self.node.controller._term
        assert term is not None
        assert not term.parked
        assert term.image.says_the_same(self.image)

    @invariant()
    def partitions_are_sound(self) -> None:
        has_elr = "eligible.leader.replicas.version" in self.image.features
        for topic in self.image.topics.values():
            assert list(topic.partitions) == [PartitionIndex(each) for each in range(len(topic.partitions))]
            for partition in topic.partitions.values():
                replicas, isr, elr = partition.replicas, partition.isr, partition.eligible_leader_replicas
                assert len(set(replicas)) == len(replicas) == len(partition.directories)
                assert set(isr) <= set(replicas)
                assert set(elr) <= set(replicas)
                assert not set(isr) & set(elr)
                assert has_elr or (isr and not elr)
                if partition.leader == NO_LEADER:
                    continue
                leader = self.image.brokers[partition.leader]
                assert partition.leader in isr
                assert not leader.fenced
                assert not leader.in_controlled_shutdown

    @invariant()
    def a_snapshot_says_the_same(self) -> None:
        delta = ImageDelta(ClusterImage())
        for framed in image_records(self.image):
            delta.apply(framed.message, Offset(0))
        assert delta.image(Offset(0), self.image.epoch, 0).says_the_same(self.image)

    @precondition(lambda self: self.node.log.start_offset() == 0)
    @invariant()
    def the_log_says_the_same(self) -> None:
        delta = ImageDelta(ClusterImage())
        for batch in self.node.batches():
            for number, framed in enumerate(batch.records):
                delta.apply(framed.message, Offset(batch.base_offset + number))
        assert delta.image(Offset(0), self.image.epoch, 0).says_the_same(self.image)

    def teardown(self) -> None:
        if hasattr(self, "node"):
            self.node.forget()


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=100, stateful_step_count=40)


@st.composite
def _brokers(draw: st.DrawFn) -> list[UsableBroker]:
    count = draw(st.integers(1, 12))
    racks = draw(st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=count, max_size=count))
    fenced = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    fenced[draw(st.integers(0, count - 1))] = False
    return [UsableBroker(NodeId(number), racks[number], fenced[number]) for number in range(count)]


@given(brokers=_brokers(), partitions=st.integers(1, 40), data=st.data(), seed=st.integers(0, 100))
def test_replicas_are_spread_over_racks_and_brokers(
    brokers: list[UsableBroker], partitions: int, data: st.DataObject, seed: int
) -> None:
    replicas = data.draw(st.integers(1, len(brokers)))

    placed = place_replicas(brokers, partitions=partitions, replicas=replicas, random=Random(seed))

    assert not isinstance(placed, Refusal)
    by_id = {broker.node_id: broker for broker in brokers}
    racks = {broker.rack for broker in brokers}
    assert len(placed) == partitions
    for nodes in placed:
        assert len(nodes) == len(set(nodes)) == replicas
        assert not by_id[nodes[0]].is_fenced
        assert len({by_id[node].rack for node in nodes}) == min(replicas, len(racks))
        for node in nodes:
            if by_id[node].is_fenced:
                rivals = {other.node_id for other in brokers if other.rack == by_id[node].rack and not other.is_fenced}
                assert rivals <= set(nodes)

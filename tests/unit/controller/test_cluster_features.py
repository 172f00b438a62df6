"""UpdateFeatures, AllocateProducerIds and DescribeQuorum."""

from __future__ import annotations

import pytest

from tests.support.metadata_node import CONTROLLER_ENDPOINT, MetadataNode
from tidelog.controller.cluster_features import QuorumFacts, UpgradeType, decide_update_features
from tidelog.controller.cluster_view import TopicDefaults
from tidelog.controller.decision import RefusedError
from tidelog.controller.image import (
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    ControllerRegistration,
    SupportedFeature,
)
from tidelog.controller.producer_ids import decide_allocate_producer_ids
from tidelog.model.config import LONG_MAX
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import BrokerEpoch, NodeId, ProducerId
from tidelog.wire.messages.features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from tidelog.wire.messages.internal.cluster_metadata import ConfigRecord, FeatureLevelRecord, ProducerIdsRecord
from tidelog.wire.messages.producers import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tidelog.wire.messages.quorum import (
    DescribeQuorumPartitionData,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopicData,
)

UP, SAFE, UNSAFE = UpgradeType
QUORUM = QuorumFacts(NodeId(1))


@pytest.fixture
def node() -> MetadataNode:
    node = MetadataNode(config={"metadata.max.idle.interval.ms": "0"})
    node.start()
    return node


class TestFeatures:
    def update(
        self, node: MetadataNode, *updates: tuple[str, int, int], validate_only: bool = False
    ) -> UpdateFeaturesResponse:
        request = UpdateFeaturesRequest(
            feature_updates=[
                FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
                for name, level, kind in updates
            ],
            validate_only=validate_only,
        )
        return node.ask(request, UpdateFeaturesResponse)

    def test_a_level_goes_down_and_up(self, node: MetadataNode) -> None:
        down = self.update(node, ("transaction.version", 1, SAFE), ("group.version", 0, UNSAFE))
        between = dict(node.image.features)
        up = self.update(node, ("transaction.version", 2, UP))

        assert (down.error_code, up.error_code) == (0, 0)
        assert [result.feature for result in down.results] == ["transaction.version", "group.version"]
        assert (between["transaction.version"], between.get("group.version")) == (1, None)
        assert node.image.features["transaction.version"] == 2

    def test_the_older_form_of_a_downgrade(self, node: MetadataNode) -> None:
        request = UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature="group.version", max_version_level=0, allow_downgrade=True)]
        )

        assert node.ask(request, UpdateFeaturesResponse).error_code == 0

    def test_validation_and_what_is_so_already_write_nothing(self, node: MetadataNode) -> None:
        end = node.image.offset

        self.update(node, ("group.version", 0, SAFE), validate_only=True)
        self.update(node, ("group.version", 1, UP))

        assert node.image.offset == end

    @pytest.mark.parametrize(
        ("name", "level", "kind", "reason"),
        [
            ("group.version", 1, 9, "does not support the given upgrade type"),
            ("group.version", -1, UP, "cannot be less than 0"),
            ("group.version", 7, UP, "Local controller 1 only supports versions 0-1"),
            ("unheard.of", 1, UP, "Local controller 1 does not support this feature."),
            ("unheard.of", 0, SAFE, "Feature unheard.of not found."),
            ("group.version", 0, UP, "Can't downgrade the version of this feature without"),
            ("group.version", 1, SAFE, None),
            ("kraft.version", 0, SAFE, "Can't downgrade the version of this feature."),
            ("metadata.version", 29, SAFE, "might delete metadata information"),
            ("metadata.version", 29, UNSAFE, "Unsafe metadata downgrade is not supported"),
            ("metadata.version", 5, SAFE, "only supports versions 7-30"),
        ],
    )
    def test_what_is_wrong_is_said(
        self, node: MetadataNode, name: str, level: int, kind: int, reason: str | None
    ) -> None:
        response = self.update(node, (name, level, kind))

        if reason is None:
            assert response.error_code == 0
        else:
            assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
            assert reason in (response.error_message or "")

    def test_all_updates_or_none(self, node: MetadataNode) -> None:
        before = dict(node.image.features)

        self.update(node, ("transaction.version", 1, SAFE), ("group.version", 9, UP))

        assert dict(node.image.features) == before

    def test_every_node_must_support_it(self) -> None:
        def image(*features: SupportedFeature) -> ClusterImage:
            broker = BrokerRegistration(
                node_id=NodeId(4),
                epoch=BrokerEpoch(1),
                incarnation_id=b"",
                endpoints=(),
                features=features,
                rack=None,
                fenced=False,
                in_controlled_shutdown=False,
                log_directories=(),
            )
            return ClusterImage(features={"metadata.version": 30}, brokers={NodeId(4): broker})

        request = UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature="group.version", max_version_level=1)]
        )

        with pytest.raises(RefusedError, match="Broker 4 does not support this feature"):
            decide_update_features(image(), request, QUORUM, TopicDefaults())
        with pytest.raises(RefusedError, match="Broker 4 only supports versions 0-0"):
            decide_update_features(image(SupportedFeature("group.version", 0, 0)), request, QUORUM, TopicDefaults())

    def test_a_level_of_metadata_that_changes_nothing_on_disk_may_go_down(self) -> None:
        image = ClusterImage(features={"metadata.version": 29})
        update = FeatureUpdateKey(feature="metadata.version", max_version_level=24, upgrade_type=SAFE)

        decision = decide_update_features(
            image, UpdateFeaturesRequest(feature_updates=[update]), QUORUM, TopicDefaults()
        )

        assert [framed.message for framed in decision.records] == [
            FeatureLevelRecord(name="metadata.version", feature_level=24)
        ]

    @pytest.mark.parametrize(
        ("level", "registered", "is_refused"), [(14, (), False), (15, (), True), (15, (2,), False)]
    )
    def test_every_voter_of_a_static_quorum_must_have_said_what_it_supports(
        self, level: int, registered: tuple[int, ...], *, is_refused: bool
    ) -> None:
        features = (SupportedFeature("group.version", 0, 1),)
        controllers = {
            NodeId(each): ControllerRegistration(NodeId(each), b"", False, (), features) for each in registered
        }
        image = ClusterImage(features={"metadata.version": level}, controllers=controllers)
        update = FeatureUpdateKey(feature="group.version", max_version_level=1)
        request = UpdateFeaturesRequest(feature_updates=[update])
        quorum = QuorumFacts(NodeId(1), kraft_version=0, static_voters=(NodeId(1), NodeId(2)))

        if is_refused:
            with pytest.raises(RefusedError, match="controller 2 has not registered, and may not support this feature"):
                decide_update_features(image, request, quorum, TopicDefaults())
        else:
            assert len(decide_update_features(image, request, quorum, TopicDefaults()).records) == 1

    def test_the_first_quorum_that_is_in_the_log_is_a_level_of_its_own(self) -> None:
        node = MetadataNode(levels={"metadata.version": 21}, is_static_quorum=True)
        service = node.start()
        assert service.quorum.kraft_version == 0

        assert self.update(node, ("kraft.version", 1, UP), validate_only=True).error_code == 0
        assert service.quorum.kraft_version == 0
        assert self.update(node, ("kraft.version", 1, UP), ("group.version", 1, UP)).error_code == 0

        assert service.quorum.kraft_version == 1
        assert node.image.features == {"metadata.version": 21, "group.version": 1}
        node.stop()
        assert node.start().quorum.kraft_version == 1

    def test_eligible_leaders_need_the_log_to_know_them(self) -> None:
        update = FeatureUpdateKey(feature="eligible.leader.replicas.version", max_version_level=1)
        request = UpdateFeaturesRequest(feature_updates=[update])

        with pytest.raises(RefusedError, match=r"because it depends on metadata\.version level 23"):
            decide_update_features(ClusterImage(features={"metadata.version": 22}), request, QUORUM, TopicDefaults())

    def test_with_them_there_is_one_minimum_for_the_cluster(self) -> None:
        image = ClusterImage(
            features={"metadata.version": 30}, configs={ConfigResource(4, "2"): {"min.insync.replicas": "3"}}
        )
        update = FeatureUpdateKey(feature="eligible.leader.replicas.version", max_version_level=1)

        decision = decide_update_features(
            image,
            UpdateFeaturesRequest(feature_updates=[update]),
            QUORUM,
            TopicDefaults({"min.insync.replicas": "2"}),
        )

        _, cluster, broker = (framed.message for framed in decision.records)
        assert cluster == ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="2")
        assert broker == ConfigRecord(resource_type=4, resource_name="2", name="min.insync.replicas", value=None)


class TestProducerIds:
    def test_blocks_follow_each_other(self, node: MetadataNode) -> None:
        epochs = node.serve(1)
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epochs[1])

        blocks = [node.ask(request, AllocateProducerIdsResponse) for _ in range(3)]

        assert [(block.producer_id_start, block.producer_id_len) for block in blocks] == [
            (0, 1000),
            (1000, 1000),
            (2000, 1000),
        ]
        assert node.records()[-1] == ProducerIdsRecord(broker_id=1, broker_epoch=epochs[1], next_producer_id=3000)

    def test_none_is_given_twice_over_a_crash(self, node: MetadataNode) -> None:
        epochs = node.serve(1)
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epochs[1])
        before = node.ask(request, AllocateProducerIdsResponse).producer_id_start
        node.forget()
        node.start()

        assert node.ask(request, AllocateProducerIdsResponse).producer_id_start == before + 1000

    def test_a_former_life_gets_none(self, node: MetadataNode) -> None:
        epochs = node.serve(1)
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epochs[1] - 1)

        response = node.ask(request, AllocateProducerIdsResponse)

        assert (response.error_code, response.producer_id_len) == (ErrorCode.STALE_BROKER_EPOCH, 0)

    def test_they_are_many_but_not_without_end(self, node: MetadataNode) -> None:
        epochs = node.serve(1)
        image = ClusterImage(brokers=node.image.brokers, next_producer_id=ProducerId(LONG_MAX - 500))

        with pytest.raises(RefusedError):
            decide_allocate_producer_ids(image, AllocateProducerIdsRequest(broker_id=1, broker_epoch=epochs[1]))


class TestDescribingTheQuorum:
    def describe(self, node: MetadataNode, topic: str = "__cluster_metadata", index: int = 0) -> DescribeQuorumResponse:
        partitions = [DescribeQuorumPartitionData(partition_index=index)]
        request = DescribeQuorumRequest(topics=[DescribeQuorumTopicData(topic_name=topic, partitions=partitions)])
        return node.ask(request, DescribeQuorumResponse)

    def test_the_leader_and_its_voters(self, node: MetadataNode) -> None:
        response = self.describe(node)

        [partition] = response.topics[0].partitions
        assert (response.error_code, partition.error_code) == (0, 0)
        assert (partition.leader_id, partition.leader_epoch) == (1, 1)
        assert partition.high_watermark == node.image.offset + 1
        [voter] = partition.current_voters
        assert (voter.replica_id, voter.log_end_offset) == (1, node.image.offset + 1)
        assert voter.last_caught_up_timestamp == node.clock.now_ms()
        assert node.service is not None
        assert voter.replica_directory_id == node.service.quorum.local.key.directory_id

    def test_where_the_voters_listen(self, node: MetadataNode) -> None:
        [voter] = self.describe(node).nodes

        assert voter.node_id == 1
        assert [(each.name, each.host, each.port) for each in voter.listeners] == [
            (CONTROLLER_ENDPOINT.name, CONTROLLER_ENDPOINT.host, CONTROLLER_ENDPOINT.port)
        ]

    @pytest.mark.parametrize(("topic", "index"), [("orders", 0), ("__cluster_metadata", 1)])
    def test_no_other_partition_has_one(self, node: MetadataNode, topic: str, index: int) -> None:
        [partition] = self.describe(node, topic, index).topics[0].partitions

        assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

"""CreatePartitions, AlterPartition, ElectLeaders and AssignReplicasToDirs; and elections in every constellation."""

from __future__ import annotations

import pytest

from tests.support.metadata_node import MetadataNode, directory_id
from tidelog.controller.cluster_view import TopicDefaults
from tidelog.controller.image import (
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    LeaderRecovery,
    Partition,
    Topic,
)
from tidelog.controller.partition_changes import Election, change_partition
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    BrokerEpoch,
    DirectoryId,
    LeaderEpoch,
    NodeId,
    PartitionIndex,
    TopicId,
    TopicName,
)
from tidelog.wire.messages import alter_partition as alter, log_dirs, reassignments as elections
from tidelog.wire.messages.internal.cluster_metadata import ConfigRecord, PartitionChangeRecord
from tidelog.wire.messages.topics import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

ORDERS = TopicName("orders")
FIRST = PartitionIndex(0)


@pytest.fixture
def node() -> MetadataNode:
    """Three active brokers and a topic with two partitions of three replicas."""
    node = MetadataNode(config={"metadata.max.idle.interval.ms": "0"})
    node.start()
    node.serve(1, 2, 3)
    node.create_topic("orders", assignments={0: [1, 2, 3], 1: [2, 3, 1]})
    return node


def partition(node: MetadataNode, index: int = 0) -> Partition:
    topic = node.image.topic(ORDERS)
    assert topic is not None
    return topic.partitions[PartitionIndex(index)]


def epoch_of(node: MetadataNode, broker: int) -> int:
    return node.image.brokers[NodeId(broker)].epoch


class TestCreatingPartitions:
    def grow(
        self, node: MetadataNode, count: int, assignments: list[list[int]] | None = None, *, validate_only: bool = False
    ) -> CreatePartitionsTopicResult:
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(
                    name="orders",
                    count=count,
                    assignments=None
                    if assignments is None
                    else [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments],
                )
            ],
            timeout_ms=1000,
            validate_only=validate_only,
        )
        [result] = node.ask(request, CreatePartitionsResponse).results
        return result

    def test_they_are_placed_with_as_many_replicas_as_the_others(self, node: MetadataNode) -> None:
        assert self.grow(node, 5).error_code == 0

        topic = node.image.topic(ORDERS)
        assert topic is not None
        assert list(topic.partitions) == [0, 1, 2, 3, 4]
        assert {len(each.replicas) for each in topic.partitions.values()} == {3}

    def test_or_where_somebody_says(self, node: MetadataNode) -> None:
        assert self.grow(node, 3, [[3, 1, 2]]).error_code == 0

        assert partition(node, 2).replicas == (3, 1, 2)

    def test_validation_writes_nothing(self, node: MetadataNode) -> None:
        end = node.image.offset

        assert self.grow(node, 3, validate_only=True).error_code == 0
        assert node.image.offset == end

    @pytest.mark.parametrize(
        ("count", "assignments", "error", "message"),
        [
            (2, None, ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
            (1, None, ErrorCode.INVALID_PARTITIONS, "1 would not be an increase"),
            (20_000, None, ErrorCode.POLICY_VIOLATION, "Excessively large"),
            (4, [[1, 2, 3]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "but only 1 assignment(s) were specified"),
            (3, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "which have 3 replica(s)"),
            (3, [[1, 2, 9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "includes broker 9"),
        ],
    )
    def test_what_is_wrong_is_said(
        self, node: MetadataNode, count: int, assignments: list[list[int]] | None, error: ErrorCode, message: str
    ) -> None:
        result = self.grow(node, count, assignments)

        assert result.error_code == error
        assert message in (result.error_message or "")

    def test_a_topic_that_is_not_there_or_comes_twice(self, node: MetadataNode) -> None:
        names = ["missing", "orders", "orders"]
        topics = [CreatePartitionsTopic(name=name, count=9, assignments=None) for name in names]
        request = CreatePartitionsRequest(topics=topics, timeout_ms=1000, validate_only=False)

        results = node.ask(request, CreatePartitionsResponse).results

        assert [(result.name, result.error_code) for result in results] == [
            ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("orders", ErrorCode.INVALID_REQUEST),
        ]

    def test_too_few_brokers_are_left(self, node: MetadataNode) -> None:
        node.heartbeat(1, epoch_of(node, 1), want_shut_down=True)

        result = self.grow(node, 3)

        assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


class TestAlteringTheInSyncSet:
    def propose(
        self,
        node: MetadataNode,
        isr: list[int],
        *,
        asking: int = 1,
        asking_epoch: int | None = None,
        leader_epoch: int | None = None,
        partition_epoch: int | None = None,
        recovery: int = 0,
        isr_epochs: dict[int, int] | None = None,
        index: int = 0,
        topic_id: bytes | None = None,
        with_epochs: bool = True,
    ) -> alter.AlterPartitionPartitionData | int:
        before = partition(node)
        data = alter.PartitionData(
            partition_index=index,
            leader_epoch=before.leader_epoch if leader_epoch is None else leader_epoch,
            partition_epoch=before.partition_epoch if partition_epoch is None else partition_epoch,
            leader_recovery_state=recovery,
            new_isr=[] if with_epochs else isr,
            new_isr_with_epochs=[
                alter.BrokerState(broker_id=each, broker_epoch=(isr_epochs or {}).get(each, -1)) for each in isr
            ]
            if with_epochs
            else [],
        )
        request = alter.AlterPartitionRequest(
            broker_id=asking,
            broker_epoch=epoch_of(node, asking) if asking_epoch is None else asking_epoch,
            topics=[alter.TopicData(topic_id=topic_id or node.image.topic_ids[ORDERS], partitions=[data])],
        )
        response = node.ask(request, alter.AlterPartitionResponse)
        if response.error_code:
            return response.error_code
        return response.topics[0].partitions[0]

    def error(self, outcome: alter.AlterPartitionPartitionData | int) -> int:
        return outcome if isinstance(outcome, int) else outcome.error_code

    def test_it_shrinks_and_grows(self, node: MetadataNode) -> None:
        shrunk = self.propose(node, [1, 2])
        between = partition(node)
        grown = self.propose(node, [1, 2, 3], isr_epochs={3: epoch_of(node, 3)})

        assert (between.isr, between.leader, between.leader_epoch, between.partition_epoch) == ((1, 2), 1, 0, 1)
        assert isinstance(shrunk, alter.AlterPartitionPartitionData)
        assert (shrunk.isr, shrunk.partition_epoch, shrunk.leader_epoch) == ([1, 2], 1, 0)
        assert isinstance(grown, alter.AlterPartitionPartitionData)
        assert (grown.isr, grown.partition_epoch) == ([1, 2, 3], 2)
        assert partition(node).isr == (1, 2, 3)

    def test_the_older_form_without_epochs(self, node: MetadataNode) -> None:
        assert self.error(self.propose(node, [1, 3], with_epochs=False)) == 0
        assert partition(node).isr == (1, 3)

    def test_what_is_so_already_writes_nothing(self, node: MetadataNode) -> None:
        end = node.image.offset

        assert self.error(self.propose(node, [1, 2, 3])) == 0
        assert node.image.offset == end

    def test_a_leader_that_has_recovered_says_so(self) -> None:
        node = MetadataNode(config={"metadata.max.idle.interval.ms": "0"})
        node.start()
        node.serve(1)
        node.create_topic("orders")
        node.forget()
        node.start()
        node.heartbeat(1, node.register(1))
        before = partition(node).leader_recovery

        refused = self.error(self.propose(node, [1], recovery=7))
        unchanged = self.error(self.propose(node, [1], recovery=1))
        recovered = self.error(self.propose(node, [1]))

        assert before is LeaderRecovery.RECOVERING
        assert (refused, unchanged, recovered) == (ErrorCode.INVALID_REQUEST, 0, 0)
        assert partition(node).leader_recovery is LeaderRecovery.RECOVERED

    @pytest.mark.parametrize(
        ("changes", "error"),
        [
            ({"asking_epoch": 1}, ErrorCode.STALE_BROKER_EPOCH),
            ({"topic_id": b"x" * 16}, ErrorCode.UNKNOWN_TOPIC_ID),
            ({"index": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ({"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
            ({"partition_epoch": 1}, ErrorCode.NOT_CONTROLLER),
            ({"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
            ({"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
            ({"asking": 2}, ErrorCode.INVALID_REQUEST),
            ({"isr": [1, 9]}, ErrorCode.INVALID_REQUEST),
            ({"isr": [1, 2, 2]}, ErrorCode.INVALID_REQUEST),
            ({"isr": [2, 3]}, ErrorCode.INVALID_REQUEST),
            ({"recovery": 1, "isr": [1]}, ErrorCode.INVALID_REQUEST),
            ({"isr_epochs": {2: 1}}, ErrorCode.INELIGIBLE_REPLICA),
        ],
        ids=str,
    )
    def test_what_does_not_fit_is_refused(
        self, node: MetadataNode, changes: dict[str, object], error: ErrorCode
    ) -> None:
        end = node.image.offset

        outcome = self.propose(node, **{"isr": [1, 2], **changes})  # type: ignore[arg-type]

        assert self.error(outcome) == error
        assert node.image.offset == end

    def test_a_fenced_broker_is_not_in_sync(self, node: MetadataNode) -> None:
        node.heartbeat(3, epoch_of(node, 3), want_fence=True)

        assert self.error(self.propose(node, [1, 2, 3])) == ErrorCode.INELIGIBLE_REPLICA


class TestElections:
    def elect(
        self, node: MetadataNode, partitions: list[int] | None, *, kind: int = 0, topic: str = "orders"
    ) -> elections.ElectLeadersResponse:
        asked = None if partitions is None else [elections.TopicPartitions(topic=topic, partitions=partitions)]
        request = elections.ElectLeadersRequest(election_type=kind, topic_partitions=asked)
        return node.ask(request, elections.ElectLeadersResponse)

    def results(self, response: elections.ElectLeadersResponse) -> dict[int, int]:
        return {
            result.partition_id: result.error_code
            for topic in response.replica_election_results
            for result in topic.partition_result
        }

    def displaced(self, node: MetadataNode) -> None:
        """Broker 1 goes and comes back, in sync: partition 0 is led by broker 2."""
        epoch = epoch_of(node, 1)
        node.heartbeat(1, epoch, want_fence=True)
        node.heartbeat(1, epoch)
        TestAlteringTheInSyncSet().propose(node, [2, 3, 1], asking=2)
        assert partition(node).leader == 2

    def test_the_first_replica_leads_again(self, node: MetadataNode) -> None:
        self.displaced(node)

        assert self.results(self.elect(node, [0, 1])) == {0: 0, 1: ErrorCode.ELECTION_NOT_NEEDED}
        assert partition(node).leader == 1

    def test_asked_for_all_only_those_that_needed_it_are_told_of(self, node: MetadataNode) -> None:
        self.displaced(node)

        assert self.results(self.elect(node, None)) == {0: 0}

    def test_it_must_be_in_sync(self, node: MetadataNode) -> None:
        epoch = epoch_of(node, 1)
        node.heartbeat(1, epoch, want_fence=True)
        node.heartbeat(1, epoch)

        assert self.results(self.elect(node, [0])) == {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}

    def test_an_unclean_one_needs_somebody(self, node: MetadataNode) -> None:
        node.serve(4)
        node.create_topic("alone", assignments={0: [4]})
        node.heartbeat(4, epoch_of(node, 4), want_fence=True)

        response = self.elect(node, [0], kind=1, topic="alone")

        assert self.results(response) == {0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
        assert self.results(self.elect(node, [0], kind=1)) == {0: ErrorCode.ELECTION_NOT_NEEDED}

    def test_what_is_not_there(self, node: MetadataNode) -> None:
        assert self.results(self.elect(node, [9])) == {9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert self.results(self.elect(node, [0], topic="missing")) == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert self.elect(node, [0], kind=7).error_code == ErrorCode.INVALID_REQUEST

    def test_it_happens_by_itself_after_a_while(self, node: MetadataNode) -> None:
        self.displaced(node)

        for _ in range(61):
            for broker in (1, 2, 3):
                node.heartbeat(broker, epoch_of(node, broker))
            node.advance(5000)

        assert partition(node).leader == 1

    def test_unless_it_is_switched_off(self) -> None:
        node = MetadataNode(config={"auto.leader.rebalance.enable": "false", "metadata.max.idle.interval.ms": "0"})
        node.start()
        node.serve(1, 2, 3)
        node.create_topic("orders", assignments={0: [1, 2, 3]})
        self.displaced(node)

        for _ in range(61):
            for broker in (1, 2, 3):
                node.heartbeat(broker, epoch_of(node, broker))
            node.advance(5000)

        assert partition(node).leader == 2


class TestAssigningDirectories:
    def assign(
        self, node: MetadataNode, broker: int, directory: bytes, *, index: int = 0, topic: bytes | None = None
    ) -> int:
        request = log_dirs.AssignReplicasToDirsRequest(
            broker_id=broker,
            broker_epoch=epoch_of(node, broker),
            directories=[
                log_dirs.DirectoryData(
                    id=directory,
                    topics=[
                        log_dirs.TopicData(
                            topic_id=topic or node.image.topic_ids[ORDERS],
                            partitions=[log_dirs.PartitionData(partition_index=index)],
                        )
                    ],
                )
            ],
        )
        response = node.ask(request, log_dirs.AssignReplicasToDirsResponse)
        assert response.error_code == 0
        return response.directories[0].topics[0].partitions[0].error_code

    def test_a_broker_says_where_its_replica_lies(self) -> None:
        node = MetadataNode()
        node.start()
        node.serve(1, directories=2)
        node.create_topic("orders")

        assert self.assign(node, 1, directory_id(1, 1)) == 0

        after = partition(node)
        assert after.directories == (directory_id(1, 1),)
        assert (after.leader, after.leader_epoch, after.partition_epoch) == (1, 0, 1)

    def test_in_a_directory_that_is_offline_by_now_it_leads_nothing(self, node: MetadataNode) -> None:
        assert self.assign(node, 1, b"gone............") == 0

        after = partition(node)
        assert (after.leader, after.isr) == (2, (2, 3))

    def test_what_is_not_there(self, node: MetadataNode) -> None:
        node.serve(4)

        assert self.assign(node, 1, directory_id(1), topic=b"x" * 16) == ErrorCode.UNKNOWN_TOPIC_ID
        assert self.assign(node, 1, directory_id(1), index=9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert self.assign(node, 4, directory_id(4)) == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_of_a_former_life_is_refused(self, node: MetadataNode) -> None:
        request = log_dirs.AssignReplicasToDirsRequest(broker_id=1, broker_epoch=0, directories=[])

        response = node.ask(request, log_dirs.AssignReplicasToDirsResponse)

        assert response.error_code == ErrorCode.STALE_BROKER_EPOCH


# --- elections in every constellation ---------------------------------------------------------------------------------------

TOPIC_ID = TopicId(b"t" * 16)


def cluster(
    state: Partition, *, active: tuple[int, ...], has_elr: bool = True, min_isr: int = 2, unclean: bool = False
) -> tuple[ClusterImage, Topic]:
    """Brokers 1 to 4, of which some are active, and one partition."""
    brokers = {
        NodeId(node): BrokerRegistration(
            node_id=NodeId(node),
            epoch=BrokerEpoch(node),
            incarnation_id=b"",
            endpoints=(),
            features=(),
            rack=None,
            fenced=node not in active,
            in_controlled_shutdown=False,
            log_directories=(directory_id(node),),
        )
        for node in range(1, 5)
    }
    topic = Topic(ORDERS, TOPIC_ID, {FIRST: state})
    features = {"metadata.version": 30} | ({"eligible.leader.replicas.version": 1} if has_elr else {})
    configs = {
        ConfigResource(2, "orders"): {
            "min.insync.replicas": str(min_isr),
            "unclean.leader.election.enable": str(unclean).lower(),
        }
    }
    image = ClusterImage(
        features=features, brokers=brokers, topics={TOPIC_ID: topic}, topic_ids={ORDERS: TOPIC_ID}, configs=configs
    )
    return image, topic


def state(
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] = (1, 2, 3),
    leader: int = 1,
    *,
    elr: tuple[int, ...] = (),
    last: tuple[int, ...] = (),
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
    recovery: LeaderRecovery = LeaderRecovery.RECOVERED,
) -> Partition:
    def nodes(ids: tuple[int, ...]) -> tuple[NodeId, ...]:
        return tuple(map(NodeId, ids))

    return Partition(
        replicas=nodes(replicas),
        directories=tuple(DirectoryId(directory_id(node)) for node in replicas),
        isr=nodes(isr),
        leader=NodeId(leader),
        leader_epoch=LeaderEpoch(4),
        partition_epoch=9,
        leader_recovery=recovery,
        eligible_leader_replicas=nodes(elr),
        last_known_elr=nodes(last),
        adding_replicas=nodes(adding),
        removing_replicas=nodes(removing),
    )


def changed(
    before: Partition,
    *,
    active: tuple[int, ...],
    isr: tuple[int, ...] | None = None,
    election: Election | None = None,
    unclean_stop: int | None = None,
    has_elr: bool = True,
    min_isr: int = 2,
    unclean: bool = False,
) -> dict[str, object]:
    """The fields of the record that a change comes to; empty where there is none."""
    image, topic = cluster(before, active=active, has_elr=has_elr, min_isr=min_isr, unclean=unclean)
    framed = change_partition(
        image,
        topic,
        FIRST,
        TopicDefaults(),
        isr=None if isr is None else [NodeId(node) for node in isr],
        election=election,
        unclean_stop=None if unclean_stop is None else NodeId(unclean_stop),
    )
    if framed is None:
        return {}
    assert framed.version == 2
    record = framed.message
    assert isinstance(record, PartitionChangeRecord)
    nothing = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID)
    return {
        name: getattr(record, name)
        for name in record.__struct_fields__
        if getattr(record, name) != getattr(nothing, name)
    }


class TestChangingAPartition:
    def test_nothing_where_all_is_well(self) -> None:
        assert changed(state(), active=(1, 2, 3)) == {}

    def test_the_leader_stays_while_it_may(self) -> None:
        assert changed(state(leader=2), active=(1, 2, 3)) == {}
        assert changed(state(leader=2), active=(1, 2, 3), isr=(2, 3)) == {"isr": [2, 3]}

    def test_else_the_first_replica_in_sync_leads(self) -> None:
        assert changed(state(), active=(2, 3), isr=(3, 2)) == {"isr": [3, 2], "leader": 2}

    def test_the_preferred_one_if_it_may(self) -> None:
        assert changed(state(leader=2), active=(1, 2, 3), election=Election.PREFERRED) == {"leader": 1}
        assert changed(state(leader=2, isr=(2, 3)), active=(1, 2, 3), election=Election.PREFERRED) == {}

    def test_below_the_minimum_who_leaves_stays_eligible(self) -> None:
        assert changed(state(), active=(1,), isr=(1,)) == {"isr": [1], "eligible_leader_replicas": [2, 3]}

    def test_but_not_after_an_unclean_stop(self) -> None:
        assert changed(state(), active=(1,), isr=(1,), unclean_stop=2) == {
            "isr": [1],
            "eligible_leader_replicas": [3],
        }

    def test_with_enough_in_sync_nobody_else_is_eligible(self) -> None:
        assert changed(state(isr=(1,), elr=(2, 3)), active=(1, 2), isr=(1, 2)) == {
            "isr": [1, 2],
            "eligible_leader_replicas": [],
        }

    def test_the_last_one_leaves_and_is_remembered(self) -> None:
        assert changed(state(isr=(1,), elr=(2,)), active=(), isr=()) == {
            "isr": [],
            "leader": -1,
            "eligible_leader_replicas": [1, 2],
            "last_known_elr": [1],
        }

    def test_an_eligible_one_leads_cleanly(self) -> None:
        assert changed(state(isr=(), leader=-1, elr=(1, 2), last=(1,)), active=(2, 3)) == {
            "isr": [2],
            "leader": 2,
            "eligible_leader_replicas": [1],
            "last_known_elr": [],
        }

    def test_without_any_the_one_that_led_last_recovers(self) -> None:
        assert changed(state(isr=(), leader=-1, last=(2,)), active=(2, 3)) == {
            "isr": [2],
            "leader": 2,
            "leader_recovery_state": 1,
            "last_known_elr": [],
        }

    def test_only_that_one(self) -> None:
        assert changed(state(isr=(), leader=-1, last=(2,)), active=(1, 3)) == {}

    def test_any_replica_where_the_topic_allows_it(self) -> None:
        assert changed(state(isr=(), leader=-1, elr=(1,), last=(1,)), active=(3,), unclean=True) == {
            "isr": [3],
            "leader": 3,
            "leader_recovery_state": 1,
            "eligible_leader_replicas": [],
            "last_known_elr": [],
        }

    def test_one_that_recovers_already_need_not_be_told(self) -> None:
        before = state(isr=(), leader=-1, last=(2,), recovery=LeaderRecovery.RECOVERING)

        assert "leader_recovery_state" not in changed(before, active=(2,))

    def test_without_eligible_replicas_the_last_one_in_sync_stays_so(self) -> None:
        assert changed(state(isr=(1,)), active=(), isr=(), has_elr=False) == {"leader": -1}
        assert changed(state(isr=(1,), leader=-1), active=(1,), has_elr=False) == {"leader": 1}

    def test_an_old_list_of_eligible_ones_goes_where_the_feature_is_off(self) -> None:
        assert changed(state(isr=(1,), elr=(2,)), active=(1,), has_elr=False) == {"eligible_leader_replicas": []}

    def test_a_reassignment_ends_when_the_new_ones_are_in_sync(self) -> None:
        before = state(replicas=(1, 2, 3, 4), isr=(1, 2, 3), adding=(4,), removing=(1,))

        assert changed(before, active=(1, 2, 3, 4)) == {}
        assert changed(before, active=(1, 2, 3, 4), isr=(1, 2, 3, 4)) == {
            "replicas": [2, 3, 4],
            "isr": [2, 3, 4],
            "leader": 2,
            "adding_replicas": [],
            "removing_replicas": [],
            "directories": [directory_id(2), directory_id(3), directory_id(4)],
        }

    def test_one_that_leaves_without_leading_notices_by_the_epoch(self) -> None:
        before = state(replicas=(1, 2, 3), isr=(1, 2), removing=(3,))

        assert changed(before, active=(1, 2, 3))["leader"] == 1

    def test_a_minimum_beyond_the_replicas_is_as_many_as_there_are(self) -> None:
        assert changed(state(replicas=(1,), isr=(1,)), active=(1,), min_isr=5) == {}


def test_the_minimum_comes_from_topic_cluster_and_configuration() -> None:
    node = MetadataNode(topic_defaults={"min.insync.replicas": "2"})
    node.start()

    [record] = [
        record for record in node.records() if isinstance(record, ConfigRecord) and record.name == "min.insync.replicas"
    ]

    # The first leader writes down what counts for the cluster.
    assert record.value == "2"

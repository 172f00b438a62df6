"""The host of a replica: of a quorum of one, and of a quorum of three."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest

from tests.support.log_builder import HeldSlowWork
from tests.support.metadata_cluster import MetadataCluster
from tests.support.metadata_node import MetadataNode, creatable
from tidelog.controller.controller import ControllerContext
from tidelog.controller.errors import UnsupportedFeatureError
from tidelog.controller.features import METADATA_VERSION
from tidelog.controller.formatting import bootstrap_records
from tidelog.controller.metadata_log import LoggedBatch
from tidelog.controller.quorum import MetadataQuorum, quorum_config
from tidelog.controller.snapshot_file import Snapshot
from tidelog.model.controller_config import CONTROLLER_CONFIG_KEYS
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, TopicName
from tidelog.raft.log_view import OffsetAndEpoch
from tidelog.raft.messages import FetchRequest, FetchResponse, FetchSnapshotRequest, FetchSnapshotResponse
from tidelog.raft.voter_set import ReplicaKey
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.errors import DamagedFileError, StorageError
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.broker_lifecycle import BrokerHeartbeatRequest
from tidelog.wire.messages.internal.cluster_metadata import FeatureLevelRecord, NoOpRecord
from tidelog.wire.messages.topics import CreateTopicsRequest, CreateTopicsResponse

NO_OP = FramedRecord(NoOpRecord(), 0)


def storage_faults(node: MetadataNode) -> list[StorageError]:
    return [fault for fault in node.faults if isinstance(fault, StorageError)]


class Listener:
    """Notes what it is told; may append when it hears that it leads."""

    def __init__(self, quorum: MetadataQuorum, on_lead: Sequence[Sequence[FramedRecord]] = ()) -> None:
        self._quorum = quorum
        self._on_lead = on_lead
        self.told: list[tuple[str, int]] = []

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, snapshot: Snapshot) -> None:
        self.told.append(("snapshot", snapshot_id.offset))

    def commit(self, batches: Sequence[LoggedBatch]) -> None:
        self.told += (("commit", batch.base_offset) for batch in batches)

    def lead(self, epoch: LeaderEpoch) -> None:
        self.told.append(("lead", epoch))
        for records in self._on_lead:
            appended = self._quorum.append(records, epoch)
            assert appended is not None
            self.told.append(("appended", appended.base_offset))

    def resign(self, epoch: LeaderEpoch) -> None:
        self.told.append(("resign", epoch))


@pytest.fixture
def node() -> MetadataNode:
    return MetadataNode()


def test_settings_come_from_the_configuration() -> None:
    values = CONTROLLER_CONFIG_KEYS.parse(
        {"controller.quorum.election.timeout.ms": "5", "controller.quorum.auto.join.enable": "true"}
    )

    config = quorum_config(values)

    assert (config.election_timeout_ms, config.fetch_timeout_ms, config.auto_join_enable) == (5, 2000, True)


class TestAQuorumOfOne:
    def test_leads_as_soon_as_its_first_writes_are_durable(self, node: MetadataNode) -> None:
        work = node.slow_work = HeldSlowWork()
        service = node.open()
        service.start()
        before = service.quorum.is_leader

        while work.held:
            work.run()

        assert (before, service.quorum.is_leader) == (False, True)
        assert (service.quorum.leader_id, service.quorum.epoch) == (1, 1)
        assert service.quorum.delivered == service.quorum.high_watermark == service.quorum.next_offset

    def test_every_start_is_an_epoch(self, node: MetadataNode) -> None:
        for epoch in (1, 2, 3):
            service = node.start()
            assert service.quorum.epoch == epoch
            node.stop()

    def test_listeners_hear_of_everything_once_and_in_order(self, node: MetadataNode) -> None:
        service = node.open()
        listener = Listener(service.quorum, [[NO_OP], [NO_OP, NO_OP]])
        service.quorum.add_listener(listener)

        service.start()

        # Control batch, bootstrap records and registration come from the controller, which is the listener before.
        assert listener.told == [
            ("snapshot", 0),
            ("commit", 0),
            ("lead", 1),
            ("appended", 13),
            ("appended", 14),
            ("commit", 3),
            ("commit", 12),
            ("commit", 13),
            ("commit", 14),
        ]

    def test_nothing_is_delivered_before_the_disk_has_it(self, node: MetadataNode) -> None:
        service = node.start()
        work = HeldSlowWork()
        node.forget()
        node.slow_work = work
        service = node.open()
        listener = Listener(service.quorum)
        service.quorum.add_listener(listener)
        service.start()
        while work.held:
            work.run()
        before = len(listener.told)

        appended = service.quorum.append([NO_OP], service.quorum.epoch)

        assert appended is not None
        assert len(listener.told) == before
        work.run()
        assert listener.told[before:] == [("commit", appended.base_offset)]

    def test_appends_only_in_the_epoch_that_it_leads(self, node: MetadataNode) -> None:
        service = node.start()
        end = service.quorum.next_offset

        assert service.quorum.append([NO_OP], LeaderEpoch(7)) is None
        node.stop()
        assert service.quorum.append([NO_OP], LeaderEpoch(1)) is None
        assert service.quorum.next_offset == end

    def test_a_clean_stop_needs_nobody(self, node: MetadataNode) -> None:
        service = node.start()
        listener = Listener(service.quorum)
        service.quorum.add_listener(listener)

        outcome = service.quorum.shutdown(1000)

        assert outcome.value
        assert ("resign", 1) in listener.told
        assert not service.quorum.is_leader
        service.close()
        assert service.quorum.shutdown(1000) is outcome

    def test_a_stop_after_the_end_is_no_clean_one(self, node: MetadataNode) -> None:
        service = node.start()
        service.abandon()

        assert not service.quorum.shutdown(1000).value

    def test_describes_itself(self, node: MetadataNode) -> None:
        service = node.start()

        description = service.quorum.describe()

        assert description is not None
        assert (description.leader_id, description.epoch) == (1, 1)
        assert [voter.end_offset for voter in description.voters] == [service.quorum.next_offset]

    def test_a_disk_that_fails_stops_it_and_tells(self, node: MetadataNode) -> None:
        service = node.start()
        listener = Listener(service.quorum)
        service.quorum.add_listener(listener)
        assert isinstance(node.disk, SimulatedDisk)
        node.disk.fail("pwritev", "*.log", errno.EIO)

        assert service.quorum.append([NO_OP], service.quorum.epoch) is None

        assert [fault.errno for fault in storage_faults(node)] == [errno.EIO]
        assert listener.told == [("resign", 1)]
        assert not service.quorum.is_leader
        node.advance(5000)
        assert len(node.faults) == 1

    def test_a_disk_that_fails_in_the_background_stops_it_too(self, node: MetadataNode) -> None:
        service = node.start()
        assert isinstance(node.disk, SimulatedDisk)
        node.disk.fail("sync", "*.log", errno.EIO)

        service.quorum.append([NO_OP], service.quorum.epoch)

        assert [fault.errno for fault in storage_faults(node)] == [errno.EIO]
        assert not service.quorum.is_leader

    @pytest.mark.parametrize("level", [6, 31])
    def test_a_level_to_begin_with_that_is_not_served_stops_it(self, level: int) -> None:
        node = MetadataNode(levels={METADATA_VERSION: level})

        service = node.start()

        [fault] = node.faults
        assert str(fault).startswith(f"the cluster uses metadata.version at level {level}; this release works with ")
        assert not service.quorum.is_leader
        # Nothing of it is in the log, which a release that serves the level can begin.
        node.forget()
        assert node.open().log.end().offset == service.log.end().offset

    @pytest.mark.parametrize(
        ("name", "level"), [(METADATA_VERSION, 31), (METADATA_VERSION, 6), ("teleport.version", 1)]
    )
    def test_a_level_that_comes_with_the_log_and_is_not_served_stops_it(
        self, node: MetadataNode, name: str, level: int
    ) -> None:
        service = node.start()
        listener = Listener(service.quorum)
        service.quorum.add_listener(listener)
        raised = FramedRecord(FeatureLevelRecord(name=name, feature_level=level), 0)

        service.quorum.append([raised], service.quorum.epoch)

        [fault] = node.faults
        assert isinstance(fault, UnsupportedFeatureError)
        assert f"{name} at level {level}" in str(fault)
        assert listener.told == [("resign", 1)]
        assert not service.quorum.is_leader
        # The next start finds it in the log.
        node.forget()
        node.start()
        assert [str(each) for each in node.faults] == [str(fault)] * 2

    def test_a_log_that_cannot_be_read_keeps_it_from_starting(self, node: MetadataNode) -> None:
        node.start()
        node.stop()
        name = next(name for name in node.file_names() if name.endswith(".checkpoint"))
        node.disk.open(f"{node.directory}/__cluster_metadata-0/{name}").truncate(100)

        with pytest.raises(DamagedFileError):
            node.open()

    def test_serves_an_observer(self, node: MetadataNode) -> None:
        quorum = node.start().quorum

        answer = quorum.receive(
            FetchRequest(
                ReplicaKey(NodeId(9)),
                quorum.epoch,
                OffsetAndEpoch(offset=Offset(0), epoch=LeaderEpoch(0)),
                bytes_max=1,
            )
        ).value

        assert isinstance(answer, FetchResponse)
        assert answer.error is ErrorCode.NONE
        assert [batch.base_offset for batch in answer.batches] == [0]
        assert answer.high_watermark == quorum.high_watermark

    def test_lets_an_observer_wait_for_news(self, node: MetadataNode) -> None:
        quorum = node.start().quorum
        end = OffsetAndEpoch(offset=quorum.next_offset, epoch=quorum.epoch)
        waiting = quorum.receive(
            FetchRequest(ReplicaKey(NodeId(9)), quorum.epoch, end, quorum.high_watermark, wait_ms_max=500)
        )
        assert not waiting.is_complete

        quorum.append([NO_OP], quorum.epoch)

        answer = waiting.value
        assert isinstance(answer, FetchResponse)
        assert [batch.base_offset for batch in answer.batches] == [end.offset]

    def test_answers_an_observer_that_waited_long_enough(self, node: MetadataNode) -> None:
        node.config = {"metadata.max.idle.interval.ms": "0"}
        quorum = node.start().quorum
        end = OffsetAndEpoch(offset=quorum.next_offset, epoch=quorum.epoch)
        waiting = quorum.receive(
            FetchRequest(ReplicaKey(NodeId(9)), quorum.epoch, end, quorum.high_watermark, wait_ms_max=500)
        )

        node.advance(499)
        assert not waiting.is_complete
        node.advance(2)

        answer = waiting.value
        assert isinstance(answer, FetchResponse)
        assert answer.batches == ()

    def test_sends_a_newcomer_its_snapshot(self, node: MetadataNode) -> None:
        node.config = {"metadata.log.max.record.bytes.between.snapshots": "1"}
        quorum = node.start().quorum
        start = OffsetAndEpoch(offset=Offset(0), epoch=LeaderEpoch(0))
        answer = quorum.receive(FetchRequest(ReplicaKey(NodeId(9)), quorum.epoch, start)).value
        assert isinstance(answer, FetchResponse)
        assert answer.snapshot_id is not None

        piece = quorum.receive(
            FetchSnapshotRequest(ReplicaKey(NodeId(9)), quorum.epoch, answer.snapshot_id, 10, bytes_max=20)
        ).value

        assert isinstance(piece, FetchSnapshotResponse)
        assert piece.size_bytes == quorum.log.snapshot_size_bytes(answer.snapshot_id)
        assert piece.data == quorum.log.read_snapshot_bytes(answer.snapshot_id, 10, 20)


class TestAQuorumOfThree:
    @pytest.fixture
    def cluster(self) -> MetadataCluster:
        cluster = MetadataCluster(3)
        cluster.start()
        return cluster

    def create(self, node: MetadataNode, name: str) -> bool:
        """Whether the active controller took the request."""
        request = CreateTopicsRequest(topics=[creatable(name, assignments={0: [1]})])
        pending = node.controller.handle(request, ControllerContext())
        for _ in range(100):
            if pending.is_complete:
                break
            node.advance(20)
        response = pending.value
        assert isinstance(response, CreateTopicsResponse)
        return response.topics[0].error_code == 0

    def serve(self, cluster: MetadataCluster) -> MetadataNode:
        """An active controller that knows an active broker."""
        active = cluster.elect()
        pending = active.controller.handle(active.registration(1), ControllerContext())
        cluster.wait_until(lambda: pending.is_complete, "the registration")
        broker = active.image.brokers[NodeId(1)]
        pending = active.controller.handle(
            BrokerHeartbeatRequest(
                broker_id=1,
                broker_epoch=broker.epoch,
                current_metadata_offset=active.image.offset,
                want_fence=False,
                want_shut_down=False,
            ),
            ControllerContext(),
        )
        cluster.wait_until(lambda: pending.is_complete, "the heartbeat")
        return active

    def test_elects_one_leader_and_all_see_the_same(self, cluster: MetadataCluster) -> None:
        active = cluster.elect()
        cluster.settle()

        assert sum(node.controller.is_active for node in cluster.running) == 1
        assert {node.service.quorum.leader_id for node in cluster.running if node.service} == {active.node_id}
        assert all(node.image.says_the_same(active.image) for node in cluster.running)
        assert active.image.features

    def test_answers_once_a_majority_has_it(self, cluster: MetadataCluster) -> None:
        active = self.serve(cluster)
        other, another = (node for node in cluster.nodes if node != active.node_id)
        cluster.crash(other)

        assert self.create(active, "with-two-of-three")

        cluster.crash(another)
        request = CreateTopicsRequest(topics=[creatable("with-one-of-three", assignments={0: [1]})])
        pending = active.controller.handle(request, ControllerContext())
        active.advance(500)
        assert not pending.is_complete
        assert TopicName("with-one-of-three") not in active.image.topic_ids
        # Without a majority it gives up, and says so.
        active.advance(5000)
        response = pending.value
        assert isinstance(response, CreateTopicsResponse)
        assert response.topics[0].error_code == ErrorCode.NOT_CONTROLLER
        assert not active.controller.is_active

    def test_what_was_answered_survives_the_leader(self, cluster: MetadataCluster) -> None:
        active = self.serve(cluster)
        assert self.create(active, "orders")

        cluster.crash(active.node_id)
        successor = cluster.elect()

        assert successor.node_id != active.node_id
        assert TopicName("orders") in successor.image.topic_ids
        assert self.create(successor, "payments")
        cluster.start(active.node_id)
        cluster.settle()
        assert all(node.image.says_the_same(successor.image) for node in cluster.running)

    def test_what_a_cut_off_leader_wrote_is_undone_when_it_comes_back(self, cluster: MetadataCluster) -> None:
        active = self.serve(cluster)
        cluster.settle()
        cluster.cut_off.add(active.node_id)
        request = CreateTopicsRequest(topics=[creatable("lost", assignments={0: [1]})])
        lost = active.controller.handle(request, ControllerContext())
        successor = cluster.elect()
        assert self.create(successor, "kept")

        cluster.cut_off.clear()
        cluster.wait_until(lambda: lost.is_complete, "an answer of the former leader")
        cluster.settle()

        response = lost.value
        assert isinstance(response, CreateTopicsResponse)
        assert response.topics[0].error_code == ErrorCode.NOT_CONTROLLER
        for node in cluster.running:
            assert set(node.image.topic_ids) == {"kept"}
            assert node.image.says_the_same(successor.image)

    def test_a_node_that_missed_too_much_loads_a_snapshot(self) -> None:
        cluster = MetadataCluster(
            3,
            {"metadata.log.max.record.bytes.between.snapshots": "2000", "metadata.max.retention.bytes": "0"},
        )
        cluster.start(1, 2)
        active = self.serve(cluster)
        for number in range(20):
            assert self.create(active, f"topic-{number}")
        assert active.log.start_offset() > 0

        cluster.start(3)
        cluster.settle()

        late = cluster.nodes[3]
        assert late.image.says_the_same(active.image)
        assert late.log.start_offset() > 0
        assert len(late.published) < len(active.published)

    def test_nodes_that_follow_make_their_own_snapshots(self) -> None:
        cluster = MetadataCluster(3, {"metadata.log.max.record.bytes.between.snapshots": "500"})
        cluster.start()
        self.serve(cluster)
        cluster.settle()

        assert all(
            (node.log.latest_snapshot_id() or OffsetAndEpoch(offset=Offset(0), epoch=LeaderEpoch(0))).offset > 0
            for node in cluster.running
        )

    def test_a_leader_that_stops_hands_over(self, cluster: MetadataCluster) -> None:
        active = cluster.elect()
        assert active.service is not None

        outcome = active.service.quorum.shutdown(5000)
        cluster.wait_until(lambda: outcome.is_complete, "the hand-over")

        assert outcome.value
        cluster.crash(active.node_id)
        assert cluster.elect().node_id != active.node_id

    def test_a_leader_that_is_asked_to_go_goes(self, cluster: MetadataCluster) -> None:
        active = cluster.elect()
        assert active.service is not None
        epoch = active.service.quorum.epoch

        active.service.quorum.resign()
        cluster.wait_until(
            lambda: any(
                node.service.quorum.epoch > epoch and node.service.quorum.is_leader
                for node in cluster.running
                if node.service
            ),
            "another leader",
        )

        assert not (active.service.quorum.is_leader and active.service.quorum.epoch == epoch)

    def test_a_dead_leaders_closed_port_is_a_reason_to_look(self, cluster: MetadataCluster) -> None:
        active = cluster.elect()
        cluster.settle()
        cluster.crash(active.node_id)
        started_ms = cluster.loop.time_ms

        for node in cluster.running:
            assert node.service is not None
            node.service.quorum.connection_refused(active.node_id)
        cluster.elect()

        assert cluster.loop.time_ms - started_ms < 1000


def test_bootstrap_records_are_appended_by_the_first_leader_alone() -> None:
    cluster = MetadataCluster(3)
    cluster.start()
    first = cluster.elect()
    cluster.settle()
    cluster.crash(first.node_id)
    second = cluster.elect()

    features = [type(record) for record in second.records()].count(type(bootstrap_records()[0].message))

    assert features == len(bootstrap_records())

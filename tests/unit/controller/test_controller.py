"""The controller's life: when it is active, when its answers come, and what it does by itself."""

from __future__ import annotations

import errno
from random import Random

import pytest

from tests.support.log_builder import HeldSlowWork
from tests.support.metadata_node import SOMEBODY, MetadataNode, creatable
from tidelog.controller import controller
from tidelog.controller.decision import Decision
from tidelog.controller.requests import APIS, Api
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, TopicName
from tidelog.simulation.disk import SimulatedDisk
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tidelog.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tidelog.wire.messages.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationResponse,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from tidelog.wire.messages.client_quotas import (
    AlterClientQuotasEntryData,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from tidelog.wire.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from tidelog.wire.messages.features import UpdateFeaturesRequest, UpdateFeaturesResponse
from tidelog.wire.messages.internal import cluster_metadata as records
from tidelog.wire.messages.log_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.messages.producers import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tidelog.wire.messages.quorum import DescribeQuorumRequest, DescribeQuorumResponse
from tidelog.wire.messages.raft_voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from tidelog.wire.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tidelog.wire.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
)
from tidelog.wire.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from tidelog.wire.schema import Request, Response

IDLE_MS = "metadata.max.idle.interval.ms"


def run(work: HeldSlowWork) -> None:
    while work.held:
        work.run()


def held_node() -> tuple[MetadataNode, HeldSlowWork]:
    """A node with an active broker, whose disk waits to be told from here on."""
    node = MetadataNode(config={IDLE_MS: "0"})
    node.start()
    epochs = node.serve(1)
    node.forget()
    work = node.slow_work = HeldSlowWork()
    service = node.start()
    run(work)
    assert service.controller.is_active
    assert not service.committed.image.brokers[NodeId(1)].fenced
    assert service.committed.image.brokers[NodeId(1)].epoch == epochs[1]
    return node, work


class TestTheFirstLeader:
    def test_writes_what_kafkas_first_leader_writes(self) -> None:
        """Batch for batch as in the directory `clean` of tests/fixtures."""
        node = MetadataNode()
        node.start()

        control, bootstrap, registration = node.batches()

        assert [type(record).__name__ for record in control.control] == ["LeaderChange", "KRaftVersion", "Voters"]
        assert [type(framed.message).__name__ for framed in bootstrap.records] == [
            "BeginTransactionRecord",
            *["FeatureLevelRecord"] * 6,
            "ConfigRecord",
            "EndTransactionRecord",
        ]
        assert bootstrap.records[0].message == records.BeginTransactionRecord(name="Bootstrap records")
        assert [type(framed.message).__name__ for framed in registration.records] == ["RegisterControllerRecord"]
        assert (control.base_offset, bootstrap.base_offset, registration.base_offset) == (0, 3, 12)

    def test_later_ones_only_open_their_epoch_and_register(self) -> None:
        node = MetadataNode()
        node.start()
        node.stop()
        node.start()

        control, registration = node.batches()[3:]

        assert [type(record).__name__ for record in control.control] == ["LeaderChange"]
        assert [type(framed.message).__name__ for framed in registration.records] == ["RegisterControllerRecord"]

    def test_a_transaction_that_nobody_finished_is_aborted(self) -> None:
        node = MetadataNode()
        service = node.start()
        begin = records.BeginTransactionRecord(name="never finished")
        config = records.ConfigRecord(resource_type=4, resource_name="", name="k", value="v")
        service.quorum.append([FramedRecord(begin, 0), FramedRecord(config, 0)], service.quorum.epoch)
        node.forget()

        node.start()

        aborted = [record for record in node.records() if isinstance(record, records.AbortTransactionRecord)]
        assert aborted == [records.AbortTransactionRecord(reason="Controller failover")]
        assert "k" not in {name for values in node.image.configs.values() for name in values}
        assert node.service is not None
        assert node.service.committed.open_transaction_offset is None


class TestAnswers:
    def test_wait_until_their_records_are_durable(self) -> None:
        node, work = held_node()
        request = CreateTopicsRequest(topics=[creatable("orders")])

        pending = node.controller.handle(request, SOMEBODY)

        before = (pending.is_complete, TopicName("orders") in node.image.topic_ids)
        run(work)
        assert before == (False, False)
        assert (pending.is_complete, TopicName("orders") in node.image.topic_ids) == (True, True)

    def test_subscribers_know_before_the_asker_does(self) -> None:
        node, work = held_node()
        seen: list[bool] = []
        pending = node.controller.handle(CreateTopicsRequest(topics=[creatable("orders")]), SOMEBODY)

        def answered(_response: Response) -> None:
            image, delta = node.published[-1]
            seen.append(TopicName("orders") in image.topic_ids and len(delta.topics_changed) == 1)

        pending.then(answered)
        run(work)

        assert seen == [True]

    def test_decisions_follow_each_other_without_waiting(self) -> None:
        node, work = held_node()

        first = node.controller.handle(CreateTopicsRequest(topics=[creatable("orders")]), SOMEBODY)
        again = node.controller.handle(CreateTopicsRequest(topics=[creatable("orders")]), SOMEBODY)
        grown = node.controller.handle(
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="orders", count=3, assignments=None)],
                timeout_ms=1,
                validate_only=False,
            ),
            SOMEBODY,
        )

        # A refusal that rests on what is not committed waits as well: it might turn out to be wrong.
        assert [each.is_complete for each in (first, again, grown)] == [False, False, False]
        run(work)
        response = again.value
        assert isinstance(response, CreateTopicsResponse)
        assert response.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        topic = node.image.topic(TopicName("orders"))
        assert topic is not None
        assert len(topic.partitions) == 3

    def test_one_request_may_follow_from_the_answer_to_another(self) -> None:
        node, work = held_node()
        answers: list[Response] = []

        def create_next(_response: Response) -> None:
            node.controller.handle(CreateTopicsRequest(topics=[creatable("second")]), SOMEBODY).then(answers.append)

        node.controller.handle(CreateTopicsRequest(topics=[creatable("first")]), SOMEBODY).then(create_next)
        run(work)

        assert len(answers) == 1
        assert set(node.image.topic_ids) == {"first", "second"}

    def test_too_many_at_once_are_told_to_come_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(controller, "PARKED_MAX", 2)
        node, work = held_node()
        for name in ("a", "b"):
            node.controller.handle(CreateTopicsRequest(topics=[creatable(name)]), SOMEBODY)

        pending = node.controller.handle(CreateTopicsRequest(topics=[creatable("c")]), SOMEBODY)

        response = pending.value
        assert isinstance(response, CreateTopicsResponse)
        assert response.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        run(work)
        assert set(node.image.topic_ids) == {"a", "b"}

    def test_records_that_do_not_fit_the_image_are_not_written_and_harm_nobody_else(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        node = MetadataNode()
        node.start()
        node.serve(1)
        end = node.image.offset
        kind: type[Request] = UnregisterBrokerRequest
        unknown = FramedRecord(records.UnregisterBrokerRecord(broker_id=77, broker_epoch=1), 0)
        answer = UnregisterBrokerResponse(throttle_time_ms=0, error_code=0, error_message=None)
        with monkeypatch.context() as patched:
            broken = Api(lambda _request, _now: Decision(answer, (unknown,)), APIS[kind].refuse)
            patched.setitem(APIS, kind, broken)
            refused = node.ask(UnregisterBrokerRequest(broker_id=77), UnregisterBrokerResponse)

        assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert node.image.offset == end
        assert node.create_topic("t").error_code == ErrorCode.NONE

    def test_a_record_that_cannot_be_encoded_changes_nothing_and_harms_nobody_else(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        node = MetadataNode(config={IDLE_MS: "0"})
        node.start()
        node.serve(1)
        end, written = node.image.offset, len(node.batches())
        kind: type[Request] = UnregisterBrokerRequest
        good = FramedRecord(records.ConfigRecord(resource_type=4, resource_name="", name="k", value="v"), 0)
        long = FramedRecord(records.ConfigRecord(resource_type=4, resource_name="", name="l", value="v" * 32_768), 0)
        answer = UnregisterBrokerResponse(throttle_time_ms=0, error_code=0, error_message=None)
        with monkeypatch.context() as patched:
            # Each a batch of its own: not even the first of them may be written.
            patched.setattr(controller, "RECORDS_PER_BATCH_MAX", 1)
            broken = Api(lambda _request, _now: Decision(answer, (good, long)), APIS[kind].refuse)
            patched.setitem(APIS, kind, broken)
            refused = node.ask(UnregisterBrokerRequest(broker_id=77), UnregisterBrokerResponse)

        assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (node.image.offset, len(node.batches())) == (end, written)
        assert not node.faults
        assert node.create_topic("t").error_code == ErrorCode.NONE
        assert not {"k", "l"} & {name for values in node.image.configs.values() for name in values}

    def test_a_key_whose_name_no_record_can_hold_is_refused(self) -> None:
        node = MetadataNode(config={IDLE_MS: "0"})
        node.start()
        config = IncrementalAlterConfigsAlterableConfig(name="k" * 40_000, config_operation=0, value="v")
        every_broker = IncrementalAlterConfigsAlterConfigsResource(resource_type=4, resource_name="", configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[every_broker], validate_only=False)

        [response] = node.ask(request, IncrementalAlterConfigsResponse).responses

        assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert node.controller.is_active
        assert not node.faults

    def test_a_request_that_is_not_for_the_controller_is_a_bug(self) -> None:
        node = MetadataNode()
        node.start()

        with pytest.raises(TypeError, match="MetadataRequest is not for the controller"):
            node.controller.handle(MetadataRequest(topics=[], include_topic_authorized_operations=False), SOMEBODY)


def test_what_is_too_much_for_one_batch_comes_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    node = MetadataNode(config={IDLE_MS: "0"})
    node.start()
    epochs = node.serve(1)
    node.create_topic("orders", partitions=25)
    end = node.image.offset + 1
    monkeypatch.setattr(controller, "RECORDS_PER_BATCH_MAX", 10)

    node.heartbeat(1, epochs[1], want_shut_down=True)

    sizes = [len(batch.records) for batch in node.batches() if batch.base_offset >= end]
    assert sizes == [10, 10, 6]
    assert set(node.leaders("orders")) == {-1}


class TestLosingTheOffice:
    def test_whoever_waits_is_told(self) -> None:
        node, _work = held_node()
        pending = node.controller.handle(CreateTopicsRequest(topics=[creatable("orders")]), SOMEBODY)
        assert node.service is not None

        node.service.quorum.shutdown(1000)

        response = pending.value
        assert isinstance(response, CreateTopicsResponse)
        assert response.topics[0].error_code == ErrorCode.NOT_CONTROLLER
        assert not node.controller.is_active

    def test_a_failing_disk_ends_it(self) -> None:
        node = MetadataNode(config={IDLE_MS: "0"})
        node.start()
        node.serve(1)
        assert isinstance(node.disk, SimulatedDisk)
        node.disk.fail("pwritev", "*.log", errno.EIO)

        result = node.create_topic("orders")

        assert result.error_code == ErrorCode.NOT_CONTROLLER
        assert not node.controller.is_active
        assert len(node.faults) == 1

    def test_nothing_happens_by_itself_any_longer(self) -> None:
        node = MetadataNode()
        node.start()
        node.serve(1)
        assert node.service is not None
        node.service.quorum.shutdown(1000)
        end = node.image.offset

        node.advance(20_000)

        assert node.image.offset == end


class TestByItself:
    def test_an_idle_record_twice_a_second(self) -> None:
        node = MetadataNode()
        node.start()
        end = node.image.offset

        node.advance(5001)

        assert node.image.offset == end + 10
        assert [type(record) for record in node.records(end + 1)] == [records.NoOpRecord] * 10

    def test_none_where_the_interval_is_zero(self) -> None:
        node = MetadataNode(config={IDLE_MS: "0"})
        node.start()
        end = node.image.offset

        node.advance(60_000)

        assert node.image.offset == end


class TestRestarts:
    def test_an_image_is_what_the_log_says(self) -> None:
        node = MetadataNode(config={IDLE_MS: "0"})
        node.start()
        node.serve(1, 2, 3)
        for number in range(5):
            node.create_topic(f"topic-{number}", partitions=3, replicas=2, configs={"retention.ms": str(number)})
        before = node.image
        node.forget()

        node.start()

        assert node.image.topics == before.topics
        assert node.image.brokers == before.brokers
        assert node.image.configs == before.configs

    def test_what_was_answered_survives_the_loss_of_power(self) -> None:
        for seed in range(20):
            disk = SimulatedDisk()
            node = MetadataNode(disk=disk, config={IDLE_MS: "0"}, seed=seed)
            node.start()
            node.serve(1)
            for number in range(5):
                assert node.create_topic(f"topic-{number}").error_code == 0
            image = node.image
            node.forget()
            disk.crash(Random(seed))

            node.start()

            assert node.image.topics == image.topics
            assert node.image.brokers == image.brokers


REFUSALS: list[tuple[Request, type[Response]]] = [
    (AllocateProducerIdsRequest(broker_id=1), AllocateProducerIdsResponse),
    (
        AlterClientQuotasRequest(entries=[AlterClientQuotasEntryData(entity=[], ops=[])], validate_only=False),
        AlterClientQuotasResponse,
    ),
    (
        AlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=2, resource_name="t", configs=[])], validate_only=False
        ),
        AlterConfigsResponse,
    ),
    (AlterPartitionReassignmentsRequest(topics=[]), AlterPartitionReassignmentsResponse),
    (AlterPartitionRequest(broker_id=1, topics=[]), AlterPartitionResponse),
    (
        AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="alice", mechanism=1)], upsertions=[]),
        AlterUserScramCredentialsResponse,
    ),
    (AssignReplicasToDirsRequest(broker_id=1, directories=[]), AssignReplicasToDirsResponse),
    (
        BrokerHeartbeatRequest(broker_id=1, current_metadata_offset=0, want_fence=False, want_shut_down=False),
        BrokerHeartbeatResponse,
    ),
    (MetadataNode().registration(1), BrokerRegistrationResponse),
    (
        ControllerRegistrationRequest(
            controller_id=1, incarnation_id=bytes(16), zk_migration_ready=False, listeners=[], features=[]
        ),
        ControllerRegistrationResponse,
    ),
    (
        CreateDelegationTokenRequest(owner_principal_type="", owner_principal_name="", renewers=[], max_lifetime_ms=-1),
        CreateDelegationTokenResponse,
    ),
    (RenewDelegationTokenRequest(hmac=b"h", renew_period_ms=-1), RenewDelegationTokenResponse),
    (ExpireDelegationTokenRequest(hmac=b"h", expiry_time_period_ms=-1), ExpireDelegationTokenResponse),
    (
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="t", count=1, assignments=None)], timeout_ms=1, validate_only=False
        ),
        CreatePartitionsResponse,
    ),
    (
        CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
                )
            ]
        ),
        CreateAclsResponse,
    ),
    (CreateTopicsRequest(topics=[creatable("t")]), CreateTopicsResponse),
    (
        DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=1,
                    resource_name_filter=None,
                    principal_filter=None,
                    host_filter=None,
                    operation=1,
                    permission_type=1,
                )
            ]
        ),
        DeleteAclsResponse,
    ),
    (DeleteTopicsRequest(topics=[], topic_names=["t"], timeout_ms=1), DeleteTopicsResponse),
    (DescribeQuorumRequest(topics=[]), DescribeQuorumResponse),
    (ElectLeadersRequest(election_type=0, topic_partitions=None), ElectLeadersResponse),
    (
        IncrementalAlterConfigsRequest(
            resources=[IncrementalAlterConfigsAlterConfigsResource(resource_type=2, resource_name="t", configs=[])],
            validate_only=False,
        ),
        IncrementalAlterConfigsResponse,
    ),
    (ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse),
    (
        AddRaftVoterRequest(cluster_id=None, timeout_ms=1, voter_id=2, voter_directory_id=bytes(16), listeners=[]),
        AddRaftVoterResponse,
    ),
    (RemoveRaftVoterRequest(cluster_id=None, voter_id=2, voter_directory_id=bytes(16)), RemoveRaftVoterResponse),
    (UnregisterBrokerRequest(broker_id=1), UnregisterBrokerResponse),
    (UpdateFeaturesRequest(feature_updates=[]), UpdateFeaturesResponse),
]


@pytest.mark.parametrize(("request_", "response"), REFUSALS, ids=lambda value: type(value).__name__)
def test_a_standby_says_that_it_is_not_the_controller(request_: Request, response: type[Response]) -> None:
    node = MetadataNode()
    node.open()

    answer = node.ask(request_, response)

    assert error_of(answer) == ErrorCode.NOT_CONTROLLER


def test_every_request_of_the_controllers_has_a_refusal() -> None:
    assert {type(request) for request, _ in REFUSALS} == set(APIS)


def test_a_change_of_the_voters_is_for_the_quorum_to_decide() -> None:
    node = MetadataNode()
    node.start()

    last = RemoveRaftVoterRequest(cluster_id=None, voter_id=1, voter_directory_id=b"d" * 16)
    removed = node.ask(last, RemoveRaftVoterResponse)
    nobody = AddRaftVoterRequest(cluster_id=None, timeout_ms=1, voter_id=2, voter_directory_id=bytes(16), listeners=[])
    added = node.ask(nobody, AddRaftVoterResponse)

    assert removed.error_code == ErrorCode.VOTER_NOT_FOUND
    assert removed.error_message == "voter 1 is not in the set, or is the last one in it"
    assert (added.error_code, added.error_message) == (ErrorCode.INVALID_REQUEST, "the request names no voter")


def error_of(answer: Response) -> int:
    """The error of an answer, wherever its API puts it."""
    for name in ("error_code", "topics", "responses", "results", "entries", "filter_results"):
        value = getattr(answer, name, None)
        if isinstance(value, int) and value:
            return value
        if isinstance(value, list) and value:
            error = value[0].error_code
            assert isinstance(error, int)
            return error
    raise AssertionError(f"there is no error in {answer}")

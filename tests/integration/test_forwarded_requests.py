"""What brokers pass on to the active controller: every API of it, in every version, through a broker that is not the active one.

Real sockets, three nodes, voters in the log. An answer comes to each request on the connection that it was asked on, and what it
is costs no broker its session.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.embedded_nodes import nodes_of
from tests.support.raw_client import RawClient
from tidelog.broker.requests.handling import HANDLERS
from tidelog.controller import requests as controller_requests
from tidelog.controller.decision import Decision
from tidelog.controller.requests import APIS, SENT_BY_NODES
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.testing import EmbeddedCluster
from tidelog.wire.apis import api
from tidelog.wire.messages import (
    acls,
    broker_lifecycle,
    client_quotas,
    configs,
    delegation_tokens,
    features,
    quorum,
    raft_voters,
    reassignments,
    scram_credentials,
    topics,
)
from tidelog.wire.schema import Request, Response

TOPIC = "orders"
_CONFIG_OF_TOPIC = 2
_SET = 0

FORWARDED = sorted(
    (each for each in APIS if each not in SENT_BY_NODES and "broker" in api(each.api_key).listener_kinds),
    key=lambda each: each.api_key,
)


# The request that tests plant faults for.
LIST_KIND: type[Request] = reassignments.ListPartitionReassignmentsRequest
LIST = reassignments.ListPartitionReassignmentsRequest(timeout_ms=5000)


class Cluster:
    """Three nodes, and a client of a broker that is not the active controller."""

    def __init__(self, embedded: EmbeddedCluster) -> None:
        self._nodes = nodes_of(embedded)
        self.asked = next(node for node in self._nodes if not node.health.is_active_controller)
        self.active = next(node for node in self._nodes if node.health.is_active_controller)
        self._epochs = self._sessions()

    def client(self) -> RawClient:
        return RawClient(self.asked.bootstrap_address)

    def check_no_broker_was_fenced(self) -> None:
        assert self._sessions() == self._epochs
        assert self.asked.image.brokers.keys() == {1, 2, 3}

    def _sessions(self) -> dict[int, tuple[int, bool]]:
        """Of each broker its epoch and whether it is fenced."""
        return {
            broker.node_id: (broker.epoch, broker.fenced)
            for node in self._nodes
            for broker in node.image.brokers.values()
        }


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with EmbeddedCluster(nodes=3) as embedded:
        embedded.create_topic(TOPIC, replication_factor=2)
        yield Cluster(embedded)


def _requests(kind: type[Request], version: int) -> list[Request]:
    """Requests that a client can send in a version: what the controller does, and what it refuses."""
    new, absent = f"new-{kind.api_key}-{version}", "absent"
    match kind:
        case topics.CreateTopicsRequest:
            return [
                topics.CreateTopicsRequest(
                    topics=[
                        topics.CreatableTopic(
                            name=name, num_partitions=1, replication_factor=factor, assignments=[], configs=[]
                        )
                        for name, factor in ((new, 2), (TOPIC, 1), ("in/valid", 1), (f"{new}-large", 9))
                    ]
                )
            ]
        case topics.DeleteTopicsRequest:
            if version >= 6:
                named = [topics.DeleteTopicState(name=absent, topic_id=ZERO_UUID)]
                unnamed = [topics.DeleteTopicState(name=None, topic_id=b"x" * 16)]
                return [topics.DeleteTopicsRequest(topics=[*named, *unnamed], timeout_ms=5000)]
            return [topics.DeleteTopicsRequest(topics=[], topic_names=[absent], timeout_ms=5000)]
        case topics.CreatePartitionsRequest:
            grown = [topics.CreatePartitionsTopic(name=name, count=1, assignments=None) for name in (TOPIC, absent)]
            return [topics.CreatePartitionsRequest(topics=grown, timeout_ms=5000, validate_only=False)]
        case configs.AlterConfigsRequest:
            altered = [
                configs.AlterConfigsResource(
                    resource_type=_CONFIG_OF_TOPIC,
                    resource_name=name,
                    configs=[configs.AlterableConfig(name="retention.ms", value=value)],
                )
                for name, value in ((TOPIC, "1000000"), (absent, "1"))
            ]
            return [configs.AlterConfigsRequest(resources=altered, validate_only=False)]
        case configs.IncrementalAlterConfigsRequest:
            changed = [
                configs.IncrementalAlterConfigsAlterConfigsResource(
                    resource_type=_CONFIG_OF_TOPIC,
                    resource_name=name,
                    configs=[
                        configs.IncrementalAlterConfigsAlterableConfig(
                            name="retention.ms", config_operation=_SET, value=value
                        )
                    ],
                )
                for name, value in ((TOPIC, "many"), (TOPIC, "2000000"), (absent, "1"))
            ]
            return [configs.IncrementalAlterConfigsRequest(resources=[each], validate_only=False) for each in changed]
        case client_quotas.AlterClientQuotasRequest:
            limited = [
                client_quotas.AlterClientQuotasEntryData(
                    entity=[client_quotas.EntityData(entity_type="user", entity_name="forwarded")],
                    ops=[client_quotas.OpData(key=key, value=1e9, remove=False)],
                )
                for key in ("producer_byte_rate", "nonsense")
            ]
            return [client_quotas.AlterClientQuotasRequest(entries=[each], validate_only=True) for each in limited]
        case reassignments.ElectLeadersRequest:
            elected = [reassignments.TopicPartitions(topic=name, partitions=[0]) for name in (TOPIC, absent)]
            return [
                reassignments.ElectLeadersRequest(topic_partitions=which, election_type=0, timeout_ms=5000)
                for which in (elected, None)
            ]
        case reassignments.AlterPartitionReassignmentsRequest:
            moved = reassignments.ReassignableTopic(
                name=absent, partitions=[reassignments.ReassignablePartition(partition_index=0, replicas=[1])]
            )
            return [reassignments.AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=[moved])]
        case reassignments.ListPartitionReassignmentsRequest:
            return [reassignments.ListPartitionReassignmentsRequest(timeout_ms=5000)]
        case quorum.DescribeQuorumRequest:
            return [_describe_quorum(name) for name in ("__cluster_metadata", absent)]
        case features.UpdateFeaturesRequest:
            raised = features.FeatureUpdateKey(feature="no.such.feature", max_version_level=1)
            return [features.UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[raised])]
        case acls.CreateAclsRequest:
            created = acls.AclCreation(
                resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
            )
            return [acls.CreateAclsRequest(creations=[created])]
        case acls.DeleteAclsRequest:
            wanted = acls.DeleteAclsFilter(
                resource_type_filter=1,
                resource_name_filter=None,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
            return [acls.DeleteAclsRequest(filters=[wanted])]
        case broker_lifecycle.UnregisterBrokerRequest:
            return [broker_lifecycle.UnregisterBrokerRequest(broker_id=99)]
        case raft_voters.AddRaftVoterRequest:
            listener = raft_voters.Listener(name="CONTROLLER", host="localhost", port=1)
            return [
                raft_voters.AddRaftVoterRequest(
                    cluster_id=None, timeout_ms=5000, voter_id=1, voter_directory_id=b"y" * 16, listeners=[listener]
                )
            ]
        case raft_voters.RemoveRaftVoterRequest:
            return [raft_voters.RemoveRaftVoterRequest(cluster_id=None, voter_id=99, voter_directory_id=b"y" * 16)]
        case scram_credentials.AlterUserScramCredentialsRequest:
            user = scram_credentials.ScramCredentialUpsertion(
                name=new, mechanism=1, iterations=4096, salt=b"salt", salted_password=b"s" * 32
            )
            gone = scram_credentials.ScramCredentialDeletion(name=absent, mechanism=1)
            return [scram_credentials.AlterUserScramCredentialsRequest(deletions=[gone], upsertions=[user])]
        # Refused before they would be forwarded, on a listener without security; `test_tokens` forwards them.
        case delegation_tokens.CreateDelegationTokenRequest:
            return [
                delegation_tokens.CreateDelegationTokenRequest(
                    owner_principal_type="", owner_principal_name="", renewers=[], max_lifetime_ms=-1
                )
            ]
        case delegation_tokens.RenewDelegationTokenRequest:
            return [delegation_tokens.RenewDelegationTokenRequest(hmac=b"h", renew_period_ms=-1)]
        case delegation_tokens.ExpireDelegationTokenRequest:
            return [delegation_tokens.ExpireDelegationTokenRequest(hmac=b"h", expiry_time_period_ms=-1)]
    raise AssertionError(f"no example of {kind.__name__}")


def _describe_quorum(topic: str) -> quorum.DescribeQuorumRequest:
    partition = quorum.DescribeQuorumPartitionData(partition_index=0)
    return quorum.DescribeQuorumRequest(
        topics=[quorum.DescribeQuorumTopicData(topic_name=topic, partitions=[partition])]
    )


@pytest.mark.parametrize("kind", FORWARDED, ids=lambda kind: kind.__name__)
def test_every_version_is_answered_by_way_of_another_broker(cluster: Cluster, kind: type[Request]) -> None:
    handler = HANDLERS[kind.api_key]
    answer_kind: type[Response] = api(kind.api_key).response

    with cluster.client() as client:
        for version in range(handler.lowest, handler.highest + 1):
            for request in _requests(kind, version):
                answer = client.call(request, answer_kind, version)
                assert getattr(answer, "error_code", ErrorCode.NONE) != ErrorCode.UNKNOWN_SERVER_ERROR

    cluster.check_no_broker_was_fenced()


@pytest.mark.parametrize("version", range(3))
def test_the_quorum_is_described_in_the_askers_version(cluster: Cluster, version: int) -> None:
    with cluster.client() as client:
        answer = client.call(_describe_quorum("__cluster_metadata"), quorum.DescribeQuorumResponse, version)

    (partition,) = answer.topics[0].partitions
    assert [each.replica_id for each in partition.current_voters] == [1, 2, 3]
    assert all((each.replica_directory_id != ZERO_UUID) == (version >= 2) for each in partition.current_voters)
    assert [each.node_id for each in answer.nodes] == ([1, 2, 3] if version >= 2 else [])


def _beyond() -> reassignments.ListPartitionReassignmentsResponse:
    """An answer with a number that its field cannot hold."""
    return reassignments.ListPartitionReassignmentsResponse(
        throttle_time_ms=2**40, error_code=0, error_message=None, topics=[]
    )


def test_an_answer_that_cannot_be_encoded_is_an_error_of_that_request_alone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = controller_requests.Api(lambda _request, _now: Decision(_beyond()), APIS[LIST_KIND].refuse)

    with cluster.client() as client:
        with monkeypatch.context() as patched:
            patched.setitem(APIS, LIST_KIND, broken)
            refused = client.call(LIST, reassignments.ListPartitionReassignmentsResponse, 0)
        assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        whole = client.call(LIST, reassignments.ListPartitionReassignmentsResponse, 0)
        assert whole.error_code == ErrorCode.NONE

    cluster.check_no_broker_was_fenced()


def test_a_decision_that_fails_is_an_error_of_that_request_alone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:

    def fail(_request: object, _now: object) -> Decision[Response]:
        raise LookupError("planted")

    with cluster.client() as client:
        with monkeypatch.context() as patched:
            patched.setitem(APIS, LIST_KIND, controller_requests.Api(fail, APIS[LIST_KIND].refuse))
            refused = client.call(LIST, reassignments.ListPartitionReassignmentsResponse, 0)
        assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        whole = client.call(LIST, reassignments.ListPartitionReassignmentsResponse, 0)
        assert whole.error_code == ErrorCode.NONE

    cluster.check_no_broker_was_fenced()


def test_an_answer_that_cannot_be_encoded_ends_the_askers_connection_alone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = controller_requests.Api(lambda _request, _now: Decision(_beyond()), APIS[LIST_KIND].refuse)

    with RawClient(cluster.active.bootstrap_address) as other, RawClient(cluster.active.bootstrap_address) as asker:
        with monkeypatch.context() as patched:
            patched.setitem(APIS, LIST_KIND, broken)
            with pytest.raises(ConnectionError):
                asker.call(LIST, reassignments.ListPartitionReassignmentsResponse, 0)
        whole = other.call(LIST, reassignments.ListPartitionReassignmentsResponse, 0)
        assert whole.error_code == ErrorCode.NONE

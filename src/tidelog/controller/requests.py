"""What the controller can be asked: for each request, who decides it and what it is answered where it is not decided."""

from __future__ import annotations

from collections.abc import Callable, Container
from random import Random
from typing import Any, TypeVar

from msgspec import Struct

from tidelog.controller import (
    acls,
    brokers,
    client_quotas,
    cluster_features,
    configs,
    delegation_tokens,
    partitions,
    producer_ids,
    reassignments,
    scram_credentials,
    topics,
)
from tidelog.controller.broker_sessions import BrokerSessions
from tidelog.controller.cluster_view import TopicDefaults
from tidelog.controller.decision import Decision, Refusal, RefusedError
from tidelog.controller.image import ClusterImage
from tidelog.controller.mutation_quota import NO_LIMIT, MutationQuota
from tidelog.controller.quorum import MetadataQuorum
from tidelog.controller.quorum_description import cut_describe_quorum, describe_quorum, refuse_describe_quorum
from tidelog.controller.settings import ControllerSettings
from tidelog.controller.voter_changes import change_voters, refuse_change
from tidelog.model.clock import Clock
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.model.principal import ANONYMOUS
from tidelog.wire.messages.acls import CreateAclsRequest, DeleteAclsRequest
from tidelog.wire.messages.alter_partition import AlterPartitionRequest
from tidelog.wire.messages.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    UnregisterBrokerRequest,
)
from tidelog.wire.messages.client_quotas import AlterClientQuotasRequest
from tidelog.wire.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from tidelog.wire.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from tidelog.wire.messages.features import UpdateFeaturesRequest
from tidelog.wire.messages.log_dirs import AssignReplicasToDirsRequest
from tidelog.wire.messages.producers import AllocateProducerIdsRequest
from tidelog.wire.messages.quorum import DescribeQuorumRequest
from tidelog.wire.messages.raft_voters import AddRaftVoterRequest, RemoveRaftVoterRequest
from tidelog.wire.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from tidelog.wire.messages.scram_credentials import AlterUserScramCredentialsRequest
from tidelog.wire.messages.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from tidelog.wire.schema import Request, Response

A = TypeVar("A", bound=Response)


class Situation(Struct, frozen=True):
    """What a decision may depend on. The image includes what was decided before and is not committed yet."""

    image: ClusterImage
    settings: ControllerSettings
    sessions: BrokerSessions
    quorum: MetadataQuorum
    clock: Clock
    random: Random
    principal: str = str(ANONYMOUS)
    """Who asks, as `Type:name`."""
    mutations: MutationQuota = NO_LIMIT
    """How many partitions the client may have created or deleted."""
    hosts: Container[str] = ()
    """The names of hosts that are known to stand for an address."""

    @property
    def defaults(self) -> TopicDefaults:
        return self.settings.topic_defaults


class Api(Struct, frozen=True):
    """One request of the controller's. `decide` may raise `RefusedError`; `refuse` puts that into the words of the API.

    What the quorum decides itself is pending instead: nothing is appended for it here.
    """

    decide: Callable[[Any, Situation], Decision[Any] | Pending[Response]]
    refuse: Callable[[Any, Refusal], Response]
    cut: Callable[[Any, int], None] | None = None
    """Clears in an answer what a version has no field for, and whose encoding would fail."""


# What nodes ask of the active controller for themselves. All else is a client's, and travels in an Envelope with its principal.
SENT_BY_NODES: frozenset[type[Request]] = frozenset(
    {
        AllocateProducerIdsRequest,
        AlterPartitionRequest,
        AssignReplicasToDirsRequest,
        BrokerHeartbeatRequest,
        BrokerRegistrationRequest,
        ControllerRegistrationRequest,
    }
)


# From these versions on a client that has changed too much is refused with an error that it understands (KIP-599). What older
# ones ask for is done, and they wait afterwards.
STRICT_VERSIONS: dict[type[Request], int] = {
    CreatePartitionsRequest: 3,
    CreateTopicsRequest: 6,
    DeleteTopicsRequest: 5,
}


def refusal_of(request: Request, error: ErrorCode, message: str | None = None) -> Response:
    """What a request is answered where nobody decides it."""
    return APIS[type(request)].refuse(request, Refusal(error, message or error.message))


def cut_to_version(request: Request, answer: A, version: int | None) -> A:
    """An answer, without what the version that was asked in has no field for. None is the newest version.

    The last step before an answer, of a refusal too, is encoded: an old version may have no place for what tells a refusal.
    """
    clear = APIS[type(request)].cut
    if clear is not None and version is not None:
        clear(answer, version)
    return answer


def is_not_controller(request: Request, answer: Response) -> bool:
    """Whether an answer says that whoever gave it is not, or no longer, the active controller."""
    refusal = refusal_of(request, ErrorCode.NOT_CONTROLLER)
    # A request for nothing has no place for an error: its answer is the same from anyone.
    return answer == refusal and refusal != refusal_of(request, ErrorCode.UNKNOWN_SERVER_ERROR)


def _register_broker(request: BrokerRegistrationRequest, now: Situation) -> Decision[Any]:
    return brokers.decide_register_broker(
        now.image,
        request,
        now.sessions,
        now.defaults,
        cluster_id=now.settings.cluster_id,
        next_offset=now.quorum.next_offset,
        now_ms=now.clock.monotonic_ms(),
    )


def _update_features(request: UpdateFeaturesRequest, now: Situation) -> Decision[Any]:
    quorum = now.quorum
    facts = cluster_features.QuorumFacts(
        now.settings.node_id,
        quorum.kraft_version,
        () if quorum.kraft_version else tuple(key.id for key in quorum.voters.keys),
    )
    decision = cluster_features.decide_update_features(now.image, request, facts, now.defaults)
    wanted = cluster_features.wanted_kraft_version(request)
    if wanted is not None:
        refused = quorum.upgrade(wanted, validate_only=request.validate_only)
        if refused is not None:
            raise RefusedError(refused.error, cluster_features.FAILED + (refused.message or refused.error.message))
    return decision


APIS: dict[type[Request], Api] = {
    AddRaftVoterRequest: Api(lambda request, now: change_voters(request, now.quorum), refuse_change),
    AllocateProducerIdsRequest: Api(
        lambda request, now: producer_ids.decide_allocate_producer_ids(now.image, request),
        producer_ids.refuse_allocate_producer_ids,
    ),
    AlterClientQuotasRequest: Api(
        lambda request, now: client_quotas.decide_alter_client_quotas(now.image, request, now.hosts),
        client_quotas.refuse_alter_client_quotas,
    ),
    AlterConfigsRequest: Api(
        lambda request, now: configs.decide_alter_configs(now.image, request, now.settings),
        configs.refuse_alter_configs,
    ),
    AlterPartitionReassignmentsRequest: Api(
        lambda request, now: reassignments.decide_alter_reassignments(now.image, request, now.defaults),
        reassignments.refuse_alter_reassignments,
    ),
    AlterPartitionRequest: Api(
        lambda request, now: partitions.decide_alter_partition(now.image, request, now.defaults),
        partitions.refuse_alter_partition,
    ),
    AlterUserScramCredentialsRequest: Api(
        lambda request, now: scram_credentials.decide_alter_scram_credentials(now.image, request),
        scram_credentials.refuse_alter_scram_credentials,
    ),
    AssignReplicasToDirsRequest: Api(
        lambda request, now: partitions.decide_assign_directories(now.image, request, now.defaults),
        partitions.refuse_assign_directories,
    ),
    BrokerHeartbeatRequest: Api(
        lambda request, now: brokers.decide_heartbeat(now.image, request, now.sessions, now.defaults),
        brokers.refuse_heartbeat,
    ),
    BrokerRegistrationRequest: Api(_register_broker, brokers.refuse_register_broker),
    ControllerRegistrationRequest: Api(
        lambda request, now: brokers.decide_register_controller(now.image, request), brokers.refuse_register_controller
    ),
    CreateDelegationTokenRequest: Api(
        lambda request, now: delegation_tokens.decide_create_token(
            now.image,
            request,
            now.settings,
            requester=now.principal,
            now_ms=now.clock.now_ms(),
            random=now.random,
        ),
        delegation_tokens.refuse_create_token,
        delegation_tokens.cut_create_token,
    ),
    CreateAclsRequest: Api(
        lambda request, now: acls.decide_create_acls(now.image, request, now.random), acls.refuse_create_acls
    ),
    CreatePartitionsRequest: Api(
        lambda request, now: partitions.decide_create_partitions(now.image, request, now.random, now.mutations),
        partitions.refuse_create_partitions,
    ),
    CreateTopicsRequest: Api(
        lambda request, now: topics.decide_create_topics(now.image, request, now.settings, now.random, now.mutations),
        topics.refuse_create_topics,
    ),
    DeleteAclsRequest: Api(lambda request, now: acls.decide_delete_acls(now.image, request), acls.refuse_delete_acls),
    DeleteTopicsRequest: Api(
        lambda request, now: topics.decide_delete_topics(now.image, request, now.settings, now.mutations),
        topics.refuse_delete_topics,
    ),
    DescribeQuorumRequest: Api(
        lambda request, now: Decision(describe_quorum(request, now.quorum, now.image, now.clock)),
        refuse_describe_quorum,
        cut_describe_quorum,
    ),
    ElectLeadersRequest: Api(
        lambda request, now: partitions.decide_elect_leaders(now.image, request, now.defaults),
        partitions.refuse_elect_leaders,
        partitions.cut_elect_leaders,
    ),
    ExpireDelegationTokenRequest: Api(
        lambda request, now: delegation_tokens.decide_expire_token(
            now.image, request, now.settings, requester=now.principal, now_ms=now.clock.now_ms()
        ),
        delegation_tokens.refuse_expire_token,
    ),
    IncrementalAlterConfigsRequest: Api(
        lambda request, now: configs.decide_incremental_alter_configs(now.image, request, now.settings),
        configs.refuse_incremental_alter_configs,
    ),
    ListPartitionReassignmentsRequest: Api(
        lambda request, now: Decision(reassignments.list_reassignments(now.image, request)),
        reassignments.refuse_list_reassignments,
    ),
    RemoveRaftVoterRequest: Api(lambda request, now: change_voters(request, now.quorum), refuse_change),
    RenewDelegationTokenRequest: Api(
        lambda request, now: delegation_tokens.decide_renew_token(
            now.image, request, now.settings, requester=now.principal, now_ms=now.clock.now_ms()
        ),
        delegation_tokens.refuse_renew_token,
    ),
    UnregisterBrokerRequest: Api(
        lambda request, now: brokers.decide_unregister_broker(now.image, request, now.defaults),
        brokers.refuse_unregister_broker,
    ),
    UpdateFeaturesRequest: Api(
        _update_features,
        cluster_features.refuse_update_features,
    ),
}

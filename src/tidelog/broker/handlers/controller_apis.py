"""The APIs that are the active controller's alone. A broker passes them on as they are; where a controller is asked, directly or
by a broker that passes on, it is judged here who may ask, before the controller decides all else.

What nodes ask for themselves takes the right to act for the cluster. An administrator's request takes the right to change the
cluster, or to look at it. BrokerHeartbeat, which this node also hears itself, and AlterClientQuotas, which has names of hosts
looked up, have files of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.controller.requests import cut_to_version, refusal_of
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.alter_partition import AlterPartitionRequest
from tidelog.wire.messages.broker_lifecycle import (
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    UnregisterBrokerRequest,
)
from tidelog.wire.messages.features import UpdateFeaturesRequest
from tidelog.wire.messages.log_dirs import AssignReplicasToDirsRequest
from tidelog.wire.messages.producers import AllocateProducerIdsRequest
from tidelog.wire.messages.quorum import DescribeQuorumRequest
from tidelog.wire.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from tidelog.wire.messages.scram_credentials import AlterUserScramCredentialsRequest
from tidelog.wire.schema import Request, Response

_FOR_NODES = AclOperation.CLUSTER_ACTION
_TO_CHANGE = AclOperation.ALTER
_TO_LOOK = AclOperation.DESCRIBE


class PassedOn(NamedTuple):
    request: type[Request]
    operation: AclOperation
    """What the caller has to be allowed to do to the cluster."""
    purpose: str


PASSED_ON = (
    # A broker gives them out one by one (KIP-730).
    PassedOn(
        AllocateProducerIdsRequest, _FOR_NODES, "a block of producer ids for a broker, which nobody else will ever get"
    ),
    # v2 topics by id (KIP-841) · v3 broker epochs of the new set (KIP-903)
    PassedOn(AlterPartitionRequest, _FOR_NODES, "the leader of partitions asks for other in-sync sets"),
    # Without it nobody could tell whose replicas a failed disk takes with it (KIP-858).
    PassedOn(AssignReplicasToDirsRequest, _FOR_NODES, "a broker tells in which of its log directories replicas lie"),
    # v1 migration from ZooKeeper (refused) · v2 log directories (KIP-858) · v3 the epoch of its last life (KIP-966)
    # v4 levels from 0
    PassedOn(
        BrokerRegistrationRequest,
        _FOR_NODES,
        "a broker makes itself known to the active controller, and gets its epoch",
    ),
    # So that every node can tell which feature levels all controllers can work at (KIP-919).
    PassedOn(
        ControllerRegistrationRequest,
        _FOR_NODES,
        "a controller tells the active one where it listens and what it supports",
    ),
    # v1 may forbid another replication factor (KIP-860)
    # An answer without error says that a reassignment has begun, not that it is done.
    PassedOn(
        AlterPartitionReassignmentsRequest,
        _TO_CHANGE,
        "give partitions other replicas, or take that back while it is under way (KIP-455)",
    ),
    # The controller is told salted passwords, and keeps only what they are checked against.
    PassedOn(
        AlterUserScramCredentialsRequest,
        _TO_CHANGE,
        "give users a password for SASL/SCRAM, or take it from them (KIP-554)",
    ),
    # v0 knows preferred elections only · v1 the kind of election, and an error of the whole request
    # No list of partitions means all of them: the answer then leaves out those that needed no election.
    PassedOn(
        ElectLeadersRequest,
        _TO_CHANGE,
        "have leaders elected, the preferred ones (KIP-183) or, where nobody is in sync, any (KIP-460)",
    ),
    # A broker that still runs notices by its next heartbeat and registers again: to unregister a running one only takes its
    # partitions from it for a moment.
    PassedOn(UnregisterBrokerRequest, _TO_CHANGE, "forget a broker that does not come back (KIP-631)"),
    # v0 `allow_downgrade` · v1 the kind of upgrade instead, `validate_only` (KIP-778) · v2 no result of each feature: all or none
    PassedOn(UpdateFeaturesRequest, _TO_CHANGE, "raise or lower the levels of the cluster's features (KIP-584)"),
    # v1 when a replica last fetched and was last caught up · v2 directory ids, the voters' addresses, error texts (KIP-853)
    # Only the leader knows, and answers in the asker's version.
    PassedOn(
        DescribeQuorumRequest,
        _TO_LOOK,
        "the metadata quorum as its leader sees it: who votes, who follows, how far each of them is",
    ),
    # The active controller is asked, so that whoever has just begun a reassignment finds it. No list of partitions means all of
    # them; those that are not on their way, or not there, are left out of the answer.
    PassedOn(
        ListPartitionReassignmentsRequest,
        _TO_LOOK,
        "which partitions are on their way to other replicas (KIP-455)",
    ),
)


def pass_on(request: Request, caller: Caller, node: Node, operation: AclOperation) -> Answer[Response]:
    """The active controller's decision, for whoever may do `operation` to the cluster."""
    return refusal_at_controller(request, caller, node, operation) or node.forward(request, Response, caller)


def refusal_at_controller(request: Request, caller: Caller, node: Node, operation: AclOperation) -> Response | None:
    """What a controller answers to whoever may not do `operation` to the cluster. A broker leaves that to it."""
    if not node.is_controller_listener(caller.listener_name) or caller.may(
        operation, ResourceType.CLUSTER, CLUSTER_NAME
    ):
        return None
    refused = refusal_of(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return cut_to_version(request, refused, caller.api_version)


def _passing_on(operation: AclOperation) -> Callable[[Request, Caller, Node], Answer[Response]]:
    return lambda request, caller, node: pass_on(request, caller, node, operation)


for each in PASSED_ON:
    handles(each.request, purpose=each.purpose)(_passing_on(each.operation))

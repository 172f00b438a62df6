"""DescribeCluster (60), v0-2: the cluster's id, its controller and its nodes (KIP-700).

v1 whether brokers or controllers are meant (KIP-919) · v2 fenced brokers too (KIP-1073)

Each kind of listener tells of its own kind of node. A controller's takes more than a broker's: ALTER on the cluster.
"""

from __future__ import annotations

from enum import IntEnum

from tidelog.broker.cluster.endpoints import NO_NODE, ListenerView, any_alive_broker, endpoint_of
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, OPERATIONS_NOT_ASKED, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse


class EndpointType(IntEnum):
    """What a client takes the other end for."""

    BROKER = 1
    CONTROLLER = 2


@handles(DescribeClusterRequest)
def describe_cluster(request: DescribeClusterRequest, caller: Caller, node: Node) -> DescribeClusterResponse:
    is_controller = node.is_controller_listener(caller.listener_name)
    mine = EndpointType.CONTROLLER if is_controller else EndpointType.BROKER
    if is_controller and not node.image.metadata_version.has_controller_registration:
        return _refused(
            ErrorCode.UNSUPPORTED_VERSION,
            "Direct-to-controller communication is not supported with the current MetadataVersion.",
        )
    if is_controller and not caller.may(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _refused(error, error.message)
    if request.endpoint_type not in EndpointType.__members__.values():
        error = ErrorCode.INVALID_REQUEST if caller.api_version == 0 else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        return _refused(error, f"Unsupported endpoint type {request.endpoint_type}")
    if request.endpoint_type != mine:
        error = ErrorCode.INVALID_REQUEST if caller.api_version == 0 else ErrorCode.MISMATCHED_ENDPOINT_TYPE
        wanted = EndpointType(request.endpoint_type).name
        return _refused(
            error,
            f"The request was sent to an endpoint of type {mine.name}, but we wanted an endpoint of type {wanted}",
        )
    operations = OPERATIONS_NOT_ASKED
    if request.include_cluster_authorized_operations:
        may = caller.may(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
        operations = caller.authorized_operations(ResourceType.CLUSTER, CLUSTER_NAME) if may else 0
    if is_controller:
        nodes, controller_id = _controllers(caller, node), node.quorum.leader_id
    else:
        nodes = _brokers(caller, node, fenced_too=request.include_fenced_brokers)
        controller_id = any_alive_broker(node.image, node.random)
    known = controller_id is not None and any(each.broker_id == controller_id for each in nodes)
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        endpoint_type=mine,
        cluster_id=node.cluster_id,
        # One that the client is not told of would only confuse it.
        controller_id=controller_id if known and controller_id is not None else NO_NODE,
        brokers=nodes,
        cluster_authorized_operations=operations,
    )


def _brokers(caller: Caller, node: Node, *, fenced_too: bool) -> list[DescribeClusterBroker]:
    return [
        DescribeClusterBroker(
            broker_id=broker.node_id,
            host=endpoint.host,
            port=endpoint.port,
            rack=broker.rack,
            is_fenced=broker.fenced,
        )
        for broker, endpoint in ListenerView(node.image, caller.listener_name).brokers
        if fenced_too or not broker.fenced
    ]


def _controllers(caller: Caller, node: Node) -> list[DescribeClusterBroker]:
    found = []
    for controller in node.image.controllers.values():
        endpoint = endpoint_of(controller.endpoints, caller.listener_name)
        if endpoint is not None:
            found.append(
                DescribeClusterBroker(
                    broker_id=controller.node_id, host=endpoint.host, port=endpoint.port, is_fenced=False
                )
            )
    return found


def _refused(error: ErrorCode, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        throttle_time_ms=0, error_code=error, error_message=message, cluster_id="", brokers=[]
    )

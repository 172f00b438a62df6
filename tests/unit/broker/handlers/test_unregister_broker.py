from __future__ import annotations

from tests.unit.broker.admin_node import AdminNode, Denies, ask
from tidelog.broker.handlers import controller_apis
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.broker_lifecycle import UnregisterBrokerRequest, UnregisterBrokerResponse

HANDLED = controller_apis
REQUEST = UnregisterBrokerRequest(broker_id=7)


def test_the_controller_decides() -> None:
    node = AdminNode()
    unknown = ErrorCode.BROKER_ID_NOT_REGISTERED
    node.controller = lambda _: UnregisterBrokerResponse(
        throttle_time_ms=0, error_code=unknown, error_message="Broker ID 7 is not currently registered"
    )

    answer = ask(node, REQUEST, UnregisterBrokerResponse, 0)

    assert node.forwarded == [REQUEST]
    assert (answer.error_code, answer.error_message) == (unknown, "Broker ID 7 is not currently registered")


def test_it_takes_permission_to_alter_the_cluster() -> None:
    node = AdminNode()
    denies = Denies((AclOperation.ALTER, ResourceType.CLUSTER, None))

    answer = ask(node, REQUEST, UnregisterBrokerResponse, 0, authorizer=denies)

    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert node.forwarded == []

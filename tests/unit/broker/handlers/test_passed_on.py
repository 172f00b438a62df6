"""What is only passed on, to the active controller or to the quorum's replica on this node: as it came, and for whoever may."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.support.message_values import values_for
from tests.unit.broker.admin_node import CONTROLLER_LISTENER, LISTENER, AdminNode, Denies, caller_of
from tidelog.broker.handlers.controller_apis import PASSED_ON, PassedOn
from tidelog.broker.handlers.quorum_apis import QUORUM_APIS, VOTER_APIS
from tidelog.broker.requests.handling import HANDLERS
from tidelog.broker.requests.node_view import Node
from tidelog.controller.quorum_responses import refusal_to_wire
from tidelog.controller.requests import cut_to_version, refusal_of
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.wire.codec import encode
from tidelog.wire.schema import Request, Response

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class HearingQuorum:
    def __init__(self) -> None:
        self.heard = 0

    def receive(self, _asked: object) -> Pending[Any]:
        self.heard += 1
        return Pending()


def node_with(quorum: HearingQuorum) -> AdminNode:
    node = AdminNode()
    node.quorum = cast("Any", quorum)
    return node


def versions_of(request: type[Request]) -> range:
    handler = HANDLERS[request.api_key]
    return range(handler.lowest, handler.highest + 1)


def answer_of(
    node: AdminNode, request: Request, version: int, *, denied: AclOperation | None, listener: str | None = None
) -> Response | Pending[Response] | None:
    denies = Denies() if denied is None else Denies((denied, ResourceType.CLUSTER, None))
    caller = caller_of(request, version, authorizer=denies, listener=listener)
    return HANDLERS[request.api_key].answer(request, caller, cast("Node", node))


@pytest.mark.parametrize("api", PASSED_ON, ids=lambda api: api.request.__name__)
def test_the_controller_gets_what_came_and_only_from_whoever_may(api: PassedOn) -> None:
    for version in versions_of(api.request):
        node = AdminNode()
        request = values_for(api.request, version, 1)

        refused = answer_of(node, request, version, denied=api.operation)

        assert isinstance(refused, Response)
        expected = cut_to_version(request, refusal_of(request, REFUSED), version)
        assert encode(refused, version) == encode(expected, version)
        assert node.forwarded == []
        assert isinstance(answer_of(node, request, version, denied=None), Pending)
        assert node.forwarded == [request]
        # A broker passes on what comes: the controller is the one to judge.
        assert isinstance(answer_of(node, request, version, denied=api.operation, listener=LISTENER), Pending)
        assert node.forwarded == [request, request]


@pytest.mark.parametrize("api", QUORUM_APIS, ids=lambda api: api.__name__)
def test_the_quorum_hears_only_whoever_may_act_for_the_cluster(api: type[Request]) -> None:
    for version in versions_of(api):
        quorum = HearingQuorum()
        request = values_for(api, version, 1)

        refused = answer_of(node_with(quorum), request, version, denied=AclOperation.CLUSTER_ACTION)

        assert isinstance(refused, Response)
        assert encode(refused, version) == encode(refusal_to_wire(request, REFUSED), version)
        assert quorum.heard == 0
        answer = answer_of(node_with(quorum), request, version, denied=None)
        # Values from a seed need not make sense to a quorum.
        assert quorum.heard == 1 or answer == refusal_to_wire(request, ErrorCode.INVALID_REQUEST)
    assert HANDLERS[api.api_key].listener_kinds == ("controller",)


@pytest.mark.parametrize("api", VOTER_APIS, ids=lambda api: api.__name__)
def test_a_change_of_voters_is_a_controllers_own_affair_and_passed_on_by_a_broker(api: type[Request]) -> None:
    for version in versions_of(api):
        quorum = HearingQuorum()
        node = node_with(quorum)
        request = values_for(api, version, 1)

        assert isinstance(answer_of(node, request, version, denied=AclOperation.ALTER), Response)
        assert (node.forwarded, quorum.heard) == ([], 0)
        answer_of(node, request, version, denied=AclOperation.ALTER, listener=LISTENER)
        assert (node.forwarded, quorum.heard) == ([request], 0)
        answer_of(node, request, version, denied=None, listener=CONTROLLER_LISTENER)
        assert (node.forwarded, quorum.heard) == ([request], 1)

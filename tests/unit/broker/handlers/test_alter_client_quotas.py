"""AlterClientQuotas: names of hosts are looked up where it is decided, and by nobody else."""

from __future__ import annotations

from typing import cast

import pytest

from tests.unit.broker.admin_node import CONTROLLER_LISTENER, LISTENER, AdminNode, Denies, caller_of
from tidelog.broker.cluster.known_hosts import KnownHosts
from tidelog.broker.handlers.alter_client_quotas import alter_client_quotas
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.model.slow_work import InlineSlowWork
from tidelog.wire.messages.client_quotas import (
    AlterClientQuotasEntryData,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from tidelog.wire.schema import Response

CHANGE = OpData(key="connection_creation_rate", value=5.0, remove=False)


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def node(asked: list[str]) -> AdminNode:
    def resolve(name: str) -> bool:
        asked.append(name)
        return True

    node = AdminNode()
    node.known_hosts = KnownHosts(InlineSlowWork(), resolve)
    return node


def answer_of(node: AdminNode, ip: str, listener: str, *, denied: bool = False) -> Response | Pending[Response]:
    entity = [EntityData(entity_type="ip", entity_name=ip)]
    request = AlterClientQuotasRequest(
        entries=[AlterClientQuotasEntryData(entity=entity, ops=[CHANGE])], validate_only=False
    )
    rule = (AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER, None)
    caller = caller_of(request, 1, authorizer=Denies(rule) if denied else None, listener=listener)
    answer: Response | Pending[Response] = alter_client_quotas(request, caller, cast("Node", node))
    return answer


def test_a_controller_looks_a_name_up_before_it_decides(node: AdminNode, asked: list[str]) -> None:
    known: list[bool] = []

    def decide(_request: object) -> AlterClientQuotasResponse:
        known.append("db.example" in node.known_hosts)
        return AlterClientQuotasResponse(throttle_time_ms=0, entries=[])

    node.controller = decide

    answer = answer_of(node, "db.example", CONTROLLER_LISTENER)

    assert isinstance(answer, Pending)
    assert isinstance(answer.value, AlterClientQuotasResponse)
    assert (asked, known) == (["db.example"], [True])


@pytest.mark.parametrize(("ip", "listener"), [("1.2.3.4", CONTROLLER_LISTENER), ("db.example", LISTENER)])
def test_nothing_is_looked_up_where_nothing_depends_on_it(
    node: AdminNode, asked: list[str], ip: str, listener: str
) -> None:
    answer_of(node, ip, listener)

    assert len(node.forwarded) == 1
    assert asked == []


@pytest.mark.parametrize("ip", ["1.2.3.4", "db.example"])
def test_whoever_may_not_change_quotas_has_no_name_looked_up(node: AdminNode, asked: list[str], ip: str) -> None:
    refused = answer_of(node, ip, CONTROLLER_LISTENER, denied=True)

    assert isinstance(refused, AlterClientQuotasResponse)
    assert [each.error_code for each in refused.entries] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    assert (asked, node.forwarded) == ([], [])

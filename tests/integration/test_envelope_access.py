"""What comes in an envelope is judged as the principal, address and API inside: no broker is a way around ACLs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from tests.support.access_table import ADMIN, ALICE, CONTROLLER, World, creation, set_acls, topic
from tests.support.principals import GuardedNode, name_peers
from tidelog.broker.cluster import envelopes
from tidelog.broker.quotas.meter import ConnectionThrottle
from tidelog.controller.controller import ControllerContext
from tidelog.model.acl import AclOperation
from tidelog.model.errors import ErrorCode
from tidelog.model.principal import Principal
from tidelog.security.audit import AUDIT_LOGGER
from tidelog.wire.messages.broker_lifecycle import BrokerHeartbeatRequest
from tidelog.wire.messages.client_quotas import (
    AlterClientQuotasEntryData,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from tidelog.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tidelog.wire.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.schema import Request

HOST = "2001:db8:0:0:0:0:0:10"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedNode]:
    with pytest.MonkeyPatch.context() as patch:
        name_peers(patch)
        with GuardedNode(tmp_path_factory.mktemp("node")) as guarded:
            yield guarded


def creates(*names: str) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in names
    ]
    return CreateTopicsRequest(topics=topics, validate_only=True)


def envelope_of(request: Request, user: str) -> EnvelopeRequest:
    return envelopes.wrap(request, ControllerContext(Principal("User", user), "inner", HOST, api_version=7))


def sent(node: GuardedNode, envelope: EnvelopeRequest, by: str = ADMIN) -> EnvelopeResponse:
    answer = node.ask(by, CONTROLLER, envelope, 0)
    assert isinstance(answer, EnvelopeResponse)
    return answer


def created(node: GuardedNode, user: str, *names: str) -> CreateTopicsResponse:
    """What a user is told whose request a broker passes on."""
    request = creates(*names)
    answer = sent(node, envelope_of(request, user))
    assert (answer.error_code, answer.response_data is None) == (0, False)
    assert answer.response_data is not None
    context = ControllerContext(Principal("User", user), "inner", HOST, api_version=7)
    inside = envelopes.read_answer(answer.response_data, request, context)
    assert isinstance(inside, CreateTopicsResponse)
    return inside


def codes(node: GuardedNode, user: str, *names: str) -> dict[str, int]:
    return {each.name: each.error_code for each in created(node, user, *names).topics}


def test_the_client_is_judged_and_not_the_broker(node: GuardedNode) -> None:
    set_acls(node.ask, World(), [creation(topic(AclOperation.CREATE, "hers"))])

    # The one that passes it on is a super user.
    assert codes(node, ALICE, "hers", "other") == {"hers": 0, "other": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert codes(node, ADMIN, "hers", "other") == {"hers": 0, "other": 0}


def test_acls_go_by_the_clients_address(node: GuardedNode) -> None:
    mine = replace(creation(topic(AclOperation.CREATE, "hers")), host=HOST)
    set_acls(node.ask, World(), [mine])
    assert codes(node, ALICE, "hers") == {"hers": 0}
    set_acls(node.ask, World(), [replace(mine, host="2001:db8::10")])
    assert codes(node, ALICE, "hers") == {"hers": ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def test_the_audit_log_tells_of_what_is_inside(node: GuardedNode, caplog: pytest.LogCaptureFixture) -> None:
    set_acls(node.ask, World(), [])
    with caplog.at_level(logging.INFO, AUDIT_LOGGER):
        codes(node, ALICE, "secret")
    assert [record.getMessage() for record in caplog.records if record.name == AUDIT_LOGGER] == [
        (
            f"Principal = User:alice is Denied operation = CREATE from host = {HOST} on resource = Topic:LITERAL:secret "
            "for request = CreateTopics with resourceRefCount = 1 based on rule DefaultDeny"
        )
    ]


def test_who_is_no_broker_may_pass_nothing_on(node: GuardedNode) -> None:
    set_acls(node.ask, World(), [])
    answer = sent(node, envelope_of(creates("t"), ADMIN), by=ALICE)
    assert (answer.error_code, answer.response_data) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)


def test_what_cannot_be_read_has_kafkas_codes(node: GuardedNode) -> None:
    whole = envelope_of(creates("t"), ADMIN)
    heartbeat = BrokerHeartbeatRequest(
        broker_id=1, current_metadata_offset=0, want_fence=False, want_shut_down=False, offline_log_dirs=[]
    )
    for broken, code in (
        (replace(whole, request_principal=b"\0\0\xff"), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (replace(whole, request_data=whole.request_data[:-2]), ErrorCode.UNSUPPORTED_VERSION),
        (replace(whole, client_host_address=b"123"), ErrorCode.INVALID_REQUEST),
        (replace(whole, request_data=envelopes.request_bytes(heartbeat, 0, 0, None)), ErrorCode.INVALID_REQUEST),
    ):
        assert sent(node, broken).error_code == code


def test_the_client_pays_for_the_controllers_time_and_the_broker_does_not(node: GuardedNode) -> None:
    entity = [EntityData(entity_type="user", entity_name=ALICE)]
    # So little that any request is too much.
    limit = OpData(key="request_percentage", value=1e-6, remove=False)
    change = AlterClientQuotasRequest(
        entries=[AlterClientQuotasEntryData(entity=entity, ops=[limit])], validate_only=False
    )
    set_acls(node.ask, World(), [])
    answer = node.ask(ADMIN, CONTROLLER, change, 1)
    assert isinstance(answer, AlterClientQuotasResponse)
    assert [each.error_code for each in answer.entries] == [0]

    assert created(node, ALICE, "t").throttle_time_ms == 1_000
    assert created(node, ADMIN, "t").throttle_time_ms == 0
    # Who passed it on is not kept waiting for her.
    throttles = [each.throttle for each in node.running.node._server.connections.values()]
    assert all(each.muted_until_ms == 0 for each in throttles if isinstance(each, ConnectionThrottle))

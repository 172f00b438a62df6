"""Who may ask for delegation tokens over which connection, and what is told of them."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.unit.broker.admin_node import AdminNode, Denies, ask, caller_of, features
from tidelog.broker.handlers.delegation_tokens import is_allowed_here
from tidelog.broker.node.node import load_handlers
from tidelog.broker.requests.caller import AllowAll, Caller
from tidelog.broker.requests.forwarded import Forwarded
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.principal import ANONYMOUS, Principal
from tidelog.model.security_protocol import SecurityProtocol
from tidelog.security.delegation_tokens import TokenSecret
from tidelog.wire.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from tidelog.wire.messages.internal.cluster_security import DelegationTokenRecord
from tidelog.wire.schema import Request, Response

load_handlers()

ALICE = Principal("User", "alice")
SECRET = TokenSecret("secret")
CREATE = CreateDelegationTokenRequest(owner_principal_type="", owner_principal_name="", renewers=[], max_lifetime_ms=-1)
RENEW = RenewDelegationTokenRequest(hmac=b"h", renew_period_ms=-1)
EXPIRE = ExpireDelegationTokenRequest(hmac=b"h", expiry_time_period_ms=-1)
DESCRIBE = DescribeDelegationTokenRequest(owners=None)
ALL: list[tuple[Request, type[Response]]] = [
    (CREATE, CreateDelegationTokenResponse),
    (RENEW, RenewDelegationTokenResponse),
    (EXPIRE, ExpireDelegationTokenResponse),
    (DESCRIBE, DescribeDelegationTokenResponse),
]


def token(token_id: str, owner: str, *renewers: str) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=owner,
        requester="User:carol",
        renewers=list(renewers),
        issue_timestamp=1,
        max_timestamp=3,
        expiration_timestamp=2,
        token_id=token_id,
    )


def node(protocol: SecurityProtocol = SecurityProtocol.SASL_SSL) -> AdminNode:
    asked = AdminNode(
        *features(), token("a", "User:alice"), token("b", "User:bob", "User:alice"), token("c", "User:carol")
    )
    asked.protocol = protocol
    asked.token_secret = SECRET
    return asked


def asked_by(
    principal: Principal,
    request: Request,
    answer: type[Response],
    at: AdminNode | None = None,
    version: int = 2,
    denies: Denies | None = None,
) -> Any:
    caller = caller_of(request, version, principal=principal, authorizer=denies)
    return ask(at or node(), request, answer, version, caller=caller)


@pytest.mark.parametrize(("request_", "answer"), ALL)
@pytest.mark.parametrize(
    ("protocol", "principal"),
    [
        (SecurityProtocol.PLAINTEXT, ALICE),
        (SecurityProtocol.SSL, ANONYMOUS),
        (SecurityProtocol.SASL_PLAINTEXT, Principal("User", "alice", token_authenticated=True)),
        (SecurityProtocol.SSL, Principal("User", "alice", token_authenticated=True)),
    ],
)
def test_a_connection_that_anybody_could_have_gets_nothing(
    request_: Request, answer: type[Response], protocol: SecurityProtocol, principal: Principal
) -> None:
    at = node(protocol)

    refused = asked_by(principal, request_, answer, at)

    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert getattr(refused, "expiry_timestamp_ms", -1) == -1
    assert at.forwarded == []


@pytest.mark.parametrize(
    ("principal", "is_allowed"),
    [(ALICE, True), (ANONYMOUS, True), (Principal("User", "alice", token_authenticated=True), False)],
)
@pytest.mark.parametrize("protocol", SecurityProtocol)
def test_of_what_a_broker_has_passed_on_its_connection_is_not_judged_again(
    protocol: SecurityProtocol, principal: Principal, is_allowed: bool
) -> None:
    passed_on = Forwarded(principal, "10.0.0.1", "CONTROLLER")
    caller = Caller(passed_on, None, CREATE.api_key, 2, AllowAll())

    assert is_allowed_here(caller, cast("Node", node(protocol))) is is_allowed


@pytest.mark.parametrize("request_", [CREATE, RENEW, EXPIRE])
@pytest.mark.parametrize("protocol", [SecurityProtocol.SSL, SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL])
def test_what_is_allowed_is_decided_by_the_controller(request_: Request, protocol: SecurityProtocol) -> None:
    at = node(protocol)
    caller = caller_of(request_, 2, principal=ALICE)

    from tidelog.broker.requests.handling import HANDLERS

    HANDLERS[request_.api_key].answer(request_, caller, at)

    assert at.forwarded == [request_]


def create_for(owner: str, denies: Denies | None) -> tuple[AdminNode, Any]:
    at = node()
    request = CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name=owner, renewers=[], max_lifetime_ms=-1
    )
    at.controller = lambda _request: CreateDelegationTokenResponse(
        error_code=0,
        principal_type="User",
        principal_name=owner,
        token_requester_principal_type="User",
        token_requester_principal_name="alice",
        issue_timestamp_ms=1,
        expiry_timestamp_ms=2,
        max_timestamp_ms=3,
        token_id="id",
        hmac=b"h",
        throttle_time_ms=0,
    )
    return at, asked_by(ALICE, request, CreateDelegationTokenResponse, at, 3, denies)


def test_a_token_for_another_needs_the_right_to_create_it() -> None:
    denies = Denies((AclOperation.CREATE_TOKENS, ResourceType.USER, "User:bob"))

    at, refused = create_for("bob", denies)

    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "alice")
    assert (refused.issue_timestamp_ms, refused.token_id, refused.hmac) == (-1, "", b"")
    assert at.forwarded == []
    assert create_for("carol", denies)[1].error_code == 0


def test_nobody_needs_a_right_for_a_token_of_ones_own() -> None:
    _, created = create_for("alice", Denies((AclOperation.CREATE_TOKENS, ResourceType.USER, None)))

    assert created.error_code == 0


def test_renewers_are_users() -> None:
    request = CreateDelegationTokenRequest(
        owner_principal_type="",
        owner_principal_name="",
        renewers=[CreatableRenewers(principal_type="Group", principal_name="g")],
        max_lifetime_ms=-1,
    )

    refused = asked_by(ALICE, request, CreateDelegationTokenResponse)

    assert refused.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


NONE_OF_OTHERS = Denies(
    (AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, None),
    (AclOperation.DESCRIBE_TOKENS, ResourceType.USER, None),
)


def seen(owners: list[str] | None, denies: Denies | None, version: int = 3) -> Any:
    named = (
        None
        if owners is None
        else [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
    )
    request = DescribeDelegationTokenRequest(owners=named)
    return asked_by(ALICE, request, DescribeDelegationTokenResponse, version=version, denies=denies)


@pytest.mark.parametrize(
    ("owners", "denies", "ids"),
    [
        (None, None, "abc"),
        (None, NONE_OF_OTHERS, "ab"),
        ([], None, ""),
        (["carol"], None, "c"),
        (["carol"], NONE_OF_OTHERS, ""),
        # Whoever may renew a token is asked for like its owner.
        (["alice"], NONE_OF_OTHERS, "ab"),
        (None, Denies((AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, "c")), "abc"),
        (None, Denies((AclOperation.DESCRIBE_TOKENS, ResourceType.USER, None)), "abc"),
    ],
)
def test_tokens_are_told_to_those_who_may_see_them(owners: list[str] | None, denies: Denies | None, ids: str) -> None:
    assert [each.token_id for each in seen(owners, denies).tokens] == list(ids)


def test_all_is_told_of_a_token() -> None:
    described = seen(["bob"], None).tokens[0]

    assert (described.principal_type, described.principal_name) == ("User", "bob")
    assert described.token_requester_principal_name == "carol"
    assert (described.issue_timestamp, described.expiry_timestamp, described.max_timestamp) == (1, 2, 3)
    assert described.hmac == SECRET.hmac_of("b")
    assert [each.principal_name for each in described.renewers] == ["alice"]
    assert seen(["bob"], None, 2).tokens[0].token_requester_principal_name == ""


def test_there_are_none_without_a_secret() -> None:
    at = node()
    at.token_secret = None

    assert asked_by(ALICE, DESCRIBE, DescribeDelegationTokenResponse, at).error_code == 61

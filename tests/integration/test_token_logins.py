"""Logins with delegation tokens over SASL_PLAINTEXT: whose rights they have, what they may not do, and when they end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.apache_kafka import wait_until
from tests.support.running_node import RunningNode
from tests.support.sasl_node import PASSWORD, SCRAM_MODULE, USER, sasl_bootstrap, sasl_settings
from tidelog import Admin, Producer
from tidelog.client.admin import AclBinding, DelegationToken, NewTopic, ScramMechanism, UserScramUpsertion
from tidelog.client.errors import AuthenticationError, RefusedError
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.authorizer_config import STANDARD_AUTHORIZER
from tidelog.model.errors import ErrorCode

OWN, OTHERS = "alices", "others"
NEVER_MS = 3_600_000
SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "hush",
    # An expired token is refused before it is removed, too.
    "delegation.token.expiry.check.interval.ms": str(NEVER_MS),
    "connection.failed.authentication.delay.ms": "1",
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """Alice has a password, and may write to one topic and see another."""
    settings = sasl_settings(("SCRAM-SHA-256", "SCRAM-SHA-512"), **SETTINGS)
    with RunningNode(tmp_path_factory.mktemp("node"), settings=settings) as running:
        with Admin(bootstrap_servers=running.bootstrap) as admin:
            admin.alter_user_scram_credentials([UserScramUpsertion(USER, PASSWORD, ScramMechanism.SCRAM_SHA_256)])
            admin.create_topics([NewTopic(OWN, 1, 1), NewTopic(OTHERS, 1, 1)])
            admin.create_acls(
                [
                    AclBinding(ResourceType.TOPIC, OWN, f"User:{USER}", AclOperation.WRITE),
                    AclBinding(ResourceType.TOPIC, OTHERS, f"User:{USER}", AclOperation.DESCRIBE),
                ]
            )
        yield running


def login(node: RunningNode, user: str, password: str, *, mechanism: str = "SCRAM-SHA-256", more: str = "") -> Any:
    return {
        "bootstrap_servers": sasl_bootstrap(node),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_jaas_config": f'{SCRAM_MODULE} required username="{user}" password="{password}"{more};',
    }


def by_token(node: RunningNode, token: DelegationToken, mechanism: str = "SCRAM-SHA-256") -> Any:
    return login(node, token.token_id, token.password, mechanism=mechanism, more=' tokenauth="true"')


@pytest.fixture
def alice(node: RunningNode) -> Iterator[Admin]:
    with Admin(**login(node, USER, PASSWORD)) as admin:
        yield admin


@pytest.fixture
def token(alice: Admin) -> DelegationToken:
    return alice.create_delegation_token()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_token_has_the_rights_of_its_owner(node: RunningNode, token: DelegationToken, mechanism: str) -> None:
    assert token.owner == f"User:{USER}"
    settings = by_token(node, token, mechanism)

    with Producer(**settings) as producer:
        assert producer.send(OWN, b"by token").result(30).offset >= 0
        with pytest.raises(RefusedError) as refused:
            producer.send(OTHERS, b"by token").result(30)
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with Admin(**settings) as admin:
        assert {each.name for each in admin.list_topics()} == {OWN, OTHERS}


def test_a_token_does_nothing_with_tokens(node: RunningNode, alice: Admin, token: DelegationToken) -> None:
    with Admin(**by_token(node, token)) as admin:
        for attempt in (
            admin.create_delegation_token,
            admin.describe_delegation_token,
            lambda: admin.renew_delegation_token(token.hmac),
            lambda: admin.expire_delegation_token(token.hmac),
        ):
            with pytest.raises(RefusedError) as refused:
                attempt()
            assert refused.value.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED

    assert token.token_id in {each.token_id for each in alice.describe_delegation_token()}


def refused_login(settings: Any) -> str:
    with pytest.raises(AuthenticationError) as refused, Admin(**settings) as admin:
        admin.connect()
    return str(refused.value)


def test_a_token_is_no_password_and_a_password_is_no_token(node: RunningNode, token: DelegationToken) -> None:
    invalid = "invalid credentials with SASL mechanism SCRAM-SHA-256"

    assert invalid in refused_login(login(node, token.token_id, token.password))
    assert invalid in refused_login(login(node, USER, PASSWORD, more=' tokenauth="true"'))
    assert invalid in refused_login(login(node, token.token_id, "d3Jvbmc=", more=' tokenauth="true"'))


def test_nobody_logs_in_with_a_token_that_was_removed(node: RunningNode, alice: Admin, token: DelegationToken) -> None:
    settings = by_token(node, token)
    with Admin(**settings) as admin:
        admin.connect()

    alice.expire_delegation_token(token.hmac)

    assert "invalid credentials" in refused_login(settings)


def test_nobody_logs_in_with_a_token_that_has_expired(node: RunningNode, alice: Admin, token: DelegationToken) -> None:
    settings = by_token(node, token)
    with Admin(**settings) as admin:
        admin.connect()

    ends_ms = alice.expire_delegation_token(token.hmac, expiry_time_period_ms=200)
    wait_until(lambda: time.time() * 1000 > ends_ms, "the token has expired")

    assert "invalid credentials" in refused_login(settings)
    assert token.token_id in {each.token_id for each in alice.describe_delegation_token()}, "it is still kept"

"""Delegation tokens over real sockets: our admin and `tidelog tokens`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from typer.testing import Result

from tests.support.command_line import json_lines, tidelog
from tests.support.raw_client import RawClient
from tidelog import Admin
from tidelog.broker.node.node import BrokerNode
from tidelog.client.errors import ConfigError, RefusedError
from tidelog.model.errors import ErrorCode
from tidelog.model.security_protocol import SecurityProtocol
from tidelog.security.delegation_tokens import TokenSecret, token_password
from tidelog.testing import EmbeddedCluster
from tidelog.wire.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

Command = Callable[..., Result]

CONFIG: dict[str, str | int | bool] = {
    "delegation.token.secret.key": "hush",
    "delegation.token.max.lifetime.ms": 1_000_000,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(config=CONFIG) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def over_sasl(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the listeners knew who is there: on these nobody would be answered."""
    monkeypatch.setattr(BrokerNode, "security_protocol", lambda _self, _name: SecurityProtocol.SASL_PLAINTEXT)


@pytest.fixture
def admin(cluster: EmbeddedCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def command(cluster: EmbeddedCluster) -> Command:
    return lambda *arguments: tidelog(*arguments, "--bootstrap", cluster.bootstrap_servers)


def test_a_token_from_its_beginning_to_its_end(admin: Admin) -> None:
    token = admin.create_delegation_token(renewers=["User:bob"], owner="User:alice", max_lifetime_ms=500_000)

    assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:ANONYMOUS", ("User:bob",))
    assert token.max_timestamp_ms - token.issue_timestamp_ms == 500_000
    assert token.password == token_password(TokenSecret("hush").hmac_of(token.token_id))
    assert "hmac" not in repr(token)
    assert token in admin.describe_delegation_token(["User:alice"])
    with pytest.raises(RefusedError) as refused:
        admin.renew_delegation_token(token.hmac)
    assert refused.value.code is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH

    own = admin.create_delegation_token()
    assert admin.renew_delegation_token(own.hmac, renew_period_ms=1_000) < own.expiry_timestamp_ms
    admin.expire_delegation_token(own.hmac)
    assert own.token_id not in {each.token_id for each in admin.describe_delegation_token()}
    with pytest.raises(RefusedError) as refused:
        admin.expire_delegation_token(own.hmac)
    assert refused.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_every_broker_passes_them_on_for_the_caller() -> None:
    with EmbeddedCluster(nodes=2, config=CONFIG) as cluster:
        for server in cluster.bootstrap_servers.split(","):
            with RawClient(server) as node:
                created = node.call(
                    CreateDelegationTokenRequest(
                        owner_principal_type="", owner_principal_name="", renewers=[], max_lifetime_ms=-1
                    ),
                    CreateDelegationTokenResponse,
                    2,
                )
                expired = node.call(
                    ExpireDelegationTokenRequest(hmac=created.hmac, expiry_time_period_ms=-1),
                    ExpireDelegationTokenResponse,
                    1,
                )

            assert (created.error_code, created.principal_name) == (ErrorCode.NONE, "ANONYMOUS")
            assert expired.error_code == ErrorCode.NONE


def test_a_listener_without_security_refuses(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()

    with pytest.raises(RefusedError) as refused:
        admin.describe_delegation_token()

    assert refused.value.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_a_principal_has_a_type(admin: Admin) -> None:
    with pytest.raises(ConfigError, match="alice is no principal"):
        admin.create_delegation_token(owner="alice")


def test_the_commands(command: Command) -> None:
    (created,) = json_lines(command("tokens", "create", "--renewer", "User:erin", "--json"))
    token_id = created["token_id"]

    listed = json_lines(command("tokens", "list", "--owner", "User:erin", "--json"))
    table = command("tokens", "list").stdout
    shown = json_lines(command("tokens", "list", "--show-hmac", "--json"))
    (renewed,) = json_lines(command("tokens", "renew", token_id, "--period-ms", "5000", "--json"))
    expired = command("tokens", "expire", token_id)
    gone = command("tokens", "expire", token_id)

    assert listed == [{name: value for name, value in created.items() if name != "hmac"}]
    assert token_id in table
    assert created["hmac"] not in table
    assert created["hmac"] in {each["hmac"] for each in shown}
    assert renewed["expiry_timestamp_ms"] < created["expiry_timestamp_ms"]
    assert expired.stdout.startswith(f"token {token_id} expires ")
    assert gone.exit_code == 1
    assert f"there is no token {token_id} that the caller may see" in gone.stderr


def test_a_cluster_without_a_secret_says_so() -> None:
    with EmbeddedCluster() as cluster:
        result = tidelog("tokens", "create", "--bootstrap", cluster.bootstrap_servers)

    assert result.exit_code == 1
    assert "Delegation tokens are switched off here" in result.stderr

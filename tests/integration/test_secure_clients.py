"""Our own clients against our own node, over SASL: every mechanism, and what a wrong login comes to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.running_node import RunningNode
from tests.support.sasl_node import (
    OAUTH_MODULE,
    PASSWORD,
    PLAIN_MODULE,
    SCRAM_MODULE,
    USER,
    add_scram_user,
    sasl_bootstrap,
    sasl_settings,
    token_of,
)
from tests.support.token_issuer import Issuer, TokenServer
from tidelog import Admin, Consumer, Producer
from tidelog.client.errors import AuthenticationError, ConfigError, NotReachedError


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with RunningNode(tmp_path_factory.mktemp("node"), settings=sasl_settings()) as running:
        add_scram_user(running)
        yield running


@pytest.fixture
def token_endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenServer]:
    monkeypatch.setenv("no_proxy", "*")
    with TokenServer() as server:
        yield server


def login(node: RunningNode, mechanism: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": sasl_bootstrap(node),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        **more,
    }


def by_user(node: RunningNode, mechanism: str, password: str = PASSWORD, **more: Any) -> dict[str, Any]:
    return login(node, mechanism, sasl_username=USER, sasl_password=password, **more)


def write_and_read(settings: dict[str, Any], topic: str) -> list[bytes | None]:
    """One record through a producer, an admin and a consumer with the same login."""
    with Producer(**settings) as producer:
        producer.send(topic, b"hello").result(30)
    with Admin(**settings) as admin:
        assert topic in {each.name for each in admin.list_topics()}
    with Consumer(topic, **settings, group_id=f"g-{topic}", auto_offset_reset="earliest") as consumer:
        deadline_s = time.monotonic() + 30
        while time.monotonic() < deadline_s:
            rows = consumer.poll(timeout_ms=1000)
            if rows:
                return [each.value for each in rows]
    return []


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_producer_consumer_and_admin_log_in_with_a_password(node: RunningNode, mechanism: str) -> None:
    assert write_and_read(by_user(node, mechanism), f"t-{mechanism.lower()}") == [b"hello"]


@pytest.mark.parametrize(("mechanism", "module"), [("PLAIN", PLAIN_MODULE), ("SCRAM-SHA-256", SCRAM_MODULE)])
def test_a_login_may_be_written_as_kafka_writes_it(node: RunningNode, mechanism: str, module: str) -> None:
    jaas = f"""{module} required username="{USER}" password="{PASSWORD}";"""

    with Admin(**login(node, mechanism, sasl_jaas_config=jaas)) as admin:
        admin.connect()


def test_tokens_come_from_a_function_a_text_a_file_or_options(node: RunningNode, tmp_path: Path) -> None:
    calls: list[str] = []

    def callback() -> tuple[str, float]:
        calls.append(token_of())
        return calls[-1], time.time() + 3600

    unsecured = f"""{OAUTH_MODULE} required unsecuredLoginStringClaim_sub="{USER}";"""

    assert write_and_read(login(node, "OAUTHBEARER", sasl_oauthbearer_token_callback=callback), "t-callback") == [
        b"hello"
    ]
    assert len(calls) == 3, "once for each client, however many connections it has"
    for each in (
        {"sasl_oauthbearer_token": token_of()},
        {"sasl_jaas_config": unsecured},
    ):
        with Admin(**login(node, "OAUTHBEARER", **each)) as admin:
            admin.connect()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_fails_at_once_in_every_client(node: RunningNode, mechanism: str) -> None:
    settings = by_user(node, mechanism, "wrong", request_timeout_ms=60_000)
    words = "Authentication failed: Invalid username or password"
    if mechanism != "PLAIN":
        words = (
            f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
        )
    began_s = time.monotonic()

    with Admin(**settings) as admin, pytest.raises(AuthenticationError, match=words) as caught:
        admin.list_topics()
    with Producer(**settings) as producer, pytest.raises(AuthenticationError, match=words):
        producer.send("t-plain", b"x").result(60)
    for more in ({"group_id": "g"}, {"group_id": "g", "group_protocol": "consumer"}):
        with Consumer("t-plain", **settings, **more) as consumer, pytest.raises(AuthenticationError, match=words):
            consumer.poll(timeout_ms=60_000)
    with Consumer(**settings) as consumer:
        consumer.assign([("t-plain", 0)])
        with pytest.raises(AuthenticationError, match=words):
            consumer.poll(timeout_ms=60_000)

    assert time.monotonic() - began_s < 20
    assert "wrong" not in str(caught.value)
    assert caught.value.code is not None
    assert caught.value.code.name == "SASL_AUTHENTICATION_FAILED"


def test_a_client_that_was_not_let_in_is_let_in_once_that_is_mended(node: RunningNode) -> None:
    tokens = ["not.a.token", token_of()]
    with Admin(**login(node, "OAUTHBEARER", sasl_oauthbearer_token_callback=lambda: tokens.pop(0))) as admin:
        with pytest.raises(AuthenticationError):
            admin.connect()

        admin.connect()


def test_a_callback_that_fails_is_told_with_its_cause(node: RunningNode) -> None:
    def callback() -> str:
        raise KeyError("secret words")

    settings = login(node, "OAUTHBEARER", sasl_oauthbearer_token_callback=callback)
    with Admin(**settings) as admin, pytest.raises(AuthenticationError) as caught:
        admin.connect()

    assert str(caught.value) == "no OAUTHBEARER token: sasl_oauthbearer_token_callback raised KeyError"


def test_a_mechanism_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    with (
        RunningNode(tmp_path, settings=sasl_settings(("SCRAM-SHA-256",))) as node,
        Admin(**by_user(node, "PLAIN")) as admin,
        pytest.raises(AuthenticationError, match="SCRAM-SHA-256"),
    ):
        admin.connect()


def test_a_plain_client_at_a_listener_with_sasl_is_told_what_to_set(node: RunningNode) -> None:
    with Admin(bootstrap_servers=sasl_bootstrap(node)) as admin, pytest.raises(NotReachedError) as caught:
        admin.connect()

    assert "security_protocol" in str(caught.value)
    assert "SASL" in str(caught.value)


def test_a_login_at_a_listener_without_sasl_is_told_so(node: RunningNode) -> None:
    settings = {**by_user(node, "PLAIN"), "bootstrap_servers": node.bootstrap}

    with Admin(**settings) as admin, pytest.raises(AuthenticationError, match="does not expect a login"):
        admin.connect()


def test_a_jaas_text_for_another_mechanism_is_refused_before_anything_is_connected_to() -> None:
    jaas = f"""{SCRAM_MODULE} required username="a" password="s3cret";"""

    with pytest.raises(ConfigError) as caught:
        Admin(
            bootstrap_servers="127.0.0.1:1",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_jaas_config=jaas,
        )

    assert str(caught.value) == f"sasl_jaas_config names {SCRAM_MODULE}, and PLAIN goes by {PLAIN_MODULE}"


def test_signed_tokens_of_an_endpoint_and_of_a_file_are_replaced_before_they_end(
    tmp_path: Path, token_endpoint: TokenServer
) -> None:
    issuer = Issuer(tmp_path)
    token_endpoint.answer = lambda: {"access_token": issuer.token(USER, lifetime_s=2)}
    file = tmp_path / "token"
    file.write_text(issuer.token(USER))
    of_endpoint = {
        "sasl_oauthbearer_token_endpoint_url": token_endpoint.url,
        "sasl_oauthbearer_client_credentials_client_id": "orders",
        "sasl_oauthbearer_client_credentials_client_secret": "s3cret",
        "sasl_oauthbearer_scope": "kafka",
    }

    with RunningNode(tmp_path / "node", settings=sasl_settings(("OAUTHBEARER",)) | issuer.settings) as node:
        with Admin(**login(node, "OAUTHBEARER", sasl_oauthbearer_token_endpoint_url=file.as_uri())) as admin:
            admin.connect()
        with Admin(**login(node, "OAUTHBEARER", **of_endpoint)) as admin:
            deadline_s = time.monotonic() + 30
            # The session ends with the token: what is asked after that is asked with the next one.
            while len(token_endpoint.asked) < 3 and time.monotonic() < deadline_s:
                admin.list_topics()

    assert len(token_endpoint.asked) >= 3
    assert {body for _, body in token_endpoint.asked} == {b"grant_type=client_credentials&scope=kafka"}


def test_an_endpoint_that_refuses_is_told_at_once_in_its_own_words(
    node: RunningNode, token_endpoint: TokenServer
) -> None:
    token_endpoint.status = 401
    token_endpoint.answer = lambda: {"error": "invalid_client", "error_description": "who?"}
    settings = login(
        node,
        "OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url=token_endpoint.url,
        sasl_oauthbearer_client_credentials_client_id="orders",
        sasl_oauthbearer_client_credentials_client_secret="s3cret",
    )

    with Admin(**settings) as admin, pytest.raises(AuthenticationError) as caught:
        admin.list_topics()

    assert str(caught.value) == (
        f'no OAUTHBEARER token: the token endpoint {token_endpoint.url} answered with status 401: "invalid_client" - "who?"'
    )
    assert len(token_endpoint.asked) == 1

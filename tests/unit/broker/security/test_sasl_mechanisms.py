"""From a listener's configuration to its mechanisms, and what is said of a configuration that is none."""

from __future__ import annotations

import logging
import sys
from random import Random

import pytest

from tests.support.data_node import ManualTimers
from tests.support.log_builder import ManualClock
from tidelog.broker.config.server_properties import check_properties
from tidelog.broker.security.node_logins import LoginParts, broker_login, controller_login
from tidelog.broker.security.node_tokens import TokenParts
from tidelog.broker.security.sasl_mechanisms import CurrentSasl, Mechanism, MechanismParts, mechanisms_of
from tidelog.model.config import ConfigError, ConfigValues
from tidelog.model.pending import Pending
from tidelog.model.principal import Principal
from tidelog.model.slow_work import InlineSlowWork, SlowWork
from tidelog.model.token_login_config import LOGIN_CLASS
from tidelog.net.address import NO_ADDRESS
from tidelog.security.listener_settings import ListenerSettings
from tidelog.security.sasl.exchange import ServerExchange
from tidelog.security.sasl.scram import ScramClient
from tidelog.security.sasl.scram_credential import ScramCredential, ScramMechanism, derive_credential

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
MECHANISMS = "listener.name.out.sasl.enabled.mechanisms"
LOGIN = "listener.name.out.plain.sasl.jaas.config"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required"
KERBEROS_LOGIN = "listener.name.out.gssapi.sasl.jaas.config"
OAUTH_LOGIN = "listener.name.out.oauthbearer.sasl.jaas.config"
URL = "sasl.oauthbearer.jwks.endpoint.url"
CHECKED = {MECHANISMS: "OAUTHBEARER", "listener.name.out.oauthbearer.sasl.server.callback.handler.class": VALIDATOR}

SCRAM_USERS = {("alice", 1): derive_credential(ScramMechanism.SCRAM_SHA_256, "a", b"salt", 4096)}


def values(given: dict[str, str]) -> ConfigValues:
    return check_properties(given, strict=True).values


def settings(given: dict[str, str]) -> ListenerSettings:
    return ListenerSettings(values(given).given, "OUT")


def login_parts() -> LoginParts:
    clock = ManualClock()
    return LoginParts(TokenParts(InlineSlowWork(), Random(1), clock, ManualTimers(clock)), "1")


def parts(tokens: Tokens | None = None) -> MechanismParts:
    return MechanismParts(lambda: SCRAM_USERS, tokens, InlineSlowWork(), Random(1), lambda: 0)


class Tokens:
    """One token, which is not ready at first."""

    def __init__(self) -> None:
        self.prepared: Pending[None] = Pending()

    def prepare(self, _mechanism: str, _token_id: str, _slow_work: SlowWork) -> Pending[None]:
        return self.prepared

    def credential(self, mechanism: str, token_id: str) -> tuple[ScramCredential, Principal, int] | None:
        known = mechanism == "SCRAM-SHA-256" and token_id == "id"
        return (SCRAM_USERS["alice", 1], Principal("User", "owner"), 99) if known else None


def test_a_listener_has_the_mechanisms_that_it_names_in_kafkas_order() -> None:
    made = mechanisms_of(
        settings(
            {
                "sasl.enabled.mechanisms": "GSSAPI",
                MECHANISMS: "OAUTHBEARER,SCRAM-SHA-256,PLAIN,SCRAM-SHA-256",
                LOGIN: f"{PLAIN} user_a=b;",
                "connections.max.reauth.ms": "5",
                "listener.name.out.connections.max.reauth.ms": "6",
                "listener.name.out.plain.connections.max.reauth.ms": "7",
            }
        ),
        parts(),
    )

    assert {name: each.reauth_ms_max for name, each in made.items()} == {
        "PLAIN": 7,
        "SCRAM-SHA-256": 6,
        "OAUTHBEARER": 6,
    }
    assert list(made) == ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "listener OUT has no login for GSSAPI: set listener.name.out.gssapi.sasl.jaas.config, it names a keytab"),
        (
            {MECHANISMS: "SCRAM-SHA-1"},
            "would use the mechanism SCRAM-SHA-1, which is not supported: set sasl.enabled.mechanisms to one of PLAIN",
        ),
        ({KERBEROS_LOGIN: f"{KERBEROS} useKeyTab=true serviceName=kafka;"}, f"{KERBEROS_LOGIN}: useKeyTab=true needs"),
        ({KERBEROS_LOGIN: f"{KERBEROS};"}, "No serviceName defined in either JAAS or Kafka config"),
        (
            {
                KERBEROS_LOGIN: f"{KERBEROS} serviceName=kafka;",
                "listener.name.out.sasl.kerberos.service.name": "broker",
            },
            "Conflicting serviceName values found in JAAS and Kafka configs",
        ),
        ({MECHANISMS: ""}, "listener OUT uses SASL, and sasl.enabled.mechanisms is empty"),
        ({MECHANISMS: "PLAIN"}, "has no login for PLAIN: set listener.name.out.plain.sasl.jaas.config, it names the"),
        ({MECHANISMS: "PLAIN", "sasl.jaas.config": f"{PLAIN} user_a=b;"}, "listener OUT has no login for PLAIN"),
        ({MECHANISMS: "PLAIN", LOGIN: "x"}, f"{LOGIN} is no login: Login module control flag not specified"),
        (
            {MECHANISMS: "PLAIN", LOGIN: "my.Login required;"},
            f"{LOGIN} has the login module my.Login: that of PLAIN is",
        ),
        (
            {MECHANISMS: "PLAIN", LOGIN: f"{PLAIN};", "sasl.server.callback.handler.class": "my.Handler"},
            "sasl.server.callback.handler.class is my.Handler, a Java class, which does not run here",
        ),
        (
            {MECHANISMS: "OAUTHBEARER", OAUTH_LOGIN: f"{OAUTH} unsecuredValidatorAllowableClockSkewMs='x';"},
            "unsecuredValidatorAllowableClockSkewMs is not a number of milliseconds: x",
        ),
        (CHECKED, "are to be checked, and sasl.oauthbearer.jwks.endpoint.url is not set"),
        ({**CHECKED, URL: "ftp://x"}, "expected a URL of http, https or file"),
        (
            {**CHECKED, URL: "https://idp/keys"},
            "is not allowed: set org.apache.kafka.sasl.oauthbearer.allowed.urls=https://idp/keys",
        ),
        (
            {**CHECKED, URL: "file:///etc/keys"},
            "allowed.urls=file:///etc/keys, or org.apache.kafka.sasl.oauthbearer.allowed.files=/etc/keys",
        ),
    ],
)
def test_what_no_listener_can_be_is_said_in_one_sentence(given: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        mechanisms_of(settings(given), parts())

    assert problem in str(refused.value)


@pytest.mark.parametrize(
    "allowed",
    [
        {URL: "https://idp/keys", "org.apache.kafka.sasl.oauthbearer.allowed.urls": "https://a, https://idp/keys"},
        {URL: "file:/etc/keys", "org.apache.kafka.sasl.oauthbearer.allowed.urls": "file:/etc/keys"},
        {URL: "file:///etc/my%20keys", "org.apache.kafka.sasl.oauthbearer.allowed.files": "/etc/my keys"},
    ],
)
def test_keys_are_read_where_they_may_be(allowed: dict[str, str]) -> None:
    assert list(mechanisms_of(settings({**CHECKED, **allowed}), parts())) == ["OAUTHBEARER"]


def test_tokens_that_anybody_can_write_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        mechanisms_of(settings({MECHANISMS: "OAUTHBEARER"}), parts())

    assert "listener OUT takes tokens without a signature" in caplog.text


def test_little_checks_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    allowed = {URL: "https://idp", "org.apache.kafka.sasl.oauthbearer.allowed.urls": "https://idp"}
    with caplog.at_level(logging.WARNING):
        mechanisms_of(settings({**CHECKED, **allowed}), parts())

    assert "tokens without an audience are taken" in caplog.text
    assert "tokens of any issuer are taken" in caplog.text


def scram_exchange(tokens: Tokens | None) -> ServerExchange:
    made: Mechanism = mechanisms_of(settings({MECHANISMS: "SCRAM-SHA-256"}), parts(tokens))["SCRAM-SHA-256"]
    return made.new_exchange()


def test_a_delegation_token_is_waited_for_until_it_is_derived() -> None:
    tokens = Tokens()
    server = scram_exchange(tokens)
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, "id", "a", Random(2), InlineSlowWork(), is_token=True)

    challenge = server.evaluate(client.evaluate(b""))  # type: ignore[arg-type]
    assert isinstance(challenge, Pending)
    assert not challenge.is_complete
    tokens.prepared.complete(None)
    assert isinstance(challenge.value, bytes)
    proof = client.evaluate(challenge.value)
    assert isinstance(proof, Pending)
    server.evaluate(proof.value)  # type: ignore[arg-type]

    assert server.principal == Principal("User", "owner", token_authenticated=True)
    assert server.session_end_ms == 99


def test_a_change_at_run_time_is_taken_and_a_bad_one_is_not(caplog: pytest.LogCaptureFixture) -> None:
    now = [values({MECHANISMS: "PLAIN", LOGIN: f"{PLAIN} user_a=b;"})]
    current = CurrentSasl("OUT", now[0], lambda: now[0], lambda settings: mechanisms_of(settings, parts()))
    before = current()

    now[0] = values({MECHANISMS: "PLAIN", LOGIN: f"{PLAIN} user_a=b;", "num.partitions": "3"})
    assert current() is before
    now[0] = values({MECHANISMS: "PLAIN,SCRAM-SHA-512", LOGIN: f"{PLAIN} user_a=b;"})
    after = current()
    now[0] = values({MECHANISMS: "PLAIN,SCRAM-SHA-512", LOGIN: "nonsense"})

    assert list(after) == ["PLAIN", "SCRAM-SHA-512"]
    assert current() is after
    assert "goes on with the SASL settings that it has" in caplog.text


def test_a_node_logs_in_with_the_listeners_own_login() -> None:
    given = {"sasl.mechanism.inter.broker.protocol": "PLAIN", LOGIN: f"{PLAIN} username=n password=p;"}
    make = broker_login(settings(given), login_parts()).new

    assert make(NO_ADDRESS).name == "PLAIN"
    assert make(NO_ADDRESS) is not make(NO_ADDRESS)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "listener OUT has no login for GSSAPI: set listener.name.out.gssapi.sasl.jaas.config"),
        (
            {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-1"},
            "SCRAM-SHA-1, which is not supported: set sasl.mechanism.inter.broker.protocol",
        ),
        (
            {"sasl.mechanism.inter.broker.protocol": "PLAIN"},
            "is PLAIN and this node has no login of its own for it: set listener.name.out.plain.sasl.jaas.config",
        ),
        (
            {"sasl.mechanism.inter.broker.protocol": "PLAIN", LOGIN: f"{PLAIN} user_a=b;"},
            f"{LOGIN} has no username and password",
        ),
        (
            {"sasl.mechanism.inter.broker.protocol": "OAUTHBEARER", OAUTH_LOGIN: f"{OAUTH};"},
            "unsecuredLoginStringClaim_sub is not set: it is the name of the user",
        ),
        (
            {
                "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
                OAUTH_LOGIN: f"{OAUTH} unsecuredLoginStringClaim_sub=n unsecuredLoginExtension_auth=x;",
            },
            "Extension name auth is invalid",
        ),
    ],
)
def test_a_node_without_a_login_of_its_own_cannot_start(given: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        broker_login(settings(given), login_parts())

    assert problem in str(refused.value)


ENDPOINT = {
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    OAUTH_LOGIN: f"{OAUTH};",
    "listener.name.out.oauthbearer.sasl.login.callback.handler.class": LOGIN_CLASS,
    "listener.name.out.oauthbearer.sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
    "org.apache.kafka.sasl.oauthbearer.allowed.urls": "https://id.example/token",
}
CREDENTIALS = {
    "sasl.oauthbearer.client.credentials.client.id": "node",
    "sasl.oauthbearer.client.credentials.client.secret": "hush",
}


def test_a_node_that_gets_its_tokens_elsewhere_needs_no_more_than_is_set() -> None:
    assert broker_login(settings({**ENDPOINT, **CREDENTIALS}), login_parts()).new(NO_ADDRESS).name == "OAUTHBEARER"
    # Where Kafka had them before it had keys for them.
    older = {**ENDPOINT, OAUTH_LOGIN: f"{OAUTH} clientId=node clientSecret=hush scope=kafka;"}
    assert broker_login(settings(older), login_parts()).new(NO_ADDRESS).name == "OAUTHBEARER"


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({}, "token.endpoint.url needs sasl.oauthbearer.client.credentials.client.id"),
        (
            {"sasl.oauthbearer.client.credentials.client.id": "node"},
            "needs sasl.oauthbearer.client.credentials.client.secret",
        ),
        (
            {**CREDENTIALS, "org.apache.kafka.sasl.oauthbearer.allowed.urls": "https://id.example/other"},
            "is not allowed: set org.apache.kafka.sasl.oauthbearer.allowed.urls=https://id.example/token",
        ),
        (
            {
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.login.callback.handler.class": LOGIN_CLASS,
                LOGIN: f"{PLAIN} username=n password=p;",
            },
            "which is for OAUTHBEARER, and sasl.mechanism.inter.broker.protocol is PLAIN",
        ),
        ({OAUTH_LOGIN: f"{OAUTH} extension_auth=x;"}, "Extension name auth is invalid"),
    ],
)
def test_what_is_missing_to_get_a_token_is_said_at_the_start(changed: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        broker_login(settings({**ENDPOINT, **changed}), login_parts())

    assert problem in str(refused.value)
    assert "hush" not in str(refused.value)


def test_scram_to_controllers_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    given = {
        "sasl.mechanism.controller.protocol": "SCRAM-SHA-256",
        "listener.name.out.scram-sha-256.sasl.jaas.config": f"{SCRAM} username=n password=p;",
    }
    with caplog.at_level(logging.WARNING):
        controller_login(settings(given), login_parts())

    assert "whose credentials are in the log that a controller must log in to read" in caplog.text


def test_kerberos_without_its_package_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    given = {KERBEROS_LOGIN: f'{KERBEROS} useKeyTab=true keyTab="/k" principal="kafka/h@R" serviceName=kafka;'}

    with pytest.raises(ConfigError) as as_server:
        mechanisms_of(settings(given), parts())
    with pytest.raises(ConfigError) as as_client:
        broker_login(settings(given), login_parts())

    assert "listener OUT cannot use GSSAPI: GSSAPI needs the package gssapi" in str(as_server.value)
    assert "pip install 'tidelog[kerberos]'" in str(as_server.value)
    assert "pip install 'tidelog[kerberos]'" in str(as_client.value)


def test_no_secret_is_in_a_sentence() -> None:
    given = {MECHANISMS: "PLAIN", LOGIN: f'{PLAIN} password="hush" user_a=5;'}
    with pytest.raises(ConfigError) as refused:
        mechanisms_of(settings(given), parts())

    assert "hush" not in str(refused.value)

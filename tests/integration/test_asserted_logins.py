"""Logins with tokens that are given for a signed assertion: by clients, by a command and between nodes.

The token endpoint is a small one that takes no assertion whose signature, audience and time it has not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.cluster_processes import ClusterProcesses
from tests.support.command_line import tidelog
from tests.support.running_node import RunningNode
from tests.support.sasl_node import OAUTH_MODULE, PLAIN_MODULE, sasl_bootstrap, sasl_settings
from tests.support.token_issuer import Issuer, TokenServer
from tidelog import Admin, Producer
from tidelog.client.errors import AuthenticationError, ConfigError
from tidelog.model.config import ConfigError as ServerConfigError
from tidelog.model.token_login_config import LOGIN_CLASS
from tidelog.model.token_names import BEARER_RETRIEVER, CREDENTIALS_RETRIEVER, FILE_RETRIEVER
from tidelog.security.token_request import ASSERTION_TYPE, BEARER_GRANT

KEY, STRANGERS = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())


class Provider:
    """Gives tokens for assertions, and keeps what it was asked."""

    def __init__(self, server: TokenServer, issuer: Issuer) -> None:
        self.server = server
        self._issuer = issuer
        self.forms: list[dict[str, str]] = []
        server.answer = self._answer

    def _answer(self) -> dict[str, str]:
        headers, body = self.server.asked[-1]
        form = {name: values[0] for name, values in parse_qs(body.decode(), strict_parsing=True).items()}
        self.forms.append(form)
        assert "authorization" not in headers
        is_bearer = form["grant_type"] == BEARER_GRANT
        assert is_bearer or (form["grant_type"], form["client_assertion_type"]) == (
            "client_credentials",
            ASSERTION_TYPE,
        )
        self.server.status = 200
        try:
            claims = jwt.decode(
                form["assertion" if is_bearer else "client_assertion"],
                KEY.public_key(),
                algorithms=["ES256"],
                audience="provider",
                options={"require": ["exp", "nbf", "iat", "iss", "sub"]},
            )
        except jwt.InvalidTokenError as error:
            self.server.status = 401
            return {"error": "invalid_client", "error_description": str(error)}
        return {"access_token": self._issuer.token(claims["sub"])}


def key_file(directory: Path, key: ec.EllipticCurvePrivateKey) -> str:
    path = directory / "assertion.key"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"hush"),
        )
    )
    return str(path)


@pytest.fixture
def issuer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Issuer:
    monkeypatch.setenv("no_proxy", "*")
    return Issuer(tmp_path)


@pytest.fixture
def provider(issuer: Issuer) -> Iterator[Provider]:
    with TokenServer() as server:
        yield Provider(server, issuer)


@pytest.fixture
def node(issuer: Issuer, tmp_path: Path) -> Iterator[RunningNode]:
    with RunningNode(tmp_path / "data", settings=sasl_settings(("OAUTHBEARER",), **issuer.settings)) as running:
        with Admin(bootstrap_servers=running.bootstrap) as admin:
            admin.create_topic("events")
        yield running


def login(bootstrap: str, provider: Provider, directory: Path, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": provider.server.url,
        "sasl_oauthbearer_assertion_private_key_file": key_file(directory, KEY),
        "sasl_oauthbearer_assertion_private_key_passphrase": "hush",
        "sasl_oauthbearer_assertion_algorithm": "ES256",
        "sasl_oauthbearer_assertion_claim_aud": "provider",
        "sasl_oauthbearer_assertion_claim_iss": "orders",
        "sasl_oauthbearer_assertion_claim_sub": "alice",
        **more,
    }


def in_kafkas_names(login: dict[str, Any]) -> str:
    return "".join(f"{name.replace('_', '.')}={value}\n" for name, value in login.items())


def test_an_assertion_takes_the_place_of_the_secret(node: RunningNode, provider: Provider, tmp_path: Path) -> None:
    given = login(
        sasl_bootstrap(node),
        provider,
        tmp_path,
        sasl_oauthbearer_client_credentials_client_id="orders",
        sasl_oauthbearer_scope="kafka",
        sasl_oauthbearer_jwt_retriever_class=CREDENTIALS_RETRIEVER,
    )

    with Producer(**given) as producer:
        assert producer.send("events", b"1").result(30).offset == 0

    (form,) = provider.forms
    assert (form["client_id"], form["scope"]) == ("orders", "kafka")


def test_an_assertion_is_exchanged_for_a_token_by_a_command_too(
    node: RunningNode, provider: Provider, tmp_path: Path
) -> None:
    given = login(sasl_bootstrap(node), provider, tmp_path, sasl_oauthbearer_jwt_retriever_class=BEARER_RETRIEVER)
    config = tmp_path / "client.properties"
    config.write_text(in_kafkas_names(given))

    listed = tidelog("topics", "list", "--command-config", config)

    assert listed.exit_code == 0, listed.stderr
    assert "events" in listed.stdout
    assert {form["grant_type"] for form in provider.forms} == {BEARER_GRANT}


def test_an_assertion_of_another_key_is_refused_with_the_providers_words_until_the_key_is_replaced(
    node: RunningNode, provider: Provider, tmp_path: Path
) -> None:
    given = login(sasl_bootstrap(node), provider, tmp_path)
    key_file(tmp_path, STRANGERS)
    words = '"invalid_client" - "Signature verification failed"'
    with Admin(**given) as admin, pytest.raises(AuthenticationError, match=words) as caught:
        admin.list_topics()
    assert "hush" not in str(caught.value)

    key_file(tmp_path, KEY)
    with Admin(**given) as admin:
        assert admin.list_topics()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"sasl_oauthbearer_assertion_private_key_file": "/nowhere"}, r"file \(/nowhere\) that doesn't exist"),
        ({"sasl_oauthbearer_assertion_claim_iss": None}, "needs sasl_oauthbearer_assertion_file or"),
        ({"sasl_oauthbearer_client_credentials_client_secret": "s"}, "client_secret is of no use with an assertion"),
        ({"sasl_oauthbearer_assertion_file": "/x"}, "is of no use with sasl_oauthbearer_assertion_file"),
        ({"sasl_oauthbearer_assertion_private_key_file": None}, "to be signed, or sasl_oauthbearer_assertion_file"),
        ({"sasl_oauthbearer_jwt_retriever_class": "org.example.Mine"}, "names a class of Java, which cannot be loaded"),
        ({"sasl_oauthbearer_jwt_retriever_class": FILE_RETRIEVER}, "is no file, which is not for"),
        ({"sasl_oauthbearer_token_endpoint_url": "file:/x"}, None),
        ({"sasl_oauthbearer_assertion_claim_exp_seconds": 86_401}, "86400"),
    ],
)
def test_options_that_do_not_fit_are_one_sentence(
    provider: Provider, tmp_path: Path, more: dict[str, Any], told: str | None
) -> None:
    given = login("127.0.0.1:1", provider, tmp_path, **more)
    if told is None:
        given["sasl_oauthbearer_jwt_retriever_class"] = BEARER_RETRIEVER
        told = "is a file, which is not for"

    with pytest.raises(ConfigError, match=told):
        Admin(**given)
    assert provider.forms == []


PREFIX = "listener.name.plaintext.oauthbearer.sasl."


def node_settings(issuer: Issuer, provider: Provider, directory: Path) -> dict[str, str]:
    plain = f'{PLAIN_MODULE} required username="node" password="n" user_node="n" user_alice="a";'
    keys = {name.replace(".clients.", ".plaintext."): value for name, value in issuer.settings.items()}
    key = key_file(directory, KEY)
    allowed_files, allowed_urls = (f"org.apache.kafka.sasl.oauthbearer.allowed.{each}" for each in ("files", "urls"))
    return {
        **keys,
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listener.name.plaintext.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "listener.name.plaintext.plain.sasl.jaas.config": plain,
        allowed_urls: f"{keys[allowed_urls]},{provider.server.url}",
        allowed_files: f"{keys[allowed_files]},{key}",
        f"{PREFIX}jaas.config": f"{OAUTH_MODULE} required;",
        f"{PREFIX}login.callback.handler.class": LOGIN_CLASS,
        f"{PREFIX}oauthbearer.token.endpoint.url": provider.server.url,
        f"{PREFIX}oauthbearer.jwt.retriever.class": BEARER_RETRIEVER,
        f"{PREFIX}oauthbearer.assertion.private.key.file": key,
        f"{PREFIX}oauthbearer.assertion.private.key.passphrase": "hush",
        f"{PREFIX}oauthbearer.assertion.algorithm": "ES256",
        f"{PREFIX}oauthbearer.assertion.claim.aud": "provider",
        f"{PREFIX}oauthbearer.assertion.claim.iss": "node",
        f"{PREFIX}oauthbearer.assertion.claim.sub": "node",
    }


def test_nodes_log_in_to_each_other_with_tokens_for_assertions(
    issuer: Issuer, provider: Provider, tmp_path: Path
) -> None:
    cluster = ClusterProcesses(tmp_path, 2, settings=node_settings(issuer, provider, tmp_path))
    alice: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "alice",
        "sasl_password": "a",
    }
    with cluster.running():
        with Admin(bootstrap_servers=cluster.bootstrap, **alice) as admin:
            admin.create_topic("events", partitions=2, replication_factor=2)
        with Producer(bootstrap_servers=cluster.bootstrap, acks="all", **alice) as producer:
            for number in range(10):
                producer.send("events", b"x", partition=number % 2).result(30)
        assert {form["grant_type"] for form in provider.forms} == {BEARER_GRANT}
        for each in cluster.nodes.values():
            assert "the login with" not in each.log
            assert "hush" not in each.log


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("assertion.private.key.file", "/nowhere", "sasl.oauthbearer.assertion.private.key.file is not allowed: set "),
        ("assertion.private.key.file", "ALLOWED", "that doesn't exist"),
        ("jwt.retriever.class", "org.example.Mine", "it names a Java class, which does not run here; only"),
        ("assertion.algorithm", "HS256", "String must be one of (case insensitive): ES256, RS256"),
    ],
)
def test_a_node_with_a_wrong_setting_does_not_start(
    issuer: Issuer, provider: Provider, tmp_path: Path, name: str, value: str, told: str
) -> None:
    settings = node_settings(issuer, provider, tmp_path)
    missing = str(tmp_path / "missing")
    settings[f"{PREFIX}oauthbearer.{name}"] = missing if value == "ALLOWED" else value
    settings["org.apache.kafka.sasl.oauthbearer.allowed.files"] += f",{missing}"
    settings["listeners"] = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"

    with pytest.raises(ServerConfigError) as caught, RunningNode(tmp_path / "data", settings=settings):
        pass

    assert told in str(caught.value)

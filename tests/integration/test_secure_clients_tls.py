"""Our own clients against our own node over TLS, with and without a login, and what each mistake about it says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster_load import wait_until
from tests.support.command_line import tidelog
from tests.support.sasl_node import PASSWORD, USER
from tests.support.secure_node import SASL_SSL, SSL, SecureNode
from tests.support.tls_files import key_settings, new_authority, trust_settings
from tidelog import Admin, Consumer, Producer
from tidelog.client.errors import AuthenticationError, ConfigError, NotReachedError

OF_TLS = f"listener.name.{SSL.lower()}."
# As Java calls it.
SUITE = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    settings = {f"{OF_TLS}ssl.client.auth": "requested"}
    with SecureNode(tmp_path_factory.mktemp("node"), settings=settings) as running:
        yield running


def arguments(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace(".", "_"): value for name, value in settings.items()}


def write_and_read(settings: dict[str, Any], topic: str) -> list[bytes | None]:
    with Producer(**settings) as producer:
        producer.send(topic, b"hello").result(30)
    with Consumer(topic, **settings, group_id=f"g-{topic}", auto_offset_reset="earliest") as consumer:
        deadline_s = time.monotonic() + 30
        while time.monotonic() < deadline_s:
            rows = consumer.poll(timeout_ms=1000)
            if rows:
                return [each.value for each in rows]
    return []


def test_clients_speak_tls_with_and_without_a_login(node: SecureNode) -> None:
    assert write_and_read(node.tls(), "t-tls") == [b"hello"]
    assert write_and_read(node.sasl(), "t-sasl") == [b"hello"]
    assert write_and_read(node.sasl("PLAIN"), "t-plain") == [b"hello"]


@pytest.mark.parametrize("kind", ["JKS", "PKCS12", "PEM", "PEM in the configuration"])
def test_stores_of_every_kind_are_told_by_what_is_in_them(node: SecureNode, tmp_path: Path, kind: str) -> None:
    alice = node.authority.client_certificate("alice")
    stores = arguments(key_settings(kind, tmp_path, "key", alice) | trust_settings(kind, tmp_path, "t", node.authority))
    del stores["ssl_keystore_type"], stores["ssl_truststore_type"]
    settings = {"bootstrap_servers": node.bootstrap(SSL), "security_protocol": "SSL", **stores}

    with Admin(**settings) as admin:  # type: ignore[arg-type]
        admin.connect()


def wrong(settings: dict[str, Any], kind: type[Exception] = AuthenticationError) -> str:
    """What an admin says that cannot connect, at once."""
    began_s = time.monotonic()
    with Admin(**settings) as admin, pytest.raises(kind) as caught:
        admin.connect()
    assert time.monotonic() - began_s < 10
    assert type(caught.value) is kind
    return str(caught.value)


def test_an_authority_that_is_not_known_is_named_as_the_cause(node: SecureNode, tmp_path: Path) -> None:
    other = trust_settings("PEM", tmp_path, "other", new_authority("Other CA"))
    where = node.bootstrap(SSL)

    sentence = wrong(node.tls(ssl_truststore_location=other["ssl.truststore.location"]))
    assert sentence.startswith(f"cannot connect to {where}: the certificate of the node is not accepted: ")
    assert sentence.endswith("; ssl_truststore_location says whom to trust")
    without = node.tls()
    del without["ssl_truststore_location"]
    assert wrong(without).endswith("; ssl_truststore_location says whom to trust")


def test_a_certificate_of_another_host_is_not_accepted_unless_that_is_switched_off(tmp_path: Path) -> None:
    with SecureNode(tmp_path, ["elsewhere.example"]) as other:
        assert "mismatch" in wrong(other.tls())
        assert wrong(other.tls()).endswith("; use a name for the host that its certificate has")
        with Admin(**other.tls(ssl_endpoint_identification_algorithm="")) as admin:
            admin.connect()


def test_a_node_that_requires_a_certificate_says_so(tmp_path: Path) -> None:
    with SecureNode(tmp_path, settings={f"{OF_TLS}ssl.client.auth": "required"}) as strict:
        assert wrong(strict.tls()).endswith(
            "the node requires a certificate, and none was shown; ssl_keystore_location is for the certificate to show"
        )
        trusting = ("-X", "security.protocol=SSL", "-X", f"ssl.truststore.location={strict.truststore}")
        told = tidelog("topics", "list", "--bootstrap", strict.bootstrap(SSL), *trusting).stderr
        assert told.endswith("none was shown; ssl.keystore.location is for the certificate to show\n")
        assert told.count("\n") == 1
        alice = strict.authority.client_certificate("alice")
        store = arguments(key_settings("PEM", tmp_path, "alice", alice))
        assert write_and_read(strict.tls(**store), "t") == [b"hello"]


def test_tls_at_a_listener_without_is_told(node: SecureNode) -> None:
    sentence = wrong(node.tls(bootstrap_servers=node.bootstrap()), NotReachedError)

    assert "TLS" in sentence
    assert sentence.endswith("; SSL and SASL_SSL are for listeners with TLS, and security_protocol is SSL")


def test_a_plain_client_at_a_listener_with_tls_is_told(node: SecureNode) -> None:
    sentence = wrong({"bootstrap_servers": node.bootstrap(SSL)}, NotReachedError)

    assert sentence.endswith("; if its listener wants TLS, set security_protocol to SSL or SASL_SSL")


def test_tls_without_a_login_at_a_listener_that_wants_one_is_told(node: SecureNode) -> None:
    sentence = wrong(node.tls(bootstrap_servers=node.bootstrap(SASL_SSL)), NotReachedError)

    assert sentence.endswith("; if its listener wants a login, set security_protocol to SASL_SSL, and sasl_mechanism")


def test_versions_that_do_not_meet_are_told(tmp_path: Path) -> None:
    with SecureNode(tmp_path, settings={"ssl.enabled.protocols": "TLSv1.3"}) as new:
        assert "no version of TLS that both sides allow" in wrong(new.tls(ssl_enabled_protocols="TLSv1.2"))


def test_a_store_that_cannot_be_read_is_a_sentence_before_anything_is_connected_to(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pem"
    damaged.write_text("nothing of the kind")

    for location in (tmp_path / "none.pem", damaged):
        with pytest.raises(ConfigError, match=f"the trust store {location} cannot be used"):
            Admin(bootstrap_servers="127.0.0.1:1", security_protocol="SSL", ssl_truststore_location=str(location))


def test_commands_speak_tls_and_say_what_is_missing(node: SecureNode, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n"
        f"ssl.truststore.location={node.truststore}\nsasl.username={USER}\nsasl.password={PASSWORD}\n"
    )

    listed = tidelog("topics", "list", "--bootstrap", node.bootstrap(SASL_SSL), "--command-config", file)
    plain = tidelog("topics", "list", "--bootstrap", node.bootstrap(SSL))
    untrusted = tidelog("topics", "list", "--bootstrap", node.bootstrap(SSL), "-X", "security.protocol=SSL")

    assert listed.exit_code == 0, listed.stderr
    assert plain.stderr.endswith(
        "; if its listener wants TLS, set security.protocol to SSL or SASL_SSL: "
        "such keys go into the file of --command-config\n"
    )
    assert untrusted.stderr.endswith("; ssl.truststore.location says whom to trust\n")
    assert plain.stderr.count("\n") == untrusted.stderr.count("\n") == 1


def test_the_metrics_tell_what_connections_have_agreed_on(node: SecureNode) -> None:
    registry = node._node.node.metrics.registry

    def counted() -> dict[tuple[str, ...], object]:
        (family,) = [each for each in registry if each.name == "kafka_server_socket_server_metrics_connections"]
        return dict(family.read())

    with Admin(
        **node.tls(ssl_protocol="TLSv1.2", ssl_enabled_protocols=["TLSv1.2"], ssl_cipher_suites=[SUITE])
    ) as admin:
        admin.list_topics()

        assert counted()[SSL, SUITE, "TLSv1.2"] == 1
    wait_until(lambda: (SSL, SUITE, "TLSv1.2") not in counted(), "the connection has ended")

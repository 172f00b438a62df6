"""A node with TLS as clients meet it: librdkafka, aiokafka and kafka-python, one way and both ways, with stores of each kind."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import warnings
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.support.running_node import RunningNode
from tests.support.tls_files import key_settings, new_authority, trust_settings
from tidelog.model.config import ConfigError
from tidelog.security.certificate_authority import Certificate, CertificateAuthority
from tidelog.wire.frames import request_frame
from tidelog.wire.messages.api_versions import ApiVersionsRequest

with warnings.catch_warnings():
    # It reads its schemas with a function of importlib that Python 3.11 and 3.12 call deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

DEADLINE_S = 20.0
KINDS = ("JKS", "PKCS12", "PEM", "PEM in the configuration")
AUTHORITY, OTHER = new_authority(), new_authority("Other CA")
HOSTS = ["localhost", "127.0.0.1"]
NODE = AUTHORITY.node_certificate(HOSTS)
ALICE = AUTHORITY.client_certificate("alice")


def tls_settings(directory: Path, kind: str = "PEM", certificate: Certificate = NODE, **more: str) -> dict[str, str]:
    return {
        "listeners": "CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SSL,CONTROLLER:PLAINTEXT",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        **key_settings(kind, directory, "node", certificate),
        **trust_settings(kind, directory, "trust", AUTHORITY),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


class ClientFiles:
    """What a client is configured with."""

    def __init__(
        self, directory: Path, certificate: Certificate | None = None, authority: CertificateAuthority = AUTHORITY
    ) -> None:
        self.authority = directory / "client-ca.pem"
        self.authority.write_bytes(authority.certificate_pem)
        self.certificate, self.key = directory / "client.pem", directory / "client.key"
        self.has_key = certificate is not None
        if certificate is not None:
            self.certificate.write_bytes(certificate.chain_pem)
            self.key.write_bytes(certificate.key_pem)

    def confluent(self, bootstrap: str) -> dict[str, Any]:
        own = {"ssl.certificate.location": str(self.certificate), "ssl.key.location": str(self.key)}
        return {
            "bootstrap.servers": bootstrap,
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.authority),
            **(own if self.has_key else {}),
        }

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority))
        if self.has_key:
            context.load_cert_chain(self.certificate, self.key)
        return context


def with_confluent(bootstrap: str, files: ClientFiles) -> list[bytes]:
    producer = Producer(files.confluent(bootstrap))
    for number in range(3):
        producer.produce("t", str(number).encode() * 100_000, partition=0)
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer({**files.confluent(bootstrap), "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    read: list[bytes] = []
    while len(read) < 3:
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        assert message.error() is None, message.error()
        read.append(message.value() or b"")
    consumer.close()
    return read


def with_aiokafka(bootstrap: str, files: ClientFiles) -> list[bytes]:
    async def main() -> list[bytes]:
        tls = {"bootstrap_servers": bootstrap, "security_protocol": "SSL", "ssl_context": files.context()}
        producer = AIOKafkaProducer(**tls)
        await producer.start()
        for number in range(3):
            await producer.send_and_wait("t", str(number).encode() * 100_000, partition=0)
        await producer.stop()
        consumer = AIOKafkaConsumer("t", group_id="g", auto_offset_reset="earliest", **tls)
        await consumer.start()
        read = [(await consumer.getone()).value for _ in range(3)]
        await consumer.stop()
        return read

    return asyncio.run(asyncio.wait_for(main(), DEADLINE_S))


def with_kafka_python(bootstrap: str, files: ClientFiles) -> list[bytes]:
    tls = {"bootstrap_servers": bootstrap, "security_protocol": "SSL", "ssl_context": files.context()}
    producer = KafkaProducer(**tls)
    for number in range(3):
        producer.send("t", str(number).encode() * 100_000, partition=0).get(DEADLINE_S)
    producer.close()
    consumer = KafkaConsumer("t", group_id="g", auto_offset_reset="earliest", consumer_timeout_ms=20_000, **tls)
    read = [next(consumer).value for _ in range(3)]
    consumer.close()
    return read


CLIENTS: Mapping[str, Callable[[str, ClientFiles], list[bytes]]] = {
    "confluent-kafka": with_confluent,
    "aiokafka": with_aiokafka,
    "kafka-python": with_kafka_python,
}
WRITTEN = [str(number).encode() * 100_000 for number in range(3)]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("auth", ["none", "required"])
def test_clients_write_and_read_over_tls(tmp_path: Path, client: str, auth: str) -> None:
    files = ClientFiles(tmp_path, ALICE if auth == "required" else None)
    with RunningNode(tmp_path / "data", settings=tls_settings(tmp_path, ssl_client_auth=auth)) as node:
        read = CLIENTS[client](node.bootstrap, files)

        assert read == WRITTEN
        server = node.node.tls.server("CLIENTS")
        assert server is not None
        assert server.handshakes > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_has_stores_of_each_kind(tmp_path: Path, kind: str) -> None:
    files = ClientFiles(tmp_path, ALICE)
    settings = tls_settings(tmp_path, kind, ssl_client_auth="required")
    with RunningNode(tmp_path / "data", settings=settings) as node:
        assert with_confluent(node.bootstrap, files) == WRITTEN


def cannot_connect(node: RunningNode, files: ClientFiles, protocol: str = "ssl") -> None:
    admin = AdminClient({**files.confluent(node.bootstrap), "security.protocol": protocol})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)


@pytest.mark.parametrize(
    ("certificate", "client", "authority", "told"),
    [
        (NODE, None, OTHER, "refuses our certificate"),
        (AUTHORITY.node_certificate(HOSTS, lifetime=timedelta(hours=-1)), None, AUTHORITY, "refuses our certificate"),
        (NODE, OTHER.client_certificate("mallory"), AUTHORITY, "its authority is not in the trust store"),
        (
            NODE,
            AUTHORITY.client_certificate("late", lifetime=timedelta(hours=-1)),
            AUTHORITY,
            "certificate has expired",
        ),
        (AUTHORITY.node_certificate(["elsewhere.example"]), None, AUTHORITY, "refuses our certificate"),
    ],
    ids=["wrong authority", "expired", "wrong client", "expired client", "wrong host"],
)
def test_who_does_not_fit_is_refused_and_told(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    certificate: Certificate,
    client: Certificate | None,
    authority: CertificateAuthority,
    told: str,
) -> None:
    settings = tls_settings(tmp_path, certificate=certificate, ssl_client_auth="requested")
    settings["inter.broker.listener.name"] = "BROKERS"
    settings["listeners"] += ",BROKERS://127.0.0.1:0"
    settings["listener.security.protocol.map"] += ",BROKERS:PLAINTEXT"
    with caplog.at_level(logging.WARNING), RunningNode(tmp_path / "data", settings=settings) as node:
        cannot_connect(node, ClientFiles(tmp_path, client, authority))

    assert told in caplog.text


def test_a_plain_client_is_told_of_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with RunningNode(tmp_path / "data", settings=tls_settings(tmp_path)) as node:
        cannot_connect(node, ClientFiles(tmp_path), "plaintext")

    assert "is security.protocol=SSL missing in the client?" in caplog.text


def test_the_rules_say_who_somebody_is_and_may_refuse_him(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rules = "RULE:^CN=(ali.*)$/$1/U"
    settings = tls_settings(tmp_path, ssl_client_auth="required", ssl_principal_mapping_rules=rules)
    with RunningNode(tmp_path / "data", settings=settings) as node:
        host, _, port = node.bootstrap.rpartition(":")
        plain = socket.create_connection((host, int(port)), DEADLINE_S)
        with ClientFiles(tmp_path, ALICE).context().wrap_socket(plain, server_hostname=host) as alice:
            alice.sendall(
                request_frame(ApiVersionsRequest(client_software_name="", client_software_version=""), 0, 1, "alice")
            )
            # Once it is answered, it is known who she is.
            assert alice.recv(4)
            principals = {str(each.principal) for each in node.node._server.connections.values()}
        assert "User:ALICE" in principals
        cannot_connect(node, ClientFiles(tmp_path, AUTHORITY.client_certificate("bob")))

    assert "No rules apply to CN=bob" in caplog.text


def test_two_listeners_have_stores_of_their_own(tmp_path: Path) -> None:
    theirs = {
        f"listener.name.second.{name}": value
        for name, value in key_settings("PKCS12", tmp_path, "second", OTHER.node_certificate(HOSTS)).items()
    }
    settings = {**tls_settings(tmp_path), **theirs}
    settings["listeners"] += ",SECOND://127.0.0.1:0"
    settings["listener.security.protocol.map"] += ",SECOND:SSL"
    with RunningNode(tmp_path / "data", settings=settings) as node:
        AdminClient(ClientFiles(tmp_path).confluent(node.bootstrap)).list_topics(timeout=DEADLINE_S)
        second = node.node.endpoint("SECOND")
        address = f"{second.host}:{second.port}"
        AdminClient(ClientFiles(tmp_path, None, OTHER).confluent(address)).list_topics(timeout=DEADLINE_S)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"ssl.keystore.location": "/nowhere"}, "Listener CLIENTS uses TLS: the key store /nowhere cannot be used"),
        (
            {
                "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
            },
            "this node has no login of its own",
        ),
        ({"ssl.principal.mapping.rules": "nonsense"}, "Invalid rule"),
        ({"ssl.truststore.type": "PEM", "ssl.truststore.location": "other.pem"}, "cannot call one with the same"),
    ],
)
def test_a_node_that_cannot_serve_so_does_not_start(tmp_path: Path, changed: dict[str, str], told: str) -> None:
    (tmp_path / "other.pem").write_bytes(OTHER.certificate_pem)
    changed = {name: str(tmp_path / value) if value == "other.pem" else value for name, value in changed.items()}
    settings = {**tls_settings(tmp_path), **changed}

    with pytest.raises(ConfigError, match=told), RunningNode(tmp_path / "data", settings=settings):
        pass


# Certificates that change while the node serves.


def alter(admin: AdminClient, changes: Mapping[str, str]) -> None:
    entries = [
        ConfigEntry(f"listener.name.clients.{name}", value, incremental_operation=AlterConfigOpType.SET)
        for name, value in changes.items()
    ]
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(DEADLINE_S)


def serial_shown(bootstrap: str, files: ClientFiles) -> int:
    host, port = bootstrap.rsplit(":", 1)
    pem = ssl.get_server_certificate((host, int(port)), ca_certs=str(files.authority))
    return hash(pem)


def until_another_is_shown(bootstrap: str, files: ClientFiles, before: int) -> None:
    for _ in range(2000):
        if serial_shown(bootstrap, files) != before:
            return
    pytest.fail("the old certificate is still shown")


def test_certificates_roll_while_a_client_writes(tmp_path: Path) -> None:
    files = ClientFiles(tmp_path)
    with RunningNode(tmp_path / "data", settings=tls_settings(tmp_path)) as node:
        producer = Producer({**files.confluent(node.bootstrap), "linger.ms": 0})
        admin = AdminClient(files.confluent(node.bootstrap))
        delivered: list[object] = []

        def write(count: int) -> None:
            for _ in range(count):
                producer.produce("t", b"x", on_delivery=lambda error, _message: delivered.append(error))
            assert producer.flush(DEADLINE_S) == 0

        write(10)
        before = serial_shown(node.bootstrap, files)
        alter(admin, key_settings("PEM", tmp_path, "renewed", AUTHORITY.node_certificate(HOSTS)))
        until_another_is_shown(node.bootstrap, files, before)
        write(10)
        # The same file, written again, and set again.
        before = serial_shown(node.bootstrap, files)
        alter(admin, key_settings("PEM", tmp_path, "renewed", AUTHORITY.node_certificate(HOSTS)))
        until_another_is_shown(node.bootstrap, files, before)
        write(10)

        assert delivered == [None] * 30


@pytest.mark.parametrize(
    ("certificate", "told"),
    [
        (AUTHORITY.node_certificate(HOSTS, name="other"), "Keystore DistinguishedName does not match"),
        (AUTHORITY.node_certificate(["localhost"]), "Keystore SubjectAltNames do not match"),
        (OTHER.node_certificate(HOSTS), "do not verify each other"),
        (None, "No such file or directory"),
    ],
)
def test_a_certificate_that_must_not_replace_another_is_refused(
    tmp_path: Path, certificate: Certificate | None, told: str
) -> None:
    files = ClientFiles(tmp_path)
    changes = (
        {"ssl.keystore.location": str(tmp_path / "absent.pem")}
        if certificate is None
        else key_settings("PEM", tmp_path, "renewed", certificate)
    )
    with RunningNode(tmp_path / "data", settings=tls_settings(tmp_path)) as node:
        admin = AdminClient(files.confluent(node.bootstrap))
        before = serial_shown(node.bootstrap, files)

        with pytest.raises(KafkaException, match=told):
            alter(admin, changes)

        assert serial_shown(node.bootstrap, files) == before


def test_a_file_that_is_written_again_is_read_again_where_that_is_wanted(tmp_path: Path) -> None:
    files = ClientFiles(tmp_path)
    settings = {**tls_settings(tmp_path), "tidelog.ssl.reload.interval.ms": "10"}
    with RunningNode(tmp_path / "data", settings=settings) as node:
        before = serial_shown(node.bootstrap, files)
        key_settings("PEM", tmp_path, "node", AUTHORITY.node_certificate(HOSTS))

        until_another_is_shown(node.bootstrap, files, before)


def test_metrics_tell_of_handshakes_and_of_the_expiry(tmp_path: Path) -> None:
    files = ClientFiles(tmp_path)
    with RunningNode(tmp_path / "data", settings=tls_settings(tmp_path)) as node:
        AdminClient(files.confluent(node.bootstrap)).list_topics(timeout=DEADLINE_S)

        (expiry,) = node.node.tls.expiries_s(node.node.clock.now_ms())
        assert expiry[0] == "CLIENTS"
        assert 364 * 86_400 < expiry[1] <= 365 * 86_400

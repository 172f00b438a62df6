"""Apache Kafka's own clients and tools over TLS, against a node of ours: Java's TLS beside OpenSSL's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.apache_kafka import ApacheKafka
from tests.support.running_node import RunningNode
from tests.support.tls_files import key_settings, new_authority, trust_settings

pytestmark = pytest.mark.compat

AUTHORITY = new_authority()
HOSTS = ["localhost", "127.0.0.1"]
REFUSED = {
    "JKS": "Keystore DistinguishedName does not match",
    "PKCS12": "Keystore DistinguishedName does not match",
    "PEM": "Keystore DistinguishedName does not match",
    "PEM in the configuration": "SSL private key can be specified only for PEM, but key store type is PKCS12",
}


def properties(path: Path, given: Mapping[str, str]) -> str:
    escaped = {name: value.replace("\n", "\\n") for name, value in given.items()}
    path.write_text("".join(f"{name}={value}\n" for name, value in escaped.items()))
    return str(path)


@pytest.mark.parametrize("kind", ["JKS", "PKCS12", "PEM", "PEM in the configuration"])
def test_the_java_client_writes_and_reads_with_a_certificate(kafka: ApacheKafka, tmp_path: Path, kind: str) -> None:
    settings = {
        "listeners": "CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SSL,CONTROLLER:PLAINTEXT",
        "ssl.client.auth": "required",
        **key_settings(kind, tmp_path, "node", AUTHORITY.node_certificate(HOSTS)),
        **trust_settings(kind, tmp_path, "trust", AUTHORITY),
    }
    client = properties(
        tmp_path / "client.properties",
        {
            "security.protocol": "SSL",
            **key_settings(kind, tmp_path, "client", AUTHORITY.client_certificate("alice")),
            **trust_settings(kind, tmp_path, "client-trust", AUTHORITY),
        },
    )
    lines = [f"line {number} {'x' * 2000}" for number in range(200)]
    with RunningNode(tmp_path / "data", settings=settings) as node:
        server = ("--bootstrap-server", node.bootstrap, "--command-config", client)
        written = kafka.tool(
            "org.apache.kafka.tools.ConsoleProducer",
            "--topic",
            "t",
            *server,
            given="".join(f"{each}\n" for each in lines),
        )
        assert written.code == 0, written
        read = kafka.tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--topic", "t", "--partition", "0", "--offset", "earliest"),
            *("--max-messages", str(len(lines)), "--timeout-ms", "20000", *server),
        )
        assert read.code == 0, read
        assert read.stdout.splitlines() == lines

        renewed = key_settings("PKCS12", tmp_path, "renewed", AUTHORITY.node_certificate(HOSTS, name="other"))
        refused = kafka.tool(
            "kafka.admin.ConfigCommand",
            *("--entity-type", "brokers", "--entity-name", "1", "--alter", *server, "--add-config"),
            ",".join(f"{name}={value}" for name, value in renewed.items()),
        )
        assert refused.code != 0
        assert REFUSED[kind] in refused.stderr

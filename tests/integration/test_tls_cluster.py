"""Three processes that are one cluster, with TLS both ways between brokers and between controllers."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.support.cluster_processes import ClusterProcesses
from tests.support.tls_files import key_settings, new_authority, trust_settings

DEADLINE_S = 30.0
AUTHORITY, OTHER = new_authority(), new_authority("Other CA")


@pytest.fixture
def secured(tmp_path: Path) -> ClusterProcesses:
    node = AUTHORITY.node_certificate(["127.0.0.1"])
    return ClusterProcesses(
        tmp_path,
        settings={
            "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
            "ssl.client.auth": "required",
            **key_settings("PKCS12", tmp_path, "node", node),
            **trust_settings("JKS", tmp_path, "trust", AUTHORITY),
        },
    )


def client(tmp_path: Path, bootstrap: str) -> dict[str, str | int | float | bool]:
    certificate = AUTHORITY.client_certificate("alice")
    (tmp_path / "ca.pem").write_bytes(AUTHORITY.certificate_pem)
    (tmp_path / "alice.pem").write_bytes(certificate.chain_pem)
    (tmp_path / "alice.key").write_bytes(certificate.key_pem)
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "ssl",
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.certificate.location": str(tmp_path / "alice.pem"),
        "ssl.key.location": str(tmp_path / "alice.key"),
    }


def test_a_cluster_with_tls_everywhere_replicates_and_survives_a_node(
    secured: ClusterProcesses, tmp_path: Path
) -> None:
    with secured.running():
        config = client(tmp_path, secured.bootstrap)
        admin = AdminClient(config)
        admin.create_topics([NewTopic("t", 1, 3)])["t"].result(DEADLINE_S)
        errors: list[object] = []
        producer = Producer({**config, "acks": "all"})

        def write(count: int) -> None:
            for number in range(count):
                producer.produce("t", str(number).encode(), on_delivery=lambda error, _message: errors.append(error))
            assert producer.flush(DEADLINE_S) == 0

        write(100)
        leader = admin.list_topics("t", timeout=DEADLINE_S).topics["t"].partitions[0].leader
        secured.nodes[leader].kill()
        write(100)

        assert errors == [None] * 200
        consumer = Consumer({**config, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        read: list[bytes] = []
        while len(read) < 200:
            message = consumer.poll(DEADLINE_S)
            assert message is not None
            assert message.error() is None, message.error()
            read.append(message.value() or b"")
        consumer.close()
        assert read == [str(number).encode() for number in range(100)] * 2
    for node in secured.nodes.values():
        assert "Traceback" not in node.log

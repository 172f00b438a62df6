from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.broker.config.image_variables import key_of, properties_of


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_LOG_RETENTION_MS", "log.retention.ms"),
        ("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "group.initial.rebalance.delay.ms"),
        ("KAFKA_A__B___C", "a_b-c"),
        ("KAFKA_LISTENER_NAME_SASL__SSL_PLAIN_SASL_JAAS_CONFIG", "listener.name.sasl_ssl.plain.sasl.jaas.config"),
        ("KAFKA_HEAP_OPTS", None),
        ("CLUSTER_ID", None),
    ],
)
def test_a_variable_sets_a_key(variable: str, key: str | None) -> None:
    assert key_of(variable) == key


def test_an_environment_is_a_configuration() -> None:
    assert properties_of({"KAFKA_NODE_ID": "1", "HOME": "/root", "KAFKA_BROKER_RACK": "a"}) == {
        "broker.rack": "a",
        "node.id": "1",
    }


def test_the_file_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    written = tmp_path / "server.properties"

    command = [sys.executable, "-m", "tidelog.broker.config.image_variables", str(written)]
    subprocess.run(command, check=True, env={"KAFKA_NODE_ID": "1", "KAFKA_SSL_KEY_PASSWORD": "a b"})

    assert written.read_text().splitlines()[-2:] == ["node.id=1", "ssl.key.password=a b"]
    assert written.stat().st_mode & 0o777 == 0o600

"""`tidelog broker` as a service manager runs it."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path
from random import Random

import pytest

from tests.support.command_process import CommandProcess, run
from tidelog import Admin
from tidelog.client.errors import ClientError
from tidelog.controller.features import BOOTSTRAP_LEVELS
from tidelog.controller.formatting import format_directories
from tidelog.model.clock import SystemClock
from tidelog.model.ids import NodeId
from tidelog.raft.voter_set import Endpoint
from tidelog.storage.os_files import OsFiles


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    """The configuration of a node on free ports."""
    path = tmp_path / "server.properties"
    path.write_text(
        "process.roles=broker,controller\n"
        "node.id=1\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        "controller.listener.names=CONTROLLER\n"
        f"log.dirs={tmp_path}/data\n"
        "num.io.threads=8\n"
    )
    return path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_node_cleanly(properties: Path, tmp_path: Path, number: signal.Signals) -> None:
    with CommandProcess("broker", "--config", properties) as broker:
        address = broker.ready_line().rpartition(" ")[2]
        host, _, port = address.partition(":")
        socket.create_connection((host, int(port)), timeout=5).close()
        broker.send(number)
        code, errors = broker.end()

    assert code == 0
    assert "num.io.threads is without effect" in errors
    assert "Traceback" not in errors
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_log_lines_can_be_json(properties: Path) -> None:
    with CommandProcess("broker", "--config", properties, "--log-format", "json") as broker:
        broker.ready_line()
        broker.send(signal.SIGTERM)
        _, errors = broker.end()

    lines = [json.loads(line) for line in errors.splitlines()]
    assert {"time", "level", "logger", "message"} <= set(lines[0])


def test_a_directory_in_use_is_one_sentence(properties: Path) -> None:
    with CommandProcess("broker", "--config", properties) as broker:
        broker.ready_line()
        second = run("broker", "--config", properties, "--log-level", "error")

    assert second.returncode == 1
    assert second.stderr.startswith("tidelog broker: cannot lock ")
    assert second.stderr.count("\n") == 1


def test_a_port_in_use_is_one_sentence(properties: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listeners = f"listeners=PLAINTEXT://127.0.0.1:{taken.getsockname()[1]},CONTROLLER://127.0.0.1:0"
        broker = run("broker", "--config", properties, "--set", listeners, "--log-level", "error")

    assert broker.returncode == 1
    assert broker.stderr.startswith("tidelog broker: ")
    assert broker.stderr.count("\n") == 1


def test_a_mistake_that_only_the_node_sees_is_one_sentence() -> None:
    broker = run("broker", "--log-level", "error")

    assert broker.returncode == 2
    assert broker.stderr.startswith("tidelog broker: node.id is not set: ")
    assert broker.stderr.count("\n") == 1


def test_the_environment_configures_a_node(properties: Path) -> None:
    broker = run("broker", "--config", properties, variables={"TIDELOG_NUM_PARTITIONS": "none"})

    assert broker.returncode == 2
    assert "Invalid value none for configuration num.partitions" in broker.stderr


@pytest.mark.parametrize(
    ("name", "level", "sentence"),
    [
        ("metadata.version", 6, "the cluster uses metadata.version at level 6; this release works with 7 to 30"),
        ("metadata.version", 31, "the cluster uses metadata.version at level 31; this release works with 7 to 30"),
        (
            "teleport.version",
            1,
            "the cluster uses feature teleport.version at level 1, which this release does not know",
        ),
    ],
)
def test_a_directory_of_a_level_that_is_not_served_is_one_sentence(
    properties: Path, tmp_path: Path, name: str, level: int, sentence: str
) -> None:
    format_directories(
        OsFiles(),
        [str(tmp_path / "data")],
        cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
        node_id=NodeId(1),
        controller_endpoints=(Endpoint("CONTROLLER", "127.0.0.1", 9093),),
        random=Random(1),
        clock=SystemClock(),
        levels={**BOOTSTRAP_LEVELS, name: level},
    )

    broker = run("broker", "--config", properties, "--log-level", "error")

    assert broker.returncode == 1
    assert broker.stderr.splitlines()[-1] == f"tidelog broker: {sentence}"
    assert "Traceback" not in broker.stderr


def test_the_file_of_another_kafka_is_understood(properties: Path) -> None:
    with properties.open("a") as file:
        file.write(
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,,CONTROLLER:PLAINTEXT\n"
            "ssl.keystore.location=/etc/kafka/keystore.jks\n"
            "ssl.provider=SunJSSE\n"
            "sasl.enabled.mechanisms=SCRAM-SHA-512\n"
            "group.coordinator.rebalance.protocols=classic,consumer\n"
            "confluent.support.metrics.enable=false\n"
            "log.retenton.ms=1\n"
        )
    with CommandProcess("broker", "--config", properties) as broker:
        broker.ready_line()
        broker.send(signal.SIGTERM)
        code, errors = broker.end()

    assert code == 0
    assert "ssl.provider is without effect: it chooses among what a JVM has for TLS" in errors
    assert "Unknown configuration confluent.support.metrics.enable" in errors
    assert "Unknown configuration log.retenton.ms; did you mean log.retention.ms? It is ignored." in errors


def test_strictly_an_unknown_key_is_one_sentence(properties: Path) -> None:
    with properties.open("a") as file:
        file.write("log.retenton.ms=1\n")

    broker = run("broker", "--config", properties, "--strict")

    assert broker.returncode == 2
    assert broker.stderr == ("tidelog broker: Unknown configuration log.retenton.ms; did you mean log.retention.ms?\n")


def test_directories_named_from_here_are_told_from_anywhere(
    properties: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with CommandProcess("broker", "--config", properties, "--set", "log.dirs=data") as broker:
        bootstrap = broker.ready_line().rpartition(" ")[2]
        with Admin(bootstrap_servers=bootstrap) as admin:
            directories = admin.describe_log_dirs([1])[1]

    assert not isinstance(directories, ClientError)
    assert list(directories) == [f"{tmp_path}/data"]


def test_several_log_directories_at_a_level_without_them_are_one_sentence(properties: Path, tmp_path: Path) -> None:
    directories = f"log.dirs={tmp_path}/a,{tmp_path}/b"
    ports = "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9093"
    formatted = run("format", "--config", properties, "--set", directories, "--set", ports, "-r", "3.6")
    assert formatted.returncode == 0, formatted.stderr

    broker = run("broker", "--config", properties, "--set", directories, "--log-level", "error")

    assert broker.returncode == 1
    assert broker.stderr.startswith("tidelog broker: several log directories need metadata.version 3.7-IV2 or higher")
    assert broker.stderr.count("\n") == 1

"""The scripts of the container image, in a plain directory tree, driven as libraries for tests with containers drive them.

Each of those puts a script of its own into the container, which says where clients reach it, and waits for a line of the log.
What stands here is what testcontainers for Java, Go and Python write, for this tree instead of `/`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from tests.repo.test_links import ROOT

IMAGE = ROOT / "deploy" / "container" / "root"
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
DEADLINE_S = 60.0

# Parts of the line that the scripts for Go and Python append.
FORMAT = "kafka-storage format --ignore-formatted"
CONFIG = "-c /etc/kafka/kafka.properties"


class Container:
    """A tree with the image's files, an environment, and what runs in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(IMAGE, root, dirs_exist_ok=True)
        self.port, self.inner, self.controller = free_ports(3)
        path = f"{root}/usr/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {"PATH": path, "TIDELOG_IMAGE_ROOT": str(root), "LANG": "C.UTF-8"}
        self.process: subprocess.Popen[str] | None = None
        self.log: list[str] = []

    def run(self, script: str, *, shell: str = "bash", **environment: str) -> None:
        """Start what a library put into the container. Paths are the tree's."""
        text = re.sub(r"(?<![\w/])/(?=(etc|usr|var)/)", f"{self.root}/", script)
        path = self.root / "start.sh"
        path.write_text(text)
        self.process = subprocess.Popen(
            [shell, str(path)],
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.root,
            start_new_session=True,
        )

    def wait_for_log(self, pattern: str) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        deadline = time.monotonic() + DEADLINE_S
        for line in self.process.stdout:
            self.log.append(line)
            if re.search(pattern, line):
                return
            assert time.monotonic() < deadline
        pytest.fail(f"it ended without {pattern}: {''.join(self.log)}")

    def stop(self) -> None:
        """Return once nothing of it runs any more."""
        assert self.process is not None
        assert self.process.stdout is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            # Until the last process that may write has ended.
            self.log += self.process.communicate(timeout=DEADLINE_S)[0].splitlines()
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise

    def listeners(self) -> dict[str, str]:
        """What the libraries set of each image, with ports that are free here."""
        return {
            "CLUSTER_ID": CLUSTER_ID,
            "KAFKA_LISTENERS": (
                f"PLAINTEXT://127.0.0.1:{self.port},BROKER://127.0.0.1:{self.inner},"
                f"CONTROLLER://127.0.0.1:{self.controller}"
            ),
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_NODE_ID": "1",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
            "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
            "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": str(2**63 - 1),
            "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@localhost:{self.controller}",
        }

    @property
    def advertised(self) -> str:
        return f"PLAINTEXT://127.0.0.1:{self.port},BROKER://localhost:{self.inner}"


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    made = Container(tmp_path / "tree")
    yield made
    made.stop()


def is_reached(container: Container) -> None:
    bootstrap = f"127.0.0.1:{container.port}"
    metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20)
    assert [f"{each.host}:{each.port}" for each in metadata.brokers.values()] == [bootstrap]
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    producer.produce("orders", b"order")
    assert producer.flush(20) == 0


def test_java_starts_it_in_place_of_apache_kafkas_image(container: Container) -> None:
    script = f"#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS={container.advertised}\n/etc/kafka/docker/run \n"

    container.run(script, **container.listeners(), KAFKA_NUM_PARTITIONS="3")
    container.wait_for_log(".*Transitioning from RECOVERY to RUNNING.*")

    is_reached(container)
    topics = AdminClient({"bootstrap.servers": f"127.0.0.1:{container.port}"}).list_topics(timeout=20)
    assert len(topics.topics["orders"].partitions) == 3
    # confluent-kafka's types have it as always None.
    assert str(topics.cluster_id) == CLUSTER_ID


def test_java_starts_it_in_place_of_confluents_image(container: Container) -> None:
    script = f"#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS={container.advertised}\n/etc/confluent/docker/run \n"

    container.run(script, **container.listeners())
    container.wait_for_log(".*Transitioning from RECOVERY to RUNNING.*")

    is_reached(container)


def test_go_starts_it(container: Container) -> None:
    script = f"""#!/bin/bash
source /etc/confluent/docker/bash-config
export KAFKA_ADVERTISED_LISTENERS={container.advertised}
echo Starting Kafka KRaft mode
sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure
echo '{FORMAT} -t "$(kafka-storage random-uuid)" {CONFIG}' >> /etc/confluent/docker/configure
echo '' > /etc/confluent/docker/ensure
/etc/confluent/docker/configure
/etc/confluent/docker/launch"""

    container.run(script, **container.listeners())
    container.wait_for_log(".*Transitioning from RECOVERY to RUNNING.*")

    is_reached(container)


def test_python_starts_it(container: Container) -> None:
    script = f"""#!/bin/bash

sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure
echo '{FORMAT} -t MkU3OEVBNTcwNTJENDM2Qk {CONFIG}' >> /etc/confluent/docker/configure

export KAFKA_ADVERTISED_LISTENERS={container.advertised}
. /etc/confluent/docker/bash-config
/etc/confluent/docker/configure
/etc/confluent/docker/launch"""

    container.run(script, shell="sh", **{**container.listeners(), "KAFKA_BROKER_ID": "1"})
    container.wait_for_log(".*Kafka Server started.*")

    is_reached(container)


def test_a_mounted_configuration_is_taken_and_variables_win(container: Container) -> None:
    mounted = container.root / "mnt" / "shared" / "config"
    mounted.mkdir(parents=True)
    names = {
        key.removeprefix("KAFKA_").lower().replace("_", "."): value
        for key, value in container.listeners().items()
        if key.startswith("KAFKA_")
    }
    names["advertised.listeners"] = container.advertised
    names["num.partitions"] = "2"
    (mounted / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in names.items()))

    container.run("/etc/kafka/docker/run", KAFKA_NUM_PARTITIONS="4")
    container.wait_for_log("Kafka Server started")

    is_reached(container)
    topics = AdminClient({"bootstrap.servers": f"127.0.0.1:{container.port}"}).list_topics(timeout=20).topics
    assert len(topics["orders"].partitions) == 4


def test_a_directory_that_cannot_be_written_is_told_in_a_sentence(container: Container) -> None:
    (container.root / "taken").write_text("")

    container.run(
        "/etc/kafka/docker/run", **{**container.listeners(), "KAFKA_LOG_DIRS": f"{container.root}/taken/data"}
    )
    assert container.process is not None
    output, _ = container.process.communicate(timeout=DEADLINE_S)

    assert container.process.returncode == 1
    assert f"{container.root}/taken/data cannot be written by the user" in output


def test_three_nodes_by_compose_are_well_formed() -> None:
    judge = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    judged = subprocess.run([*judge, str(IMAGE.parent / "compose.yaml")], capture_output=True, text=True, check=False)

    assert judged.returncode == 0, judged.stdout + judged.stderr

"""The pytest plugin, in runs of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import os
import socket
import pytest

seen = set()

@pytest.mark.parametrize("number", range(4))
def test_each_has_a_topic_of_its_own(tidelog_cluster, tidelog_topic, number):
    assert tidelog_topic not in seen
    seen.add(tidelog_topic)
    host, _, port = tidelog_cluster.bootstrap_servers.partition(":")
    socket.create_connection((host, int(port)), timeout=5).close()

@pytest.mark.tidelog_topic(partitions=3, configs={"retention.ms": "1000"})
def test_a_mark_says_how(tidelog_cluster, tidelog_topic):
    from confluent_kafka.admin import AdminClient
    admin = AdminClient({"bootstrap.servers": tidelog_cluster.bootstrap_servers})
    assert len(admin.list_topics(tidelog_topic, timeout=10).topics[tidelog_topic].partitions) == 3

def test_a_test_may_delete_its_topic(tidelog_cluster, tidelog_topic):
    tidelog_cluster.delete_topic(tidelog_topic)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers -W error -p no:cacheprovider\n")
    return tmp_path


def pytest_in(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=120)


def test_fixtures_come_with_the_installation(project: Path) -> None:
    run = pytest_in(project)

    assert run.returncode == 0, run.stdout
    assert "6 passed" in run.stdout


def test_workers_of_xdist_do_not_meet(project: Path) -> None:
    run = pytest_in(project, "-n", "2")

    assert run.returncode == 0, run.stdout
    assert "6 passed" in run.stdout


def test_options_configure_the_cluster(project: Path) -> None:
    run = pytest_in(project, "--tidelog-set", "num.partitions=none", "-k", "delete")

    assert run.returncode == 1
    assert "tidelog_cluster: Invalid value none for configuration num.partitions" in run.stdout
    assert "Traceback" not in run.stdout


def test_the_configuration_file_configures_the_cluster(project: Path) -> None:
    (project / "pytest.ini").write_text("[pytest]\ntidelog_nodes = 3\n")
    (project / "test_nodes.py").write_text(
        "def test_it(tidelog_cluster):\n    assert tidelog_cluster.bootstrap_servers.count(',') == 2\n"
    )

    run = pytest_in(project, "-k", "delete or test_nodes")

    assert run.returncode == 0, run.stdout
    assert "2 passed" in run.stdout


def test_a_run_that_does_not_use_it_does_not_import_the_broker(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n\ndef test_it():\n    assert 'tidelog.testing.plugin' in sys.modules\n"
        "    assert 'tidelog.broker' not in sys.modules\n"
    )

    run = pytest_in(tmp_path, "-p", "no:cacheprovider")

    assert run.returncode == 0, run.stdout

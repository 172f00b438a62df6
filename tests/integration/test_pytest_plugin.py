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


MARKS = {
    "3": "the mark tidelog_topic(3) does not say what 3 is: it takes partitions, replication_factor and configs by name, as "
    "in tidelog_topic(partitions=3)",
    'config={"retention.ms": "1"}': "the mark tidelog_topic has no argument config; did you mean configs?",
    "size=3": "the mark tidelog_topic has no argument size: it takes partitions, replication_factor and configs by name, as "
    "in tidelog_topic(partitions=3)",
    'partitions="3"': "the mark tidelog_topic(partitions='3') cannot be: partitions is a number from 1 on",
    "replication_factor=0": "the mark tidelog_topic(replication_factor=0) cannot be: replication_factor is a number from 1 on, "
    "or None",
    'configs={"retention.ms": 1}': "the mark tidelog_topic(configs={'retention.ms': 1}) cannot be: configs is a dictionary of "
    'texts, as in {"retention.ms": "1000"}',
    'configs={"retention.mss": "1"}': "tidelog_topic: Unknown topic config name: retention.mss (INVALID_CONFIG)",
}


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_a_mistake_in_a_mark_is_one_sentence_and_no_other_test_suffers(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    tests = [
        f"@pytest.mark.tidelog_topic({each})\ndef test_{number}(tidelog_topic): pass"
        for number, each in enumerate(MARKS)
    ]
    # A mark on a test that has no topic is no less wrong.
    tests += ["@pytest.mark.tidelog_topic(4)\ndef test_without(): pass", "def test_right(): pass"]
    (tmp_path / "test_it.py").write_text("import pytest\n\n" + "\n\n".join(tests))

    run = pytest_in(tmp_path, *options, "-p", "no:cacheprovider")

    lines = run.stdout.splitlines()
    assert run.returncode == 1
    assert [sentence for sentence in MARKS.values() if sentence not in lines] == []
    assert f"1 passed, {len(MARKS) + 1} errors" in run.stdout
    assert "Traceback" not in run.stdout


FAULTS = """
import pytest

def test_one_breaks_the_cluster(tidelog_cluster, tidelog_topic):
    tidelog_cluster.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED", times=None)
    tidelog_cluster.fail("DeleteTopics", error="CLUSTER_AUTHORIZATION_FAILED", times=None)
    tidelog_cluster.kill_node(1)

def test_the_next_one_has_a_whole_one(tidelog_cluster, tidelog_topic, tidelog_producer, tidelog_consumer):
    tidelog_producer.send(tidelog_topic, b"order").result()
    rows = []
    while not rows:
        rows = tidelog_consumer.poll(timeout_ms=1000)
    assert [row.value for row in rows] == [b"order"]

@pytest.mark.tidelog_own_cluster(nodes=2, config={"num.partitions": 3})
def test_a_cluster_of_its_own(tidelog_own_cluster):
    tidelog_own_cluster.create_topic("orders", partitions=2, replication_factor=2)
    tidelog_own_cluster.kill_node(2)
    assert tidelog_own_cluster.running_nodes == (1,)

def test_another_cluster_of_its_own(tidelog_own_cluster):
    assert tidelog_own_cluster.nodes == (1,)
"""

COROUTINES = """
import pytest

MARK

async def test_coroutines_have_clients_on_their_loop(tidelog_async_producer, tidelog_async_consumer, tidelog_topic):
    await (await tidelog_async_producer.send(tidelog_topic, b"order"))
    rows = []
    while not rows:
        rows = await tidelog_async_consumer.poll(timeout_ms=1000)
    assert [row.value for row in rows] == [b"order"]
"""


def test_what_a_test_does_to_the_cluster_ends_with_it(project: Path) -> None:
    (project / "test_it.py").write_text(FAULTS)

    run = pytest_in(project)

    assert run.returncode == 0, run.stdout
    assert "4 passed" in run.stdout


BY_ANYIO = "pytestmark = pytest.mark.anyio\n\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'"


@pytest.mark.parametrize(
    ("options", "mark"),
    [("", "pytestmark = pytest.mark.asyncio"), ("-p no:asyncio", BY_ANYIO)],
    ids=["pytest-asyncio", "anyio"],
)
def test_coroutines_have_fixtures_of_their_own(
    project: Path, monkeypatch: pytest.MonkeyPatch, options: str, mark: str
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", options)
    with (project / "pytest.ini").open("a") as settings:
        settings.write("" if options else "asyncio_default_fixture_loop_scope = function\n")
    (project / "test_it.py").write_text(COROUTINES.replace("MARK", mark))

    run = pytest_in(project)

    assert run.returncode == 0, run.stdout
    assert "1 passed" in run.stdout


def test_a_mark_of_a_cluster_that_says_something_else_fails_its_test(project: Path) -> None:
    (project / "test_it.py").write_text(
        "import pytest\n@pytest.mark.tidelog_own_cluster(node=3)\ndef test_it(tidelog_own_cluster): pass\n"
        "@pytest.mark.tidelog_own_cluster(nodes=0)\ndef test_that(tidelog_own_cluster): pass\n"
    )

    run = pytest_in(project)

    assert run.returncode == 1
    assert "the mark tidelog_own_cluster has no argument node; did you mean nodes?" in run.stdout
    assert "the mark tidelog_own_cluster(nodes=0) cannot be: nodes is a number from 1 on" in run.stdout

"""The pytest plugin: `tidelog_cluster`, one for the whole session, and `tidelog_topic`, a fresh one for each test.

    def test_orders(tidelog_cluster, tidelog_topic):
        producer = Producer({"bootstrap.servers": tidelog_cluster.bootstrap_servers})
        producer.produce(tidelog_topic, b"order")

    --tidelog-nodes N, --tidelog-set KEY=VALUE             for a run
    tidelog_nodes, tidelog_set                              in pytest's configuration file
    @pytest.mark.tidelog_topic(partitions=3, configs={})    for a test

Each worker of pytest-xdist has a cluster of its own: a session is a process there, and nothing is shared.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.testing.embedded_cluster import EmbeddedCluster

# A topic's name has 249 characters at most. What is left after the beginning of the test's name makes it unique.
_NAME_CHARACTERS_MAX = 100
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tidelog", "Tidelog's embedded cluster")
    group.addoption("--tidelog-nodes", type=int, metavar="N", help="how many nodes tidelog_cluster has (1)")
    group.addoption(
        "--tidelog-set", action="append", metavar="KEY=VALUE", help="a configuration key of tidelog_cluster's nodes"
    )
    parser.addini("tidelog_nodes", "how many nodes tidelog_cluster has", default="1")
    parser.addini(
        "tidelog_set", "configuration of tidelog_cluster's nodes, KEY=VALUE a line", type="linelist", default=[]
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "tidelog_topic(partitions=1, configs=None): how the topic of the fixture tidelog_topic is created"
    )


@pytest.fixture(scope="session")
def tidelog_cluster(pytestconfig: pytest.Config) -> Iterator[EmbeddedCluster]:
    """A cluster that runs for the whole session, in this process."""
    from tidelog.broker.server_properties import parse_setting  # noqa: PLC0415
    from tidelog.model.config import ConfigError  # noqa: PLC0415
    from tidelog.testing.embedded_cluster import ClusterError, EmbeddedCluster  # noqa: PLC0415

    given = [*pytestconfig.getini("tidelog_set"), *(pytestconfig.getoption("--tidelog-set") or [])]
    nodes = pytestconfig.getoption("--tidelog-nodes") or pytestconfig.getini("tidelog_nodes")
    try:
        cluster = EmbeddedCluster(nodes=int(nodes), config=dict(parse_setting(setting) for setting in given))
        cluster.start()
    except (ClusterError, ConfigError, ValueError) as error:
        pytest.fail(f"tidelog_cluster: {error}", pytrace=False)
    yield cluster
    cluster.stop()


@pytest.fixture
def tidelog_topic(tidelog_cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a topic that no other test has, with one partition unless the mark `tidelog_topic` says otherwise."""
    mark = request.node.get_closest_marker("tidelog_topic")
    test = _NOT_IN_NAMES.sub("-", request.node.name).strip("-.")[:_NAME_CHARACTERS_MAX]
    name = f"{test}-{uuid.uuid4().hex[:12]}"
    tidelog_cluster.create_topic(name, **(mark.kwargs if mark is not None else {}))
    yield name
    # The test may have deleted it itself.
    tidelog_cluster.delete_topic(name, missing_ok=True)

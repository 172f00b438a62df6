"""The pytest plugin: `tidelog_cluster`, one for the whole session, and `tidelog_topic`, a fresh one for each test.

    def test_orders(tidelog_cluster, tidelog_topic):
        producer = Producer({"bootstrap.servers": tidelog_cluster.bootstrap_servers})
        producer.produce(tidelog_topic, b"order")

    --tidelog-nodes N, --tidelog-set KEY=VALUE, --tidelog-security tls+scram      for a run
    tidelog_nodes, tidelog_set, tidelog_security            in pytest's configuration file
    @pytest.mark.tidelog_topic(partitions=3, configs={})    for a test; also replication_factor

Each worker of pytest-xdist has a cluster of its own: a session is a process there, and nothing is shared.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from tidelog.testing.embedded_cluster import EmbeddedCluster

# A topic's name has 249 characters at most. What is left after the beginning of the test's name makes it unique.
_NAME_CHARACTERS_MAX = 100
_MARK = "tidelog_topic"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")


class _Argument(NamedTuple):
    """What an argument of the mark may be."""

    words: str
    allows: Callable[[object], bool]


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0


def _is_configs(value: object) -> bool:
    return value is None or (
        isinstance(value, Mapping) and all(isinstance(text, str) for item in value.items() for text in item)
    )


_MARK_ARGUMENTS = {
    "partitions": _Argument("a number from 1 on", _is_count),
    "replication_factor": _Argument("a number from 1 on, or None", lambda value: value is None or _is_count(value)),
    "configs": _Argument('a dictionary of texts, as in {"retention.ms": "1000"}', _is_configs),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tidelog", "Tidelog's embedded cluster")
    group.addoption("--tidelog-nodes", type=int, metavar="N", help="how many nodes tidelog_cluster has (1)")
    group.addoption(
        "--tidelog-set", action="append", metavar="KEY=VALUE", help="a configuration key of tidelog_cluster's nodes"
    )
    group.addoption(
        "--tidelog-security",
        metavar="HOW",
        help="how tidelog_cluster is secured: tls, mtls, plain, scram, oauthbearer, or with TLS, as in tls+scram",
    )
    parser.addini("tidelog_security", "how tidelog_cluster is secured, as in tls+scram", default="")
    parser.addini("tidelog_nodes", "how many nodes tidelog_cluster has", default="1")
    parser.addini(
        "tidelog_set", "configuration of tidelog_cluster's nodes, KEY=VALUE a line", type="linelist", default=[]
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{_MARK}(partitions=1, replication_factor=None, configs=None): how the topic of the fixture is created",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A mark that says something else than was meant fails its test, before a cluster is started for it."""
    # Not when tests are collected: what stops that takes a worker of pytest-xdist down without a word.
    mark = item.get_closest_marker(_MARK)
    mistake = _mistake_in(mark) if mark is not None else None
    if mistake is not None:
        pytest.fail(mistake, pytrace=False)


def _mistake_in(mark: pytest.Mark) -> str | None:
    """What is wrong with a mark, in one sentence."""
    takes = "it takes partitions, replication_factor and configs by name, as in tidelog_topic(partitions=3)"
    if mark.args:
        given = ", ".join(map(repr, mark.args))
        return f"the mark tidelog_topic({given}) does not say what {given} is: {takes}"
    for name, value in mark.kwargs.items():
        expected = _MARK_ARGUMENTS.get(name)
        if expected is None:
            from tidelog.model.config import did_you_mean  # noqa: PLC0415

            return f"the mark tidelog_topic has no argument {name}{did_you_mean(name, _MARK_ARGUMENTS) or ': ' + takes}"
        if not expected.allows(value):
            return f"the mark tidelog_topic({name}={value!r}) cannot be: {name} is {expected.words}"
    return None


@pytest.fixture(scope="session")
def tidelog_cluster(pytestconfig: pytest.Config) -> Iterator[EmbeddedCluster]:
    """A cluster that runs for the whole session, in this process."""
    from tidelog.broker.config.server_properties import parse_setting  # noqa: PLC0415
    from tidelog.model.config import ConfigError  # noqa: PLC0415
    from tidelog.testing.embedded_cluster import ClusterError, EmbeddedCluster  # noqa: PLC0415

    given = [*pytestconfig.getini("tidelog_set"), *(pytestconfig.getoption("--tidelog-set") or [])]
    asked = pytestconfig.getoption("--tidelog-nodes")
    nodes = pytestconfig.getini("tidelog_nodes") if asked is None else asked
    security = pytestconfig.getoption("--tidelog-security") or pytestconfig.getini("tidelog_security") or None
    try:
        config = dict(parse_setting(setting) for setting in given)
        cluster = EmbeddedCluster(nodes=int(nodes), config=config, security=security)
        cluster.start()
    except (ClusterError, ConfigError, ValueError) as error:
        pytest.fail(f"tidelog_cluster: {error}", pytrace=False)
    yield cluster
    cluster.stop()


@pytest.fixture
def tidelog_topic(tidelog_cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a topic that no other test has, with one partition unless the mark `tidelog_topic` says otherwise."""
    mark = request.node.get_closest_marker(_MARK)
    test = _NOT_IN_NAMES.sub("-", request.node.name).strip("-.")[:_NAME_CHARACTERS_MAX]
    name = f"{test}-{uuid.uuid4().hex[:12]}"
    from tidelog.testing.embedded_cluster import ClusterError  # noqa: PLC0415

    refused = None
    try:
        tidelog_cluster.create_topic(name, **(mark.kwargs if mark is not None else {}))
    except ClusterError as error:
        refused = str(error)
    if refused is not None:
        pytest.fail(f"tidelog_topic: {refused}", pytrace=False)
    yield name
    # The test may have deleted it itself.
    tidelog_cluster.delete_topic(name, missing_ok=True)

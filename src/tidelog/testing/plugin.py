"""The pytest plugin: `tidelog_cluster`, one for the whole session, and `tidelog_topic`, a fresh one for each test.

    def test_orders(tidelog_cluster, tidelog_topic):
        producer = Producer({"bootstrap.servers": tidelog_cluster.bootstrap_servers})
        producer.produce(tidelog_topic, b"order")

    tidelog_producer, tidelog_consumer                      Tidelog's own clients; the consumer reads `tidelog_topic`
    tidelog_async_producer, tidelog_async_consumer          the same for tests of pytest-asyncio or anyio
    tidelog_own_cluster                                     a cluster of this test alone

    --tidelog-nodes N, --tidelog-set KEY=VALUE, --tidelog-security tls+scram      for a run
    tidelog_nodes, tidelog_set, tidelog_security            in pytest's configuration file
    @pytest.mark.tidelog_topic(partitions=3, configs={})    for a test; also replication_factor
    @pytest.mark.tidelog_own_cluster(nodes=3, config={})    for a test; also security, processes

What a test does to `tidelog_cluster` (faults, a cut network, a node that is killed) is undone when it ends. Each worker of
pytest-xdist has a cluster of its own: a session is a process there, and nothing is shared.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from tidelog.client.consumer.consumer import Consumer
    from tidelog.client.producer.producer import Producer
    from tidelog.testing.embedded_cluster import EmbeddedCluster

# A topic's name has 249 characters at most. What is left after the beginning of the test's name makes it unique.
_NAME_CHARACTERS_MAX = 100
_TOPIC_MARK = "tidelog_topic"
_CLUSTER_MARK = "tidelog_own_cluster"
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


def _is_config(value: object) -> bool:
    return value is None or (
        isinstance(value, Mapping)
        and all(isinstance(key, str) and isinstance(given, str | int) for key, given in value.items())
    )


_MARKS: dict[str, dict[str, _Argument]] = {
    _TOPIC_MARK: {
        "partitions": _Argument("a number from 1 on", _is_count),
        "replication_factor": _Argument("a number from 1 on, or None", lambda each: each is None or _is_count(each)),
        "configs": _Argument('a dictionary of texts, as in {"retention.ms": "1000"}', _is_configs),
    },
    _CLUSTER_MARK: {
        "nodes": _Argument("a number from 1 on", _is_count),
        "config": _Argument('a dictionary, as in {"num.partitions": 3}', _is_config),
        "security": _Argument(
            'a text such as "tls+scram", or None', lambda each: each is None or isinstance(each, str)
        ),
        "processes": _Argument("True or False", lambda each: isinstance(each, bool)),
    },
}
_EXAMPLES = {_TOPIC_MARK: "tidelog_topic(partitions=3)", _CLUSTER_MARK: "tidelog_own_cluster(nodes=3)"}

_SESSION_CLUSTER = pytest.StashKey["EmbeddedCluster"]()


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
        f"{_TOPIC_MARK}(partitions=1, replication_factor=None, configs=None): how the topic of the fixture is created",
    )
    config.addinivalue_line(
        "markers",
        f"{_CLUSTER_MARK}(nodes=1, config=None, security=None, processes=False): what the cluster of the fixture is",
    )
    if config.pluginmanager.hasplugin("asyncio") or config.pluginmanager.hasplugin("anyio"):
        config.pluginmanager.import_plugin("tidelog.testing.async_fixtures")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A mark that says something else than was meant fails its test, before a cluster is started for it."""
    # Not when tests are collected: what stops that takes a worker of pytest-xdist down without a word.
    for name in _MARKS:
        mark = item.get_closest_marker(name)
        mistake = _mistake_in(mark) if mark is not None else None
        if mistake is not None:
            pytest.fail(mistake, pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Before the fixtures end, which ask the cluster for something: they are not to meet the test's faults."""
    cluster = item.config.stash.get(_SESSION_CLUSTER, None)
    if cluster is not None:
        cluster.reset()


def _mistake_in(mark: pytest.Mark) -> str | None:
    """What is wrong with a mark, in one sentence."""
    arguments = _MARKS[mark.name]
    *others, last = arguments
    takes = f"it takes {', '.join(others)} and {last} by name, as in {_EXAMPLES[mark.name]}"
    if mark.args:
        given = ", ".join(map(repr, mark.args))
        return f"the mark {mark.name}({given}) does not say what {given} is: {takes}"
    for name, value in mark.kwargs.items():
        expected = arguments.get(name)
        if expected is None:
            from tidelog.model.config import did_you_mean  # noqa: PLC0415

            return f"the mark {mark.name} has no argument {name}{did_you_mean(name, arguments) or ': ' + takes}"
        if not expected.allows(value):
            return f"the mark {mark.name}({name}={value!r}) cannot be: {name} is {expected.words}"
    return None


@pytest.fixture(scope="session")
def tidelog_cluster(pytestconfig: pytest.Config) -> Iterator[EmbeddedCluster]:
    """A cluster that runs for the whole session, in this process."""
    from tidelog.broker.config.server_properties import parse_setting  # noqa: PLC0415
    from tidelog.model.config import ConfigError  # noqa: PLC0415
    from tidelog.testing.embedded_cluster import EmbeddedCluster  # noqa: PLC0415
    from tidelog.testing.errors import ClusterError  # noqa: PLC0415

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
    pytestconfig.stash[_SESSION_CLUSTER] = cluster
    yield cluster
    del pytestconfig.stash[_SESSION_CLUSTER]
    cluster.stop()


@pytest.fixture
def tidelog_own_cluster(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """A cluster of this test alone, as the mark `tidelog_own_cluster` says: one node unless that says otherwise."""
    from tidelog.model.config import ConfigError  # noqa: PLC0415
    from tidelog.testing.embedded_cluster import EmbeddedCluster  # noqa: PLC0415
    from tidelog.testing.errors import ClusterError  # noqa: PLC0415

    mark = request.node.get_closest_marker(_CLUSTER_MARK)
    try:
        cluster = EmbeddedCluster(**(mark.kwargs if mark is not None else {}))
        cluster.start()
    except (ClusterError, ConfigError) as error:
        pytest.fail(f"tidelog_own_cluster: {error}", pytrace=False)
    yield cluster
    cluster.stop()


@pytest.fixture
def tidelog_producer(tidelog_cluster: EmbeddedCluster) -> Iterator[Producer]:
    """Tidelog's producer. What a test leaves in it is sent when it ends."""
    from tidelog.client.producer.producer import Producer  # noqa: PLC0415

    with Producer(**tidelog_cluster.client_options()) as producer:
        yield producer


@pytest.fixture
def tidelog_consumer(tidelog_cluster: EmbeddedCluster, tidelog_topic: str) -> Iterator[Consumer]:
    """Tidelog's consumer: the one member of a group of its own, which reads `tidelog_topic` from the beginning."""
    from tidelog.client.consumer.consumer import Consumer  # noqa: PLC0415

    options = {**tidelog_cluster.client_options(), **consumer_options(tidelog_topic)}
    with Consumer(tidelog_topic, **options) as consumer:
        yield consumer


def consumer_options(topic: str) -> dict[str, object]:
    """What the consumers of the fixtures are, beside where they connect."""
    return {"group_id": f"{topic}-group", "auto_offset_reset": "earliest"}


@pytest.fixture
def tidelog_topic(tidelog_cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a topic that no other test has, with one partition unless the mark `tidelog_topic` says otherwise."""
    mark = request.node.get_closest_marker(_TOPIC_MARK)
    test = _NOT_IN_NAMES.sub("-", request.node.name).strip("-.")[:_NAME_CHARACTERS_MAX]
    name = f"{test}-{uuid.uuid4().hex[:12]}"
    from tidelog.testing.errors import ClusterError  # noqa: PLC0415

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

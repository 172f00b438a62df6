"""Apache Kafka's own members of share groups against nodes of ours: KafkaShareConsumer in both modes, and its tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from tests.support.apache_kafka import SMALL_NODE, ApacheKafka
from tests.support.cluster_processes import ClusterProcesses
from tests.support.group_topics import TIMEOUT_S, Topics, new_name, numbers
from tests.support.share_driver import Polled, ShareDriver
from tests.support.tidelog_node import TidelogNode

pytestmark = pytest.mark.compat

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
VERIFIABLE = "org.apache.kafka.tools.VerifiableShareConsumer"
PERFORMANCE = "org.apache.kafka.tools.ShareConsumerPerformance"
CONFIGS = "kafka.admin.ConfigCommand"

SETTINGS = {
    **SMALL_NODE,
    "auto.create.topics.enable": "false",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
}
EXPLICIT = {"share_acknowledgement_mode": "explicit"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogNode]:
    node = TidelogNode.at(
        tmp_path_factory.mktemp("node"), **{name.replace(".", "_"): value for name, value in SETTINGS.items()}
    )
    with node.running():
        yield node


@pytest.fixture(scope="module")
def topics(node: TidelogNode) -> Topics:
    return Topics(node.bootstrap)


@pytest.fixture(scope="module")
def driver(kafka: ApacheKafka, node: TidelogNode) -> Iterator[ShareDriver]:
    with ShareDriver(kafka, node.bootstrap) as driver:
        yield driver


@pytest.fixture
def group(kafka: ApacheKafka, node: TidelogNode) -> str:
    """A group that begins at the earliest record, with short locks."""
    group = new_name("share")
    configure(kafka, node.bootstrap, group, "share.auto.offset.reset=earliest,share.record.lock.duration.ms=1000")
    return group


def configure(kafka: ApacheKafka, bootstrap: str, group: str, settings: str) -> None:
    done = kafka.tool(CONFIGS, "--bootstrap-server", bootstrap, "--alter", "--group", group, "--add-config", settings)
    assert done.code == 0, done


def fill(topics: Topics, topic: str, count: int) -> None:
    """So many records, in batches of the client's, to the partitions in turn."""
    partitions = len(topics.admin.list_topics(topic).topics[topic].partitions)
    topics.send(topic, partitions, numbers(0, count))


def take_all(driver: ShareDriver, members: list[str], count: int) -> dict[str, list[Polled]]:
    """Poll in turn until so many records have come."""
    taken: dict[str, list[Polled]] = {member: [] for member in members}
    for _ in range(120):
        for member in members:
            taken[member] += driver.poll(member, 200)
        if sum(map(len, taken.values())) >= count:
            break
    return taken


def test_members_share_a_partition_and_each_record_is_one_members(
    driver: ShareDriver, topics: Topics, group: str
) -> None:
    topic = topics.make(1)
    driver.open("a", group, topic, max_poll_records="10")
    driver.open("b", group, topic, max_poll_records="10")
    driver.poll("a")
    driver.poll("b")
    for _ in range(40):
        # A batch of the log is acquired by one member.
        fill(topics, topic, 10)

    taken = take_all(driver, ["a", "b"], 400)
    driver.close_member("a")
    driver.close_member("b")

    offsets = sorted(record.offset for records in taken.values() for record in records)
    assert offsets == list(range(400))
    assert all(taken.values())
    assert {record.deliveries for records in taken.values() for record in records} == {1}


def test_an_explicit_member_accepts_releases_and_rejects_each_record_by_itself(
    driver: ShareDriver, topics: Topics, group: str
) -> None:
    topic = topics.make(1)
    fill(topics, topic, 9)
    driver.open("a", group, topic, **EXPLICIT)
    polled = driver.poll_until_some("a")
    driver.acknowledge("a", polled[0::3], "ACCEPT")
    driver.acknowledge("a", polled[1::3], "RELEASE")
    driver.acknowledge("a", polled[2::3], "REJECT")

    outcomes = driver.commit("a")
    again = driver.poll_until_some("a")
    driver.acknowledge("a", again, "ACCEPT")
    assert driver.commit("a") == {f"{topic}-0": None}
    driver.close_member("a")

    assert outcomes == {f"{topic}-0": None}
    assert again == [Polled(0, offset, 2) for offset in (1, 4, 7)]


def test_a_renewed_lock_keeps_a_record_from_others(driver: ShareDriver, topics: Topics, group: str) -> None:
    topic = topics.make(1)
    fill(topics, topic, 1)
    driver.open("a", group, topic, **EXPLICIT)
    driver.open("b", group, topic, **EXPLICIT)
    polled = driver.poll_until_some("a")

    for _ in range(4):
        driver.acknowledge("a", polled, "RENEW")
        assert driver.commit("a") == {f"{topic}-0": None}
        assert driver.poll("b", 400) == []
        polled = driver.poll("a", 200) or polled
    driver.acknowledge("a", polled, "ACCEPT")

    assert driver.commit("a") == {f"{topic}-0": None}
    driver.close_member("a")
    driver.close_member("b")


def test_what_a_member_had_that_dies_goes_to_another_with_the_second_delivery(
    kafka: ApacheKafka, node: TidelogNode, driver: ShareDriver, topics: Topics, group: str
) -> None:
    # The assignment still counts the dead one, so that it must not be the only one of a partition.
    topic = topics.make(1)
    fill(topics, topic, 40)
    with ShareDriver(kafka, node.bootstrap) as mortal:
        mortal.open("a", group, topic, **EXPLICIT)
        held = mortal.poll_until_some("a")
    driver.open("b", group, topic)

    taken = take_all(driver, ["b"], 40)["b"]
    driver.close_member("b")

    assert held
    assert len({(each.partition, each.offset) for each in taken}) == 40
    assert {each[:2] for each in taken if each.deliveries == 2} >= {each[:2] for each in held}


def test_a_record_that_is_released_every_time_is_given_up_at_the_limit(
    kafka: ApacheKafka, node: TidelogNode, driver: ShareDriver, topics: Topics, group: str
) -> None:
    configure(kafka, node.bootstrap, group, "share.delivery.count.limit=3")
    topic = topics.make(1)
    fill(topics, topic, 1)
    driver.open("a", group, topic, **EXPLICIT)
    deliveries = []
    polled = driver.poll_until_some("a")
    while polled:
        deliveries += [each.deliveries for each in polled]
        driver.acknowledge("a", polled, "RELEASE")
        driver.commit("a")
        polled = driver.poll("a", 1000)
    driver.close_member("a")

    assert deliveries == [1, 2, 3]


def test_the_console_share_consumer_prints_all_records_once(
    kafka: ApacheKafka, node: TidelogNode, topics: Topics, group: str
) -> None:
    topic = topics.make(3)
    fill(topics, topic, 60)

    done = kafka.tool(
        CONSOLE, "--bootstrap-server", node.bootstrap, "--topic", topic, "--group", group,
        "--max-messages", "60", "--timeout-ms", "30000",
    )  # fmt: skip

    assert done.code == 0, done
    assert "Processed a total of 60 messages" in done.stderr
    assert len(done.stdout.splitlines()) == 60


@pytest.mark.parametrize("mode", ["auto", "sync", "async"])
def test_the_verifiable_share_consumer_acknowledges_all_records(
    kafka: ApacheKafka, node: TidelogNode, topics: Topics, mode: str
) -> None:
    topic = topics.make(2)
    fill(topics, topic, 50)

    done = kafka.tool(
        VERIFIABLE, "--bootstrap-server", node.bootstrap, "--topic", topic, "--group-id", new_name("share"),
        "--max-messages", "50", "--acknowledgement-mode", mode, "--offset-reset-strategy", "earliest",
    )  # fmt: skip

    assert done.code == 0, done
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    acknowledged = sum(each["count"] for each in events if each["name"] == "offsets_acknowledged")
    assert acknowledged == 50, events


def test_the_performance_tool_reads_what_is_there(
    kafka: ApacheKafka, node: TidelogNode, topics: Topics, group: str
) -> None:
    topic = topics.make(1)
    fill(topics, topic, 5000)

    done = kafka.tool(
        PERFORMANCE, "--bootstrap-server", node.bootstrap, "--topic", topic, "--group", group, "--num-records", "5000"
    )

    assert done.code == 0, done
    assert "5000" in done.stdout


def test_members_go_on_where_another_node_leads_and_no_record_is_lost(kafka: ApacheKafka, tmp_path: Path) -> None:
    settings = {
        **SETTINGS,
        "offsets.topic.replication.factor": "3",
        "share.coordinator.state.topic.replication.factor": "3",
        "share.coordinator.state.topic.min.isr": "2",
        "default.replication.factor": "3",
    }
    nodes = ClusterProcesses(tmp_path, settings=settings)
    with nodes.running():
        bootstrap = nodes.bootstrap
        topics = Topics(bootstrap)
        topic = new_name("replicated")
        topics.admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(TIMEOUT_S)
        configure(kafka, bootstrap, "moved", "share.auto.offset.reset=earliest")
        fill(topics, topic, 100)
        with ShareDriver(kafka, bootstrap) as driver:
            driver.open("a", "moved", topic, max_poll_records="20", **EXPLICIT)
            first = driver.poll_until_some("a")
            driver.acknowledge("a", first, "ACCEPT")
            assert driver.commit("a") == {f"{topic}-0": None}
            held = driver.poll_until_some("a")

            leader = topics.admin.list_topics(topic).topics[topic].partitions[0].leader
            nodes.nodes[leader].kill()
            taken = []
            driver.acknowledge("a", held, "ACCEPT")
            driver.commit("a")
            for _ in range(200):
                polled = driver.poll("a", 200)
                taken += polled
                driver.acknowledge("a", polled, "ACCEPT")
                driver.commit("a")
                if len({each.offset for each in taken} | {each.offset for each in first}) == 100:
                    break

    accepted = {each.offset for each in first}
    again = {each.offset for each in taken}
    assert accepted & again == set()
    assert accepted | again | {each.offset for each in held} == set(range(100))

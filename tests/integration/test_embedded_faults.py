"""What a test does to its embedded cluster, as the clients of others meet it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Message

from tidelog import Admin, Consumer, Producer
from tidelog.client.consumer.fetched_partition import Row
from tidelog.client.errors import ClientError
from tidelog.model.errors import ErrorCode
from tidelog.testing import ClusterError, EmbeddedCluster


@pytest.fixture(scope="module")
def shared() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    yield shared
    shared.reset()


@pytest.fixture
def topic(cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> str:
    name = f"t{abs(hash(request.node.name))}"
    cluster.create_topic(name)
    return name


def produced(cluster: EmbeddedCluster, topic: str, value: bytes, **settings: object) -> ErrorCode | None:
    """By librdkafka: the error that it told, or None."""
    told: list[confluent_kafka.KafkaError | None] = []

    def delivered(error: confluent_kafka.KafkaError | None, _message: Message) -> None:
        told.append(error)

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0, "retry.backoff.ms": 10, **settings}
    )
    producer.produce(topic, value, on_delivery=delivered)
    assert producer.flush(20) == 0
    (error,) = told
    return None if error is None else ErrorCode.of(error.code())


# --- records ---------------------------------------------------------------------------------------------------------------


def test_records_are_written_and_read_in_one_call_each(cluster: EmbeddedCluster, topic: str) -> None:
    written = cluster.write(topic, [b"one", ("key", "two"), {"value": b"three", "headers": [("h", b"x")]}])

    assert [each.offset for each in written] == [0, 1, 2]
    one, two, three = cluster.read(topic)
    assert (one.value, two.key, two.value, three.headers) == (b"one", b"key", b"two", (("h", b"x"),))
    assert len(cluster.read(topic, 2)) == 2


def test_records_that_do_not_come_are_an_error_that_counts_them(cluster: EmbeddedCluster, topic: str) -> None:
    cluster.write(topic, [b"one"])

    with pytest.raises(ClusterError, match=f"{topic} had 1 of 2 records after 0.3 s"):
        cluster.read(topic, 2, timeout_s=0.3)


def test_committed_records_are_read_without_what_was_aborted(cluster: EmbeddedCluster, topic: str) -> None:
    with Producer(**cluster.client_options(), transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"aborted")
        producer.flush()
        producer.abort_transaction()
    cluster.write(topic, [b"committed"])

    assert [row.value for row in cluster.read(topic, committed=True)] == [b"committed"]
    assert [row.value for row in cluster.read(topic)] == [b"aborted", b"committed"]


# --- errors ----------------------------------------------------------------------------------------------------------------


def test_a_retriable_error_is_met_and_the_record_is_there_once(cluster: EmbeddedCluster, topic: str) -> None:
    fault = cluster.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2, topic=topic)

    assert produced(cluster, topic, b"order") is None
    assert fault.met == 2
    assert [row.value for row in cluster.read(topic)] == [b"order"]


def test_an_error_after_the_deed_is_why_producers_are_idempotent(cluster: EmbeddedCluster, topic: str) -> None:
    with cluster.fail("Produce", error="REQUEST_TIMED_OUT", after=True, times=1):
        assert produced(cluster, topic, b"plain", **{"enable.idempotence": False}) is None
    with cluster.fail("Produce", error="REQUEST_TIMED_OUT", after=True, times=1):
        assert produced(cluster, topic, b"idempotent", **{"enable.idempotence": True}) is None

    assert [row.value for row in cluster.read(topic)] == [b"plain", b"plain", b"idempotent"]


def test_a_fatal_error_ends_the_send_of_each_client(cluster: EmbeddedCluster, topic: str) -> None:
    cluster.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED", times=None, topic=topic)

    assert produced(cluster, topic, b"order") is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with (
        Producer(**cluster.client_options()) as producer,
        pytest.raises(ClientError, match="TOPIC_AUTHORIZATION_FAILED"),
    ):
        producer.send(topic, b"order").result()
    assert cluster.read(topic) == []


@pytest.mark.parametrize(
    "error",
    [
        "CORRUPT_MESSAGE", "UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER",
        "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "KAFKA_STORAGE_ERROR", "UNKNOWN_LEADER_EPOCH", "FENCED_LEADER_EPOCH",
    ],
)  # fmt: skip
def test_every_retriable_error_of_produce_is_retried_by_ours(cluster: EmbeddedCluster, topic: str, error: str) -> None:
    fault = cluster.fail("Produce", error=error, topic=topic)

    with Producer(**cluster.client_options(), retry_backoff_ms=10) as producer:
        assert producer.send(topic, b"order").result().offset == 0
    assert fault.met == 1


@pytest.mark.parametrize(
    "error", ["UNKNOWN_LEADER_EPOCH", "NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR", "FENCED_LEADER_EPOCH"]
)
@pytest.mark.parametrize("client", ["ours", "librdkafka"])
def test_consumers_get_over_errors_of_a_partition(
    cluster: EmbeddedCluster, topic: str, error: str, client: str
) -> None:
    cluster.write(topic, [b"order"])
    fault = cluster.fail("Fetch", error=error, topic=topic)

    assert read_by(client, cluster, topic) == [b"order"]
    assert fault.met == 1


def test_a_session_in_use_is_told_of_a_partition_too(cluster: EmbeddedCluster, topic: str) -> None:
    with Consumer(topic, **cluster.client_options(), group_id=topic, auto_offset_reset="earliest") as consumer:
        cluster.write(topic, [b"one"])
        assert [row.value for row in polled(consumer, 1)] == [b"one"]

        fault = cluster.fail("Fetch", error="NOT_LEADER_OR_FOLLOWER", times=1)
        cluster.write(topic, [b"two"])

        assert [row.value for row in polled(consumer, 1)] == [b"two"]
        fault.wait_until_met()


def test_a_session_that_is_not_known_any_more_is_begun_again(cluster: EmbeddedCluster, topic: str) -> None:
    with Consumer(topic, **cluster.client_options(), group_id=topic, auto_offset_reset="earliest") as consumer:
        cluster.write(topic, [b"one"])
        assert [row.value for row in polled(consumer, 1)] == [b"one"]

        fault = cluster.fail("Fetch", error="FETCH_SESSION_ID_NOT_FOUND")
        cluster.write(topic, [b"two"])

        assert [row.value for row in polled(consumer, 1)] == [b"two"]
        fault.wait_until_met()


@pytest.mark.parametrize("error", ["COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"])
@pytest.mark.parametrize("api", ["FindCoordinator", "InitProducerId"])
def test_transactions_begin_in_spite_of_a_coordinator_that_is_not_there(
    cluster: EmbeddedCluster, topic: str, api: str, error: str
) -> None:
    fault = cluster.fail(api, error=error)

    options = {**cluster.client_options(), "transactional_id": topic, "retry_backoff_ms": 10}
    with Producer(**options) as producer, producer.transaction():
        producer.send(topic, b"order")
    assert fault.met == 1
    assert [row.value for row in cluster.read(topic, committed=True)] == [b"order"]


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("FindCoordinator", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        ("InitProducerId", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        ("InitProducerId", "CLUSTER_AUTHORIZATION_FAILED"),
        ("InitProducerId", "INVALID_TRANSACTION_TIMEOUT"),
    ],
)
def test_transactions_do_not_begin_after_a_fatal_error(
    cluster: EmbeddedCluster, topic: str, api: str, error: str
) -> None:
    cluster.fail(api, error=error, times=None)

    with (
        Producer(**cluster.client_options(), transactional_id=topic) as producer,
        pytest.raises(ClientError, match=error),
    ):
        producer.init_transactions()


def test_a_fault_is_of_one_client(cluster: EmbeddedCluster, topic: str) -> None:
    cluster.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED", times=None, client_id="guest")

    assert produced(cluster, topic, b"order", **{"client.id": "guest"}) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert produced(cluster, topic, b"order", **{"client.id": "host"}) is None


def test_what_was_sent_before_is_answered_before(cluster: EmbeddedCluster, topic: str) -> None:
    """The failed request is the third of five that arrive in one read."""
    with Producer(**cluster.client_options(), retries=0, enable_idempotence=False, linger_ms=0) as producer:
        first = producer.send(topic, b"one").result()
        fault = cluster.fail("Produce", error="MESSAGE_TOO_LARGE", topic=topic)
        with pytest.raises(ClientError):
            producer.send(topic, b"two").result()
        assert producer.send(topic, b"three").result().offset == first.offset + 1
    assert fault.met == 1


# --- connections and time --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [False, True])
def test_a_lost_connection_costs_no_record(cluster: EmbeddedCluster, topic: str, after: bool) -> None:
    fault = cluster.disconnect("Produce", after=after, topic=topic)

    assert produced(cluster, topic, b"order", **{"enable.idempotence": True}) is None
    assert fault.met == 1
    assert [row.value for row in cluster.read(topic)] == [b"order"]


def test_an_answer_that_is_late_times_out(cluster: EmbeddedCluster) -> None:
    cluster.delay("CreateTopics", ms=60_000)
    with Admin(**cluster.client_options(), request_timeout_ms=300) as admin, pytest.raises(ClientError):
        admin.create_topic("late")


def test_a_delay_holds_back_the_answer_and_not_the_deed(cluster: EmbeddedCluster, topic: str) -> None:
    fault = cluster.delay("Produce", ms=60_000, client_id="slow")
    options: dict[str, Any] = {"client_id": "slow", "request_timeout_ms": 500, "retries": 0, "delivery_timeout_ms": 600}
    with Producer(**cluster.client_options(), **options) as producer:
        delivery = producer.send(topic, b"order")
        fault.wait_until_met()
        assert [row.value for row in cluster.read(topic, 1)] == [b"order"]
        with pytest.raises(ClientError):
            delivery.result()


def test_whoever_waits_for_a_fault_in_vain_is_told(cluster: EmbeddedCluster) -> None:
    fault = cluster.fail("Produce", error="CORRUPT_MESSAGE")

    with pytest.raises(
        ClusterError, match=r"Produce fails with CORRUPT_MESSAGE: it has met 0 of 1 requests within 0.1 s"
    ):
        fault.wait_until_met(timeout_s=0.1)
    assert repr(fault) == "<Produce fails with CORRUPT_MESSAGE: met 0, 1 to go>"


def test_nothing_is_left_after_a_reset(cluster: EmbeddedCluster, topic: str) -> None:
    cluster.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED", times=None)
    cluster.delay("Metadata", ms=60_000)

    cluster.reset()

    assert produced(cluster, topic, b"order") is None


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda cluster: cluster.fail("Prodce", error="NONE"), "no node answers Prodce; did you mean Produce?"),
        (lambda cluster: cluster.fail("Produce", error="NOT_LEADER"), "Kafka has no error NOT_LEADER"),
        (lambda cluster: cluster.fail("Produce", error="CORRUPT_MESSAGE", times=0), "times is a number from 1 on"),
        (lambda cluster: cluster.fail("Produce", error="CORRUPT_MESSAGE", node=4), "has no node 4: it has 1"),
        (lambda cluster: cluster.delay("Produce", ms=-1), "more than 0 and up to 600000 ms, not by -1"),
        (lambda cluster: cluster.partition_network({1}), "has two sides or more"),
        (lambda cluster: cluster.partition_network({1}, {2}), "there is no 2 to cut off"),
        (lambda cluster: cluster.kill_node(7), "has no node 7"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_a_sentence(cluster: EmbeddedCluster, call: object, sentence: str) -> None:
    with pytest.raises(ClusterError, match=sentence.replace("?", r"\?")):
        call(cluster)  # type: ignore[operator]


# --- nodes and the network -------------------------------------------------------------------------------------------------


def test_a_node_that_was_killed_comes_back_where_it_was() -> None:
    with EmbeddedCluster(nodes=3) as cluster:
        bootstrap = cluster.bootstrap_servers
        cluster.create_topic("orders", partitions=3, replication_factor=3, configs={"min.insync.replicas": "2"})
        cluster.write("orders", [str(number) for number in range(30)])

        cluster.kill_node(2)
        assert list(cluster.running_nodes) == [1, 3]
        assert "down: 2" in repr(cluster)
        cluster.write("orders", [str(number) for number in range(30, 60)])

        cluster.restart_node(2)
        assert list(cluster.running_nodes) == [1, 2, 3]
        assert cluster.bootstrap_servers == bootstrap
        cluster.write("orders", [str(number) for number in range(60, 90)])
        found = sorted(int(row.value) for row in cluster.read("orders", 90))
        assert found == list(range(90))


def test_a_node_alone_keeps_its_port_and_its_records() -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders")
        cluster.write("orders", [b"order"])
        bootstrap = cluster.bootstrap_servers

        cluster.restart_node(1)

        assert cluster.bootstrap_servers == bootstrap
        assert [row.value for row in cluster.read("orders")] == [b"order"]


def test_nodes_that_are_processes_are_killed_for_real() -> None:
    with EmbeddedCluster(nodes=3, processes=True) as cluster:
        bootstrap = cluster.bootstrap_servers
        cluster.create_topic("orders", replication_factor=3, configs={"min.insync.replicas": "2"})
        cluster.write("orders", [b"one"])
        cluster.kill_node(1)
        cluster.write("orders", [b"two"])
        cluster.restart_node(1)

        assert cluster.bootstrap_servers == bootstrap
        assert [row.value for row in cluster.read("orders", 2)] == [b"one", b"two"]
        with pytest.raises(ClusterError, match="faults are for nodes in the process of the test"):
            cluster.fail("Produce", error="CORRUPT_MESSAGE")
        with pytest.raises(ClusterError, match="not between processes"):
            cluster.partition_network({1}, {2})


def test_a_leader_that_is_cut_off_is_replaced_and_what_it_took_alone_is_gone() -> None:
    config = {"broker.session.timeout.ms": 1500, "broker.heartbeat.interval.ms": 300, "controller.quorum.fetch.timeout.ms": 1000,
              "replica.lag.time.max.ms": 1500}  # fmt: skip
    with EmbeddedCluster(nodes=3, config=config) as cluster:
        cluster.create_topic("orders", replication_factor=3, configs={"min.insync.replicas": "2"})
        cluster.write("orders", [b"before"])
        leader = leader_of(cluster, "orders")

        others = {1, 2, 3} - {leader}
        cluster.partition_network({leader}, {*others, "clients"})
        # The leader was asked first, and says nothing.
        with Producer(**cluster.client_options(), request_timeout_ms=1000) as producer:
            producer.send("orders", b"during").result()
        assert leader_of(cluster, "orders") in others
        cluster.heal_network()
        cluster.write("orders", [b"after"])

        assert [row.value for row in cluster.read("orders", 3)] == [b"before", b"during", b"after"]


def test_a_node_that_answers_only_some_requests_does_not_keep_a_producer_from_others() -> None:
    """As one does that is cut off from the controllers: it tells where partitions are, and has no producer ids to give."""
    with EmbeddedCluster(nodes=3) as cluster:
        cluster.create_topic("orders", replication_factor=3)
        for node in cluster.nodes:
            with cluster.delay("InitProducerId", ms=60_000, node=node) as fault:
                bootstrap = cluster.bootstrap_servers.split(",")[node - 1]
                options: dict[str, Any] = {
                    "bootstrap_servers": bootstrap,
                    "request_timeout_ms": 400,
                    "delivery_timeout_ms": 20_000,
                }
                with Producer(**options) as producer:
                    producer.send("orders", b"order").result()
                assert fault.met == 1


def test_clients_that_are_cut_off_hear_nothing_until_the_network_heals(cluster: EmbeddedCluster, topic: str) -> None:
    acknowledged = threading.Event()
    with Producer(**cluster.client_options()) as producer:
        producer.send(topic, b"one").result()
        cluster.partition_network({1}, {"clients"})
        producer.send(topic, b"two", on_delivery=lambda _error, _metadata: acknowledged.set())
        producer.send(topic, b"three")
        assert not acknowledged.wait(0.3)

        cluster.heal_network()

        assert acknowledged.wait(20)
    assert [row.value for row in cluster.read(topic)] == [b"one", b"two", b"three"]


# ---------------------------------------------------------------------------------------------------------------------------


def leader_of(cluster: EmbeddedCluster, topic: str) -> int:
    with Admin(**cluster.client_options(), request_timeout_ms=1000) as admin:
        leader = admin.describe_topic(topic).partitions[0].leader
        assert leader is not None
        return leader


def polled(consumer: Consumer, count: int) -> list[Row]:
    found: list[Row] = []
    deadline = time.monotonic() + 20
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.poll(timeout_ms=200)
    return found


def read_by(client: str, cluster: EmbeddedCluster, topic: str) -> list[bytes | None]:
    if client == "ours":
        return [row.value for row in cluster.read(topic, 1)]
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "x"})
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        return [message.value()]
    finally:
        consumer.close()

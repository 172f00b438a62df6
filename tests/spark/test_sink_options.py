"""What the options of the sink say, and how each that cannot be is told."""

from __future__ import annotations

import pickle

import pytest

from tidelog.spark.errors import OptionError
from tidelog.spark.sink.sink_batch import ReplayCheck
from tidelog.spark.sink.sink_options import DEFAULT_BATCH_BYTES, DEFAULT_PREFIX, Delivery, parse_sink_options

CLUSTER = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def test_a_stream_is_exactly_once_and_a_batch_at_least_once() -> None:
    assert parse_sink_options(CLUSTER, is_stream=True).delivery is Delivery.EXACTLY_ONCE
    assert parse_sink_options(CLUSTER, is_stream=False).delivery is Delivery.AT_LEAST_ONCE


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("delivery", list(Delivery))
def test_either_may_say_otherwise(is_stream: bool, delivery: Delivery) -> None:
    options = parse_sink_options({**CLUSTER, "delivery": delivery.value.upper()}, is_stream=is_stream)

    assert options.delivery is delivery
    assert options.is_exactly_once is (delivery is Delivery.EXACTLY_ONCE)


def test_a_batch_that_may_be_written_again_is_exactly_once() -> None:
    options = parse_sink_options({**CLUSTER, "txnAppId": "prices", "txnVersion": "7"}, is_stream=False)

    assert (options.delivery, options.txn_app_id, options.txn_version) == (Delivery.EXACTLY_ONCE, "prices", 7)


def test_defaults() -> None:
    options = parse_sink_options(CLUSTER, is_stream=True)

    assert (options.topic, options.includes_timestamp, options.prefix) == (None, False, DEFAULT_PREFIX)
    assert (options.txn_app_id, options.txn_version) == (None, None)
    assert options.client == {
        "bootstrap_servers": "127.0.0.1:9092",
        "client_id": DEFAULT_PREFIX,
        "batch_size": DEFAULT_BATCH_BYTES,
    }


def test_names_in_any_case_and_what_spark_adds() -> None:
    given = {
        **CLUSTER,
        "TOPIC": " orders ",
        "includetimestamp": "TRUE",
        "transactionalidprefix": "shop",
        "checkpointLocation": "/tmp/x",
        "queryName": "q",
    }

    options = parse_sink_options(given, is_stream=True)

    assert (options.topic, options.includes_timestamp, options.prefix) == ("orders", True, "shop")


def test_the_producers_options_have_their_types() -> None:
    given = {
        **CLUSTER,
        "kafka.acks": "ALL",
        "kafka.linger.ms": "0.5",
        "kafka.batch.size": "1000",
        "kafka.enable.idempotence": "true",
        "kafka.compression.type": "zstd",
        "kafka.compression.level": "3",
        "kafka.transaction.timeout.ms": "5000",
        "kafka.partitioner": "round_robin",
    }

    client = parse_sink_options(given, is_stream=True).client

    assert {name: each for name, each in client.items() if name not in {"bootstrap_servers", "client_id"}} == {
        "acks": "all",
        "linger_ms": 0.5,
        "batch_size": 1000,
        "enable_idempotence": True,
        "compression_type": "zstd",
        "compression_level": 3,
        "transaction_timeout_ms": 5000,
        "partitioner": "round_robin",
    }


def test_options_travel() -> None:
    options = parse_sink_options({**CLUSTER, "txnAppId": "a", "txnVersion": "0"}, is_stream=False)
    assert pickle.loads(pickle.dumps(options)) == options


EITHER = [
    ({}, "kafka.bootstrap.servers is missing"),
    ({**CLUSTER, "topc": "x"}, "there is no option topc; did you mean topic"),
    ({**CLUSTER, "nothing.like.it": "x"}, "there is no option nothing.like.it$"),
    ({**CLUSTER, "path": "/x"}, "a topic has no path"),
    ({**CLUSTER, "startingoffsets": "earliest"}, "startingOffsets is for reading"),
    ({**CLUSTER, "topic": " "}, "topic is ''; it is the name of one topic"),
    ({**CLUSTER, "topic": "x" * 250}, "it is the name of one topic"),
    ({**CLUSTER, "delivery": "at_most_once"}, "delivery is 'at_most_once'; it can be exactly_once or at_least_once"),
    ({**CLUSTER, "includeTimestamp": "yes"}, "includeTimestamp is 'yes'; it is true or false"),
    ({**CLUSTER, "delivery": "exactly_once", "transactionalIdPrefix": ""}, "transactionalIdPrefix is ''; it is a name"),
    ({**CLUSTER, "delivery": "at_least_once", "transactionalIdPrefix": "a"}, "needs delivery exactly_once"),
    ({**CLUSTER, "delivery": "at_least_once", "kafka.transaction.timeout.ms": "1"}, "needs delivery exactly_once"),
    ({**CLUSTER, "delivery": "exactly_once", "kafka.acks": "1"}, "transactional_id needs idempotence.*acks='all'"),
    ({**CLUSTER, "kafka.acks": "some"}, "acks is 'some'"),
    ({**CLUSTER, "kafka.linger.ms": "soon"}, "kafka.linger.ms is 'soon'; it is a whole number"),
    ({**CLUSTER, "kafka.transactional.id": "x"}, "each task has one of its own; the option transactionalIdPrefix"),
    ({**CLUSTER, "kafka.partitioner.class": "x"}, "give kafka.partitioner"),
    ({**CLUSTER, "kafka.value.serializer": "x"}, "columns of bytes"),
    ({**CLUSTER, "kafka.sasl.mechanism": "PLAIN"}, "sasl.mechanism needs security.protocol SASL_SSL"),
    ({**CLUSTER, "kafka.ssl.engine.factory.class": "x"}, "names a class of Java, which cannot be loaded here"),
    ({**CLUSTER, "txnAppId": "a"}, "txnAppId and txnVersion belong together"),
    ({**CLUSTER, "txnVersion": "1"}, "txnAppId and txnVersion belong together"),
]


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize(("given", "sentence"), EITHER)
def test_what_cannot_be_is_told(given: dict[str, str], sentence: str, is_stream: bool) -> None:
    with pytest.raises(OptionError, match=sentence):
        parse_sink_options(given, is_stream=is_stream)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"txnAppId": "a", "txnVersion": "x"}, "txnVersion is 'x'; it is a whole number"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "txnVersion is -1; it can be 0 or more"),
        ({"txnAppId": " ", "txnVersion": "1"}, "txnAppId is ''; it is a name"),
        ({"txnAppId": "a\n", "txnVersion": "1", "delivery": "at_least_once"}, "txnAppId needs delivery exactly_once"),
        ({"transactionalIdPrefix": "a"}, "transactionalIdPrefix needs delivery exactly_once"),
    ],
)
def test_what_a_batch_cannot_be_is_told(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        parse_sink_options({**CLUSTER, **given}, is_stream=False)


def test_a_stream_has_its_own_numbers() -> None:
    with pytest.raises(OptionError, match="are for batches: a stream has its query's id"):
        parse_sink_options({**CLUSTER, "txnAppId": "a", "txnVersion": "1"}, is_stream=True)


KNOWN_AGAIN = {**CLUSTER, "txnAppId": "prices", "txnVersion": "7"}


def test_by_what_a_batch_is_known_again() -> None:
    assert parse_sink_options(KNOWN_AGAIN, is_stream=False).replay_check is ReplayCheck.CHECKSUM
    for check in ReplayCheck:
        given = {**KNOWN_AGAIN, "replayCheck": f" {check.value.upper()} "}
        assert parse_sink_options(given, is_stream=False).replay_check is check


def test_the_time_out_of_transactions() -> None:
    assert "transaction_timeout_ms" not in parse_sink_options(CLUSTER, is_stream=True).client
    options = parse_sink_options({**CLUSTER, "transactionTimeout": "2 min"}, is_stream=True)
    assert options.client["transaction_timeout_ms"] == 120_000


def test_where_spark_keeps_its_progress() -> None:
    options = parse_sink_options({**CLUSTER, "checkpointLocation": "s3a://b/c", "queryName": "q"}, is_stream=True)
    assert (options.checkpoint, options.query_name) == ("s3a://b/c", "q")


@pytest.mark.parametrize(
    ("given", "is_stream", "message"),
    [
        ({**KNOWN_AGAIN, "replayCheck": "hash"}, False, "it can be checksum, count or none"),
        ({**CLUSTER, "replayCheck": "count"}, True, "replayCheck needs txnAppId"),
        ({**CLUSTER, "replayCheck": "count"}, False, "replayCheck needs txnAppId"),
        ({**CLUSTER, "transactionTimeout": "soon"}, True, "it is a time such as"),
        ({**CLUSTER, "transactionTimeout": "0"}, True, "1 ms to"),
        ({**CLUSTER, "transactionTimeout": "25d"}, True, "1 ms to"),
        ({**CLUSTER, "transactionTimeout": "1m"}, False, "needs delivery exactly_once"),
        ({**CLUSTER, "transactionTimeout": "1m", "kafka.transaction.timeout.ms": "1"}, True, "give one of them"),
        ({**CLUSTER, "asyncProgressTrackingEnabled": "true"}, True, "not possible here"),
        ({**CLUSTER, "_asyncProgressTrackingOverrideSinkSupportCheck": "true"}, True, "not possible here"),
        ({**CLUSTER, "kafka.transaction.two.phase.commit.enable": "true"}, True, "tasks have a time-out"),
    ],
)
def test_what_cannot_be_of_replays_and_time_outs(given: dict[str, str], is_stream: bool, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_sink_options(given, is_stream=is_stream)

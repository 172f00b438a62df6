"""The options of the source."""

from __future__ import annotations

import logging
import pickle

import pytest

from tidelog.spark.errors import OptionError
from tidelog.spark.source.chosen_topics import Assigned, Matching, Subscribed
from tidelog.spark.source.offset_bounds import (
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    Latest,
    OffsetBound,
    OnNoMatch,
)
from tidelog.spark.source.source_options import SourceOptions, batch_bounds, parse_source_options, stream_start

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
ORDERS = {**SERVERS, "subscribe": "orders"}


def parse(**more: str) -> SourceOptions:
    return parse_source_options(ORDERS | {name.replace("__", "."): text for name, text in more.items()})


def test_the_defaults_are_those_of_the_connector() -> None:
    options = parse()

    assert options.topics == Subscribed(("orders",))
    assert batch_bounds(options) == (Earliest(), Latest())
    assert stream_start(options) == Latest()
    assert options.fail_on_data_loss
    assert options.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert options.max_trigger_delay_ms == 15 * 60_000
    assert options.poll_timeout_ms == 120_000
    assert not options.reads_committed
    assert options.group_id is None


def test_every_option_is_understood_in_any_case() -> None:
    options = parse_source_options(
        {
            **SERVERS,
            "SUBSCRIBE": " orders , payments,orders ",
            "StartingOffsets": "EARLIEST",
            "minPartitions": "8",
            "maxRecordsPerPartition": "100",
            "maxOffsetsPerTrigger": "1000",
            "minOffsetsPerTrigger": "10",
            "maxTriggerDelay": "90s",
            "failOnDataLoss": "False",
            "includeHeaders": "true",
            "fetchOffset.numRetries": "5",
            "fetchOffset.retryIntervalMs": "0",
            "kafkaConsumer.pollTimeoutMs": "700",
            "kafka.group.id": "billing",
            "kafka.isolation.level": "read_committed",
            "kafka.fetch.min.bytes": "1000",
            "kafka.check.crcs": "false",
            "kafka.security.protocol": "PLAINTEXT",
        }
    )

    assert options.topics == Subscribed(("orders", "payments"))
    assert options.starting == Earliest()
    assert (options.min_partitions, options.max_records_per_partition) == (8, 100)
    assert (options.max_offsets_per_trigger, options.min_offsets_per_trigger) == (1000, 10)
    assert options.max_trigger_delay_ms == 90_000
    assert not options.fail_on_data_loss
    assert options.columns[-1] == "headers"
    assert (options.fetch_offset_retries, options.fetch_offset_retry_interval_ms) == (5, 0)
    assert options.poll_timeout_ms == 700
    assert options.group_id == "billing"
    assert options.reads_committed
    assert options.client["fetch_min_bytes"] == 1000
    assert options.client["check_crcs"] is False
    assert "group_id" not in options.client, "what reads is in no group"


def test_options_travel_to_workers() -> None:
    options = parse_source_options({**SERVERS, "subscribePattern": "a.*", "startingOffsets": '{"a":{"0":1}}'})

    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("name", "text", "bound"),
    [
        ("startingOffsets", "latest", Latest()),
        ("startingOffsets", '{"orders":{"0":5}}', AtOffsets({("orders", 0): 5})),  # type: ignore[dict-item]
        ("startingOffsetsByTimestamp", '{"orders":{"0":5}}', AtTimestamps({("orders", 0): 5})),  # type: ignore[dict-item]
        ("startingTimestamp", "1700000000000", AtTimestamp(1700000000000)),
    ],
)
def test_a_start_is_said_in_one_of_three_ways(name: str, text: str, bound: OffsetBound) -> None:
    assert parse(**{name: text}).starting == bound


def test_topics_are_chosen_in_one_of_three_ways() -> None:
    matching = parse_source_options({**SERVERS, "subscribePattern": "orders[.].*"}).topics
    assert isinstance(matching, Matching)
    assert matching.pattern.fullmatch("orders.eu")
    assigned = parse_source_options({**SERVERS, "assign": '{"orders":[1]}'}).topics
    assert assigned == Assigned((("orders", 1),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (SERVERS, "no topics are chosen: give one of the options subscribe, subscribePattern, assign"),
        ({"subscribe": "a"}, "the option kafka.bootstrap.servers is missing"),
        ({**ORDERS, "assign": '{"a":[0]}'}, "subscribe and assign are both given"),
        ({**SERVERS, "subscribe": " , "}, "expected names of topics"),
        ({**SERVERS, "subscribePattern": "["}, "is no regular expression"),
        ({**SERVERS, "subscribePattern": " "}, "subscribePattern is empty"),
        ({**ORDERS, "startingOffset": "earliest"}, "there is no option startingoffset; did you mean startingOffsets"),
        ({**ORDERS, "mystery": "1"}, "there is no option mystery"),
        ({**ORDERS, "startingOffsets": "earliest", "startingTimestamp": "1"}, "are both given: one of them says where"),
        ({**ORDERS, "startingOffsets": "soon"}, "expected startingOffsets as in"),
        ({**ORDERS, "startingTimestamp": "yesterday"}, "startingTimestamp is 'yesterday'; it is a whole number"),
        ({**ORDERS, "startingTimestamp": "-1"}, "startingTimestamp is -1"),
        ({**ORDERS, "startingOffsetsByTimestampStrategy": "latest"}, "needs a starting time"),
        (
            {**ORDERS, "startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "maybe"},
            "it can be error or latest",
        ),
        ({**ORDERS, "minPartitions": "0"}, "minPartitions is 0; it can be 1 or more"),
        ({**ORDERS, "minPartitions": "many"}, "minPartitions is 'many'; it is a whole number"),
        ({**ORDERS, "minPartitions": "9" * 30}, "it is a whole number"),
        ({**ORDERS, "maxRecordsPerPartition": "-5"}, "maxRecordsPerPartition is -5"),
        (
            {**ORDERS, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "9 is greater than maxOffsetsPerTrigger 8",
        ),
        ({**ORDERS, "maxTriggerDelay": "soon"}, "it is a time such as 500ms"),
        ({**ORDERS, "maxTriggerDelay": "3weeks"}, "it is a time such as 500ms"),
        ({**ORDERS, "failOnDataLoss": "perhaps"}, "failOnDataLoss is 'perhaps'; it is true or false"),
        ({**ORDERS, "kafkaConsumer.pollTimeoutMs": "-1"}, "kafkaConsumer.pollTimeoutMs is -1; it can be 0 or more"),
        ({**ORDERS, "groupIdPrefix": "a", "kafka.group.id": "b"}, "a group has one name"),
        ({**ORDERS, "groupIdPrefix": " "}, "groupIdPrefix is empty"),
        ({**ORDERS, "kafka.group.id": ""}, "kafka.group.id is empty"),
        ({**ORDERS, "columns": "value,price"}, "columns names 'price'; a record has key, value"),
        ({**ORDERS, "columns": "value,VALUE"}, "columns names a column twice"),
        ({**ORDERS, "columns": " "}, "columns names none"),
        ({**ORDERS, "columns": "value", "includeHeaders": "true"}, "contradict each other about headers"),
        ({**ORDERS, "kafka.auto.offset.reset": "earliest"}, "use startingOffsets"),
        ({**ORDERS, "kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit is not supported"),
        ({**ORDERS, "kafka.value.deserializer": "x"}, "decode them with column functions"),
        ({**ORDERS, "kafka.interceptor.classes": "x"}, "could change what is read"),
        ({**ORDERS, "kafka.security.protocol": "TLS"}, "security.protocol is 'TLS'; it can be PLAINTEXT or SSL or"),
        ({**ORDERS, "kafka.sasl.mechanism": "PLAIN"}, "sasl.mechanism needs security.protocol SASL_SSL"),
        ({**ORDERS, "kafka.sasl.oauthbearer.token.callback": "f"}, "a function is no text"),
        ({**ORDERS, "kafka.fetch.min.byte": "1"}, "did you mean kafka.fetch.min.bytes"),
        ({**ORDERS, "kafka.fetch.min.bytes": "one"}, "kafka.fetch.min.bytes is 'one'; it is a whole number"),
        ({**ORDERS, "kafka.isolation.level": "dirty"}, "it can be 'read_uncommitted' or 'read_committed'"),
        ({**ORDERS, "kafka.bootstrap.servers": "nowhere:x"}, "is not the address of a node"),
        ({**ORDERS, "path": "/data"}, "the option kafka.bootstrap.servers is for a cluster, and a path is given"),
        ({"path": "/data", "maxOffsetsPerTrigger": "1"}, "maxOffsetsPerTrigger is for a cluster"),
        ({"path": "/data", "kafka.isolation.level": "dirty"}, "it can be read_uncommitted or read_committed"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse_source_options(given)

    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets is latest"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "startingOffsets is -1, latest, for a partition"),
        ({"endingOffsets": "earliest"}, "endingOffsets is earliest"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, "endingOffsets is -2, earliest, for a partition"),
        ({"startingTimestamp": "2", "endingTimestamp": "1"}, "is greater than endingTimestamp"),
    ],
)
def test_a_batch_needs_something_between_its_bounds(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        batch_bounds(parse(**given))


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    text = {"endingOffsets": "latest", "endingTimestamp": "1"}.get(name, '{"orders":{"0":1}}')
    with pytest.raises(OptionError, match="a stream has no end"):
        stream_start(parse(**{name: text}))


def test_a_path_is_no_stream() -> None:
    with pytest.raises(OptionError, match="as a batch only"):
        stream_start(parse_source_options({"path": "/data"}))


def test_what_only_a_stream_heeds_is_said_of_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        batch_bounds(parse(maxOffsetsPerTrigger="5"))

    assert "have no effect on a batch" in caplog.text


def test_a_path_needs_no_cluster_and_no_topic() -> None:
    options = parse_source_options({"path": "/data", "kafka.isolation.level": "read_committed"})

    assert options.path == "/data"
    assert options.topics is None
    assert options.reads_committed


def test_columns_come_in_the_order_asked_for() -> None:
    assert parse(columns=" Offset, VALUE ").columns == ("offset", "value")
    assert parse(columns="headers").columns == ("headers",)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("250", 250), ("250ms", 250), ("2 s", 2000), ("3min", 180_000), ("1h", 3_600_000), ("2D", 172_800_000)],
)
def test_times_are_written_as_spark_writes_them(text: str, milliseconds: int) -> None:
    assert parse(maxTriggerDelay=text).max_trigger_delay_ms == milliseconds


def test_a_strategy_for_times_without_records() -> None:
    options = parse(startingTimestamp="5", startingOffsetsByTimestampStrategy="Latest")

    assert options.on_no_match is OnNoMatch.LATEST

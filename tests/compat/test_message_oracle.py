"""Every message in every version is written as Apache Kafka's own classes write it, byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.compat.message_oracle import MessageOracle
from tests.support.apache_kafka import ApacheKafka, KafkaError
from tests.support.message_values import Json, all_pairs, to_json, values_for
from tidelog.wire.codec import decode, encode
from tidelog.wire.control_records import ControlType, control_key
from tidelog.wire.messages import all_messages

pytestmark = pytest.mark.compat

VALUES_PER_PAIR = 8

# All that Kafka 4.3.1 has, but the one below. A lower number means that something is compared no longer.
PAIRS_COMPARED_MIN = 727

# Two bytes that `tidelog.wire.control_records` writes without a declaration.
BY_HAND = "ControlRecordTypeSchema"


@pytest.fixture(scope="module")
def oracle(kafka: ApacheKafka) -> Iterator[MessageOracle]:
    with MessageOracle(kafka) as started:
        yield started


def test_we_declare_all_messages_and_versions_that_kafka_has(oracle: MessageOracle) -> None:
    ours = {message.__name__: tuple(message.versions) for message in all_messages()}

    assert {**ours, BY_HAND: (0, 0)} == oracle.versions()


def test_the_keys_of_control_records_are_kafkas(oracle: MessageOracle) -> None:
    for kind in ControlType:
        assert control_key(kind) == b"\0\0" + oracle.encode(BY_HAND, 0, {"type": int(kind)})


def test_every_message_and_version_is_written_as_kafka_writes_it(
    oracle: MessageOracle, record_property: Callable[[str, object], None]
) -> None:
    compared = 0
    wrong: list[str] = []
    for message, version in all_pairs():
        for seed in range(VALUES_PER_PAIR):
            value = values_for(message, version, seed)
            ours = encode(value, version)
            try:
                theirs = oracle.encode(message.__name__, version, to_json(value, version))
            except KafkaError as error:
                wrong.append(f"{message.__name__} v{version} seed {seed}: {error}")
                break
            if ours != theirs or decode(message, version, theirs) != value:
                wrong.append(
                    f"{message.__name__} v{version} seed {seed}:\n  ours   {ours.hex()}\n  theirs {theirs.hex()}"
                )
                break
        else:
            compared += 1
    record_property("pairs of message and version compared with Apache Kafka's classes", compared)
    record_property("values for each", VALUES_PER_PAIR)

    assert wrong == []
    assert compared >= PAIRS_COMPARED_MIN


def test_kafka_reads_what_we_write_and_writes_the_same_again(oracle: MessageOracle) -> None:
    wrong: list[str] = []
    for message, version in all_pairs():
        ours = encode(values_for(message, version, VALUES_PER_PAIR), version)
        try:
            if oracle.reencode(message.__name__, version, ours) != ours:
                wrong.append(f"{message.__name__} v{version} comes back different")
        except KafkaError as error:
            wrong.append(f"{message.__name__} v{version}: {error}")

    assert wrong == []


def test_the_oracle_notices_a_difference(oracle: MessageOracle) -> None:
    value: dict[str, Json] = {"groupId": "g", "generationId": 3, "memberId": "m", "groupInstanceId": None}
    bytes_of_three = oracle.encode("HeartbeatRequest", 4, value)

    assert oracle.encode("HeartbeatRequest", 4, {**value, "generationId": 4}) != bytes_of_three
    with pytest.raises(KafkaError, match="1 bytes are left over"):
        oracle.reencode("HeartbeatRequest", 4, bytes_of_three + b"\0")

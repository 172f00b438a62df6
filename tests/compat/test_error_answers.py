"""A request of which nothing is done is answered with its error where Apache Kafka puts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.apache_kafka import ApacheKafka, KafkaError
from tests.support.java_process import JavaProcess
from tests.support.message_values import values_for
from tests.support.recorded_answers import names_of
from tidelog.model.errors import ErrorCode
from tidelog.wire.apis import all_apis
from tidelog.wire.codec import decode, encode
from tidelog.wire.error_answers import error_answer
from tidelog.wire.schema import Struct

pytestmark = pytest.mark.compat

SOURCE = Path(__file__).parent / "ErrorAnswerOracle.java"
VALUES = 4
TEXT = "Not now."


@pytest.fixture(scope="module")
def oracle(kafka: ApacheKafka) -> Iterator[JavaProcess]:
    with JavaProcess(kafka, SOURCE) as running:
        yield running


# What Kafka says otherwise, and why that is left so: nobody who is refused reads it.
OTHER = {
    "JoinGroup": "a protocol's name is null",
    "DescribeUserScramCredentials": "the names of users are left out",
    "ListPartitionReassignments": "what was asked for is repeated, without an error beside it",
    "WriteTxnMarkers": "a partition that is named twice is answered once",
}
# Requests that a client of Kafka cannot send.
IMPOSSIBLE = {"Produce", "DescribeAcls", "CreateAcls", "DeleteAcls", "DescribeUserScramCredentials"}


def essence(value: Any) -> Any:
    """Without the words, of which Kafka has three kinds, without topics of which no partition is named, and in any order."""
    if isinstance(value, list):
        return sorted((essence(each) for each in value if _names_something(each)), key=repr)
    if isinstance(value, Struct):
        return {name: essence(getattr(value, name)) for name in names_of(value) if name != "error_message"}
    return value


def _names_something(value: Any) -> bool:
    partitions = [
        name for name in names_of(value) if name.startswith("partition") and isinstance(getattr(value, name), list)
    ]
    return hasattr(value, "error_code") or all(getattr(value, name) for name in partitions)


def test_every_request_in_every_version_is_answered_as_by_kafka(oracle: JavaProcess) -> None:
    different: dict[str, str] = {}
    refused: set[str] = set()
    for api in all_apis():
        for version in range(api.versions.lowest, api.versions.highest + 1):
            for seed in range(VALUES):
                body = encode(values_for(api.request, version, seed), version)
                try:
                    told = oracle.ask({"key": int(api.key), "version": version, "body": body.hex(), "text": TEXT})
                except KafkaError:
                    refused.add(api.name)
                    continue
                request = decode(api.request, version, body)
                answer = error_answer(request, version, ErrorCode.ILLEGAL_SASL_STATE, TEXT)
                ours = None if answer is None else essence(decode(api.response, version, encode(answer, version)))
                kafkas = None if told is None else essence(decode(api.response, version, bytes.fromhex(told)))
                if ours != kafkas:
                    different[api.name] = f"v{version}: {ours}, Kafka says {kafkas}"

    assert set(different) == set(OTHER), {name: text for name, text in different.items() if name not in OTHER}
    assert refused <= IMPOSSIBLE

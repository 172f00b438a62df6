"""Every message is written and read as two codecs do that others wrote, in every version that they know."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.kafka_python_oracle import (
    kafka_python_class,
    kafka_python_decode,
    kafka_python_encode,
    kafka_python_versions,
)
from tests.support.kio_oracle import kio_class, kio_decode, kio_encode, kio_versions
from tests.support.message_values import all_pairs, values_for
from tidelog.wire.codec import decode, encode
from tidelog.wire.messages import all_messages
from tidelog.wire.schema import Message

VALUES_PER_PAIR = 3

# What was compared when this was written. What neither knows, records of the internal logs, is compared with Apache
# Kafka's own classes by `make compat`.
KIO_PAIRS_MIN = 624
KAFKA_PYTHON_PAIRS_MIN = 486
EITHER_PAIRS_MIN = 624

KIO_MESSAGES = [message for message in all_messages() if kio_versions(message)]
KAFKA_PYTHON_MESSAGES = [message for message in all_messages() if kafka_python_versions(message)]


def name(message: type[Message]) -> str:
    return message.__name__


@pytest.mark.parametrize("message", KIO_MESSAGES, ids=name)
def test_kio_writes_and_reads_the_same_bytes(message: type[Message]) -> None:
    for version in kio_versions(message):
        theirs = kio_class(message, version)
        for seed in range(VALUES_PER_PAIR):
            value = values_for(message, version, seed, plain=True)

            data = encode(value, version)

            assert data == kio_encode(value, version, theirs), (version, seed)
            assert decode(message, version, data) == value, (version, seed)
            assert kio_decode(message, version, theirs, data) == value, (version, seed)


@pytest.mark.parametrize("message", KAFKA_PYTHON_MESSAGES, ids=name)
def test_kafka_python_writes_and_reads_the_same_bytes(message: type[Message]) -> None:
    theirs = kafka_python_class(message)
    for version in kafka_python_versions(message):
        for seed in range(VALUES_PER_PAIR):
            value = values_for(message, version, seed)

            data = encode(value, version)

            assert data == kafka_python_encode(value, version, theirs), (version, seed)
            assert decode(message, version, data) == value, (version, seed)
            assert kafka_python_decode(message, version, theirs, data) == value, (version, seed)


def test_no_fewer_pairs_are_compared_than_before(record_property: Callable[[str, object], None]) -> None:
    kio = {(message, version) for message in all_messages() for version in kio_versions(message)}
    kafka_python = {(message, version) for message in all_messages() for version in kafka_python_versions(message)}
    either = kio | kafka_python

    record_property(
        "summary",
        f"{len(either)} of {len(all_pairs())} pairs of message and version compared byte for byte: {len(kio)} with kio, "
        f"{len(kafka_python)} with kafka-python; `make compat` compares all with Apache Kafka's own classes",
    )

    assert len(kio) >= KIO_PAIRS_MIN
    assert len(kafka_python) >= KAFKA_PYTHON_PAIRS_MIN
    assert len(either) >= EITHER_PAIRS_MIN

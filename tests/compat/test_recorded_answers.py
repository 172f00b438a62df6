"""The recorded conversations held with Apache Kafka: the same error codes, or the same end of the connection, to every request.

Fields that are ids, addresses and times differ, and so does the order of partitions in some answers; `test_data_plane` and the
oracles compare the rest. Other stories are ours alone: they register brokers that do not exist, or depend on how soon a
transaction's markers are written, which the transaction oracle leaves out.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.answer_scenarios import groups
from tests.support.answer_scenarios.recorder import Recorder
from tests.support.apache_kafka import ApacheKafka, Node
from tests.support.recorded_answers import RECORDED, SETTINGS, Step, Talk, frames_of, names_of, read
from tests.support.running_node import DEADLINE_S
from tidelog.model.errors import ErrorCode
from tidelog.wire.frames import read_response
from tidelog.wire.messages.metadata import MetadataResponse

pytestmark = pytest.mark.compat

# Until a broker in another process has taken in what it was sent: nobody outside can see that a request waits.
SETTLED_S = 0.05
CLOSED = "closed"
STORY = "groups"


class KafkaTalk(Talk):
    """Connections to a node of Apache Kafka."""

    def __init__(self, node: Node) -> None:
        self._kafka = node
        self._sockets: dict[str, socket.socket] = {}

    def send(self, name: str, data: bytes) -> None:
        if name not in self._sockets:
            self._sockets[name] = socket.create_connection(("127.0.0.1", self._kafka.port), DEADLINE_S)
        super().send(name, data)

    def settle(self) -> None:
        time.sleep(SETTLED_S)


class KafkaRecorder(Recorder):
    """Tells a story to a node that runs already."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._talk = KafkaTalk(node)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._talk.close()

    def metadata(self, label: str, *names: str) -> MetadataResponse:
        """The broker learns of a topic some time after the controller has made it."""
        noted = len(self.steps)
        found = super().metadata(label, *names)
        while any(topic.error_code for topic in found.topics):
            del self.steps[noted:]
            found = super().metadata(label, *names)
        return found


def codes_of(value: Any) -> Iterator[str]:
    """All error codes within an answer."""
    if isinstance(value, list):
        for each in value:
            yield from codes_of(each)
    for name in names_of(value):
        inner = getattr(value, name)
        if name.endswith("error_code"):
            yield ErrorCode.of(inner).name
        else:
            yield from codes_of(inner)


def outcomes(steps: Sequence[Step]) -> list[tuple[str, list[str]]]:
    """The label and the error codes of each answer; their order is left out."""
    asked: dict[tuple[str, int], tuple[int, int]] = {}
    found = []
    for step in steps:
        if step.kind in {">", "?"}:
            for frame in frames_of(step.data):
                if len(frame) >= 8:
                    key, version, correlation_id = struct.unpack_from(">hhi", frame)
                    asked[step.name, correlation_id] = key, version
        elif step.kind == "x":
            found.append((step.label, [CLOSED]))
        elif step.kind == "<":
            key, version = asked[step.name, int.from_bytes(step.data[:4], "big")]
            found.append((step.label, sorted(codes_of(read_response(step.data, key, version)[1]))))
    return found


def test_apache_kafka_answers_groups_with_the_same_codes(kafka: ApacheKafka, tmp_path: Path) -> None:
    settings = {key: value for key, value in SETTINGS.items() if "listeners" not in key}
    with Node(kafka, tmp_path / "kafka", {**settings, **groups.SETTINGS}) as node, KafkaRecorder(node) as talk:
        groups.tell(talk)

    ours, theirs = outcomes(read(RECORDED / f"{STORY}.txt.xz").steps), outcomes(talk.steps)
    different = [
        f"{label}: {mine} here, {other} there"
        for (label, mine), (_, other) in zip(ours, theirs, strict=True)
        if mine != other
    ]
    assert different == []

"""Asks `MessageOracle.java`, and so Apache Kafka's own message classes, for the bytes of a message."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.apache_kafka import REPOSITORY, ApacheKafka
from tests.support.java_process import JavaProcess
from tests.support.message_values import Json

SOURCE = REPOSITORY / "tests" / "compat" / "MessageOracle.java"


class MessageOracle(JavaProcess):
    """One JVM that knows every message of the installation."""

    def __init__(self, kafka: ApacheKafka) -> None:
        super().__init__(kafka, SOURCE, str(kafka.home / "lib"))

    def versions(self) -> dict[str, tuple[int, int]]:
        """The lowest and highest version of every message."""
        return {each["message"]: (each["lowest"], each["highest"]) for each in self.ask({"do": "list"})}

    def encode(self, message: str, version: int, value: Mapping[str, Json]) -> bytes:
        """The bytes that Kafka writes for a value in its JSON form."""
        answer: str = self.ask({"do": "encode", "message": message, "version": version, "value": value})
        return bytes.fromhex(answer)

    def reencode(self, message: str, version: int, data: bytes) -> bytes:
        """What Kafka writes for what it has read from these bytes, all of them."""
        answer: str = self.ask({"do": "reencode", "message": message, "version": version, "bytes": data.hex()})
        return bytes.fromhex(answer)

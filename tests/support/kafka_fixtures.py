"""The directories of tests/fixtures/kafka: unpacked, with what Apache Kafka says is in them."""

from __future__ import annotations

import json
import lzma
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.apache_kafka import REPOSITORY
from tests.support.kafka_driver import Received

FIXTURES = REPOSITORY / "tests" / "fixtures" / "kafka"
NAMES = ("clean", "killed")


@dataclass(frozen=True)
class KafkaFixture:
    """One data directory that Apache Kafka wrote. `data` is shared between tests: what changes it works on a `copy`."""

    name: str
    data: Path
    expected: dict[str, Any]

    @classmethod
    def unpack(cls, name: str, into: Path) -> KafkaFixture:
        with tarfile.open(FIXTURES / f"{name}.tar.xz") as archive:
            archive.extractall(into, filter="data")
        with lzma.open(FIXTURES / f"{name}.json.xz", "rt") as file:
            return cls(name, into / name, json.load(file))

    @property
    def partitions(self) -> list[str]:
        """The partitions of the topics that people wrote to, by the names of their directories."""
        return sorted(self.expected["partitions"])

    def records(self, partition: str) -> list[Received]:
        """What Kafka's consumer read of a partition, from its first offset to its end, markers left out."""
        return [Received.from_json(row) for row in self.expected["partitions"][partition]["records"]]

    def files(self, suffix: str) -> list[str]:
        """The files with this suffix in directories of partitions that were not deleted, relative to the data directory."""
        found = (path.relative_to(self.data) for path in self.data.glob(f"*/*{suffix}"))
        return sorted(str(path) for path in found if not path.parent.name.endswith("-delete"))

    def copy(self, into: Path, *, with_metadata: bool = False) -> Path:
        """A copy of the data directory to work on; its metadata log, with indexes of 10 MB, only if asked for."""
        ignored = shutil.ignore_patterns() if with_metadata else shutil.ignore_patterns("__cluster_metadata-0")
        return Path(shutil.copytree(self.data, into / self.name, ignore=ignored))

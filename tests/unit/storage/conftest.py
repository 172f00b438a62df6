"""Fixtures for the parts of storage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.log_builder import LogBuilder
from tests.unit.storage.disks import Place, simulated_place
from tidelog.storage.os_files import OsFiles
from tidelog.storage.partition_log import PartitionLog


@pytest.fixture(params=["real", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(OsFiles(), str(tmp_path)) if request.param == "real" else simulated_place()


@pytest.fixture
def logs() -> LogBuilder:
    return LogBuilder()


@pytest.fixture
def log(logs: LogBuilder) -> PartitionLog:
    return logs.open()

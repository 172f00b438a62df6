"""A data directory for each test, on a disk in memory."""

from __future__ import annotations

import pytest

from tests.support.data_directory import DataDirectory
from tidelog.simulation.disk import SimulatedDisk


@pytest.fixture
def stopped() -> DataDirectory:
    """Stopped cleanly."""
    directory = DataDirectory(SimulatedDisk())
    directory.write()
    return directory


@pytest.fixture
def killed() -> DataDirectory:
    directory = DataDirectory(SimulatedDisk())
    directory.write(clean=False)
    return directory

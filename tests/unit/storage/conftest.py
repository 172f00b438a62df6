"""Fixtures for the parts of storage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.storage.disks import Place, simulated_place
from tidelog.storage.files import OsFiles


@pytest.fixture(params=["real", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(OsFiles(), str(tmp_path)) if request.param == "real" else simulated_place()

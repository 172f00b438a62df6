"""Runs a test of logs over the plain and over the compiled twin of their kernels, whichever this process has chosen."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import ModuleType
from unittest import mock

import pytest

import tidelog.storage
from tests.support import log_builder
from tests.support.kernel_twins import TWINS, modules_on
from tidelog.kernel_choice import Twin
from tidelog.storage import files

KERNELS = ("file_kernel", "log_kernel")

# The modules that have subclasses of the kernels' classes, or make objects of those.
_ON_THE_KERNELS = (
    "files",
    "segment",
    "segment_list",
    "log_reader",
    "durability",
    "producer_state",
    "producer_replay",
    "log_state",
    "durable_log",
    "rolling_log",
    "appendable_log",
    "truncatable_log",
    "partition_log",
    "recovery",
)


@cache
def storage_modules(twin: Twin) -> dict[str, ModuleType]:
    """The modules of `tidelog.storage` that build on the kernels, by their short names, once more: on this twin."""
    return modules_on(twin, tidelog.storage, KERNELS, _ON_THE_KERNELS)


@pytest.fixture(params=TWINS)
def log_twin(request: pytest.FixtureRequest) -> Iterator[Twin]:
    """Import this fixture into a module whose tests hold for both twins: logs of `LogBuilder` and real files are of this one."""
    twin: Twin = request.param
    modules = storage_modules(twin)
    with (
        mock.patch.object(log_builder, "open_log", modules["recovery"].open_log),
        mock.patch.object(files, "OsFile", modules["files"].OsFile),
    ):
        yield twin

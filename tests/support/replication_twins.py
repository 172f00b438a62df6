"""Runs a test of replicas over the plain and over the compiled twin of their kernel, whichever this process has chosen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from unittest import mock

import pytest

import tidelog.replication
from tests.support import data_node
from tests.support.kernel_twins import TWINS, modules_on, twin_of
from tidelog.kernel_choice import Twin

PACKAGE = "tidelog.replication.kernels"
KERNEL = "partition_kernel"

# The modules that have classes of the kernel, or subclasses of them, or ask for one of them.
_ON_THE_KERNEL = ("waiting", "follower_progress", "roles", "throttles", "partition", "partitions")


def replication_kernel(twin: Twin) -> ModuleType:
    """One twin of the kernel itself."""
    return twin_of(KERNEL, twin, PACKAGE)


@cache
def replication_modules(twin: Twin) -> dict[str, ModuleType]:
    """The modules of `tidelog.replication` that a `DataNode` takes its replicas from, once more: on this twin."""
    return modules_on(twin, tidelog.replication, (KERNEL,), _ON_THE_KERNEL)


@contextmanager
def replicas_of(twin: Twin) -> Iterator[None]:
    """A `DataNode` that is made within has replicas of this twin. What the broker knows of roles is not theirs."""
    with mock.patch.object(data_node, "Partitions", replication_modules(twin)["partitions"].Partitions):
        yield


@pytest.fixture(params=TWINS)
def replication_twin(request: pytest.FixtureRequest) -> Iterator[Twin]:
    """Import this fixture into a module whose tests hold for both twins."""
    twin: Twin = request.param
    with replicas_of(twin):
        yield twin

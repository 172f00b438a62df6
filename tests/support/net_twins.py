"""Runs a test of connections over the plain and over the compiled twin of their kernel, whichever this process has chosen."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import ModuleType
from unittest import mock

import pytest

import tidelog.net
from tests.support.kernel_twins import TWINS, modules_on, twin_of
from tidelog.kernel_choice import Twin
from tidelog.net import node_connection, socket_server

PACKAGE = "tidelog.net.kernels"
KERNEL = "stream_kernel"

# The modules that have classes of the kernel, or subclasses of them.
_ON_THE_KERNEL = ("frames", "turn", "backlog", "output_queue", "channel", "stream", "connection", "node_connection")


def net_kernel(twin: Twin) -> ModuleType:
    """One twin of the kernel itself."""
    return twin_of(KERNEL, twin, PACKAGE)


@cache
def net_modules(twin: Twin) -> dict[str, ModuleType]:
    """The modules of `tidelog.net` that build on the kernel, by their short names, once more: on this twin."""
    return modules_on(twin, tidelog.net, (KERNEL,), _ON_THE_KERNEL)


@pytest.fixture(params=TWINS)
def net_twin(request: pytest.FixtureRequest) -> Iterator[Twin]:
    """Import this fixture into a module whose tests hold for both twins: servers and connections to nodes are of this one."""
    twin: Twin = request.param
    modules = net_modules(twin)
    with (
        mock.patch.object(socket_server, "Connection", modules["connection"].Connection),
        mock.patch.object(socket_server, "Turn", modules["turn"].Turn),
        mock.patch.object(socket_server, "Backlog", modules["backlog"].Backlog),
        mock.patch.object(node_connection, "_NodeStream", modules["node_connection"]._NodeStream),
        mock.patch.object(node_connection, "PendingRequest", modules["node_connection"].PendingRequest),
        mock.patch.object(node_connection, "Turn", modules["turn"].Turn),
    ):
        yield twin

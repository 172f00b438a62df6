"""Runs a test of connections over the plain and over the compiled twin of their kernel, whichever this process has chosen."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from types import ModuleType
from unittest import mock

import pytest

import tidelog.net
from tests.support.kernel_twins import TWINS, twin_of
from tidelog import kernel_choice
from tidelog.kernel_choice import Twin
from tidelog.net import node_connection, socket_server

PACKAGE = "tidelog.net.kernels"
KERNEL = "stream_kernel"

# The modules that have classes of the kernel, or subclasses of them.
_ON_THE_KERNEL = ("frames", "turn", "output_queue", "channel", "stream", "connection", "node_connection")


def net_kernel(twin: Twin) -> ModuleType:
    """One twin of the kernel itself."""
    return twin_of(KERNEL, twin, PACKAGE)


@cache
def net_modules(twin: Twin) -> dict[str, ModuleType]:
    """The modules of `tidelog.net` that build on the kernel, by their short names, once more: on this twin."""
    net_kernel(twin)
    names = {short: f"tidelog.net.{short}" for short in _ON_THE_KERNEL}
    with ExitStack() as restored:
        restored.enter_context(mock.patch.dict(os.environ, {"TIDELOG_KERNELS": twin}))
        restored.enter_context(mock.patch.dict(kernel_choice.loaded))
        restored.enter_context(mock.patch.dict(sys.modules))
        for short, name in names.items():
            restored.enter_context(mock.patch.object(tidelog.net, short, importlib.import_module(name)))
        for name in names.values():
            del sys.modules[name]
        return {short: importlib.import_module(name) for short, name in names.items()}


@pytest.fixture(params=TWINS)
def net_twin(request: pytest.FixtureRequest) -> Iterator[Twin]:
    """Import this fixture into a module whose tests hold for both twins: servers and connections to nodes are of this one."""
    twin: Twin = request.param
    modules = net_modules(twin)
    with (
        mock.patch.object(socket_server, "Connection", modules["connection"].Connection),
        mock.patch.object(socket_server, "Turn", modules["turn"].Turn),
        mock.patch.object(node_connection, "_NodeStream", modules["node_connection"]._NodeStream),
        mock.patch.object(node_connection, "PendingRequest", modules["node_connection"].PendingRequest),
        mock.patch.object(node_connection, "Turn", modules["turn"].Turn),
    ):
        yield twin

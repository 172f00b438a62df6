"""Runs a test of the short ways over the plain and over the compiled twin of their kernels, whichever this process has chosen."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import ExitStack
from functools import cache
from types import ModuleType
from typing import cast
from unittest import mock

import tidelog.broker
from tests.support.kernel_twins import twin_of
from tidelog import kernel_choice
from tidelog.broker.dispatch import Dispatcher
from tidelog.broker.fetch_lane import FetchLane
from tidelog.kernel_choice import Twin

PACKAGE = "tidelog.broker.kernels"
KERNELS = ("produce_lane_kernel", "fetch_lane_kernel", "dispatch_kernel")

# The modules that have classes of a kernel, or use its functions, each after those that it imports.
_ON_KERNELS = ("produce_lane", "fetch_lane", "replica_lane", "group_lane", "transaction_lane", "dispatch")


@cache
def _lane_modules(twin: Twin) -> dict[str, ModuleType]:
    """Those modules once more, by their short names: on this twin."""
    for kernel in KERNELS:
        twin_of(kernel, twin, PACKAGE)
    names = {short: f"tidelog.broker.{short}" for short in _ON_KERNELS}
    with ExitStack() as restored:
        restored.enter_context(mock.patch.dict(os.environ, {"TIDELOG_KERNELS": twin}))
        restored.enter_context(mock.patch.dict(kernel_choice.loaded))
        restored.enter_context(mock.patch.dict(sys.modules))
        for short, name in names.items():
            restored.enter_context(mock.patch.object(tidelog.broker, short, importlib.import_module(name)))
        for name in names.values():
            del sys.modules[name]
        return {short: importlib.import_module(name) for short, name in names.items()}


def dispatcher_of(twin: Twin) -> type[Dispatcher]:
    """The dispatcher whose lanes, and the kernels that these read requests with, are of this twin."""
    return cast("type[Dispatcher]", _lane_modules(twin)["dispatch"].Dispatcher)


def fetch_lane_of(twin: Twin) -> type[FetchLane]:
    return cast("type[FetchLane]", _lane_modules(twin)["fetch_lane"].FetchLane)

"""Runs a test of the short ways over the plain and over the compiled twin of their kernels, whichever this process has chosen."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import cast

import tidelog.broker
from tests.support.kernel_twins import modules_on
from tidelog.broker.requests.dispatch import Dispatcher
from tidelog.kernel_choice import Twin

KERNELS = ("data.produce_lane_kernel", "data.fetch_lane_kernel", "data.dispatch_kernel")

# The modules that have classes of a kernel, or use its functions, each after those that it imports.
_ON_KERNELS = (
    "data.produce_lane",
    "data.fetch_lane",
    "data.replica_lane",
    "groups.group_lane",
    "transactions.transaction_lane",
    "requests.dispatch",
)


@cache
def _lane_modules(twin: Twin) -> dict[str, ModuleType]:
    """Those modules once more, by their short names: on this twin."""
    return modules_on(twin, tidelog.broker, KERNELS, _ON_KERNELS)


def dispatcher_of(twin: Twin) -> type[Dispatcher]:
    """The dispatcher whose lanes, and the kernels that these read requests with, are of this twin."""
    return cast("type[Dispatcher]", _lane_modules(twin)["requests.dispatch"].Dispatcher)

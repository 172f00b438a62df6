"""Gathers what is answered in one turn of the event loop, so that each connection writes once.

A read may hold many requests, and one request may complete the waiting answers of many connections. While a turn is open,
connections with something to send are noted; when it ends, each sends everything at once. Outside of a turn they send at
once. An owner of other events (a timer, a commit) opens a turn around what it completes:

    with turn:
        for slot in waiting:
            slot.send(...)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel_choice import load

if TYPE_CHECKING:
    from tidelog.net.kernels.stream_kernel import Turn
else:
    Turn = load("tidelog.net.kernels", "stream_kernel").Turn

__all__ = ["Turn"]

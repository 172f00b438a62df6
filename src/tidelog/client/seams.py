"""What a client has of the outside: a loop, the network, the clock and chance. The simulator brings others of each."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import Self

from tidelog.model.clock import Clock, SystemClock
from tidelog.model.slow_work import SlowWork
from tidelog.net.transport import LoopTransport, Transport


@dataclass(frozen=True, slots=True)
class ClientSeams:
    """Passed to a client's internal constructor; whoever uses a client never sees it."""

    loop: asyncio.AbstractEventLoop
    transport: Transport
    clock: Clock
    random: Random
    slow_work: SlowWork | None = None
    """Where logins compute and wait; None: each on a thread of its own."""

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> Self:
        """The machine's own, on a real loop."""
        return cls(loop, LoopTransport(loop), SystemClock(), SystemRandom())

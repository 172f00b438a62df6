"""What a driver that may be killed is told, and what is known of it afterwards."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class KillPoint(NamedTuple):
    """Where a driver dies: right behind a step."""

    query: str
    batch_id: int
    step: str

    def __str__(self) -> str:
        return f"{self.step} of batch {self.batch_id} of {self.query}"


class DriverJob(NamedTuple):
    """Pickled: pipelines hold functions."""

    gateway_port: int
    gateway_secret: str
    path: list[str]
    """Where Python looks for modules."""
    file: str
    pipelines: bytes
    """By cloudpickle."""
    kill: KillPoint | None
    timeout_s: float


class StepDone(msgspec.Struct, frozen=True):
    query: str
    batch_id: int
    step: str
    rows: int = 0

    @property
    def point(self) -> KillPoint:
        return KillPoint(self.query, self.batch_id, self.step)


class DriverOutcome(msgspec.Struct, frozen=True):
    is_killed: bool
    steps: tuple[StepDone, ...] = ()
    error: str | None = None

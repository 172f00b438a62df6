"""Who waits for a partition, and how they are told: by the event itself, once, never by looking again and again.

Two kinds wait. A write with acks=all, or a deletion of records, waits for an offset (`OffsetWaiters`). A fetch that found too
little waits for anything that might change its answer (`Watcher`): an append, a moved high watermark, a lost leadership.

A request may append to many partitions. Who watches several of them should see all of its records at once, so watchers are told
when the request is through: `hold`, the appends, `release`. Without a hold they are told at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tidelog.kernel_choice import load

if TYPE_CHECKING:
    from tidelog.replication.kernels.partition_kernel import OffsetWaiters, Wakeups
    from tidelog.replication.partition import Partition
else:
    _kernel = load("tidelog.replication.kernels", "partition_kernel")
    OffsetWaiters, Wakeups = _kernel.OffsetWaiters, _kernel.Wakeups

__all__ = ["OffsetWaiters", "Wakeups", "Watcher"]


class Watcher(Protocol):
    """Something that wants to know when a partition has changed. It is told again until it is taken off."""

    @property
    def is_waiting(self) -> bool:
        """Whether a request waits for the change. What is appended then is kept for its read."""
        ...

    def partition_changed(self, partition: Partition) -> None:
        """More may be readable, or nothing any more. It may take itself off, or others, from within."""
        ...

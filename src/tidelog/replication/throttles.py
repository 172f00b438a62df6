"""How fast replicas that are throttled may catch up (KIP-73): for what a broker sends as a leader, and asks for as a follower.

A replica in sync is never held back: it would fall out of sync by that. What it takes counts all the same.

A rate is an average over some windows, so a throttle lets through what there is until the average is above the limit, and then
nothing until it is below again. Nobody sleeps: a leader answers with nothing, which the follower waits for as for any other news;
a follower leaves the partition out of its fetches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

from tidelog.model import throttle_config as keys
from tidelog.model.clock import Clock
from tidelog.model.config import LONG_MAX, ConfigValues
from tidelog.model.ids import NodeId
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Leading

# Even where nothing at all may pass, somebody looks again: the limit may have changed.
DELAY_MS_MAX = 1000


class _Sample(msgspec.Struct):
    begun_ms: int
    last_ms: int
    count: int = 0


class Throttle:
    """A limit on bytes a second, which is asked for each time: it changes at run time."""

    def __init__(self, clock: Clock, bytes_per_second: Callable[[], int], *, windows: int, window_seconds: int) -> None:
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._windows = windows
        self._window_ms = window_seconds * 1000
        self._samples: deque[_Sample] = deque()
        self._total = 0

    @property
    def is_limited(self) -> bool:
        return self._bytes_per_second() != LONG_MAX

    def record(self, count: int) -> None:
        """So many bytes have passed."""
        now_ms = self._clock.monotonic_ms()
        samples = self._samples
        if not samples or now_ms - samples[-1].begun_ms >= self._window_ms:
            samples.append(_Sample(now_ms, now_ms))
        samples[-1].last_ms = now_ms
        samples[-1].count += count
        self._total += count
        self._forget(now_ms)

    @property
    def is_exceeded(self) -> bool:
        """Whether nothing may pass now."""
        return self.is_limited and self.delay_ms > 0

    @property
    def delay_ms(self) -> int:
        """How long it takes until the average is at the limit, if nothing passes meanwhile; at most a second, then ask again."""
        now_ms = self._clock.monotonic_ms()
        self._forget(now_ms)
        if not self._samples:
            return 0
        # The first window counts as a whole one: a little at once is no high rate.
        elapsed_ms = now_ms - self._samples[0].begun_ms
        limit = self._bytes_per_second()
        if self._total * 1000 <= limit * max(elapsed_ms, self._window_ms):
            return 0
        if limit == 0:
            return DELAY_MS_MAX
        return max(1, min(self._total * 1000 // limit - elapsed_ms, DELAY_MS_MAX))

    def _forget(self, now_ms: int) -> None:
        samples = self._samples
        while samples and now_ms - samples[0].last_ms >= self._windows * self._window_ms:
            self._total -= samples.popleft().count


def _without_limits() -> ConfigValues:
    return keys.THROTTLE_KEYS.parse({})


class ReplicationThrottles:
    """The two throttles of a broker. `config` gives its configuration as it is at the moment of the call."""

    def __init__(self, node_id: NodeId, clock: Clock, config: Callable[[], ConfigValues] = _without_limits) -> None:
        self._node_id = node_id
        windows = config()[keys.REPLICATION_QUOTA_WINDOW_NUM]
        window_seconds = config()[keys.REPLICATION_QUOTA_WINDOW_SIZE_SECONDS]
        self.leader = Throttle(
            clock,
            lambda: config()[keys.LEADER_REPLICATION_THROTTLED_RATE],
            windows=windows,
            window_seconds=window_seconds,
        )
        self.follower = Throttle(
            clock,
            lambda: config()[keys.FOLLOWER_REPLICATION_THROTTLED_RATE],
            windows=windows,
            window_seconds=window_seconds,
        )

    # As a leader.

    def holds_back(self, partition: Partition, follower: NodeId) -> bool:
        """Whether a follower gets nothing of a partition that this broker leads, for now."""
        role = partition.role
        return (
            isinstance(role, Leading)
            and follower not in role.isr
            and self._is_throttled_leader(partition)
            and self.leader.is_exceeded
        )

    def sent(self, partition: Partition, count: int) -> None:
        """So many bytes of a partition were read for a follower, and are on their way."""
        throttled = partition.config.leader_throttled_replicas
        if (throttled.replicas or throttled.is_all) and self._is_throttled_leader(partition):
            self.leader.record(count)

    def _is_throttled_leader(self, partition: Partition) -> bool:
        return (partition.topic_partition.partition, self._node_id) in partition.config.leader_throttled_replicas

    # As a follower.

    def leaves_out(self, partition: Partition) -> bool:
        """Whether a partition that this broker follows, and is not in sync with, is not asked for, for now."""
        return self.follower.is_limited and self._is_throttled_follower(partition) and self.follower.is_exceeded

    def received(self, partition: Partition, count: int) -> None:
        """So many bytes of a partition have come from its leader."""
        throttled = partition.config.follower_throttled_replicas
        if count and (throttled.replicas or throttled.is_all) and self._is_throttled_follower(partition):
            self.follower.record(count)

    def _is_throttled_follower(self, partition: Partition) -> bool:
        return (partition.topic_partition.partition, self._node_id) in partition.config.follower_throttled_replicas

# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""What every write and every read asks of its partition, and how those who wait for it are told.

This is one source for two twins: it runs as plain Python, and `setup.py` compiles it to `_partition_kernel`. Nothing in it speaks
of Cython. `_partition_kernel.pxd` beside it says which attributes are C's and which methods are called as C functions; the
compiler ignores the annotations here.

    OffsetWaiters   those who wait for an offset                   `replication.waiting` has its contract
    Wakeups         tells the watchers of what has changed         the same
    FollowerProgress, FetchClock    how far a follower is          `replication.follower_progress`
    Leading         the role of a replica that takes the writes    `replication.roles`, where the other roles are
    PartitionCore   one replica, as far as it is written and read  `replication.partition`, where the rest of it is
    PartitionsCore  looking replicas up                            `replication.partitions`, where the rest of it is

The `...Core` classes have a subclass in Python for the rest. Of what they call on themselves, `_advance` and `_tell_watchers` are
C functions in the compiled twin, which no subclass can override; all else is looked up as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import TYPE_CHECKING, cast

from tidelog.model.bugs import BugError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER_EPOCH, NO_OFFSET
from tidelog.model.pending import Pending
from tidelog.storage.append import AppendRefused, AppendRule
from tidelog.storage.errors import StorageError
from tidelog.storage.fetched import Fetched, FetchIsolation

if TYPE_CHECKING:
    from tidelog.model.clock import Clock
    from tidelog.model.ids import NodeId, Offset, TopicId, TopicName, TopicPartition
    from tidelog.replication.partition import Diverged, Partition
    from tidelog.replication.roles import Following, Offline, Role
    from tidelog.replication.topic_config import TopicConfig
    from tidelog.replication.waiting import Watcher
    from tidelog.storage.append import AppendOutcome
    from tidelog.storage.checked_batches import CheckedBatch
    from tidelog.storage.partition_log import PartitionLog

# A member that is reached through its class costs more, and this one is every write's.
_NONE = ErrorCode.NONE
_NOT_ENOUGH_REPLICAS_AFTER_APPEND = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
_LOG_END = FetchIsolation.LOG_END
_FOLLOWER = AppendRule.FOLLOWER

# What `acks` is of a write that waits for all in-sync replicas, and an epoch that is none in particular.
_ALL_IN_SYNC = -1
_NO_LEADER_EPOCH = NO_LEADER_EPOCH

_NOTHING: dict[int, Partition] = {}


class OffsetWaiters:
    """Those who wait for one offset of a partition to get somewhere. Each gets NONE then, or the error that came between."""

    __slots__ = ("_number", "heap")

    def __init__(self) -> None:
        # Empty where nobody waits. The number keeps those of one offset in their order, and pending answers from being compared.
        self.heap: list[tuple[int, int, Pending[ErrorCode]]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self.heap)

    def wait_for(self, offset: int) -> Pending[ErrorCode]:
        """Completes when `offset` is reached."""
        outcome: Pending[ErrorCode] = Pending()
        self._number += 1
        heappush(self.heap, (offset, self._number, outcome))
        return outcome

    def reached(self, offset: int, error: ErrorCode = _NONE) -> None:
        """All up to `offset` have what they waited for; `error` is what they are told instead of NONE."""
        heap = self.heap
        try:
            while heap and heap[0][0] <= offset:
                heappop(heap)[2].complete(error)
        except Exception as bug:
            raise BugError("telling those who wait for an offset broke off") from bug

    def fail(self, error: ErrorCode) -> None:
        """What they wait for will not come."""
        heap = self.heap
        self.heap = []
        # No two have the same number, so that nothing behind it is compared.
        for _, _, outcome in sorted(heap):
            outcome.complete(error)


class Wakeups:
    """Tells the watchers of partitions that have changed. One for all partitions of a node."""

    __slots__ = ("_changed", "_holds", "on_caught_up")

    def __init__(self) -> None:
        self._holds = 0
        # Told of a follower that is not in sync and has all that is committed, with every fetch of it.
        self.on_caught_up: Callable[[Partition, NodeId], None] | None = None
        # A dict for its order: watchers are told in the order of the changes.
        self._changed: dict[PartitionCore, None] = {}

    def changed(self, partition: PartitionCore) -> None:
        """`partition`, which has watchers, is not what it was."""
        if self._holds:
            self._changed[partition] = None
        else:
            partition._tell_watchers()  # noqa: SLF001 - a class of this module

    def untold(self) -> list[PartitionCore]:
        """Partitions that have changed and whose watchers are still to be told."""
        return list(self._changed)

    def hold(self) -> None:
        """Tell nobody until `release`, which must follow. Holds nest."""
        self._holds += 1

    def release(self) -> None:
        """Tell those who were to be told meanwhile."""
        self._holds -= 1
        # Who is told may cause a change itself, which then comes after.
        while self._changed and not self._holds:
            partition = next(iter(self._changed))
            del self._changed[partition]
            partition._tell_watchers()  # noqa: SLF001


class FetchClock:
    """When a follower's session fetched last, for all of the partitions that rest in it."""

    __slots__ = ("last_fetch_ms",)

    def __init__(self, last_fetch_ms: int) -> None:
        self.last_fetch_ms = last_fetch_ms


class FollowerProgress:
    """One follower. Begins as unknown: nothing is taken for replicated before its first fetch in this leader epoch."""

    __slots__ = (
        "_caught_up_ms",
        "_clock",
        "_last_fetch_ms",
        "_leader_end_at_last_fetch",
        "broker_epoch",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, last_caught_up_ms: int = 0) -> None:
        self.log_end_offset: int = NO_OFFSET
        self.log_start_offset: int = NO_OFFSET
        # Of the broker that fetched last: one that has registered again since is not the replica it was.
        self.broker_epoch = -1
        self._caught_up_ms = last_caught_up_ms
        self._last_fetch_ms = 0
        self._leader_end_at_last_fetch = 0
        # While it rests.
        self._clock: FetchClock | None = None

    @property
    def last_caught_up_ms(self) -> int:
        clock = self._clock
        return self._caught_up_ms if clock is None else max(self._caught_up_ms, clock.last_fetch_ms)

    def fetched(
        self, offset: int, log_start_offset: int, leader_log_end_offset: int, broker_epoch: int, now_ms: int
    ) -> None:
        """The follower has fetched from `offset`, when the leader's log ended at `leader_log_end_offset`."""
        if offset < 0 or offset > leader_log_end_offset:
            raise BugError(
                f"a follower has fetched from {offset}, and the leader's log ends at {leader_log_end_offset}"
            )
        if self._clock is not None:
            self.rouse()
        if offset >= leader_log_end_offset:
            self._caught_up_ms = max(self._caught_up_ms, now_ms)
        elif offset >= self._leader_end_at_last_fetch:
            self._caught_up_ms = max(self._caught_up_ms, self._last_fetch_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self._last_fetch_ms = now_ms
        self._leader_end_at_last_fetch = leader_log_end_offset

    def rest(self, clock: FetchClock) -> None:
        """It has all that the leader has. Until `rouse`, every fetch of its session, by that clock, says so again."""
        self._clock = clock

    def rouse(self) -> None:
        """The leader's log may end elsewhere from now on. Up to its session's last fetch the follower had all of it."""
        clock = self._clock
        self._clock = None
        if clock is not None:
            self._caught_up_ms = max(self._caught_up_ms, clock.last_fetch_ms)
            self._last_fetch_ms = max(self._last_fetch_ms, clock.last_fetch_ms)


class Leading:
    """This node's replica takes the writes and says what is committed."""

    __slots__ = ("epoch_start_offset", "followers", "isr", "joining", "log", "min_in_sync")

    def __init__(
        self,
        log: PartitionLog,
        epoch_start_offset: Offset,
        isr: tuple[NodeId, ...],
        followers: dict[NodeId, FollowerProgress],
        min_in_sync: int,
        joining: tuple[NodeId, ...] = (),
    ) -> None:
        self.log = log
        # Where the log ended when this epoch began. Below it, the high watermark may be older than what clients have seen.
        self.epoch_start_offset = epoch_start_offset
        self.isr = isr
        # The other replicas, in sync or not.
        self.followers = followers
        # `min.insync.replicas`, or the number of replicas where there are fewer than that.
        self.min_in_sync = min_in_sync
        # Those that the controller was asked to count as in sync. It may have agreed already, and may elect one of them: nothing
        # is committed without them from the moment of asking.
        self.joining = joining

    def __repr__(self) -> str:
        return (
            f"Leading(log={self.log!r}, epoch_start_offset={self.epoch_start_offset!r}, isr={self.isr!r}, "
            f"followers={self.followers!r}, min_in_sync={self.min_in_sync!r}, joining={self.joining!r})"
        )


class PartitionCore:
    """What `Partition` does with every write and every read."""

    __slots__ = (
        "_clock",
        "_committed",
        "_deleted",
        "_node_id",
        "_wakeups",
        "_watchers",
        "adding_replicas",
        "config",
        "leader_epoch",
        "partition_epoch",
        "removing_replicas",
        "replicas",
        "role",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        node_id: NodeId,
        config: TopicConfig,
        wakeups: Wakeups,
        clock: Clock,
        role: Role,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.leader_epoch = _NO_LEADER_EPOCH
        self.partition_epoch = -1
        self.replicas: tuple[NodeId, ...] = ()
        self.adding_replicas: tuple[NodeId, ...] = ()
        self.removing_replicas: tuple[NodeId, ...] = ()
        self.role: Role = role
        self._node_id = node_id
        self._wakeups = wakeups
        self._clock = clock
        self._committed = OffsetWaiters()
        self._deleted = OffsetWaiters()
        self._watchers: dict[Watcher, None] = {}

    # What the subclass says: of a replica that does not lead, of a disk that fails, of a reader whose log is another.

    def log_at(self, current_leader_epoch: int, *, leader_only: bool) -> PartitionLog | ErrorCode:
        raise NotImplementedError

    def _log_of(self, role: Following | Offline) -> PartitionLog | None:
        raise NotImplementedError

    def _refuse_to_append(self, role: Following | Offline) -> AppendRefused:
        raise NotImplementedError

    def _append_otherwise(self, batches: list[CheckedBatch], rule: AppendRule) -> list[AppendOutcome]:
        raise NotImplementedError

    def _divergence(self, log: PartitionLog, offset: int, last_fetched_epoch: int) -> Diverged | ErrorCode | None:
        raise NotImplementedError

    def _low_watermark(self, leading: Leading) -> Offset:
        raise NotImplementedError

    def _fail(self, error: StorageError) -> ErrorCode:
        raise NotImplementedError

    # The role.

    @property
    def is_leading(self) -> bool:
        return type(self.role) is Leading

    @property
    def log(self) -> PartitionLog | None:
        """The replica's log, unless it is offline."""
        role = self.role
        if type(role) is Leading:
            leading = role
            return leading.log
        return self._log_of(cast("Following | Offline", role))

    # Writing.

    def takes_writes(self, required_acks: int) -> bool:
        """Whether an append is refused by nothing that is known beforehand."""
        role = self.role
        if type(role) is not Leading:
            return False
        leading = role
        return required_acks != _ALL_IN_SYNC or len(leading.isr) >= leading.min_in_sync

    def commits_at_once(self, required_acks: int) -> bool:
        """Whether an append would be answered without waiting for anybody, and without an error that is known beforehand."""
        role = self.role
        if type(role) is not Leading:
            return False
        leading = role
        return required_acks != _ALL_IN_SYNC or (not leading.followers and len(leading.isr) >= leading.min_in_sync)

    def append(
        self, batches: list[CheckedBatch], rule: AppendRule, required_acks: int = _ALL_IN_SYNC
    ) -> list[AppendOutcome]:
        """Append batches that have been checked, each by itself: an outcome for each, as `PartitionLog.append` says.

        By the rule FOLLOWER they are the leader's, and this replica follows; by any other it must lead. A fault of the disk
        refuses all. The high watermark moves at once where nobody has to be waited for; `when_committed` tells when it has
        passed the records.
        """
        role = self.role
        if rule is _FOLLOWER or type(role) is not Leading:
            return self._append_otherwise(batches, rule)
        leading = role
        if required_acks == _ALL_IN_SYNC and len(leading.isr) < leading.min_in_sync:
            refused = AppendRefused(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(leading.isr)} replicas of {self.topic_partition} are in sync, and {leading.min_in_sync} must be",
            )
            return [refused] * len(batches)
        log = leading.log
        before = log.log_end_offset
        try:
            outcomes = log.append(batches, rule, self.leader_epoch, self._is_awaited())
        except StorageError as error:
            return [AppendRefused(self._fail(error), str(error))] * len(batches)
        if log.log_end_offset != before:
            self._advance(leading)
            if self._watchers:
                self._wakeups.changed(self)
        return outcomes

    def when_committed(self, offset: int) -> ErrorCode | Pending[ErrorCode]:
        """NONE once all in-sync replicas have everything before `offset`, or the error that came between."""
        role = self.role
        if type(role) is not Leading:
            return self._refuse_to_append(cast("Following | Offline", role)).error
        leading = role
        if leading.log.high_watermark < offset:
            return self._committed.wait_for(offset)
        return _commit_error(leading)

    def _advance_high_watermark(self, leading: Leading) -> None:
        """For the subclass: something has changed by which more may be committed."""
        self._advance(leading)

    def _advance(self, leading: Leading) -> None:
        if len(leading.isr) < leading.min_in_sync:
            return
        log = leading.log
        committed: int = log.log_end_offset
        if leading.followers:
            committed = self._replicated(leading, committed)
        if committed <= log.high_watermark:
            return
        log.commit_up_to(committed)
        if self._committed.heap:
            self._committed.reached(committed, _commit_error(leading))

    def _replicated(self, leading: Leading, end: int) -> int:
        """The smallest log end among the in-sync replicas and those that may be, where the leader's own is `end`."""
        isr = leading.isr
        joining = leading.joining
        for node, follower in leading.followers.items():
            if follower.log_end_offset < end and (node in isr or node in joining):
                end = follower.log_end_offset
        return end

    # Reading.

    def read(
        self,
        offset: int,
        bytes_max: int,
        isolation: FetchIsolation,
        current_leader_epoch: int = _NO_LEADER_EPOCH,
        min_one_batch: bool = True,
        leader_only: bool = True,
        last_fetched_epoch: int = _NO_LEADER_EPOCH,
    ) -> Fetched | Diverged | ErrorCode:
        """The batches from `offset` on, as far as `isolation` lets the reader see."""
        role = self.role
        if type(role) is Leading and current_leader_epoch in (_NO_LEADER_EPOCH, self.leader_epoch):
            leading = role
            log = leading.log
        else:
            found = self.log_at(current_leader_epoch, leader_only=leader_only)
            if isinstance(found, ErrorCode):
                return found
            log = found
        if last_fetched_epoch != _NO_LEADER_EPOCH and not log.reaches(offset, last_fetched_epoch):
            diverged = self._divergence(log, offset, last_fetched_epoch)
            if diverged is not None:
                return diverged
        try:
            return log.read(offset, bytes_max, isolation, min_one_batch)
        except StorageError as error:
            return self._fail(error)

    def has_nothing_new(
        self, offset: int, current_leader_epoch: int, known_high_watermark: int, known_log_start_offset: int
    ) -> bool:
        """Whether a consumer that has read up to the high watermark, and knows where it and the log's start are, need not look.

        The quick way past the many partitions of a session to which nothing has happened.
        """
        role = self.role
        if type(role) is not Leading or offset != known_high_watermark:
            return False
        leading = role
        high_watermark = leading.log.high_watermark
        log_start_offset = leading.log.log_start_offset
        return (
            offset == high_watermark
            and log_start_offset == known_log_start_offset
            and current_leader_epoch in (_NO_LEADER_EPOCH, self.leader_epoch)
        )

    # Followers.

    def read_as_follower(
        self,
        node: NodeId,
        offset: int,
        bytes_max: int,
        broker_epoch: int,
        log_start_offset: int,
        current_leader_epoch: int = _NO_LEADER_EPOCH,
        last_fetched_epoch: int = _NO_LEADER_EPOCH,
        min_one_batch: bool = True,
        note_progress: bool = True,
    ) -> Fetched | Diverged | ErrorCode:
        """What `read` gives up to the log's end, to another replica. That it asks from `offset` says how far it is."""
        leading: Leading | None = None
        if type(self.role) is Leading:
            leading = self.role
            if node not in leading.followers:
                # With its epoch it may know of a reassignment before we do; without, all we can say is that one of us is behind.
                known = current_leader_epoch == self.leader_epoch
                return ErrorCode.UNKNOWN_LEADER_EPOCH if known else ErrorCode.NOT_LEADER_OR_FOLLOWER
        outcome = self.read(offset, bytes_max, _LOG_END, current_leader_epoch, min_one_batch, True, last_fetched_epoch)
        if note_progress and leading is not None and isinstance(outcome, Fetched):
            self._note_progress(leading, node, offset, log_start_offset, outcome.log_end_offset, broker_epoch)
        return outcome

    def _note_progress(
        self, leading: Leading, node: NodeId, offset: int, log_start_offset: int, leader_end: int, broker_epoch: int
    ) -> None:
        follower = leading.followers[node]
        follower.fetched(offset, log_start_offset, leader_end, broker_epoch, self._clock.monotonic_ms())
        before = leading.log.high_watermark
        self._advance(leading)
        if self._deleted.heap:
            self._deleted.reached(self._low_watermark(leading))
        if self._watchers and leading.log.high_watermark != before:
            self._wakeups.changed(self)
        tell = self._wakeups.on_caught_up
        if tell is not None and node not in leading.isr and self._has_committed(leading, follower):
            tell(self, node)  # type: ignore[arg-type] # the only subclass there is

    def rest_follower(self, node: NodeId, clock: FetchClock) -> bool:
        """Whether a follower is in sync and has all there is: then the fetches of its session, by that clock, count for this
        partition without naming it, until `rouse_follower`, which is due at the partition's next change."""
        role = self.role
        if type(role) is not Leading:
            return False
        leading = role
        follower = leading.followers.get(node)
        if follower is None or node not in leading.isr or follower.log_end_offset < leading.log.log_end_offset:
            return False
        follower.rest(clock)
        return True

    def rouse_follower(self, node: NodeId) -> None:
        """The partition has changed: what a follower's next fetch says of it is to be looked at."""
        role = self.role
        if type(role) is Leading:
            leading = role
            follower = leading.followers.get(node)
            if follower is not None:
                follower.rouse()

    def _has_committed(self, leading: Leading, follower: FollowerProgress) -> bool:
        """Whether a follower has all that is committed, and all that was there when this epoch began: then it may join."""
        return follower.log_end_offset >= max(leading.log.high_watermark, leading.epoch_start_offset)

    # Watching.

    def watch(self, watcher: Watcher) -> None:
        """Tell `watcher` of every change until `unwatch`."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        """Harmless for one that does not watch."""
        self._watchers.pop(watcher, None)

    def _is_awaited(self) -> bool:
        """Whether somebody waits for what is written, and does not only want to know of it."""
        for watcher in self._watchers:  # noqa: SIM110 - a generator costs more
            if watcher.is_waiting:
                return True
        return False

    @property
    def watcher_count(self) -> int:
        return len(self._watchers)

    def _tell_watchers(self) -> None:
        """For `Wakeups` alone: everybody else reports the change there."""
        watchers = self._watchers
        try:
            for watcher in tuple(watchers):
                if watcher in watchers:
                    watcher.partition_changed(self)  # type: ignore[arg-type] # the only subclass there is
        except Exception as error:
            raise BugError(f"telling the watchers of {self.topic_partition} broke off") from error
        role = self.role
        if type(role) is Leading:
            leading = role
            leading.log.forget_fresh()


class PartitionsCore:
    """The replicas of a node by the names and by the ids of their topics, each with its partitions by their index."""

    __slots__ = ("_by_id", "_by_name")

    def __init__(self) -> None:
        self._by_name: dict[TopicName, dict[int, Partition]] = {}
        self._by_id: dict[TopicId, dict[int, Partition]] = {}

    def named(self, topic: TopicName) -> Mapping[int, Partition]:
        """The replicas of a topic on this node."""
        return self._by_name.get(topic, _NOTHING)

    def identified(self, topic_id: TopicId) -> Mapping[int, Partition]:
        """The same by the topic's id."""
        return self._by_id.get(topic_id, _NOTHING)


def _commit_error(leading: Leading) -> ErrorCode:
    return _NONE if len(leading.isr) >= leading.min_in_sync else _NOT_ENOUGH_REPLICAS_AFTER_APPEND

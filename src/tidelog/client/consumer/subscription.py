"""What a consumer reads, and where it stands: pure state, changed by the application's calls and by answers.

A partition is in one of four states:

    INITIALIZING    just assigned: its position will be the committed offset, or else be reset
    AWAIT_RESET     its position is to be looked up: either end of the log, or a time
    AWAIT_VALIDATION  its leader changed: whether the log still holds what was read is being asked (KIP-320)
    FETCHING        its position is known and may be fetched from

    assign -> INITIALIZING; a committed offset -> FETCHING; none -> AWAIT_RESET; the looked-up offset -> FETCHING
    seek -> FETCHING; an offset out of range -> AWAIT_RESET; a new leader epoch -> AWAIT_VALIDATION -> FETCHING or AWAIT_RESET
    revoke -> gone

`version` counts the changes of a position that were no reading: an answer to a question asked before such a change is not for
this position any more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from tidelog.client.consumer.errors import ConsumerStateError
from tidelog.client.consumer.topic_partition import TopicPartition, topic_partition
from tidelog.model.ids import ZERO_UUID

if TYPE_CHECKING:
    # Spark's processes read options, and with them this module, before they need any record.
    from tidelog.client.consumer.records import ConsumerRecord

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1


class PartitionState(Enum):
    INITIALIZING = "initializing"
    AWAIT_RESET = "await reset"
    AWAIT_VALIDATION = "await validation"
    FETCHING = "fetching"


class AssignedPartition:
    """One partition that this consumer reads."""

    __slots__ = (
        "failures",
        "fetch_offset",
        "fetched_bytes",
        "high_watermark",
        "is_paused",
        "is_revoking",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "nothing_at",
        "offset_epoch",
        "partition",
        "position",
        "preferred_replica",
        "preferred_until_ms",
        "read_bytes",
        "reset_timestamp",
        "retry_at_ms",
        "state",
        "topic_id",
        "version",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.topic_id = ZERO_UUID
        """Which topic of this name it was when last heard of."""
        self.state = PartitionState.INITIALIZING
        self.version = 0
        self.position = -1
        """The next offset that the application gets; -1 while it is not known."""
        self.offset_epoch = -1
        """The leader epoch of the record before the position."""
        self.leader_epoch = -1
        """The leader epoch that the position was last validated for."""
        self.fetch_offset = -1
        """The next offset to ask for: ahead of the position by what has been fetched and not been read."""
        self.fetched_bytes = 0
        self.read_bytes = 0
        """What has been fetched, and what of it has been read: each is written by one thread only."""
        self.is_paused = False
        self.is_revoking = False
        """The group takes it away: nothing of it is delivered any more."""
        self.reset_timestamp: int | None = None
        self.retry_at_ms = 0
        self.failures = 0
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        self.nothing_at = -1
        """An offset from which a fetch brought nothing: no batch lies between there and the high watermark of that time."""
        self.preferred_replica: int | None = None
        self.preferred_until_ms = 0

    @property
    def is_fetchable(self) -> bool:
        return self.state is PartitionState.FETCHING and not self.is_paused and not self.is_revoking

    @property
    def has_position(self) -> bool:
        return self.state in {PartitionState.FETCHING, PartitionState.AWAIT_VALIDATION}

    def seek(self, offset: int, offset_epoch: int = -1) -> None:
        """Go on from `offset`. What was fetched before is void."""
        self.version += 1
        self.state = PartitionState.FETCHING
        self.position = self.fetch_offset = offset
        self.offset_epoch = offset_epoch
        self.retry_at_ms = 0
        self.preferred_replica = None

    def await_reset(self, timestamp: int) -> None:
        """Look the position up: EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, or a time in milliseconds."""
        self.version += 1
        self.state = PartitionState.AWAIT_RESET
        self.reset_timestamp = timestamp
        self.position = self.fetch_offset = -1
        self.retry_at_ms = 0
        self.preferred_replica = None

    def is_of(self, topic_id: bytes) -> None:
        """The topic has this id now. Another one than before is another topic, of which nothing has been read."""
        if topic_id in {self.topic_id, ZERO_UUID}:
            return
        is_new = self.topic_id != ZERO_UUID
        self.topic_id = topic_id
        if is_new:
            self.version += 1
            self.state = PartitionState.INITIALIZING
            self.position = self.fetch_offset = self.offset_epoch = self.leader_epoch = -1
            self.high_watermark = self.last_stable_offset = self.log_start_offset = None
            self.retry_at_ms = 0
            self.preferred_replica = None

    def await_validation(self) -> None:
        """Ask the new leader whether the log still has what was read. Only for a position whose record's epoch is known."""
        self.version += 1
        self.state = PartitionState.AWAIT_VALIDATION
        # What was fetched and not read came from the leader before.
        self.fetch_offset = self.position
        self.retry_at_ms = 0
        self.preferred_replica = None

    def validated(self) -> None:
        self.state = PartitionState.FETCHING

    def read_up_to(self, offset: int, offset_epoch: int) -> None:
        """The application has got everything before `offset`."""
        self.position = offset
        if offset_epoch >= 0:
            self.offset_epoch = offset_epoch

    @property
    def unread_bytes(self) -> int:
        return self.fetched_bytes - self.read_bytes

    def lag(self, *, reads_committed: bool) -> int | None:
        """How many offsets there are from the position to the end; None before the first fetch."""
        end = self.last_stable_offset if reads_committed else self.high_watermark
        if end is None or self.position < 0:
            return None
        return max(0, end - self.position)


class Mode(Enum):
    """How the partitions are chosen. One at a time; `unsubscribe` goes back to NONE."""

    NONE = "none"
    TOPICS = "topics"
    PATTERN = "pattern"
    SERVER_PATTERN = "server pattern"
    ASSIGNED = "assigned"


class Subscription:
    """What the application asked for, and what it has."""

    def __init__(self) -> None:
        self.mode = Mode.NONE
        self.topics: frozenset[str] = frozenset()
        """The topics asked for by name, or those that the pattern matches at the moment."""
        self.pattern: re.Pattern[str] | None = None
        self.server_pattern: str | None = None
        self._assigned: dict[TopicPartition, AssignedPartition] = {}

    # What the application asks for.

    def subscribe(self, topics: Iterable[str]) -> bool:
        """Whether this changed anything."""
        self._enter(Mode.TOPICS)
        wanted = frozenset(topics)
        changed = wanted != self.topics
        self.topics = wanted
        return changed

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> bool:
        self._enter(Mode.PATTERN)
        changed = pattern != self.pattern
        self.pattern = pattern
        return changed

    def subscribe_server_pattern(self, pattern: str) -> bool:
        self._enter(Mode.SERVER_PATTERN)
        changed = pattern != self.server_pattern
        self.server_pattern = pattern
        return changed

    def match(self, topics: Iterable[str]) -> bool:
        """These topics exist: whether the pattern now matches others than before."""
        assert self.pattern is not None
        matched = frozenset(topic for topic in topics if self.pattern.fullmatch(topic))
        changed = matched != self.topics
        self.topics = matched
        return changed

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read exactly these. What was assigned before keeps its position."""
        self._enter(Mode.ASSIGNED)
        self._set(partitions)

    def unsubscribe(self) -> None:
        self.mode = Mode.NONE
        self.topics = frozenset()
        self.pattern = self.server_pattern = None
        self._assigned = {}

    def _enter(self, mode: Mode) -> None:
        if self.mode not in {Mode.NONE, mode}:
            raise ConsumerStateError(
                f"the consumer's partitions are chosen by {self.mode.value}: unsubscribe() before choosing them by {mode.value}"
            )
        self.mode = mode

    @property
    def uses_group(self) -> bool:
        """Whether a group shares out the partitions."""
        return self.mode in {Mode.TOPICS, Mode.PATTERN, Mode.SERVER_PATTERN}

    # What it has.

    def share_out(self, partitions: Iterable[TopicPartition]) -> None:
        """What is this consumer's of what it is subscribed to: the group's new assignment, or without a group all."""
        self._set(partitions)

    def _set(self, partitions: Iterable[tuple[str, int]]) -> None:
        wanted = sorted({TopicPartition(*each) for each in partitions})
        self._assigned = {each: self._assigned.get(each) or AssignedPartition(each) for each in wanted}

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._assigned)

    @property
    def assigned_topics(self) -> set[str]:
        return {each.topic for each in self._assigned}

    def __contains__(self, partition: object) -> bool:
        return partition in self._assigned

    def __len__(self) -> int:
        return len(self._assigned)

    def __iter__(self) -> Iterator[AssignedPartition]:
        return iter(tuple(self._assigned.values()))

    def get(self, partition: tuple[str, int]) -> AssignedPartition | None:
        return self._assigned.get(partition)  # type: ignore[call-overload,no-any-return]  # equal to a TopicPartition

    def of(self, partition: tuple[str, int]) -> AssignedPartition:
        """The state of an assigned partition. ConsumerStateError for any other."""
        named = topic_partition(partition)
        assigned = self.get(named)
        if assigned is None:
            raise ConsumerStateError(f"partition {named} is not assigned to this consumer")
        return assigned

    def go_back(self, rows: Iterable[ConsumerRecord[Any, Any]]) -> None:
        """These were taken, and the application will not get them now: positions are before the first of each partition."""
        first: dict[TopicPartition, int] = {}
        for row in rows:
            first.setdefault(TopicPartition(row.topic, row.partition), row.offset)
        for partition, offset in first.items():
            assigned = self.get(partition)
            if assigned is not None:
                assigned.seek(offset)

    def is_current(self, assigned: AssignedPartition, version: int) -> bool:
        """Whether an answer to a question asked at `version` is still about this position."""
        return self._assigned.get(assigned.partition) is assigned and assigned.version == version

    def consumed(self) -> dict[TopicPartition, tuple[int, int]]:
        """Position and epoch of the record before it, of each partition that has a position."""
        return {
            each.partition: (each.position, each.offset_epoch)
            for each in self._assigned.values()
            if each.has_position and each.position >= 0
        }

    def topic_ids(self) -> dict[str, bytes]:
        """Which topics the positions belong to, as far as known."""
        return {each.partition.topic: each.topic_id for each in self._assigned.values() if each.topic_id != ZERO_UUID}

    def missing_position(self) -> bool:
        return any(not each.has_position for each in self._assigned.values())

    def leaders_changed(self, epochs: Mapping[TopicPartition, int]) -> None:
        """The metadata names these leader epochs. A newer one than a position was validated for has it validated again."""
        for assigned in self._assigned.values():
            epoch = epochs.get(assigned.partition, -1)
            if epoch <= assigned.leader_epoch:
                continue
            assigned.leader_epoch = epoch
            if assigned.state is PartitionState.FETCHING and assigned.offset_epoch >= 0 and assigned.position > 0:
                assigned.await_validation()

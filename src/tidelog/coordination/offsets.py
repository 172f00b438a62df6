# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""How far the groups are: the offsets that they have committed, and for how long each is kept.

An offset that is committed in a transaction counts once that has ended well; until then it is pending, and a reader who asks
for stable offsets is told to wait. Of two commits the one that stands later in the log wins, also where the earlier one's
transaction ends after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from tidelog import plain_cython
from tidelog.coordination.decision import Decision, TransactionalProducer
from tidelog.coordination.group import Group
from tidelog.coordination.group_settings import GroupSettings
from tidelog.coordination.offset_records import (
    NO_EXPIRY,
    NOT_WRITTEN,
    Committed,
    OffsetCommits,
    committed_of,
    offset_tombstone,
)
from tidelog.coordination.timeline import Earlier, Timeline, as_committed
from tidelog.model.config import LONG_MAX
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.group_offsets import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tidelog.wire.messages.internal.offset_records import OffsetCommitKey, OffsetCommitValue
from tidelog.wire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tidelog.wire.typed.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    import cython
else:
    cython = plain_cython

if cython.compiled:
    from cython.cimports.tidelog.wire.typed.fields_inline import blank
else:
    from tidelog.wire.typed.fields import blank

A = TypeVar("A")

NO_COMMITTED_OFFSET = -1
_NO_LEADER_EPOCH = -1


class _Table:
    """Offsets by group, topic and partition. Empty levels are not kept."""

    __slots__ = ("by_group",)

    def __init__(self) -> None:
        self.by_group: dict[str, dict[str, dict[int, Committed]]] = {}

    def get(self, group_id: str, topic: str, partition: int) -> Committed | None:
        topics = self.by_group.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def put(self, group_id: str, topic: str, partition: int, committed: Committed) -> None:
        topics = self.by_group.get(group_id)
        if topics is None:
            topics = self.by_group[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        partitions[partition] = committed

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self.by_group.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        if topics is None or partitions is None or partitions.pop(partition, None) is None:
            return
        if not partitions:
            del topics[topic]
        if not topics:
            del self.by_group[group_id]

    def each(self) -> Iterator[tuple[str, str, int, Committed]]:
        for group_id, topics in self.by_group.items():
            for topic, partitions in topics.items():
                for partition, committed in partitions.items():
                    yield group_id, topic, partition, committed


class Offsets:
    """The committed offsets of one shard's groups."""

    def __init__(self, settings: GroupSettings, timeline: Timeline | None = None) -> None:
        """`timeline` keeps what uncommitted records replace."""
        self._settings = settings
        self._metadata_max = settings.offset_metadata_max_bytes
        self._timeline = Timeline() if timeline is None else timeline
        self._earlier: Earlier[tuple[str, str, int], Committed] = {}
        self._committed = _Table()
        self._pending: dict[int, _Table] = {}
        """By the id of the producer whose transaction is open."""

    # --- deciding ----------------------------------------------------------------------------------------------------------

    def commit(self, request: OffsetCommitRequest, now_ms: int) -> Decision[OffsetCommitResponse]:
        """Commit what a member that may do so asks for."""
        retention_ms = request.retention_time_ms
        # A time beyond what the record can hold is as good as never.
        expire_ms = NO_EXPIRY
        if retention_ms >= 0:
            expire_ms = LONG_MAX if retention_ms > LONG_MAX - now_ms else now_ms + retention_ms
        commits = OffsetCommits(request.group_id)
        # Every commit needs an answer of its own, and to set fields costs less than to name them.
        answer = blank(OffsetCommitResponse)
        answer.throttle_time_ms = 0
        topics = answer.topics = []
        for topic in request.topics:
            answered = blank(OffsetCommitResponseTopic)
            answered.name = topic.name
            answered.topic_id = topic.topic_id
            partitions = answered.partitions = []
            topics.append(answered)
            for asked in topic.partitions:
                outcome = blank(OffsetCommitResponsePartition)
                outcome.partition_index = asked.partition_index
                outcome.error_code = self._add(
                    commits,
                    topic.name,
                    topic.topic_id,
                    asked.partition_index,
                    asked.committed_offset,
                    asked.committed_leader_epoch,
                    asked.committed_metadata,
                    now_ms,
                    expire_ms,
                )
                partitions.append(outcome)
        return self._decision(answer, commits, None)

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, guard: int | None, now_ms: int
    ) -> Decision[TxnOffsetCommitResponse]:
        """Commit what a producer's transaction is to commit, if it ends well. `guard`: see `TransactionalProducer`."""
        commits = OffsetCommits(request.group_id, request.producer_id, request.producer_epoch)
        topics = []
        for topic in request.topics:
            partitions = [
                TxnOffsetCommitResponsePartition(
                    partition_index=each.partition_index,
                    error_code=self._add(
                        commits,
                        topic.name,
                        ZERO_UUID,
                        each.partition_index,
                        each.committed_offset,
                        each.committed_leader_epoch,
                        each.committed_metadata,
                        now_ms,
                        NO_EXPIRY,
                    ),
                )
                for each in topic.partitions
            ]
            topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        answer = TxnOffsetCommitResponse(throttle_time_ms=0, topics=topics)
        producer = TransactionalProducer(request.producer_id, request.producer_epoch, guard)
        return self._decision(answer, commits, producer)

    def _add(
        self,
        commits: OffsetCommits,
        topic: str,
        topic_id: bytes,
        partition: int,
        offset: int,
        leader_epoch: int,
        metadata: str | None,
        now_ms: int,
        expire_ms: int,
    ) -> int:
        """Add a partition to what is committed, unless its metadata is too long. The error code of its answer."""
        text = metadata or ""
        # Kafka counts characters, whatever the key's name says.
        if len(text) > self._metadata_max:
            return int(ErrorCode.OFFSET_METADATA_TOO_LARGE)
        committed = blank(Committed)
        committed.offset = offset
        committed.leader_epoch = leader_epoch
        committed.metadata = text
        committed.commit_timestamp_ms = now_ms
        committed.expire_timestamp_ms = expire_ms
        committed.topic_id = topic_id
        committed.record_offset = NOT_WRITTEN
        commits.rows.append((topic, partition, committed))
        return 0

    def _decision(self, answer: A, commits: OffsetCommits, producer: TransactionalProducer | None) -> Decision[A]:
        """All of it is one batch, and is taken in at once."""
        return Decision(answer, commits, True, None, producer, commits, self)

    def delete(self, request: OffsetDeleteRequest, group: Group) -> Decision[OffsetDeleteResponse]:
        """Delete what nobody in the group is subscribed to."""
        records: list[CoordinatorRecord] = []
        topics = []
        for topic in request.topics:
            is_in_use = group.is_subscribed_to(topic.name)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_in_use else ErrorCode.NONE
            partitions = []
            for each in topic.partitions:
                index = each.partition_index
                if not is_in_use and self._is_known(request.group_id, topic.name, index):
                    records.append(offset_tombstone(request.group_id, topic.name, index))
                partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
        return Decision(OffsetDeleteResponse(error_code=0, throttle_time_ms=0, topics=topics), tuple(records))

    def deletion_of_group(self, group_id: str) -> list[CoordinatorRecord]:
        """The records that end everything that a group has committed."""
        ended: dict[tuple[str, int], None] = {}
        for table in (self._committed, *self._pending.values()):
            for topic, partitions in table.by_group.get(group_id, {}).items():
                ended.update(((topic, partition), None) for partition in partitions)
        return [offset_tombstone(group_id, topic, partition) for topic, partition in ended]

    def deletion_of_topics(self, names: Iterable[str]) -> list[CoordinatorRecord]:
        """The records that end what all groups have committed for topics that are gone."""
        gone = frozenset(names)
        ended: dict[tuple[str, str, int], None] = {}
        for table in (self._committed, *self._pending.values()):
            for group_id, topic, partition, _ in table.each():
                if topic in gone:
                    ended[group_id, topic, partition] = None
        return [offset_tombstone(*each) for each in ended]

    def expiry(self, group: Group, now_ms: int) -> tuple[list[CoordinatorRecord], bool]:
        """The records that end what a group has not used for too long; and whether nothing of it is left then."""
        if not group.offsets_may_expire:
            return [], False
        records: list[CoordinatorRecord] = []
        is_all = True
        retention_ms = self._settings.offsets_retention_ms
        empty_since_ms = group.offsets_expire_from_ms()
        for topic, partitions in self._committed.by_group.get(group.group_id, {}).items():
            if group.is_subscribed_to(topic):
                is_all = False
                continue
            for partition, committed in partitions.items():
                since_ms = committed.commit_timestamp_ms if empty_since_ms is None else empty_since_ms
                if committed.expire_timestamp_ms != NO_EXPIRY:
                    is_over = now_ms >= committed.expire_timestamp_ms
                else:
                    is_over = now_ms - since_ms >= retention_ms
                if is_over and not self._is_pending(group.group_id, topic, partition):
                    records.append(offset_tombstone(group.group_id, topic, partition))
                else:
                    is_all = False
        has_open = any(group.group_id in table.by_group for table in self._pending.values())
        return records, is_all and not has_open

    # --- reading -----------------------------------------------------------------------------------------------------------

    def fetch(
        self, group_id: str, topics: Iterable[OffsetFetchRequestTopics], *, require_stable: bool
    ) -> list[OffsetFetchResponseTopics]:
        """What a group has committed for these partitions; -1 where there is nothing.

        Stable offsets are those of all that is written, for an answer that waits until it is committed; the others are those of
        what is committed already.
        """
        return [
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    self._fetched(group_id, topic.name, topic.topic_id, index, require_stable=require_stable)
                    for index in topic.partition_indexes
                ],
            )
            for topic in topics
        ]

    def fetch_all(self, group_id: str, *, require_stable: bool) -> list[OffsetFetchResponseTopics]:
        """Everything that a group has committed. Stable or not: see `fetch`."""
        by_topic = self._committed.by_group.get(group_id, {})
        if not require_stable and self._earlier:
            by_topic = self._all_as_committed(group_id, by_topic)
        return [
            OffsetFetchResponseTopics(
                name=topic,
                topic_id=next(iter(partitions.values())).topic_id,
                partitions=[
                    self._fetched(group_id, topic, ZERO_UUID, index, require_stable=require_stable)
                    for index in partitions
                ],
            )
            for topic, partitions in by_topic.items()
        ]

    def _fetched(
        self, group_id: str, topic: str, topic_id: bytes, index: int, *, require_stable: bool
    ) -> OffsetFetchResponsePartitions:
        if require_stable and self._is_pending(group_id, topic, index):
            return nothing_fetched(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        find = self._committed.get if require_stable else self._as_committed
        committed = find(group_id, topic, index)
        # What was committed for a topic of the same name that has been deleted since is of no use to its successor.
        if committed is None or _is_of_another(committed.topic_id, topic_id):
            return nothing_fetched(index, ErrorCode.NONE)
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            error_code=0,
        )

    def committed(self, group_id: str, topic: str, partition: int) -> Committed | None:
        return self._committed.get(group_id, topic, partition)

    def __len__(self) -> int:
        return sum(1 for _ in self._committed.each())

    def _is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        return any(table.get(group_id, topic, partition) is not None for table in self._pending.values())

    def _is_known(self, group_id: str, topic: str, partition: int) -> bool:
        is_committed = self._committed.get(group_id, topic, partition) is not None
        return is_committed or self._is_pending(group_id, topic, partition)

    def _as_committed(self, group_id: str, topic: str, partition: int) -> Committed | None:
        now = self._committed.get(group_id, topic, partition)
        return as_committed(self._earlier, (group_id, topic, partition), now) if self._earlier else now

    def _all_as_committed(
        self, group_id: str, now: Mapping[str, Mapping[int, Committed]]
    ) -> dict[str, dict[int, Committed]]:
        committed = {topic: {**partitions} for topic, partitions in now.items()}
        for (changed_group, topic, partition), change in self._earlier.items():
            if changed_group != group_id:
                continue
            partitions = committed.setdefault(topic, {})
            if change.before is None:
                partitions.pop(partition, None)
            else:
                partitions[partition] = change.before
        return {topic: partitions for topic, partitions in committed.items() if partitions}

    # --- replaying ---------------------------------------------------------------------------------------------------------

    def take_in(self, records: OffsetCommits, first_offset: int, is_committed: bool) -> None:
        """What a replay of each of these records does, of which the first stands there."""
        group_id = records.group_id
        is_pending = records.producer_id >= 0
        is_noting = not is_committed and not is_pending and self._timeline.is_noting
        table = self._pending.setdefault(records.producer_id, _Table()) if is_pending else self._committed
        for row in records.rows:
            topic, partition = row[0], row[1]
            committed = row[2]
            committed.record_offset = first_offset
            first_offset += 1
            if is_noting:
                before = table.get(group_id, topic, partition)
                self._timeline.note_at(first_offset, self._earlier, (group_id, topic, partition), before)
            table.put(group_id, topic, partition, committed)

    def _note(self, group_id: str, topic: str, partition: int) -> None:
        """What was committed for a partition is about to be replaced."""
        if self._timeline.is_noting:
            before = self._committed.get(group_id, topic, partition)
            self._timeline.note(self._earlier, (group_id, topic, partition), before)

    def replay(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, record_offset: int, producer_id: int
    ) -> None:
        if value is None:
            self._note(key.group, key.topic, key.partition)
            self._committed.remove(key.group, key.topic, key.partition)
            for table in self._pending.values():
                table.remove(key.group, key.topic, key.partition)
            return
        committed = committed_of(value, record_offset)
        if producer_id < 0:
            self._note(key.group, key.topic, key.partition)
            self._committed.put(key.group, key.topic, key.partition, committed)
        else:
            pending = self._pending.setdefault(producer_id, _Table())
            pending.put(key.group, key.topic, key.partition, committed)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """What a producer's transaction committed counts from now on, or never did."""
        pending = self._pending.pop(producer_id, None)
        if pending is None or not is_committed:
            return
        for group_id, topic, partition, committed in pending.each():
            known = self._committed.get(group_id, topic, partition)
            if known is None or committed.record_offset > known.record_offset:
                self._note(group_id, topic, partition)
                self._committed.put(group_id, topic, partition, committed)


def nothing_fetched(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    """The answer about a partition for which there is no offset."""
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=NO_COMMITTED_OFFSET,
        committed_leader_epoch=_NO_LEADER_EPOCH,
        metadata="",
        error_code=error,
    )


def _is_of_another(committed_for: bytes, asked_for: bytes) -> bool:
    """Whether two topic ids are known and differ."""
    return ZERO_UUID not in {committed_for, asked_for} and committed_for != asked_for

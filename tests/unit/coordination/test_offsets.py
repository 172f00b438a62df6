"""Committed offsets: commit and fetch, transactions, expiry and deletion."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from tidelog.coordination.decision import Decision
from tidelog.coordination.group_settings import GroupSettings
from tidelog.coordination.offsets import Offsets
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.model.pending import Pending
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequestTopics,
)
from tidelog.wire.messages.internal.offset_records import OffsetCommitKey, OffsetCommitValue

GROUP = "readers"
NOW_MS = 1_000_000
DAY_MS = 24 * 3_600_000
ID = bytes([7]) * 16
OTHER_ID = bytes([8]) * 16


@dataclass
class AGroup:
    """A group of which only what offsets depend on is known."""

    group_id: str = GROUP
    subscribed: set[str] = field(default_factory=set)
    empty_since_ms: int | None = None
    type_name: str = "classic"
    protocol_type: str = "consumer"
    state_name: str = "Empty"
    is_empty: bool = True
    gives_way: bool = True
    has_offsets: bool = True
    offsets_may_expire: bool = True

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed

    def offsets_expire_from_ms(self) -> int | None:
        return self.empty_since_ms

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        api_version: int,
        now_ms: int,
        is_transactional: bool = False,
    ) -> ErrorCode:
        raise NotImplementedError

    def as_committed(self) -> AGroup:
        return self

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        raise NotImplementedError

    def check_delete(self) -> ErrorCode:
        raise NotImplementedError

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        raise NotImplementedError


class Log:
    """Applies decisions as the host does, and numbers the records."""

    def __init__(self) -> None:
        self.offsets = Offsets(GroupSettings())
        self.records: list[tuple[CoordinatorRecord, int]] = []

    def write(self, records: Iterable[CoordinatorRecord], producer_id: int = -1) -> None:
        for each in records:
            self.records.append((each, producer_id))
            self._replay(self.offsets, each, len(self.records), producer_id)

    @staticmethod
    def _replay(offsets: Offsets, each: CoordinatorRecord, position: int, producer_id: int) -> None:
        assert isinstance(each.key, OffsetCommitKey)
        assert each.value is None or isinstance(each.value, OffsetCommitValue)
        offsets.replay(each.key, each.value, position, producer_id)

    def replayed(self) -> Offsets:
        again = Offsets(GroupSettings())
        for position, (each, producer_id) in enumerate(self.records, 1):
            self._replay(again, each, position, producer_id)
        return again


@pytest.fixture
def log() -> Log:
    return Log()


def commit(
    log: Log,
    offset: int,
    *,
    topic: str = "orders",
    partition: int = 0,
    group: str = GROUP,
    metadata: str | None = "",
    topic_id: bytes = ZERO_UUID,
    retention_ms: int = -1,
    now_ms: int = NOW_MS,
    producer_id: int = -1,
    epoch: int = 3,
) -> OffsetCommitResponse:
    each = OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_leader_epoch=epoch, committed_metadata=metadata
    )
    request = OffsetCommitRequest(
        group_id=group,
        member_id="",
        retention_time_ms=retention_ms,
        topics=[OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[each])],
    )
    decision: Decision[OffsetCommitResponse] = log.offsets.commit(request, now_ms)
    log.write(decision.records, producer_id)
    assert not isinstance(decision.answer, Pending)
    return decision.answer


def fetch(
    offsets: Offsets, *, topic: str = "orders", partition: int = 0, topic_id: bytes = ZERO_UUID, stable: bool = False
) -> tuple[int, int, str | None, int]:
    topics = [OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[partition])]
    (found,) = offsets.fetch(GROUP, topics, require_stable=stable)
    (only,) = found.partitions
    return only.committed_offset, only.committed_leader_epoch, only.metadata, only.error_code


def test_commits_and_fetches(log: Log) -> None:
    answer = commit(log, 42, metadata="so far")
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert fetch(log.offsets) == (42, 3, "so far", 0)
    assert fetch(log.offsets, partition=1) == (-1, -1, "", 0)
    commit(log, 43, metadata=None)
    assert fetch(log.offsets) == (43, 3, "", 0)
    assert fetch(log.replayed()) == (43, 3, "", 0)


def test_all_topics_of_a_group(log: Log) -> None:
    commit(log, 1)
    commit(log, 2, topic="payments", partition=4)
    commit(log, 9, group="others")
    found = log.offsets.fetch_all(GROUP, require_stable=False)
    assert [(each.name, [p.committed_offset for p in each.partitions]) for each in found] == [
        ("orders", [1]),
        ("payments", [2]),
    ]
    assert log.offsets.fetch_all("nobody", require_stable=False) == []


def test_metadata_has_a_limit(log: Log) -> None:
    assert commit(log, 1, metadata="m" * 4096).topics[0].partitions[0].error_code == ErrorCode.NONE
    refused = commit(log, 2, metadata="m" * 4097)
    assert refused.topics[0].partitions[0].error_code == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert fetch(log.offsets)[0] == 1


def test_the_versions_that_kafka_writes(log: Log) -> None:
    commit(log, 1)
    commit(log, 1, retention_ms=5)
    assert [each.version for each, _ in log.records] == [4, 1]


def test_an_offset_of_a_topic_that_was_recreated_is_none(log: Log) -> None:
    commit(log, 5, topic_id=ID)
    assert fetch(log.offsets, topic_id=ID)[0] == 5
    assert fetch(log.offsets, topic_id=OTHER_ID)[0] == -1
    assert fetch(log.offsets)[0] == 5


def test_a_transaction_counts_once_it_is_committed(log: Log) -> None:
    commit(log, 1)
    commit(log, 2, producer_id=77)
    assert fetch(log.offsets)[0] == 1
    assert fetch(log.offsets, stable=True) == (-1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)
    log.offsets.end_transaction(77, is_committed=True)
    assert fetch(log.offsets, stable=True)[0] == 2


def test_an_aborted_transaction_never_was(log: Log) -> None:
    commit(log, 2, producer_id=77)
    log.offsets.end_transaction(77, is_committed=False)
    assert fetch(log.offsets, stable=True) == (-1, -1, "", 0)
    log.offsets.end_transaction(77, is_committed=True)
    assert fetch(log.offsets)[0] == -1


def test_the_later_record_wins_over_an_earlier_transaction(log: Log) -> None:
    commit(log, 2, producer_id=77)
    commit(log, 9)
    log.offsets.end_transaction(77, is_committed=True)
    assert fetch(log.offsets)[0] == 9


def test_offsets_expire_from_their_commit_or_from_when_the_group_became_empty(log: Log) -> None:
    commit(log, 1)
    group = AGroup()
    assert log.offsets.expiry(group, NOW_MS + 7 * DAY_MS - 1) == ([], False)
    records, is_all = log.offsets.expiry(group, NOW_MS + 7 * DAY_MS)
    assert len(records) == 1
    assert is_all
    group.empty_since_ms = NOW_MS + DAY_MS
    assert log.offsets.expiry(group, NOW_MS + 7 * DAY_MS) == ([], False)
    log.write(records)
    assert fetch(log.offsets)[0] == -1
    assert len(log.offsets) == 0


def test_offsets_of_topics_that_are_read_do_not_expire(log: Log) -> None:
    commit(log, 1)
    assert log.offsets.expiry(AGroup(subscribed={"orders"}), NOW_MS + 100 * DAY_MS) == ([], False)


def test_nothing_expires_while_a_group_rebalances(log: Log) -> None:
    commit(log, 1)
    assert log.offsets.expiry(AGroup(offsets_may_expire=False), NOW_MS + 100 * DAY_MS) == ([], False)


def test_a_retention_time_of_its_own(log: Log) -> None:
    commit(log, 1, retention_ms=10)
    assert log.offsets.expiry(AGroup(), NOW_MS + 9) == ([], False)
    assert len(log.offsets.expiry(AGroup(), NOW_MS + 10)[0]) == 1


def test_a_retention_time_beyond_the_end_of_time(log: Log) -> None:
    answer = commit(log, 1, retention_ms=2**63 - 1)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    [(written, _)] = log.records
    assert isinstance(written.value, OffsetCommitValue)
    assert written.value.expire_timestamp == 2**63 - 1
    assert log.offsets.expiry(AGroup(), NOW_MS + 100 * DAY_MS) == ([], False)


def test_what_a_transaction_may_still_change_does_not_expire(log: Log) -> None:
    commit(log, 1)
    commit(log, 2, producer_id=77)
    assert log.offsets.expiry(AGroup(), NOW_MS + 100 * DAY_MS) == ([], False)


def deletion(topic: str, partition: int) -> OffsetDeleteRequest:
    partitions = [OffsetDeleteRequestPartition(partition_index=partition)]
    return OffsetDeleteRequest(group_id=GROUP, topics=[OffsetDeleteRequestTopic(name=topic, partitions=partitions)])


def test_deletes_what_nobody_reads(log: Log) -> None:
    commit(log, 1)
    decision = log.offsets.delete(deletion("orders", 0), AGroup(subscribed={"orders"}))
    assert not isinstance(decision.answer, Pending)
    assert decision.answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert decision.records == ()
    decision = log.offsets.delete(deletion("orders", 0), AGroup())
    log.write(decision.records)
    assert fetch(log.offsets)[0] == -1
    assert log.offsets.delete(deletion("orders", 0), AGroup()).records == ()


def test_deletes_with_the_group_and_with_the_topic(log: Log) -> None:
    commit(log, 1)
    commit(log, 2, topic="payments")
    commit(log, 3, group="others")
    commit(log, 4, topic="refunds", producer_id=77)
    assert len(log.offsets.deletion_of_group(GROUP)) == 3
    records = log.offsets.deletion_of_topics(["orders"])
    assert len(records) == 2
    log.write(records)
    assert [each.name for each in log.offsets.fetch_all(GROUP, require_stable=False)] == ["payments"]
    log.write(log.offsets.deletion_of_group(GROUP))
    log.offsets.end_transaction(77, is_committed=True)
    assert log.offsets.fetch_all(GROUP, require_stable=False) == []

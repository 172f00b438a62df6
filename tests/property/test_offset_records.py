"""What a commit writes and what it leaves in memory: the batch is that of its records, and taking it in is replaying them."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from hypothesis import given, strategies as st

from tests.support.examples import examples
from tidelog.coordination.decision import Decision
from tidelog.coordination.group_settings import GroupSettings
from tidelog.coordination.offset_records import NO_EXPIRY, Committed, OffsetCommits
from tidelog.coordination.offsets import Offsets
from tidelog.coordination.timeline import Timeline
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.internal_records import encode_coordinator_key, encode_coordinator_value
from tidelog.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.wire.messages.internal.offset_records import OffsetCommitKey, OffsetCommitValue
from tidelog.wire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tidelog.wire.records import Record, build_batch

NAMES = st.sampled_from(["orders", "p", "ü", "t" * 130])
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(
    st.tuples(
        NAMES,
        INT32,
        st.builds(
            Committed,
            offset=INT64,
            leader_epoch=INT32,
            metadata=st.one_of(st.text(max_size=3), st.sampled_from(["x" * 62, "x" * 63, "ü" * 100])),
            commit_timestamp_ms=INT64,
            expire_timestamp_ms=st.just(NO_EXPIRY),
            topic_id=st.sampled_from([ZERO_UUID, bytes(range(16))]),
        ),
    ),
    min_size=1,
    max_size=100,
)
PRODUCERS = st.one_of(st.just((-1, -1)), st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1)))


@examples(60)
@given(group=NAMES, rows=ROWS, producer=PRODUCERS, timestamp_ms=st.integers(0, 2**61))
def test_a_batch_of_commits_is_that_of_their_records(
    group: str, rows: list[tuple[str, int, Committed]], producer: tuple[int, int], timestamp_ms: int
) -> None:
    commits = OffsetCommits(group, *producer)
    commits.rows.extend(rows)
    records = []
    for place, each in enumerate(commits):
        assert each.value is not None
        value = encode_coordinator_value(each.value, each.version)
        records.append(Record(place, timestamp_ms, encode_coordinator_key(each.key), value, ()))

    batch = commits.to_batch(timestamp_ms)

    assert batch is not None
    assert bytes(batch) == build_batch(
        records, producer_id=producer[0], producer_epoch=producer[1], is_transactional=producer[0] >= 0
    )


@pytest.mark.parametrize(
    ("group", "topic", "expire_ms"), [("x" * 2**15, "t", -1), ("g", "x" * 2**15, -1), ("g", "t", 9)]
)
def test_what_the_usual_record_cannot_hold_makes_no_batch(group: str, topic: str, expire_ms: int) -> None:
    commits = OffsetCommits(group)
    commits.rows.append((topic, 0, Committed(1, 1, "", 1, expire_ms, ZERO_UUID)))
    assert commits.to_batch(0) is None


# --- memory ------------------------------------------------------------------------------------------------------------------


class ALog:
    """The end and the high watermark of a log, which a test moves."""

    def __init__(self) -> None:
        self.log_end_offset = self.high_watermark = 0


class APartition:
    def __init__(self) -> None:
        self.log = ALog()


Step: TypeAlias = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["commit", "in a transaction", "end", "catch up"]), st.integers(0, 2), st.integers(0, 9)),
    max_size=12,
)


def decided(
    offsets: Offsets, kind: str, producer_id: int, offset: int
) -> Decision[OffsetCommitResponse] | Decision[TxnOffsetCommitResponse]:
    if kind == "commit":
        partitions = [
            OffsetCommitRequestPartition(partition_index=each, committed_offset=offset, committed_metadata="told")
            for each in range(1 + offset % 3)
        ]
        topics = [OffsetCommitRequestTopic(name="orders", topic_id=ZERO_UUID, partitions=partitions)]
        return offsets.commit(OffsetCommitRequest(group_id="g", member_id="", topics=topics), 5)
    in_transaction = [
        TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    ]
    return offsets.commit_in_transaction(
        TxnOffsetCommitRequest(
            transactional_id="t",
            group_id="g",
            producer_id=producer_id,
            producer_epoch=0,
            topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=in_transaction)],
        ),
        None,
        5,
    )


@examples(100)
@given(steps=STEPS, commits_at_once=st.booleans())
def test_taking_in_a_commit_is_replaying_its_records(steps: list[Step], commits_at_once: bool) -> None:
    partition = APartition()
    taken, replayed = (Timeline(partition) for _ in range(2))  # type: ignore[arg-type]
    sides = [Offsets(GroupSettings(), timeline) for timeline in (taken, replayed)]
    log = partition.log
    for kind, producer_id, offset in steps:
        first = log.log_end_offset
        if kind == "catch up":
            log.high_watermark = first
            continue
        if kind == "end":
            log.log_end_offset += 1
            for offsets in sides:
                offsets.end_transaction(producer_id, is_committed=offset % 2 == 0)
        else:
            decisions = [decided(offsets, kind, producer_id, offset) for offsets in sides]
            log.log_end_offset += len(decisions[0].records)
            if commits_at_once:
                log.high_watermark = log.log_end_offset
            taken_in_by, producer = decisions[0].taken_in_by, decisions[1].producer
            assert taken_in_by is not None
            taken_in_by.take_in(decisions[0].records, first, log.high_watermark == log.log_end_offset)
            for place, each in enumerate(decisions[1].records, first):
                assert isinstance(each.key, OffsetCommitKey)
                assert isinstance(each.value, OffsetCommitValue)
                replayed.begin_replay(place)
                sides[1].replay(each.key, each.value, place, -1 if producer is None else producer.producer_id)
                replayed.end_replay()
        assert taken.change_count == replayed.change_count
        for timeline in (taken, replayed):
            timeline.trim()
        for require_stable in (True, False):
            found = [offsets.fetch_all("g", require_stable=require_stable) for offsets in sides]
            assert found[0] == found[1]
        assert sides[0].committed("g", "orders", 0) == sides[1].committed("g", "orders", 0)

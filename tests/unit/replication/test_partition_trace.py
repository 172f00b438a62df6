"""What a replica tells while somebody listens: it is what its log and its metadata say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.appends import coordinated, produced
from tests.support.data_node import NODE, OTHER, THIRD, DataNode
from tests.support.log_builder import LogBuilder
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.model.trace import TraceRing
from tidelog.model.trace_events import (
    Appended,
    Ended,
    FollowerFetch,
    HighWatermarkMoved,
    IndexEntry,
    InSyncSetChanged,
    LastStableOffsetMoved,
    Marker,
    ProduceDuplicate,
    ProduceRefused,
    RoleChanged,
    TraceEvent,
    Truncated,
)
from tidelog.replication.following import restart_within, take_fetched
from tidelog.replication.partition import Partition
from tidelog.replication.partition_trace import PartitionTrace
from tidelog.wire.control_records import ControlType, build_end_txn_marker

BATCHES = LogBuilder()
THREE = (NODE, OTHER, THIRD)
SMALL = {"index.interval.bytes": "100"}


class Listener:
    """Somebody who listens to a partition of a node."""

    def __init__(self, partition: Partition) -> None:
        self._ring = TraceRing(lambda: None)
        trace = PartitionTrace(partition, lambda: 0)
        trace.add(self._ring)
        partition.trace = trace

    def heard(self) -> list[TraceEvent]:
        return [event for _, _, event in self._ring.take(100_000, 0)]

    def heard_of(self, *kinds: type[TraceEvent]) -> list[Any]:
        return [event for event in self.heard() if isinstance(event, kinds)]


@pytest.fixture
def node() -> DataNode:
    return DataNode()


def made(node: DataNode, replicas: tuple[NodeId, ...] = (NODE,), leader: int = NODE, **configs: str) -> Partition:
    node.create_topic("orders", replicas=replicas, leader=leader, configs={**SMALL, **configs})
    log = node.log("orders")
    # Smaller than a topic may ask for.
    log.reconfigure(replace(log.config, segment_bytes=600))
    return node.partition("orders")


def fetch_as(partition: Partition, follower: NodeId, offset: int) -> None:
    partition.read_as_follower(follower, offset, 1 << 20, 7, 0, partition.leader_epoch)


def test_nobody_listens_by_default(node: DataNode) -> None:
    assert made(node).trace is None


def test_what_is_appended_is_told_with_its_place_in_the_files(node: DataNode) -> None:
    partition = made(node)
    listener = Listener(partition)
    for number in range(20):
        produced(partition, BATCHES.batch(f"record {number}"))

    heard = listener.heard()
    appended = [event for event in heard if isinstance(event, Appended)]
    log = partition.log
    assert log is not None
    there = [
        (f"{segment.base_offset:020d}.log", position, header.size_bytes, header.base_offset, header.last_offset)
        for segment in log.segments
        for position, header in segment.headers_from(0)
    ]
    assert len(log.segments) > 2
    assert [(e.file, e.position, e.size, e.base_offset, e.last_offset) for e in appended] == there
    assert [event.leo for event in appended] == list(range(1, 21))
    assert {event.by for event in appended} == {"leader"}
    entries = [event for event in heard if isinstance(event, IndexEntry)]
    assert [(e.entry_number, e.offset, e.position) for e in entries if e.index == "offset"] == [
        (number, *entry) for segment in log.segments for number, entry in enumerate(segment.offset_index.each_entry())
    ]
    assert [(e.entry_number, e.timestamp_ms, e.offset) for e in entries if e.index == "time"] == [
        (number, *entry) for segment in log.segments for number, entry in enumerate(segment.time_index.each_entry())
    ]


def test_an_index_entry_is_told_right_after_the_batch_that_it_points_at(node: DataNode) -> None:
    partition = made(node)
    listener = Listener(partition)
    for number in range(12):
        produced(partition, BATCHES.batch(f"record {number}"))

    last: Appended | None = None
    pointed = 0
    for event in listener.heard():
        if isinstance(event, Appended):
            last = event
        elif isinstance(event, IndexEntry) and event.index == "offset":
            assert last is not None
            assert (event.position, event.offset) == (last.position, last.last_offset)
            pointed += 1
    assert pointed > 1


def test_the_high_watermark_is_told_with_whose_fetch_has_moved_it(node: DataNode) -> None:
    partition = made(node, THREE)
    listener = Listener(partition)
    produced(partition, BATCHES.batch("a", "b"))
    waiting = partition.when_committed(2)
    order: list[object] = []
    assert not isinstance(waiting, ErrorCode)
    waiting.then(lambda _error: order.extend(listener.heard()))
    fetch_as(partition, OTHER, 2)
    fetch_as(partition, THIRD, 2)

    # Those who waited were answered after it was told.
    assert [event for event in order if isinstance(event, FollowerFetch | HighWatermarkMoved)] == [
        FollowerFetch(OTHER, 2),
        FollowerFetch(THIRD, 2),
        HighWatermarkMoved(2, THIRD),
    ]


def test_with_one_replica_the_leader_itself_moves_it(node: DataNode) -> None:
    partition = made(node)
    listener = Listener(partition)
    produced(partition, BATCHES.batch("a"))

    assert listener.heard_of(HighWatermarkMoved, LastStableOffsetMoved) == [
        HighWatermarkMoved(1, "leader"),
        LastStableOffsetMoved(1),
    ]


def test_another_in_sync_set_moves_it_and_is_told(node: DataNode) -> None:
    partition = made(node, THREE)
    produced(partition, BATCHES.batch("a"))
    fetch_as(partition, OTHER, 1)
    listener = Listener(partition)

    node.change("orders", isr=[NODE, OTHER])

    heard = listener.heard_of(InSyncSetChanged, HighWatermarkMoved, RoleChanged)
    assert [type(event) for event in heard] == [RoleChanged, InSyncSetChanged, HighWatermarkMoved]
    assert heard[1].isr == (NODE, OTHER)
    assert heard[2] == HighWatermarkMoved(1, "isr")


def test_an_open_transaction_holds_the_last_stable_offset_until_its_marker(node: DataNode) -> None:
    partition = made(node)
    listener = Listener(partition)
    produced(partition, BATCHES.batch("b", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True))
    assert listener.heard_of(LastStableOffsetMoved) == []
    marker = build_end_txn_marker(
        ControlType.ABORT, producer_id=5, producer_epoch=0, coordinator_epoch=0, timestamp=node.clock.ms
    )
    coordinated(partition, marker)

    heard = listener.heard_of(Appended, Marker, LastStableOffsetMoved)
    assert [getattr(event, "by", None) for event in heard] == ["marker", None, None]
    assert heard[1] == Marker(5, 0, False, 1)
    assert heard[2] == LastStableOffsetMoved(2)


def test_a_duplicate_and_a_refused_batch_are_no_append(node: DataNode) -> None:
    partition = made(node)
    batch = BATCHES.batch("a", producer_id=5, producer_epoch=0, base_sequence=0)
    produced(partition, bytearray(batch))
    listener = Listener(partition)
    produced(partition, bytearray(batch))
    produced(partition, BATCHES.batch("c", producer_id=5, producer_epoch=0, base_sequence=7))

    assert listener.heard() == [ProduceDuplicate(0, 0), ProduceRefused("OUT_OF_ORDER_SEQUENCE_NUMBER")]


def test_a_follower_tells_what_it_copies_learns_and_cuts(node: DataNode) -> None:
    partition = made(node, THREE, leader=OTHER)
    listener = Listener(partition)
    sent = BATCHES.batch("a", "b")
    assert take_fetched(partition, bytes(sent), 0, 1, 0) is ErrorCode.NONE
    assert restart_within(partition, 0, 1, 0) is ErrorCode.NONE

    heard = listener.heard()
    assert isinstance(heard[0], Appended)
    assert (heard[0].by, heard[0].base_offset, heard[0].last_offset, heard[0].position) == ("follower", 0, 1, 0)
    assert HighWatermarkMoved(1, "leader") in heard
    assert [event for event in heard if isinstance(event, Truncated)] == [Truncated(0)]


def test_another_leader_is_told(node: DataNode) -> None:
    partition = made(node, THREE)
    listener = Listener(partition)
    node.change("orders", leader=OTHER)

    assert listener.heard_of(RoleChanged) == [RoleChanged("follower", OTHER, 1)]


def test_with_a_deleted_topic_everything_ends(node: DataNode) -> None:
    partition = made(node)
    listener = Listener(partition)
    node.delete_topic("orders")

    assert listener.heard()[-1] == Ended("this node has no replica of orders-0 any more")

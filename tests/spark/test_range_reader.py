"""Reading a range of offsets, on virtual time against scripted brokers: gaps, losses, leaders that move."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.support.readable_cluster import ReadableCluster
from tests.support.scripted_cluster import Fault, ScriptedBroker, ScriptedCluster
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.options import parse_options
from tidelog.model.errors import ErrorCode
from tidelog.spark.errors import DataLossError, UnreadableError
from tidelog.spark.source.offset_ranges import OffsetRange
from tidelog.spark.source.range_reader import RangeReader
from tidelog.wire.control_records import ControlType, build_end_txn_marker
from tidelog.wire.messages.fetch import FetchRequest, PartitionData
from tidelog.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from tidelog.wire.records import Record, build_batch

P = TopicPartition("t", 0)


class GappedCluster(ReadableCluster):
    """Some offsets have no record, and the log may begin later than at 0."""

    def __init__(self, *, brokers: int = 1) -> None:
        super().__init__(brokers=brokers, topics={"t": 1})
        self.removed: set[int] = set()
        self.log_start = 0
        self.fetched: list[int] = []

    def _fetch_partition(self, broker: ScriptedBroker, name: str, index: int, offset: int) -> PartitionData:
        data = super()._fetch_partition(broker, name, index, offset)
        data.log_start_offset = self.log_start
        if data.error_code:
            return data
        if offset < self.log_start:
            data.error_code, data.records = ErrorCode.OFFSET_OUT_OF_RANGE, b""
            return data
        end = len(self.topics[name][index].values)
        left = [each for each in range(offset, end) if each not in self.removed][:10]
        self.fetched.append(offset)
        data.records = b"".join(
            build_batch([Record(each, 0, None, b"%d" % each)], base_offset=each, leader_epoch=0) for each in left
        )
        return data

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        answer = super()._list_offsets(request)
        if request.topics[0].partitions[0].timestamp == -2:
            answer.topics[0].partitions[0].offset = self.log_start
        return answer


def reader_in(world: ReadableCluster, *, fail: bool = True, timeout_ms: float = 20_000, **options: Any) -> RangeReader:
    given = {"bootstrap_servers": world.bootstrap_servers, "auto_offset_reset": "none", **options}
    return RangeReader(
        world.seams, parse_options(ConsumerOptions, given), poll_timeout_ms=timeout_ms, fail_on_data_loss=fail
    )


async def offsets_of(reader: RangeReader, start: int, end: int) -> list[int]:
    reader.begin(OffsetRange(P, start, end))
    offsets: list[Any] = []
    while (fetched := await reader.next_columns()) is not None:
        assert fetched.records.num_rows
        offsets += fetched.records.column("offset").to_pylist()
    reader.end()
    return offsets


def play(world: GappedCluster, main: Callable[[GappedCluster], Coroutine[Any, Any, None]]) -> None:
    async def played(_world: ScriptedCluster) -> None:
        await main(world)

    world.run(played)


def test_a_range_is_read_to_its_last_offset_and_no_further() -> None:
    async def main(world: GappedCluster) -> None:
        world.add("t", 0, 100)
        reader = reader_in(world)
        assert await offsets_of(reader, 13, 57) == list(range(13, 57))
        assert max(world.fetched) < 57, "nothing is fetched that begins behind the range"
        assert await offsets_of(reader, 57, 58) == [57]
        assert await offsets_of(reader, 58, 58) == []
        reader.close()

    play(GappedCluster(), main)


@pytest.mark.parametrize("removed", [range(13, 20), range(20, 30), range(50, 57), range(55, 60), range(13, 57)])
def test_a_gap_is_never_a_loss_wherever_it_lies(removed: range) -> None:
    async def main(world: GappedCluster) -> None:
        world.add("t", 0, 60)
        world.removed = set(removed)
        reader = reader_in(world)
        assert await offsets_of(reader, 13, 57) == [each for each in range(13, 57) if each not in world.removed]
        reader.close()

    play(GappedCluster(), main)


def test_a_gap_at_the_end_of_the_log_ends_the_range_without_a_wait() -> None:
    async def main(world: GappedCluster) -> None:
        world.add("t", 0, 60)
        world.removed = set(range(40, 60))
        reader = reader_in(world)
        began_s = world.loop.time()
        assert await offsets_of(reader, 30, 60) == list(range(30, 40))
        assert await offsets_of(reader, 45, 60) == []
        assert world.loop.time() - began_s < 5
        reader.close()

    play(GappedCluster(), main)


def test_records_that_have_not_come_yet_are_no_gap() -> None:
    async def main(world: GappedCluster) -> None:
        world.add("t", 0, 20)
        reader = reader_in(world)
        # The end is behind the high watermark: a follower that is behind, or a leader that has just been elected.
        world.loop.call_later(2, lambda: world.add("t", 0, 10))
        assert await offsets_of(reader, 15, 30) == list(range(15, 30))
        reader.close()

    play(GappedCluster(), main)


def test_a_broker_that_does_not_answer_is_no_gap() -> None:
    async def main(world: GappedCluster) -> None:
        world.add("t", 0, 30)
        reader = reader_in(world, request_timeout_ms=1000)
        is_silent = True

        def script(request: object) -> Fault | None:
            return Fault.BREAK if is_silent and isinstance(request, FetchRequest) else None

        def speak() -> None:
            nonlocal is_silent
            is_silent = False

        world.brokers[1].script = script
        world.loop.call_later(5, speak)
        assert await offsets_of(reader, 0, 30) == list(range(30))
        reader.close()

    play(GappedCluster(), main)


def test_a_leader_that_moves_costs_no_record() -> None:
    async def main(world: GappedCluster) -> None:
        world.add("t", 0, 60)
        reader = reader_in(world)
        reader.begin(OffsetRange(P, 0, 60))
        first = await reader.next_columns()
        assert first is not None
        offsets = first.records.column("offset").to_pylist()
        world.move("t", 0, 2)
        while (fetched := await reader.next_columns()) is not None:
            offsets += fetched.records.column("offset").to_pylist()
        assert offsets == list(range(60))
        reader.close()

    play(GappedCluster(brokers=2), main)


def test_what_retention_has_deleted_is_a_loss() -> None:
    async def main(world: GappedCluster) -> None:
        world.add("t", 0, 60)
        world.log_start = 25
        reader = reader_in(world)
        with pytest.raises(
            DataLossError, match=r"offsets 10 to 24 of t-0 are deleted: it begins at 25; .*failOnDataLoss"
        ):
            await offsets_of(reader, 10, 40)
        assert await offsets_of(reader, 25, 40) == list(range(25, 40)), "the reader can go on"
        reader.close()

    play(GappedCluster(), main)


def test_a_loss_can_be_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    async def main(world: GappedCluster) -> None:
        world.add("t", 0, 60)
        world.log_start = 25
        reader = reader_in(world, fail=False)
        assert await offsets_of(reader, 10, 40) == list(range(25, 40))
        assert await offsets_of(reader, 10, 20) == []
        assert await offsets_of(reader, 70, 90) == [], "behind the end, as after a topic was made anew"
        reader.close()

    play(GappedCluster(), main)
    assert "offsets 10 to 24 of t-0 are deleted" in caplog.text
    assert "offsets 70 to 89 of t-0 are not there: it ends at 60" in caplog.text


def test_records_that_never_come_are_said_to_be_missing() -> None:
    async def main(world: GappedCluster) -> None:
        world.add("t", 0, 20)
        reader = reader_in(world, timeout_ms=3000)
        with pytest.raises(UnreadableError, match=r"nothing came of t-0 from offset 20 on within 3000 ms"):
            await offsets_of(reader, 10, 30)
        reader.close()

    play(GappedCluster(), main)


def test_a_topic_that_does_not_exist_is_a_loss() -> None:
    async def main(world: GappedCluster) -> None:
        del world.topics["t"]
        reader = reader_in(world)
        with pytest.raises(DataLossError, match="topic t is gone"):
            await offsets_of(reader, 0, 10)
        reader.close()

    play(GappedCluster(), main)


def test_a_damaged_batch_is_said_to_be_damaged() -> None:
    class Damaged(GappedCluster):
        def _fetch_partition(self, broker: ScriptedBroker, name: str, index: int, offset: int) -> PartitionData:
            data = super()._fetch_partition(broker, name, index, offset)
            assert isinstance(data.records, bytes)
            data.records = data.records[:-1] + bytes([data.records[-1] ^ 1])
            return data

    async def main(world: GappedCluster) -> None:
        world.add("t", 0, 5)
        reader = reader_in(world)
        with pytest.raises(UnreadableError, match="t-0 cannot be read at offset"):
            await offsets_of(reader, 0, 5)
        reader.close()

    play(Damaged(), main)


def test_markers_are_passed_and_counted_as_offsets() -> None:
    class Marked(GappedCluster):
        def _fetch_partition(self, broker: ScriptedBroker, name: str, index: int, offset: int) -> PartitionData:
            data = super()._fetch_partition(broker, name, index, offset)
            assert isinstance(data.records, bytes)
            if offset <= 5 <= offset + 10:
                data.records += build_end_txn_marker(
                    ControlType.COMMIT, coordinator_epoch=0, base_offset=5, timestamp=0, producer_id=7, producer_epoch=0
                )
            return data

    async def main(world: GappedCluster) -> None:
        world.add("t", 0, 6)
        world.removed = {5}
        reader = reader_in(world)
        assert await offsets_of(reader, 0, 6) == [0, 1, 2, 3, 4]
        assert await offsets_of(reader, 5, 6) == []
        reader.close()

    play(Marked(), main)

"""What must hold of a log at any moment, and that a node stops where it does not: no handler takes a `BugError` for a fault."""

from __future__ import annotations

from collections.abc import Sequence
from unittest import mock

import pytest

from tests.support.appends import checked
from tests.support.log_builder import LogBuilder
from tidelog.model.bugs import BugError
from tidelog.model.ids import Offset, ProducerId
from tidelog.simulation.disk import SimulatedFile
from tidelog.storage.append import AppendRefused, AppendRule
from tidelog.storage.checked_batches import check_copied
from tidelog.storage.fetched import FetchIsolation
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.producer import BatchMetadata, ProducerState


def test_the_high_watermark_stays_within_the_log(logs: LogBuilder, log: PartitionLog) -> None:
    logs.append(log, "a", "b")
    log.commit_up_to(1)

    with pytest.raises(BugError, match="from 1 to 3"):
        log.commit_up_to(3)
    with pytest.raises(BugError, match="from 1 to 0"):
        log.commit_up_to(0)
    assert log.high_watermark == 1


def test_the_log_ends_further_on_after_an_append(logs: LogBuilder, log: PartitionLog) -> None:
    logs.append(log, "a")
    pwritev = SimulatedFile.pwritev

    def write_and_move(file: SimulatedFile, buffers: Sequence[bytes], position: int) -> int:
        log.log_end_offset = Offset(9)
        return pwritev(file, buffers, position)

    with mock.patch.object(SimulatedFile, "pwritev", write_and_move), pytest.raises(BugError, match="cannot end at"):
        logs.append(log, "b")


@pytest.mark.parametrize("count", [1, 2])
def test_a_segment_has_got_all_that_was_written_to_it(logs: LogBuilder, log: PartitionLog, count: int) -> None:
    logs.append(log, "a")
    pwritev = SimulatedFile.pwritev

    with (
        mock.patch.object(SimulatedFile, "pwritev", lambda *args: pwritev(*args) - 1),
        pytest.raises(BugError, match=r"has got \d+ bytes"),
    ):
        log.append([checked(logs.batch("b")) for _ in range(count)], AppendRule.LEADER, 0)


def test_a_file_holds_what_its_segment_says(logs: LogBuilder, log: PartitionLog) -> None:
    logs.append(log, "a")
    segment = log.segments.active
    segment.file.truncate(segment.size_bytes - 1)

    with pytest.raises(BugError, match=f"its file has {segment.size_bytes - 1} bytes"):
        log.roll()


def test_a_read_is_answered_with_what_the_segment_has(logs: LogBuilder, log: PartitionLog) -> None:
    logs.append(log, "a")
    logs.append(log, "b")
    segment = log.segments.active
    log.reader._places[1] = (segment, segment.size_bytes + 1)
    log.reader._places[2] = (segment, segment.size_bytes + 9)
    log.high_watermark = Offset(1)

    with pytest.raises(BugError, match="is answered with"):
        log.read(0, 1 << 20, upper_bound=FetchIsolation.HIGH_WATERMARK)


def test_no_two_segments_begin_at_one_offset(logs: LogBuilder, log: PartitionLog) -> None:
    logs.append(log, "a")

    with pytest.raises(BugError, match="is added where"):
        log.segments.add(log.segments.active)


def test_a_producers_batches_rise() -> None:
    state = ProducerState(ProducerId(1), 0, batches=[BatchMetadata(0, 5, 0, 0)])

    with pytest.raises(BugError, match="behind its batches"):
        state.take_in(checked(LogBuilder().batch("a", producer_id=1, producer_epoch=0, base_sequence=1)), 5)


def test_only_what_can_be_written_to_gets_a_place(logs: LogBuilder) -> None:
    batches = check_copied(bytes(logs.batch("a")))
    assert not isinstance(batches, AppendRefused)

    with pytest.raises(BugError, match="cannot be given a place"):
        batches[0].place(1, 0)

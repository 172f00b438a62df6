"""What uncommitted records have replaced: kept until they are committed, and no longer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from tidelog.coordination import timeline
from tidelog.coordination.coordinator_log import CoordinatorPartition
from tidelog.coordination.timeline import Earlier, Timeline, as_committed


@dataclass
class Log:
    high_watermark: int = 0
    log_end_offset: int = 0


@dataclass
class Partition:
    log: Log | None


class Numbers:
    """Numbers by name, each change of which is a record."""

    def __init__(self, log: Log | None) -> None:
        self.log = log
        self.partition = Partition(log)
        self.timeline = Timeline(cast("CoordinatorPartition", self.partition) if log is not None else None)
        self.now: dict[str, int] = {}
        self.earlier: Earlier[str, int] = {}

    def write(self, name: str, number: int) -> None:
        offset = 0
        if self.log is not None:
            offset = self.log.log_end_offset
            self.log.log_end_offset += 1
        self.timeline.begin_replay(offset)
        self.timeline.note(self.earlier, name, self.now.get(name))
        self.timeline.end_replay()
        self.now[name] = number

    def read(self, name: str) -> int | None:
        self.timeline.trim()
        return as_committed(self.earlier, name, self.now.get(name))


def test_a_value_is_read_as_of_its_last_committed_record() -> None:
    log = Log()
    numbers = Numbers(log)
    for number in (1, 2, 3):
        numbers.write("a", number)
        numbers.write("b", 10 * number)
    seen = []
    for log.high_watermark in range(7):
        seen.append((numbers.read("a"), numbers.read("b")))
    assert seen == [(None, None), (1, None), (1, 10), (2, 10), (2, 20), (3, 20), (3, 30)]
    assert numbers.timeline.change_count == 0
    assert numbers.earlier == {}


def test_nothing_is_kept_of_what_is_committed_at_once() -> None:
    log = Log(high_watermark=100)
    numbers = Numbers(log)
    numbers.write("a", 1)
    assert numbers.timeline.change_count == 0
    assert Numbers(None).timeline.is_noting is False


def test_writers_forget_what_is_committed_where_nobody_reads() -> None:
    log = Log()
    numbers = Numbers(log)
    for number in range(100):
        numbers.write("a", number)
        log.high_watermark = log.log_end_offset - 1
    assert numbers.timeline.change_count <= 2
    assert numbers.read("a") == 98


def test_what_a_decision_changes_itself_counts_once_its_record_is_committed() -> None:
    log = Log(high_watermark=5, log_end_offset=5)
    numbers = Numbers(log)
    numbers.timeline.note(numbers.earlier, "a", None)
    numbers.now["a"] = 1
    assert numbers.read("a") is None
    log.log_end_offset = 6
    assert numbers.read("a") is None
    log.high_watermark = 6
    assert numbers.read("a") == 1


def test_nothing_becomes_committed_while_the_log_is_offline() -> None:
    log = Log()
    numbers = Numbers(log)
    numbers.write("a", 1)
    numbers.partition.log = None
    assert numbers.read("a") is None


def test_what_is_kept_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "CHANGES_MAX", 10)
    log = Log()
    numbers = Numbers(log)
    numbers.write("a", 0)
    numbers.write("b", 0)
    log.high_watermark = log.log_end_offset
    for number in range(1, 1_000):
        numbers.write("a", number)
        numbers.write("b", number)
        assert (numbers.read("a"), numbers.read("b")) == (0, 0)
        assert numbers.timeline.change_count <= 10
    # A value that was committed is read until the newest one is.
    log.high_watermark = log.log_end_offset - 2
    assert numbers.read("a") in range(999)
    log.high_watermark = log.log_end_offset - 1
    assert numbers.read("a") == 999
    log.high_watermark = log.log_end_offset
    assert (numbers.read("a"), numbers.read("b")) == (999, 999)
    assert numbers.timeline.change_count == 0


def test_many_keys_are_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "CHANGES_MAX", 10)
    log = Log()
    numbers = Numbers(log)
    for number in range(100):
        numbers.write(str(number), number)
    assert all(numbers.read(str(number)) is None for number in range(100))
    log.high_watermark = 50
    assert [numbers.read(str(number)) for number in (0, 49, 50, 99)] == [0, 49, None, None]

"""Cleans logs of tests, at once and on the caller's own stack; over either twin of what is compiled for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple
from unittest import mock

import pytest

from tests.support.appends import as_leader
from tests.support.kernel_twins import TWINS, module_on
from tests.support.log_builder import LogBuilder, accepted
from tidelog.kernel_choice import Twin
from tidelog.storage.append import AppendInfo
from tidelog.storage.cleaning import cleaning, filtering, indexing
from tidelog.storage.cleaning.cleanable import dirty_range
from tidelog.storage.cleaning.cleaning import Cleaning, CleaningEnd, CleaningLimits, CleaningResult
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.partition_log import PartitionLog
from tidelog.wire.compression import Compression
from tidelog.wire.record_batch import BatchHeader, TimestampType, each_batch
from tidelog.wire.records import Record, build_batch, decode_batch

LIMITS = CleaningLimits(map_bytes=1 << 20, map_load_factor=0.9, window_bytes=1 << 16)


@contextmanager
def using(twin: Twin) -> Iterator[None]:
    """Cleanings run on this twin of `batch_runs` and of the map."""
    runs, offset_map = (module_on(f"tidelog.storage.cleaning.{name}", twin) for name in ("batch_runs", "offset_map"))
    with ExitStack() as stack:
        for module in (indexing, filtering):
            stack.enter_context(mock.patch.object(module, "batch_runs", runs))
        stack.enter_context(mock.patch.object(cleaning, "OffsetMap", offset_map.OffsetMap))
        yield


@pytest.fixture(params=TWINS)
def cleaning_twin(request: pytest.FixtureRequest) -> Iterator[Twin]:
    """Import this fixture into a module whose tests hold for both twins."""
    chosen: Twin = request.param
    with using(chosen):
        yield chosen


class NoTimers:
    """For cleanings that nothing slows down."""

    def after(self, delay_ms: float, callback: Callable[[], None]) -> NoTimers:
        raise AssertionError(f"{callback} was put off by {delay_ms} ms")

    def cancel(self) -> None:
        raise AssertionError("there is no timer")


class Unthrottled:
    piece_bytes = 1000

    def delay_ms(self, count: int) -> int:
        assert count >= 0
        return 0


def cleaning_of(
    logs: LogBuilder, log: PartitionLog, then: Callable[[CleaningResult], None], limits: CleaningLimits = LIMITS
) -> Cleaning:
    """A cleaning that has not begun."""
    checkpoint = logs.cleaner_offset or None
    dirty = dirty_range(log, checkpoint, logs.clock.ms)
    return Cleaning(log, dirty, limits, logs.seams, NoTimers(), Unthrottled(), then)


def clean(logs: LogBuilder, log: PartitionLog, limits: CleaningLimits = LIMITS) -> CleaningResult:
    """Clean what can be cleaned, whether it is due or not, and take note of it as the log directory would."""
    results: list[CleaningResult] = []
    cleaning_of(logs, log, results.append, limits).start()
    (result,) = results
    if result.end is CleaningEnd.DONE:
        logs.cleaner_offset = result.cleaned_until
    return result


def append_keyed(
    log: PartitionLog,
    *pairs: tuple[str | None, str | None],
    timestamp_ms: int,
    codec: Compression = Compression.NONE,
    producer: tuple[int, int, int] | None = None,
    is_transactional: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> AppendInfo:
    """Append one batch of keys and values. `producer` is (id, epoch, first sequence)."""
    rows = [
        Record(number, timestamp_ms, _bytes(key), _bytes(value), (("n", str(number).encode()),))
        for number, (key, value) in enumerate(pairs)
    ]
    producer_id, producer_epoch, base_sequence = producer or (-1, -1, -1)
    batch = build_batch(
        rows,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        timestamp_type=timestamp_type,
    )
    info = accepted(as_leader(log, batch, 0))
    log.set_high_watermark(log.log_end_offset)
    return info


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


class StoredBatch(NamedTuple):
    header: BatchHeader
    records: Sequence[Record]


def batches_of(log: PartitionLog) -> list[StoredBatch]:
    """Everything in the log, markers and empty batches included."""
    found: list[StoredBatch] = []
    offset: int = log.log_start_offset
    while True:
        fetched = log.read(offset, 1 << 20, upper_bound=FetchIsolation.LOG_END)
        assert isinstance(fetched, Fetched), fetched
        if not fetched.regions:
            return found
        buffer = b"".join(region.read() for region in fetched.regions)
        for position, header in each_batch(buffer):
            found.append(StoredBatch(header, decode_batch(buffer, header, position)))
            offset = header.next_offset


def pairs_of(log: PartitionLog) -> list[tuple[int, str | None, str | None]]:
    """Offset, key and value of every record that is no marker."""
    return [
        (row.offset, _text(row.key), _text(row.value))
        for header, records in batches_of(log)
        if not header.is_control
        for row in records
    ]


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()

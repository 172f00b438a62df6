"""Pages of records of some partitions: from an offset, a time, the beginning, or the newest.

    page = await read_page(view, chosen, limit=50)
    page.rows · page.next · page.end · page.at_end

A page is bounded by its records, its bytes and its time, whichever comes first; `next` says where it goes on. Rows of several
partitions are in the order of their times, those of one in the order of their offsets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tidelog.client.admin import OffsetSpec, value_of
from tidelog.client.consumer.records import ConsumerRecord
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError
from tidelog.console.cluster.view import ClusterView
from tidelog.console.records.value_text import ValueDecoder
from tidelog.console.serving.api_error import ApiError, not_there, wrong_question

Row = ConsumerRecord[bytes | None, bytes | None]

LIMIT_MAX = 500
PARTITIONS_MAX = 200
PAGE_BYTES_MAX = 16 * 1024 * 1024
_PAGE_S = 8.0
_POLL_MS = 200
_POLL_RECORDS = 500


class Ranges(NamedTuple):
    """Where partitions begin and end, as a reader of some isolation may read."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]


class Page(NamedTuple):
    rows: list[Row]
    next: dict[TopicPartition, int]
    ends: Mapping[TopicPartition, int]

    @property
    def at_end(self) -> bool:
        return all(offset >= self.ends[partition] for partition, offset in self.next.items())


async def chosen_partitions(view: ClusterView, topic: str, written: str | None) -> list[TopicPartition]:
    """`all`, or numbers with commas. ApiError for partitions that there are not."""
    described = await view.admin.describe_topic(topic)
    there = {each.index for each in described.partitions}
    if written in {None, "", "all"}:
        chosen = sorted(there)
    else:
        assert written is not None
        numbers = written.split(",")
        if not all(each.isascii() and each.isdigit() and len(each) < 10 for each in numbers):
            raise wrong_question(f"partition is {written!r:.60}: numbers with commas between them, or all")
        chosen = sorted({int(each) for each in numbers})
        missing = [each for each in chosen if each not in there]
        if missing:
            raise not_there(f"topic {topic} has no partition {missing[0]}")
    if len(chosen) > PARTITIONS_MAX:
        raise wrong_question(f"{len(chosen)} partitions are too many for one page: choose up to {PARTITIONS_MAX}")
    return [TopicPartition(topic, each) for each in chosen]


async def ranges_of(view: ClusterView, partitions: Sequence[TopicPartition], *, read_committed: bool) -> Ranges:
    """A partition without a leader is left out."""
    starts, ends = await asyncio.gather(
        view.admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST)),
        view.admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST), read_committed=read_committed),
    )
    errors = [each for each in (*starts.values(), *ends.values()) if isinstance(each, ClientError)]
    known = {
        each: (found.offset or 0, end.offset or 0)
        for each in partitions
        if not isinstance(found := starts[each], ClientError) and not isinstance(end := ends[each], ClientError)
    }
    if errors and not known:
        raise errors[0]
    return Ranges({each: start for each, (start, _) in known.items()}, {each: end for each, (_, end) in known.items()})


async def begin_at(
    view: ClusterView, ranges: Ranges, written: str, limit: int, *, is_page: bool = True
) -> dict[TopicPartition, int]:
    """The offsets that `earliest`, `latest`, `offset:N`, `time:MS` or `0@12,1@7` stand for. `latest` begins so far before the
    end that a page is full; with partitions and their offsets, those that are not named are left where they end."""
    if "@" in written:
        return _positions(ranges, written)
    word, _, value = written.partition(":")
    if word == "earliest":
        return dict(ranges.starts)
    if word == "latest":
        back = limit if is_page else 0
        return {each: max(ranges.starts[each], end - back) for each, end in ranges.ends.items()}
    if word == "offset":
        offset = _number(value, written)
        return {each: min(max(offset, start), ranges.ends[each]) for each, start in ranges.starts.items()}
    if word == "time":
        moment = _number(value, written)
        found = await view.admin.list_offsets(dict.fromkeys(ranges.ends, moment))
        times = {each: value_of(found[each]).offset for each in ranges.ends}
        return {
            each: ranges.ends[each] if offset is None else min(offset, ranges.ends[each])
            for each, offset in times.items()
        }
    raise wrong_question(
        f"from is {written!r:.60}: earliest, latest, offset:N, time:MILLISECONDS or PARTITION@OFFSET,..."
    )


def _positions(ranges: Ranges, written: str) -> dict[TopicPartition, int]:
    by_index = {each.partition: each for each in ranges.starts}
    begun: dict[TopicPartition, int] = {}
    for pair in written.split(","):
        index, _, offset = pair.partition("@")
        partition = by_index.get(_number(index, written))
        if partition is not None:
            begun[partition] = min(max(_number(offset, written), ranges.starts[partition]), ranges.ends[partition])
    return {each: begun.get(each, ranges.ends[each]) for each in ranges.starts}


def _number(text: str, written: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise wrong_question(f"from is {written!r:.60}, and {text!r:.20} is no number")
    return int(text)


async def read_page(
    view: ClusterView,
    ranges: Ranges,
    begun: Mapping[TopicPartition, int],
    limit: int,
    *,
    newest: bool,
    read_committed: bool,
) -> Page:
    """Up to `limit` rows from these offsets; the newest of them where asked for."""
    by_partition: dict[TopicPartition, list[Row]] = {each: [] for each in begun}
    positions = dict(begun)
    wanted = [each for each, offset in begun.items() if offset < ranges.ends[each]]
    if wanted:
        await _collect(view, ranges, begun, wanted, by_partition, positions, limit, read_committed=read_committed)
    rows = _merged(by_partition)
    if newest:
        return Page(rows[-limit:], {each: max(positions[each], ranges.ends[each]) for each in begun}, ranges.ends)
    shown = rows[:limit]
    following = dict(positions)
    for row in rows[limit:]:
        place = TopicPartition(row.topic, row.partition)
        following[place] = min(following[place], row.offset)
    return Page(shown, following, ranges.ends)


async def _collect(
    view: ClusterView,
    ranges: Ranges,
    begun: Mapping[TopicPartition, int],
    wanted: Sequence[TopicPartition],
    by_partition: dict[TopicPartition, list[Row]],
    positions: dict[TopicPartition, int],
    limit: int,
    *,
    read_committed: bool,
) -> None:
    pending = set(wanted)
    size, deadline_s = 0, time.monotonic() + _PAGE_S
    async with view.reader(read_committed=read_committed) as consumer:
        consumer.assign(wanted)
        for each in wanted:
            consumer.seek(each, begun[each])
        while pending and size < PAGE_BYTES_MAX and time.monotonic() < deadline_s:
            rows: list[Row] = await consumer.poll(timeout_ms=_POLL_MS, max_records=_POLL_RECORDS)
            for row in rows:
                place = TopicPartition(row.topic, row.partition)
                kept = by_partition[place]
                if len(kept) < limit and row.offset < ranges.ends[place] and size < PAGE_BYTES_MAX:
                    kept.append(row)
                    size += size_of(row)
                    positions[place] = row.offset + 1
            for each in list(pending):
                if len(by_partition[each]) >= limit:
                    pending.discard(each)
                elif await consumer.position(each) >= ranges.ends[each]:
                    # Behind the last record there may be markers, which nobody sees.
                    positions[each] = ranges.ends[each]
                    pending.discard(each)
            done = [each for each in wanted if each not in pending]
            if done and pending:
                consumer.pause(*done)


def _merged(by_partition: Mapping[TopicPartition, list[Row]]) -> list[Row]:
    """By time, without a row of a partition going before an earlier one of it."""
    keyed: list[tuple[int, int, int, Row]] = []
    for partition, rows in by_partition.items():
        latest = -1
        for row in rows:
            latest = max(latest, row.timestamp_ms)
            keyed.append((latest, partition.partition, row.offset, row))
    keyed.sort(key=lambda each: each[:3])
    return [each[3] for each in keyed]


def size_of(row: Row) -> int:
    return (
        len(row.key or b"") + len(row.value or b"") + sum(len(name) + len(value or b"") for name, value in row.headers)
    )


async def read_record(view: ClusterView, partition: TopicPartition, offset: int) -> Row:
    """One record, whole. ApiError where there is none at that offset."""
    ranges = await ranges_of(view, [partition], read_committed=False)
    start, end = ranges.starts[partition], ranges.ends[partition]
    if not start <= offset < end:
        raise not_there(
            f"partition {partition} has offsets {start} to {end - 1}, and not {offset}"
            if end > start
            else f"partition {partition} has no records"
        )
    deadline_s = time.monotonic() + _PAGE_S
    async with view.reader() as consumer:
        consumer.assign([partition])
        consumer.seek(partition, offset)
        while time.monotonic() < deadline_s:
            rows: list[Row] = await consumer.poll(timeout_ms=_POLL_MS, max_records=1)
            if rows and rows[0].offset == offset:
                return rows[0]
            if rows or await consumer.position(partition) > offset:
                raise not_there(
                    f"there is no record at {partition} offset {offset}: it was compacted away, or is a marker"
                )
    raise ApiError(504, "REQUEST_TIMED_OUT", f"the leader of {partition} sent nothing in {_PAGE_S:.0f} s", "ask again")


async def shown_row(decoder: ValueDecoder, row: Row, form: str, text_max: int) -> dict[str, Any]:
    """A record as the contract has it."""
    return {
        "partition": row.partition,
        "offset": row.offset,
        "timestamp_ms": row.timestamp_ms if row.timestamp_ms >= 0 else None,
        "timestamp_type": row.timestamp_type.name.lower(),
        "key": await decoder.shown(row.key, form, text_max),
        "value": await decoder.shown(row.value, form, text_max),
        "headers": [[name, await decoder.shown(value, "auto", text_max)] for name, value in row.headers],
        "size": size_of(row),
    }

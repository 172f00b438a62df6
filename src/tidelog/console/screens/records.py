"""Records of a topic: pages, one whole record, a search, a live tail, an export."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

from starlette.responses import Response, StreamingResponse

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.console.records.record_export import MEDIA_TYPES, exported
from tidelog.console.records.record_filter import PLACES, RecordFilter
from tidelog.console.records.record_reading import (
    LIMIT_MAX,
    Page,
    Ranges,
    Row,
    begin_at,
    chosen_partitions,
    ranges_of,
    read_page,
    read_record,
    shown_row,
    size_of,
)
from tidelog.console.records.value_text import FORMATS, TEXT_MAX, WHOLE_MAX, ValueDecoder
from tidelog.console.serving.answers import Event, Json, choice, flag, whole
from tidelog.console.serving.call import Call, get, stream

_ISOLATIONS = ("read_uncommitted", "read_committed")
_DEFAULT_LIMIT = 50

HITS_MAX = 1_000
_PROGRESS_S = 0.25
_SEARCH_POLL = 2_000
_SILENT_POLLS_MAX = 100

TAIL_SHOWN_MAX = 25
_TAIL_S = 0.25
# Behind by more than this, the tail goes to the end: it shows samples.
_TAIL_BEHIND_MAX = 1_000
_TAIL_BACK = 25

EXPORT_MAX = 1_000_000
_EXPORT_PAGE = 500


async def list_records(call: Call) -> Json:
    partitions = await chosen_partitions(call.view, call.path("topic"), call.query.get("partition"))
    committed = choice(call.query, "isolation", _ISOLATIONS) == "read_committed"
    form = choice(call.query, "format", FORMATS)
    limit = whole(call.query, "limit", _DEFAULT_LIMIT, at_least=1, at_most=LIMIT_MAX)
    page, ranges = await _page(call, partitions, limit, read_committed=committed)
    decoder = call.console.decoder(call.cluster)
    return {
        "records": [await shown_row(decoder, row, form, TEXT_MAX) for row in page.rows],
        "next": {str(each.partition): offset for each, offset in page.next.items()},
        "start": {str(each.partition): offset for each, offset in ranges.starts.items()},
        "end": {str(each.partition): offset for each, offset in page.ends.items()},
        "at_end": page.at_end,
    }


async def _page(
    call: Call, partitions: list[TopicPartition], limit: int, *, read_committed: bool
) -> tuple[Page, Ranges]:
    written = call.query.get("from") or "latest"
    ranges = await ranges_of(call.view, partitions, read_committed=read_committed)
    begun = await begin_at(call.view, ranges, written, limit)
    newest = written == "latest"
    return await read_page(call.view, ranges, begun, limit, newest=newest, read_committed=read_committed), ranges


async def show_record(call: Call) -> Json:
    partition = TopicPartition(call.path("topic"), whole(call.query, "partition", 0, at_most=2**31 - 1))
    row = await read_record(call.view, partition, whole(call.query, "offset", 0))
    form = choice(call.query, "format", FORMATS)
    return await shown_row(call.console.decoder(call.cluster), row, form, WHOLE_MAX)


async def search(call: Call) -> AsyncGenerator[Event]:
    """Hits as they are found, and how much has been searched of how much."""
    partitions = await chosen_partitions(call.view, call.path("topic"), call.query.get("partition"))
    wanted = RecordFilter(call.query.get("q", ""), choice(call.query, "in", PLACES), is_regex=flag(call.query, "regex"))
    committed = choice(call.query, "isolation", _ISOLATIONS) == "read_committed"
    form = choice(call.query, "format", FORMATS)
    ranges = await ranges_of(call.view, partitions, read_committed=committed)
    begun = await begin_at(call.view, ranges, call.query.get("from") or "earliest", 0, is_page=False)
    until = dict(ranges.ends)
    if call.query.get("until"):
        until = await begin_at(call.view, ranges, call.query["until"], 0, is_page=False)
    limit = whole(call.query, "limit", HITS_MAX, at_least=1, at_most=HITS_MAX)
    decoder = call.console.decoder(call.cluster)
    progress = _Progress(begun, until)
    pending = [each for each in begun if begun[each] < until[each]]
    hits, silent, told_s = 0, 0, 0.0
    if pending:
        async with call.view.reader(read_committed=committed) as consumer:
            consumer.assign(pending)
            for each in pending:
                consumer.seek(each, begun[each])
            while pending and hits < limit and silent < _SILENT_POLLS_MAX:
                rows: list[Row] = await consumer.poll(timeout_ms=100, max_records=_SEARCH_POLL)
                silent = 0 if rows else silent + 1
                left: dict[TopicPartition, int] = {}
                for row in rows:
                    place = TopicPartition(row.topic, row.partition)
                    if hits >= limit:
                        # Not looked at: a search that goes on begins here.
                        left.setdefault(place, row.offset)
                        continue
                    progress.bytes += size_of(row)
                    if row.offset >= until[place]:
                        continue
                    if wanted.takes(row) or await _takes_decoded(decoder, wanted, row, form):
                        hits += 1
                        yield "hit", await shown_row(decoder, row, form, TEXT_MAX)
                for each in list(pending):
                    position = left.get(each, await consumer.position(each))
                    silent = silent if position == progress.at[each] else 0
                    progress.at[each] = position
                    if position >= until[each]:
                        pending.remove(each)
                        consumer.pause(each)
                now_s = time.monotonic()
                if now_s - told_s >= _PROGRESS_S:
                    told_s = now_s
                    yield "progress", progress.as_json()
    yield "progress", progress.as_json()
    yield (
        "done",
        {
            "searched": progress.searched,
            "complete": not pending,
            "hits": hits,
            # Where a search that stopped at its limit goes on.
            "next": {str(each.partition): offset for each, offset in progress.at.items()},
        },
    )


async def _takes_decoded(decoder: ValueDecoder, wanted: RecordFilter, row: Row, form: str) -> bool:
    if form not in {"avro", "protobuf"} or row.value is None:
        return False
    shown = await decoder.shown(row.value, form, WHOLE_MAX)
    return shown is not None and "problem" not in shown and wanted.takes_text(shown["text"])


class _Progress:
    def __init__(self, begun: dict[TopicPartition, int], until: dict[TopicPartition, int]) -> None:
        self._begun = begun
        self._until = until
        self.at = dict(begun)
        self.bytes = 0

    @property
    def searched(self) -> int:
        return sum(
            min(self.at[each], self._until[each]) - min(start, self._until[each]) for each, start in self._begun.items()
        )

    def as_json(self) -> Json:
        of = sum(max(0, self._until[each] - start) for each, start in self._begun.items())
        return {"searched": self.searched, "of": of, "bytes": self.bytes}


async def tail(call: Call) -> AsyncGenerator[Event]:
    """What comes in, four times a second: all of it while it is little, samples of it while it is much. `seen` counts all."""
    partitions = await chosen_partitions(call.view, call.path("topic"), call.query.get("partition"))
    wanted = RecordFilter(call.query.get("q", ""), choice(call.query, "in", PLACES), is_regex=flag(call.query, "regex"))
    form = choice(call.query, "format", FORMATS)
    decoder = call.console.decoder(call.cluster)
    ranges = await ranges_of(call.view, partitions, read_committed=False)
    at = dict(ranges.ends)
    async with call.view.reader(fetch_max_wait_ms=50) as consumer:
        consumer.assign(list(at))
        for each, end in at.items():
            consumer.seek(each, end)
        begun_s = time.monotonic()
        while True:
            seen, passed = 0, 0
            shown: list[Row] = []
            turn_s = time.monotonic() + _TAIL_S
            while (left_s := turn_s - time.monotonic()) > 0:
                rows: list[Row] = await consumer.poll(timeout_ms=max(1, int(left_s * 1000)), max_records=_SEARCH_POLL)
                for row in rows:
                    if wanted.takes(row):
                        shown.append(row)
                        passed += 1
                if len(shown) > 4 * TAIL_SHOWN_MAX:
                    shown = shown[-TAIL_SHOWN_MAX:]
            behind = await _ends(call, list(at))
            for each, before in list(at.items()):
                position = await consumer.position(each)
                end = behind.get(each, position)
                if end - position > _TAIL_BEHIND_MAX:
                    # What lies between is counted, and not read.
                    position = end - _TAIL_BACK
                    consumer.seek(each, position)
                seen += max(0, position - before)
                at[each] = position
            now_s = time.monotonic()
            rate = seen / max(1e-3, now_s - begun_s)
            begun_s = now_s
            kept = shown[-TAIL_SHOWN_MAX:]
            yield (
                "records",
                {
                    "records": [await shown_row(decoder, row, form, TEXT_MAX) for row in kept],
                    "seen": seen,
                    "shown": len(kept),
                    "sampled": seen > len(kept) and (wanted.is_everything or passed > len(kept)),
                    "rate": round(rate, 1),
                },
            )


async def _ends(call: Call, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    ranges = await ranges_of(call.view, partitions, read_committed=False)
    return dict(ranges.ends)


async def export(call: Call) -> Response:
    """A download, written as it is read."""
    topic = call.path("topic")
    partitions = await chosen_partitions(call.view, topic, call.query.get("partition"))
    kind = choice(call.query, "format", tuple(MEDIA_TYPES))
    form = choice(call.query, "values", FORMATS)
    committed = choice(call.query, "isolation", _ISOLATIONS) == "read_committed"
    limit = whole(call.query, "limit", 1_000, at_least=1, at_most=EXPORT_MAX)
    written = call.query.get("from") or "earliest"
    ranges = await ranges_of(call.view, partitions, read_committed=committed)
    begun = await begin_at(call.view, ranges, written, limit)
    pages = _pages(call, ranges, begun, limit, committed=committed, newest=written == "latest")
    # What is wrong with the question is told before the first byte.
    stream_of = await exported(kind, pages, call.console.decoder(call.cluster), form)
    return StreamingResponse(
        stream_of,
        media_type=MEDIA_TYPES[kind],
        headers={"Content-Disposition": f'attachment; filename="{topic}.{kind}"'},
    )


async def _pages(
    call: Call, ranges: Ranges, begun: dict[TopicPartition, int], limit: int, *, committed: bool, newest: bool
) -> AsyncGenerator[list[Row]]:
    at, left = begun, limit
    if newest and limit <= LIMIT_MAX:
        page = await read_page(call.view, ranges, at, limit, newest=True, read_committed=committed)
        yield page.rows
        return
    while left > 0:
        page = await read_page(call.view, ranges, at, min(left, _EXPORT_PAGE), newest=False, read_committed=committed)
        if not page.rows and page.next == at:
            return
        yield page.rows
        left -= len(page.rows)
        at = page.next
        if page.at_end:
            return
        # Whoever else waits has a turn between two pages.
        await asyncio.sleep(0)


ROUTES = [
    get("/topics/{topic}/records", list_records),
    get("/topics/{topic}/record", show_record),
    stream("/topics/{topic}/search", search),
    stream("/topics/{topic}/tail", tail),
    get("/topics/{topic}/export", export),
]

"""What happens to one partition while somebody watches: the lines of all nodes that have it, in one order, for every watcher.

    feed = feeds.of(view, partition)
    with feed.watched() as events: ...          # ("state", ...), ("events", ...), ("gap", ...), ("source", ...)

One listener a node, however many tabs watch; it is dialled again when its node comes back, and follows the partition when that
moves. A node that does not tell is asked by protocol alone: then the high watermark and the in-sync set are seen as often as they
are polled. Nobody waits for a watcher: what it does not take in time is dropped, and counted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from tidelog.client.admin import OffsetSpec, PartitionDescription
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError
from tidelog.console.cluster.view import ClusterView
from tidelog.console.serving.answers import Event, Json
from tidelog.console.serving.api_error import ApiError, api_error_of
from tidelog.console.trace_merge import Merged, TraceMerge
from tidelog.console.xray.node_http import NodeHttp, NodeHttpError
from tidelog.console.xray.rights import check_rights

log = logging.getLogger(__name__)

# Partitions that one user watches at a time.
FEEDS_MAX = 4
# Events that wait for one watcher, some ten seconds of a busy partition.
WAITING_MAX = 5_000
# More than this in one message is no picture any more.
EVENTS_PER_MESSAGE = 1_000
# Groups whose commits are listened to.
GROUPS_MAX = 2
# Transactions whose ends are listened to.
TRANSACTIONS_MAX = 2
# For so long after it was seen to be open: its end is told by then.
_ENDED_S = 10.0

_TURN_S = 0.1
_POLL_S = 0.5
_REDIAL_S = 1.0


class Watcher:
    """What waits for one tab."""

    def __init__(self) -> None:
        self._waiting: list[Event] = []
        self._events = 0
        self._dropped = 0
        self._news = asyncio.Event()

    def put(self, event: Event) -> None:
        """What has been told of the same thing and still waits is of no use any more: a tab that does not read has it once."""
        subject = _subject(event)
        kept = self._waiting if subject is None else [each for each in self._waiting if _subject(each) != subject]
        if len(kept) == len(self._waiting) >= WAITING_MAX:
            self._dropped += 1
            return
        self._waiting = kept
        self._waiting.append(event)
        self._news.set()

    def put_events(self, events: list[Json]) -> None:
        room = WAITING_MAX - self._events
        kept = events[: max(0, room)]
        self._dropped += len(events) - len(kept)
        if kept:
            self._events += len(kept)
            self.put(("events", {"events": kept}))

    async def next(self) -> list[Event]:
        """What has come since the last call, in order."""
        await self._news.wait()
        self._news.clear()
        waiting, self._waiting, self._events = self._waiting, [], 0
        if self._dropped:
            reason = "more happened than this window takes"
            waiting.append(("gap", {"node": None, "dropped": self._dropped, "reason": reason}))
            self._dropped = 0
        return waiting


def _subject(event: Event) -> str | None:
    """Of what an event tells how it is now; None for one that tells what has happened."""
    name, told = event
    return f"source {told['source']}" if name == "source" else name if name == "state" else None


class PartitionFeed:
    def __init__(self, view: ClusterView, access: NodeHttp, partition: TopicPartition) -> None:
        self._view = view
        self._access = access
        self._partition = partition
        self._merge = TraceMerge()
        self._watchers: list[Watcher] = []
        self._listeners: dict[str, asyncio.Task[None]] = {}
        self._sources: dict[str, dict[str, Json]] = {}
        self._state: dict[str, Json] = {}
        self._turns: list[asyncio.Task[None]] = []
        self._dials = 0
        self._transactions: dict[str, tuple[int, float]] = {}
        """The coordinators of those that were open when the partition was looked at last, and until when they are listened to."""

    @property
    def is_watched(self) -> bool:
        return bool(self._watchers)

    @contextmanager
    def watched(self) -> Iterator[Watcher]:
        """The feed listens as long as somebody watches."""
        watcher = Watcher()
        self._watchers.append(watcher)
        if len(self._watchers) == 1:
            self._turns = [self._begin(self._merge_turns(), "merges"), self._begin(self._polls(), "polls")]
        elif self._state:
            watcher.put(("state", self.state()))
        try:
            yield watcher
        finally:
            self._watchers.remove(watcher)
            if not self._watchers:
                self._end()

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """A task whose fault is seen by those who watch, and by the log."""

        def done(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("the feed of %s has failed", self._partition, exc_info=error)
                problem = ApiError(500, "UNKNOWN_SERVER_ERROR", "the console has failed here", "its log says where")
                self._tell(("problem", problem.as_json()))

        task = asyncio.get_running_loop().create_task(work, name=f"{self._partition}: {name}")
        task.add_done_callback(done)
        return task

    def _end(self) -> None:
        for task in (*self._turns, *self._listeners.values()):
            task.cancel()
        self._turns, self._listeners, self._sources, self._state = [], {}, {}, {}
        self._transactions = {}
        self._merge = TraceMerge()

    def state(self) -> Json:
        return {"partition": self._state, "sources": self._shown_sources()}

    def _shown_sources(self) -> list[Json]:
        clocks = self._merge.clocks()
        shown = []
        for each in self._sources.values():
            clock = clocks.get(each["node"])
            is_told = each["traced"] and clock is not None
            shown.append(
                {
                    **each,
                    "offset_us": clock.offset_us if is_told and clock is not None else None,
                    "uncertainty_us": clock.uncertainty_us if is_told and clock is not None else None,
                    "is_measured": clock.is_measured if is_told and clock is not None else None,
                }
            )
        return shown

    def _tell(self, event: Event) -> None:
        for watcher in self._watchers:
            watcher.put(event)

    # What nodes tell.

    async def _listen(self, source: str, node_id: int, query: dict[str, str]) -> None:
        while True:
            url = self._view.sampler.http.get(node_id)
            if url is None:
                self._source(source, node_id, traced=False, reason="the node does not say where it tells")
            else:
                # Each stream numbers its lines from the start.
                self._dials += 1
                stream = f"{source} #{self._dials}"
                try:
                    await self._take_lines(source, stream, node_id, url, query)
                    reason = "the node has ended the stream"
                except NodeHttpError as error:
                    reason = str(error)
                self._put(self._merge.lost(stream, reason, time.monotonic()))
                self._source(source, node_id, traced=False, reason=reason)
            await asyncio.sleep(_REDIAL_S)

    async def _take_lines(self, source: str, stream: str, node_id: int, url: str, query: dict[str, str]) -> None:
        async for line in self._access.lines(url, "/trace", query):
            try:
                told = msgspec.json.decode(line)
            except msgspec.DecodeError:
                raise NodeHttpError(f"{url} sends what is no JSON") from None
            if not isinstance(told, dict):
                continue
            if source not in self._sources or not self._sources[source]["traced"]:
                self._source(source, node_id, traced=True, reason=None)
            if "group" in query:
                # Only the first line of a group names it.
                told["group"] = query["group"]
            self._put(self._merge.feed(stream, [told], time.monotonic()))

    def _source(self, source: str, node_id: int, *, traced: bool, reason: str | None) -> None:
        before = self._sources.get(source)
        now = {"node": node_id, "source": source, "traced": traced, "reason": reason}
        if before == now:
            return
        self._sources[source] = now
        shown = next(each for each in self._shown_sources() if each["source"] == source)
        self._tell(("source", shown))

    def _put(self, merged: Iterable[Merged]) -> None:
        events = [event_of(each) for each in merged if self._is_here(each.line)]
        if not events:
            return
        for start in range(0, len(events), EVENTS_PER_MESSAGE):
            for watcher in self._watchers:
                watcher.put_events(events[start : start + EVENTS_PER_MESSAGE])
        for each in events:
            if each.get("is_gap"):
                gap = {"node": each["node"], "dropped": each.get("count", 0), "reason": each.get("reason", "")}
                self._tell(("gap", gap))

    def _is_here(self, line: Mapping[str, object]) -> bool:
        """A group commits for all of its partitions. Its lines are left out here and no sooner: their numbers have no holes."""
        return "topic" not in line or (line["topic"], line.get("partition")) == self._partition

    async def _merge_turns(self) -> None:
        """Events are held for a moment, for what led to them on other nodes; then they come out."""
        while True:
            await asyncio.sleep(_TURN_S)
            self._put(self._merge.advance(time.monotonic()))

    # What the protocol tells.

    async def _polls(self) -> None:
        while True:
            try:
                # They may have been taken away since the stream began; the nodes would go on to tell.
                await check_rights(self._view, self._partition.topic)
                await self._poll()
            except ClientError as error:
                if _is_refused(error):
                    self._refuse(error)
                    return
                self._source("protocol", -1, traced=False, reason=str(error))
            else:
                self._source("protocol", -1, traced=True, reason=None)
            await asyncio.sleep(_POLL_S)

    def _refuse(self, error: ClientError) -> None:
        """Nothing more for those who watch: their streams end with the reason."""
        for task in self._listeners.values():
            task.cancel()
        self._tell(("problem", api_error_of(error).as_json()))

    async def _poll(self) -> None:
        admin, partition = self._view.admin, self._partition
        topic = await admin.describe_topic(partition.topic)
        description = next((each for each in topic.partitions if each.index == partition.partition), None)
        if description is None:
            return
        ends = await admin.list_offsets({partition: OffsetSpec.LATEST})
        stable = await admin.list_offsets({partition: OffsetSpec.LATEST}, read_committed=True)
        high_watermark, last_stable = ends[partition], stable[partition]
        state = {
            "topic": partition.topic,
            "partition": partition.partition,
            "leader": description.leader,
            "leader_epoch": description.leader_epoch,
            "replicas": list(description.replicas),
            "isr": list(description.in_sync),
            # Without a listener nobody knows how far the leader's own log goes.
            "leo": None,
            "hw": None if isinstance(high_watermark, ClientError) else high_watermark.offset,
            "lso": None if isinstance(last_stable, ClientError) else last_stable.offset,
        }
        before, self._state = self._state, state
        if state["lso"] is not None and state["lso"] != state["hw"]:
            await self._find_transactions()
        self._follow(description)
        if state != before:
            self._tell(("state", self.state()))

    def _follow(self, description: PartitionDescription) -> None:
        """A listener for each replica, and for the coordinators of some groups and transactions."""
        topic, index = self._partition
        wanted: dict[str, tuple[int, dict[str, str]]] = {
            f"node {node_id}": (node_id, {"topic": topic, "partition": str(index)}) for node_id in description.replicas
        }
        for group_id, coordinator in self._groups():
            wanted[f"group {group_id}"] = (coordinator, {"group": group_id})
        now_s = time.monotonic()
        self._transactions = {name: each for name, each in self._transactions.items() if each[1] > now_s}
        for transactional_id, (coordinator, _) in self._transactions.items():
            wanted[f"transaction {transactional_id}"] = (coordinator, {"transactional_id": transactional_id})
        for source in [each for each in self._listeners if each not in wanted]:
            self._listeners.pop(source).cancel()
            self._sources.pop(source, None)
        for source, (node_id, query) in wanted.items():
            known = self._sources.get(source)
            if known is not None and known["node"] != node_id:
                self._listeners.pop(source).cancel()
            if source not in self._listeners:
                self._listeners[source] = self._begin(self._listen(source, node_id, query), f"listens to {source}")

    async def _find_transactions(self) -> None:
        """Those that are open here: their coordinators tell how they end."""
        producers = (await self._view.admin.describe_producers([self._partition]))[self._partition]
        if isinstance(producers, ClientError):
            return
        open_ids = [each.producer_id for each in producers if each.transaction_start_offset is not None]
        if not open_ids:
            return
        for each in await self._view.admin.list_transactions(producer_ids=sorted(open_ids)):
            if each.transactional_id in self._transactions or len(self._transactions) < TRANSACTIONS_MAX:
                self._transactions[each.transactional_id] = (each.coordinator, time.monotonic() + _ENDED_S)

    def _groups(self) -> list[tuple[str, int]]:
        """Those that committed for the partition last."""
        moved = [
            (commit.moved_s, group_id, group.listed.coordinator)
            for group_id, group in self._view.sampler.groups.groups.items()
            if (commit := group.commits.get(self._partition)) is not None
        ]
        moved.sort(reverse=True)
        return [(group_id, coordinator) for _, group_id, coordinator in moved[:GROUPS_MAX]]


def _is_refused(error: ClientError) -> bool:
    return error.code is not None and error.code.name.endswith("AUTHORIZATION_FAILED")


def event_of(merged: Merged) -> dict[str, Json]:
    event: dict[str, Json] = {
        **merged.line,
        "node": merged.node,
        "at_us": round(merged.at_us, 1),
        "uncertainty_us": round(merged.uncertainty_us, 1),
        "sentence": merged.sentence,
    }
    if merged.is_gap:
        event["is_gap"] = True
    if merged.is_late:
        event["is_late"] = True
    return event


class PartitionFeeds:
    """Those of one view."""

    def __init__(self) -> None:
        self._feeds: dict[TopicPartition, PartitionFeed] = {}

    def of(self, view: ClusterView, access: NodeHttp, partition: TopicPartition) -> PartitionFeed:
        for each in [each for each, feed in self._feeds.items() if not feed.is_watched]:
            del self._feeds[each]
        feed = self._feeds.get(partition)
        if feed is None:
            if len(self._feeds) >= FEEDS_MAX:
                raise ApiError(
                    503,
                    "TOO_MANY_WATCHED",
                    f"{FEEDS_MAX} partitions are watched already",
                    "close a window that watches one",
                )
            feed = self._feeds[partition] = PartitionFeed(view, access, partition)
        return feed


async def follow(feed: PartitionFeed) -> AsyncIterator[Event]:
    """Everything that a watcher is told, as it comes."""
    with feed.watched() as watcher:
        while True:
            for event in await watcher.next():
                yield event
                if event[0] == "problem":
                    return

"""The short way of a follower's Fetch: the next one of a session, answered with what has changed and nothing else.

    lane.take(connection, frame, begun_ns)      True: the request is plain; it is answered, or will be

A follower that keeps up sends the same request all day: a session that exists, no topic forgotten, any byte is enough. For such
a session the lane keeps a `FollowerWatch`, which watches all of its partitions all the time and notes those to which something
has happened. A fetch looks at the partitions that it names and at those that are noted, and at no other: what it costs depends
on what is written, not on how many replicas there are. Partitions of which the follower has everything rest (`FollowerProgress`).

Whatever is unusual goes through `handlers.fetch`, which knows nothing of the watch: a request that is not plain, an error, a
throttled replica. The session's epoch tells the watch that it has missed one, and it is begun anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct as Layout
from typing import Any

from tidelog.broker.data.delayed_fetch import WAIT_MS_MAX, FetchLimits
from tidelog.broker.data.fetch_lane import copied_records
from tidelog.broker.data.fetch_sessions import FetchContext, FetchEntry, FetchKey, FetchSession
from tidelog.broker.handlers.fetch import answer_follower
from tidelog.broker.requests.caller import Authorizer, Caller
from tidelog.broker.requests.node_view import Node
from tidelog.kernel_choice import load
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.data_plane_config import FETCH_MAX_BYTES
from tidelog.model.ids import NodeId, PartitionIndex, TopicId
from tidelog.model.timers import Timer
from tidelog.net.connection import AnswerSlot, Connection
from tidelog.net.parts import Part
from tidelog.replication.follower_progress import FetchClock
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Leading
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.wire.codec import encode_parts, parts_bytes
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest
from tidelog.wire.varint import write_uvarint

_read_replica_fetch = load("tidelog.wire.kernels", "replica_kernel").read_replica_fetch

FETCH_KEY = FetchRequest.api_key

_CLUSTER_ACTION = AclOperation.CLUSTER_ACTION
_CLUSTER = ResourceType.CLUSTER
_LOG_END = FetchIsolation.LOG_END

# Correlation id and its tagged fields, no throttling, no error, the session.
_HEAD = Layout(">iBihi")
# Index, no error, high watermark, last stable offset, log start offset; no aborted transactions, no other replica to read from.
_PARTITION = Layout(">ihqqqBi")
_ENVELOPE = Layout(">iB")

# The topic's id with the partition's number; the leader's epoch, the offset, the last epoch, the log's start, and the most bytes.
Named = tuple[tuple[bytes, int], int, int, int, int, int]


class _Watched:
    """One partition of a session."""

    __slots__ = ("entry", "partition")

    def __init__(self, partition: Partition, entry: FetchEntry) -> None:
        self.partition = partition
        self.entry = entry


Read = tuple[_Watched, Fetched]
# What was read for an answer.
Results = dict[_Watched, Fetched]


class ReplicaLane:
    """For one listener."""

    __slots__ = ("_authorizer", "_max_bytes", "_node", "_now_ns", "_timers", "_watches")

    def __init__(self, node: Node, authorizer: Authorizer) -> None:
        self._node = node
        self._authorizer = authorizer
        self._now_ns = node.clock.monotonic_ns
        self._timers = node.timers
        # As every key that is only read, it is what it was at the start.
        self._max_bytes = node.config[FETCH_MAX_BYTES]
        # One for each follower: a new session of it takes the place of the one before.
        self._watches: dict[int, FollowerWatch] = {}

    def take(self, connection: Connection, frame: memoryview, begun_ns: int) -> bool:
        """Whether the request goes this way. If not, nothing of it was noted that the handler does not note again."""
        read = _read_replica_fetch(frame)
        if read is None:
            return False
        version, correlation_id, replica_id, replica_epoch, wait_ms, min_bytes, max_bytes, session_id, epoch, named = (
            read
        )
        session = self._node.fetch_sessions.get(session_id)
        if (
            session is None
            or session.epoch != epoch
            or not session.uses_topic_ids
            or not session.entries
            or replica_id < 0
            or min_bytes > 1
            or max_bytes < 1
        ):
            return False
        host = connection.peer_address.host
        if not self._authorizer.allows(connection.principal, host, _CLUSTER_ACTION, _CLUSTER, CLUSTER_NAME):
            return False
        watch = self._watches.get(replica_id)
        if watch is None or not watch.goes_on(session, replica_epoch):
            watch = self._begin(session, replica_id, replica_epoch)
            if watch is None:
                return False
        max_bytes = min(max_bytes, self._max_bytes)
        found = watch.take_in(named, max_bytes)
        if found is None:
            self._drop(replica_id)
            return False
        # What this follower has not got, producers wait for.
        connection.is_exempt = True
        fetch = _ReplicaFetch(connection, connection.expect_answer(), version, correlation_id, max_bytes, wait_ms)
        fetch.begun_ns = begun_ns
        fetch.request_bytes = len(frame)
        results, total = found
        counts = self._node.metrics.requests[FETCH_KEY, version]
        if total or wait_ms <= 0 or min_bytes < 1:
            sent_bytes = self._answer(watch, fetch, results)
            counts.answered_together(1, self._now_ns() - begun_ns, fetch.request_bytes, sent_bytes)
        else:
            counts.waiting += 1
            self._count(watch.follower, results)
            watch.park(fetch, self._timers.after(min(wait_ms, WAIT_MS_MAX), watch.expired))
            fetch.local_ns = self._now_ns() - begun_ns
        return True

    def _begin(self, session: FetchSession, replica_id: int, replica_epoch: int) -> FollowerWatch | None:
        """Watch all partitions of a session. None: one of them is not here."""
        self._drop(replica_id)
        node = self._node
        watched: dict[FetchKey, _Watched] = {}
        for key, entry in session.entries.items():
            topic_id = key[0]
            assert isinstance(topic_id, bytes)
            if TopicId(topic_id) not in node.image.topics:
                return None
            partition = node.partitions.identified(TopicId(topic_id)).get(key[1])
            if partition is None:
                return None
            watched[key] = _Watched(partition, entry)
        watch = FollowerWatch(self, node, session, NodeId(replica_id), replica_epoch, watched)
        self._watches[replica_id] = watch
        return watch

    def _drop(self, replica_id: int) -> None:
        watch = self._watches.pop(replica_id, None)
        if watch is not None:
            watch.end()

    def complete(self, watch: FollowerWatch, fetch: _ReplicaFetch) -> None:
        """Answer a fetch that has waited, with all that is noted."""
        counts = self._node.metrics.requests[FETCH_KEY, fetch.version]
        found = watch.read_noted(fetch.max_bytes)
        if found is None:
            self._drop(watch.follower)
            sent_bytes = self._answer_as_the_handler(watch, fetch)
        else:
            sent_bytes = self._answer(watch, fetch, found[0], has_waited=True)
        counts.waited(fetch.local_ns, self._now_ns() - fetch.begun_ns, fetch.request_bytes, sent_bytes)

    def abandon(self, watch: FollowerWatch, fetch: _ReplicaFetch) -> None:
        """Answer a fetch whose watch ends."""
        sent_bytes = self._answer_as_the_handler(watch, fetch)
        counts = self._node.metrics.requests[FETCH_KEY, fetch.version]
        counts.waited(fetch.local_ns, self._now_ns() - fetch.begun_ns, fetch.request_bytes, sent_bytes)

    def _answer(self, watch: FollowerWatch, fetch: _ReplicaFetch, results: Results, *, has_waited: bool = False) -> int:
        """Give the answer. How many bytes it takes."""
        news = watch.tell(results)
        parts, size = packed(fetch.correlation_id, watch.session.session_id, news)
        if has_waited:
            # A follower that sleeps takes long to wake, and the producer waits for it: it begins while the next one is answered.
            fetch.slot.send_at_once(parts)
        else:
            fetch.slot.send(parts)
        self._count(watch.follower, results)
        self._node.metrics.requests[FETCH_KEY, fetch.version].errors[0] += 1 + len(news)
        return size

    def _count(self, follower: NodeId, results: Results) -> None:
        topics = self._node.metrics.topics
        traffic = self._node.partitions.traffic
        for watched, fetched in results.items():
            counts = topics[watched.partition.topic_partition.topic]
            counts.total_fetch_requests += 1
            if fetched.regions:
                counts.replication_bytes_out += fetched.regions[0].count
                traffic.sent(watched.partition, follower, fetched.regions[0].count)

    def _answer_as_the_handler(self, watch: FollowerWatch, fetch: _ReplicaFetch) -> int:
        session, version = watch.session, fetch.version
        context = FetchContext(list(session.entries.values()), session)
        context.expected_epoch = watch.epoch
        limits = FetchLimits(
            _LOG_END, 1, fetch.max_bytes, 0, True, True, follower=watch.follower, follower_epoch=watch.follower_epoch
        )
        caller = Caller(fetch.connection, None, FETCH_KEY, version, self._authorizer)
        answer = answer_follower(context, limits, caller, self._node)
        self._node.metrics.requests[FETCH_KEY, version].count_errors(answer)
        parts: list[Any] = [_ENVELOPE.pack(fetch.correlation_id, 0), *encode_parts(answer, version)]
        fetch.slot.send(parts)
        return parts_bytes(parts)


class _ReplicaFetch:
    """One request that is to be answered."""

    __slots__ = (
        "begun_ns",
        "connection",
        "correlation_id",
        "local_ns",
        "max_bytes",
        "request_bytes",
        "slot",
        "version",
        "wait_ms",
    )

    def __init__(
        self,
        connection: Connection,
        slot: AnswerSlot,
        version: int,
        correlation_id: int,
        max_bytes: int,
        wait_ms: int,
    ) -> None:
        self.connection = connection
        self.slot = slot
        self.version = version
        self.correlation_id = correlation_id
        self.max_bytes = max_bytes
        self.wait_ms = wait_ms
        self.begun_ns = 0
        self.local_ns = 0
        self.request_bytes = 0


class FollowerWatch:
    """All partitions of one follower's session, and the fetch of it that waits, if one does."""

    __slots__ = (
        "_by_key",
        "_by_partition",
        "_clock",
        "_fetch",
        "_fetch_clock",
        "_lane",
        "_node",
        "_noted",
        "_timer",
        "epoch",
        "follower",
        "follower_epoch",
        "session",
    )

    def __init__(
        self,
        lane: ReplicaLane,
        node: Node,
        session: FetchSession,
        follower: NodeId,
        follower_epoch: int,
        watched: dict[FetchKey, _Watched],
    ) -> None:
        self._lane = lane
        self._node = node
        self._clock = node.clock
        self.session = session
        self.follower = follower
        self.follower_epoch = follower_epoch
        self.epoch = session.epoch
        """Of the request that comes next, as far as the watch knows."""
        self._by_key = watched
        self._by_partition = {each.partition: each for each in watched.values()}
        # What the next answer looks at: in their order, so that a limit on bytes starves nobody.
        self._noted: dict[_Watched, None] = dict.fromkeys(watched.values())
        self._fetch_clock = FetchClock(0)
        self._fetch: _ReplicaFetch | None = None
        self._timer: Timer | None = None
        for partition in self._by_partition:
            partition.watch(self)

    def goes_on(self, session: FetchSession, follower_epoch: int) -> bool:
        """Whether it has seen all requests of the session up to now, and has answered them."""
        return (
            self.session is session
            and self.epoch == session.epoch
            and self.follower_epoch == follower_epoch
            and self._fetch is None
        )

    def end(self) -> None:
        """Watch nothing any more. A fetch that waits is answered by others."""
        for partition in self._by_partition:
            partition.unwatch(self)
            partition.rouse_follower(self.follower)
        fetch, self._fetch = self._fetch, None
        if fetch is not None:
            self._cancel_timer()
            self._lane.abandon(self, fetch)

    # --- a request ---------------------------------------------------------------------------------------------------------

    def take_in(self, named: Sequence[Named], max_bytes: int) -> tuple[Results, int] | None:
        """Take in what a request says, and read what it may want. None: it is not for the lane, and the session is as it was
        but for what the request says."""
        by_key, noted = self._by_key, self._noted
        for key, leader_epoch, offset, last_epoch, log_start_offset, partition_max_bytes in named:
            watched = by_key.get((key[0], PartitionIndex(key[1])))
            if watched is None:
                return None
            asked = watched.entry.asked
            asked.current_leader_epoch = leader_epoch
            asked.fetch_offset = offset
            asked.last_fetched_epoch = last_epoch
            asked.log_start_offset = log_start_offset
            asked.partition_max_bytes = partition_max_bytes
            noted[watched] = None
        found = self._read(max_bytes, note_progress=True)
        if found is None:
            return None
        now_ms = self._clock.monotonic_ms()
        self._fetch_clock.last_fetch_ms = now_ms
        self._node.fetch_sessions.go_on(self.session, now_ms)
        self.epoch = self.session.epoch
        return found

    def read_noted(self, max_bytes: int) -> tuple[Results, int] | None:
        """Read what is noted. None: an error, or something else that is not for the lane, is among it."""
        if self.session.epoch != self.epoch:
            # Another request of the session has come in between.
            return None
        return self._read(max_bytes, note_progress=False)

    def _read(self, max_bytes: int, *, note_progress: bool) -> tuple[Results, int] | None:
        results: dict[_Watched, Fetched] = {}
        total = 0
        reading, self._noted = self._noted, {}
        for watched in reading:
            fetched = self._read_one(watched, max_bytes - total, is_first=not total, note_progress=note_progress)
            if fetched is None:
                return None
            results[watched] = fetched
            if fetched.regions:
                total += fetched.regions[0].count
        for watched in self._noted:
            # The follower's progress commits records, on which a coordinator may append at once.
            before, log = results.get(watched), watched.partition.log
            if before is not None and (before.regions or log is None or log.log_end_offset == before.log_end_offset):
                continue
            fetched = self._read_one(watched, max_bytes - total, is_first=not total, note_progress=False)
            if fetched is None:
                return None
            results[watched] = fetched
            if fetched.regions:
                total += fetched.regions[0].count
        self._keep_noted(results)
        return results, total

    def _read_one(self, watched: _Watched, bytes_max: int, *, is_first: bool, note_progress: bool) -> Fetched | None:
        partition = watched.partition
        throttled = partition.config.leader_throttled_replicas
        if throttled.is_all or throttled.replicas:
            # Throttles may have a say.
            return None
        asked = watched.entry.asked
        fetched = partition.read_as_follower(
            self.follower,
            asked.fetch_offset,
            max(0, min(bytes_max, asked.partition_max_bytes)),
            broker_epoch=self.follower_epoch,
            log_start_offset=asked.log_start_offset,
            current_leader_epoch=asked.current_leader_epoch,
            last_fetched_epoch=asked.last_fetched_epoch,
            min_one_batch=is_first,
            note_progress=note_progress,
        )
        return fetched if type(fetched) is Fetched else None

    def _keep_noted(self, results: Results) -> None:
        """What is to be looked at again: all but what the follower has and knows. First come those that got nothing."""
        noted = self._noted
        served: list[_Watched] = []
        for watched, fetched in results.items():
            if fetched.regions:
                served.append(watched)
                continue
            entry = watched.entry
            is_told = (
                fetched.high_watermark == entry.high_watermark and fetched.log_start_offset == entry.log_start_offset
            )
            if not watched.partition.rest_follower(self.follower, self._fetch_clock) or not is_told:
                noted[watched] = None
        for watched in served:
            noted.pop(watched, None)
            noted[watched] = None

    # --- an answer ---------------------------------------------------------------------------------------------------------

    def tell(self, results: Results) -> list[Read]:
        """What of this an answer has to carry. The follower knows it from now on."""
        news: list[Read] = []
        for watched, fetched in results.items():
            entry = watched.entry
            if (
                fetched.regions
                or entry.high_watermark != fetched.high_watermark
                or entry.log_start_offset != fetched.log_start_offset
            ):
                entry.high_watermark = fetched.high_watermark
                entry.log_start_offset = fetched.log_start_offset
                news.append((watched, fetched))
                if fetched.regions:
                    self.session.move_to_end(entry)
        return news

    def park(self, fetch: _ReplicaFetch, timer: Timer) -> None:
        """Answer this one when there is something, or when the timer goes off."""
        self._fetch = fetch
        self._timer = timer

    def partition_changed(self, partition: Partition) -> None:
        """Something has been written or committed, or the replica's role is another one."""
        watched = self._by_partition[partition]
        partition.rouse_follower(self.follower)
        self._noted[watched] = None
        if self._fetch is not None and self._is_reason_enough(partition, watched.entry.asked):
            self._complete()

    def _is_reason_enough(self, partition: Partition, asked: FetchPartition) -> bool:
        """Whether there is something to read, or something wrong. A moved high watermark alone waits for company."""
        role = partition.role
        return (
            type(role) is not Leading
            or partition.leader_epoch != asked.current_leader_epoch
            or role.log.log_end_offset != asked.fetch_offset
            or role.log.log_start_offset > asked.fetch_offset
        )

    def expired(self) -> None:
        self._complete()

    def _complete(self) -> None:
        fetch, self._fetch = self._fetch, None
        if fetch is not None:
            self._cancel_timer()
            self._lane.complete(self, fetch)

    def _cancel_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()


def packed(correlation_id: int, session_id: int, news: Sequence[Read]) -> tuple[list[Part], int]:
    """The answer in parts, and how long it is. A few records are in it already; more leave straight from their file."""
    parts: list[Part] = []
    size = 0
    copied_bytes = 0
    topics: list[tuple[bytes, list[Read]]] = []
    for read in news:
        topic = read[0].entry.topic
        assert isinstance(topic, bytes)
        if topics and topics[-1][0] == topic:
            topics[-1][1].append(read)
        else:
            topics.append((topic, [read]))
    pieces = [_HEAD.pack(correlation_id, 0, 0, 0, session_id), write_uvarint(len(topics) + 1)]
    for topic, reads in topics:
        pieces += (topic, write_uvarint(len(reads) + 1))
        for watched, fetched in reads:
            pieces.append(
                _PARTITION.pack(
                    watched.entry.asked.partition,
                    0,
                    fetched.high_watermark,
                    fetched.last_stable_offset,
                    fetched.log_start_offset,
                    0,
                    -1,
                )
            )
            if not fetched.regions:
                pieces.append(b"\1\0")
                continue
            region = fetched.regions[0]
            count = region.count
            pieces.append(write_uvarint(count + 1))
            records = copied_records(region, copied_bytes)
            if records is not None:
                copied_bytes += count
                pieces.append(records)
            else:
                joined = b"".join(pieces)
                size += len(joined) + count
                parts += (joined, region)
                pieces = []
            pieces.append(b"\0")
        pieces.append(b"\0")
    pieces.append(b"\0")
    joined = b"".join(pieces)
    parts.append(joined)
    return parts, size + len(joined)

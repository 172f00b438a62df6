"""`GET /trace`: what happens to a partition, a group or a transaction of this node, line by line, while somebody listens.

    /trace?topic=orders&partition=0     the replica on this node, whatever its role
    /trace?group=billing                on the group's coordinator
    /trace?transactional_id=till-7      on its coordinator

200 and lines that go on until the listener leaves, or the node has no such thing any more; 400 for another query, 404 where it
is not here.
"""

from __future__ import annotations

from http import HTTPStatus

import tidelog
from tidelog.broker.groups.group_trace import GroupTrace
from tidelog.broker.requests.node_view import Node
from tidelog.broker.transactions.transaction_trace import TransactionTrace
from tidelog.broker.watching.trace_feed import Subject, TraceFeed
from tidelog.model import trace_events as events
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicName
from tidelog.model.trace import TraceRing
from tidelog.net.http_endpoint import HttpRequest, Page, PushedPage, plain_page
from tidelog.replication.partition import Partition
from tidelog.replication.partition_trace import PartitionTrace, role_name

CONTENT_TYPE = "application/x-ndjson"

_USAGE = "ask /trace?topic=T&partition=P, /trace?group=G or /trace?transactional_id=X"


class TracePages:
    """`/trace` of one node, which serves."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._boot = f"{node.random.getrandbits(64):016x}"

    def page(self, request: HttpRequest) -> Page | PushedPage:
        asked = request.arguments(("topic", "partition", "group", "transactional_id"))
        subject: Subject | str
        match asked:
            case {"topic": topic, "partition": index, **others} if not others:
                partition = partition_asked(self._node, topic, index)
                subject = partition if isinstance(partition, str) else _PartitionSubject(self._node, partition)
            case {"group": group, **others} if not others:
                subject = self._group(group)
            case {"transactional_id": transactional_id, **others} if not others:
                subject = self._transaction(transactional_id)
            case _:
                return plain_page(HTTPStatus.BAD_REQUEST, _USAGE)
        if isinstance(subject, str):
            return plain_page(HTTPStatus.NOT_FOUND, subject)
        return PushedPage(CONTENT_TYPE, TraceFeed(subject, self._node.node_id, self._boot, self._node.clock))

    def _group(self, group: str) -> Subject | str:
        if self._node.groups.active(group) is None:
            return f"node {self._node.node_id} does not coordinate this group: ask its coordinator"
        return _GroupSubject(self._node, group)

    def _transaction(self, transactional_id: str) -> Subject | str:
        if not self._node.transactions.coordinates(transactional_id):
            return f"node {self._node.node_id} does not coordinate this transactional id: ask its coordinator"
        return _TransactionSubject(self._node, transactional_id)


def partition_asked(node: Node, topic: str, index: str) -> Partition | str:
    """The replica that a query names; a sentence where there is none here."""
    number = int(index) if index.isascii() and index.isdecimal() and len(index) <= 10 else -1
    partition = node.partitions.named(TopicName(topic)).get(number)
    if partition is None:
        return f"node {node.node_id} has no replica of such a partition: ask a node that has one"
    return partition


class _PartitionSubject:
    """A replica."""

    def __init__(self, node: Node, partition: Partition) -> None:
        self._node = node
        self._partition = partition

    def listen(self, ring: TraceRing) -> events.TraceEvent:
        partition = self._partition
        topic, index = partition.topic_partition
        known = self._node.image.topic(topic)
        metadata = None if known is None else known.partitions.get(PartitionIndex(index))
        leader = -1 if metadata is None else metadata.leader
        isr: tuple[int, ...] = () if metadata is None else metadata.isr
        trace = partition.trace
        if trace is None:
            trace = partition.trace = PartitionTrace(partition, self._node.clock.monotonic_ns)
            trace.knows(leader, isr)
        trace.add(ring)
        log_start, leo, high_watermark, stable = _offsets(partition)
        return events.Hello(
            topic=topic,
            partition=index,
            role=role_name(partition.role),
            leader=leader,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            log_start=log_start,
            leo=leo,
            hw=high_watermark,
            lso=stable,
            isr=isr,
            replicas=partition.replicas,
            version=tidelog.__version__,
        )

    def leave(self, ring: TraceRing) -> None:
        trace = self._partition.trace
        if trace is not None:
            trace.remove(ring)
            if not trace.is_heard:
                self._partition.trace = None

    def beat(self) -> events.TraceEvent:
        _, leo, high_watermark, stable = _offsets(self._partition)
        return events.Heartbeat(leo, high_watermark, stable)


def _offsets(partition: Partition) -> tuple[int, int, int, int]:
    log = partition.log
    if log is None:
        return -1, -1, -1, -1
    return log.log_start_offset, log.log_end_offset, log.high_watermark, log.last_stable_offset


class _GroupSubject:
    """A group that this node coordinates, also one that is not there yet."""

    def __init__(self, node: Node, group: str) -> None:
        self._node = node
        self._group = group
        self._trace: GroupTrace | None = None

    def listen(self, ring: TraceRing) -> events.TraceEvent:
        node, groups = self._node, self._node.groups
        trace = groups.traces.get(self._group)
        if trace is None:
            trace = GroupTrace(self._group, groups, node.timers, node.clock.monotonic_ns)
            groups.traces[self._group] = trace
        self._trace = trace
        trace.add(ring)
        state, generation, members = trace.now()
        return events.GroupHello(events.short(self._group), state, generation, members, tidelog.__version__)

    def leave(self, ring: TraceRing) -> None:
        trace = self._trace
        if trace is not None:
            trace.remove(ring)
            if not trace.is_heard:
                self._node.groups.traces.pop(self._group, None)

    def beat(self) -> events.TraceEvent:
        trace = self._trace
        if trace is not None:
            if self._node.groups.active(self._group) is None:
                trace.end(events.Ended(f"node {self._node.node_id} does not coordinate the group any more"))
            else:
                trace.tell_changes()
        return events.Heartbeat()


class _TransactionSubject:
    """A transactional id that this node coordinates, also one that is not there yet."""

    def __init__(self, node: Node, transactional_id: str) -> None:
        self._node = node
        self._transactional_id = transactional_id
        self._trace: TransactionTrace | None = None

    def listen(self, ring: TraceRing) -> events.TraceEvent:
        transactions = self._node.transactions
        trace = transactions.traces.get(self._transactional_id)
        if trace is None:
            trace = TransactionTrace(self._node.clock.monotonic_ns)
            transactions.traces[self._transactional_id] = trace
        self._trace = trace
        trace.add(ring)
        known = transactions.read_committed(
            self._transactional_id,
            lambda shard, now_ms: shard.describe(self._transactional_id, now_ms).transaction_state,
            lambda error: ErrorCode.of(error).name,
        )
        return events.TransactionHello(events.short(self._transactional_id), known, tidelog.__version__)

    def leave(self, ring: TraceRing) -> None:
        trace = self._trace
        if trace is not None:
            trace.remove(ring)
            if not trace.is_heard:
                self._node.transactions.traces.pop(self._transactional_id, None)

    def beat(self) -> events.TraceEvent:
        if self._trace is not None and not self._node.transactions.coordinates(self._transactional_id):
            self._trace.end(events.Ended(f"node {self._node.node_id} does not coordinate the id any more"))
        return events.Heartbeat()

"""Who is in sync: the leader watches its followers and asks the controller for other in-sync sets (AlterPartition, KIP-497).

    grows      a follower has all that is committed and all of earlier epochs, and its broker serves: asked for at once
    shrinks    a follower has not caught up for `replica.lag.time.max.ms`: looked for twice in that time

The controller decides; what it decided comes back with the metadata. In between, a replica that may have become in sync counts
as if it were (`Leading.joining`), and one that may have been taken out still does: whichever of the two sets the controller goes
by, what was committed is in it. Only an answer that says that nothing was changed, and nothing will be, undoes that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import msgspec

from tidelog.model.clock import Clock
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import BrokerEpoch, NodeId, TopicId
from tidelog.model.pending import Pending
from tidelog.model.timers import Timer, Timers
from tidelog.replication.partition import Partition
from tidelog.replication.replica_fetcher import ThisBroker
from tidelog.replication.roles import Leading
from tidelog.wire.messages.alter_partition import (
    AlterPartitionPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from tidelog.wire.schema import Request, Response

logger = logging.getLogger(__name__)

RETRY_MS = 50
# A replica that the controller did not accept is not proposed again at its very next fetch.
REFUSED_PAUSE_MS = 500
PARTITIONS_PER_REQUEST_MAX = 2000

# The metadata will tell what holds; there is no use in asking again before.
_FINAL = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
}
# The controller says that it has not done it, and that the partition is as it was when it was asked.
_NOTHING_CHANGED = {ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED}


class _Proposal(msgspec.Struct, frozen=True):
    """An in-sync set for a partition as it was at one epoch of it."""

    isr: tuple[NodeId, ...]
    leader_epoch: int
    partition_epoch: int


class InSyncSets:
    """One for each node. Hears of followers that caught up from `Wakeups.on_caught_up`."""

    def __init__(
        self,
        partitions: Iterable[Partition],
        ask: Callable[[Request], Pending[Response]],
        me: ThisBroker,
        serves: Callable[[NodeId, BrokerEpoch], bool],
        timers: Timers,
        clock: Clock,
        *,
        lag_time_max_ms: Callable[[], int],
    ) -> None:
        """`serves` tells whether a broker of that epoch may be in sync, as far as the metadata says."""
        self._partitions = partitions
        self._ask = ask
        self._me = me
        self._serves = serves
        self._timers = timers
        self._clock = clock
        self._lag_time_max_ms = lag_time_max_ms
        # What is to be asked for; what was asked for and shows in the metadata or not at all.
        self._proposed: dict[Partition, _Proposal] = {}
        self._asked: dict[Partition, _Proposal] = {}
        self._refused_ms: dict[Partition, int] = {}
        self._is_asking = False
        self._timer: Timer | None = None
        self._watch_timer: Timer | None = None
        self._is_stopped = False

    def start(self) -> None:
        """The broker is registered: what was found so far is asked for."""
        self._watch()

    def stop(self) -> None:
        self._is_stopped = True
        for timer in (self._timer, self._watch_timer):
            if timer is not None:
                timer.cancel()

    # --- finding -----------------------------------------------------------------------------------------------------------

    def caught_up(self, partition: Partition, node: NodeId) -> None:
        """A follower that is not in sync has all that is committed."""
        role = partition.role
        if not isinstance(role, Leading) or node in role.isr or not self._may_propose(partition):
            return
        if self._refused_ms.get(partition, 0) > self._clock.monotonic_ms():
            return
        if self._serves(node, BrokerEpoch(role.followers[node].broker_epoch)):
            self._propose(partition, (*role.isr, node))

    def _watch(self) -> None:
        if self._is_stopped:
            return
        interval_ms = max(1, self._lag_time_max_ms() // 2)
        self._watch_timer = self._timers.after(interval_ms, self._shrink_all)

    def _shrink_all(self) -> None:
        now_ms = self._clock.monotonic_ms()
        self._asked = {partition: asked for partition, asked in self._asked.items() if partition.is_leading}
        self._refused_ms = {partition: until for partition, until in self._refused_ms.items() if until > now_ms}
        for partition in list(self._partitions):
            role = partition.role
            if isinstance(role, Leading) and len(role.isr) > 1 and self._may_propose(partition):
                lagging = self._lagging(role, now_ms)
                if lagging:
                    logger.info("%s: %s lag behind and leave the in-sync set", partition.topic_partition, lagging)
                    self._propose(partition, tuple(node for node in role.isr if node not in lagging))
        self._watch()

    def _lagging(self, role: Leading, now_ms: int) -> list[NodeId]:
        end = role.log.log_end_offset
        return [
            node
            for node, follower in role.followers.items()
            if node in role.isr
            and follower.log_end_offset != end
            and now_ms - follower.last_caught_up_ms > self._lag_time_max_ms()
        ]

    def _may_propose(self, partition: Partition) -> bool:
        """Whether nothing is under way for the partition as it is."""
        pending = self._proposed.get(partition) or self._asked.get(partition)
        return pending is None or pending.partition_epoch != partition.partition_epoch

    def _propose(self, partition: Partition, isr: tuple[NodeId, ...]) -> None:
        role = partition.role
        assert isinstance(role, Leading)
        self._asked.pop(partition, None)
        self._proposed[partition] = _Proposal(isr, partition.leader_epoch, partition.partition_epoch)
        partition.count_joining(tuple(node for node in isr if node not in role.isr))
        self._send_after(0)

    # --- asking ------------------------------------------------------------------------------------------------------------

    def _send_after(self, delay_ms: int) -> None:
        # One timer gathers what one answer of a fetch, or one look at all partitions, brings.
        if not self._is_stopped and not self._is_asking and self._timer is None and self._proposed:
            self._timer = self._timers.after(delay_ms, self._send)

    def _send(self) -> None:
        self._timer = None
        asking: dict[Partition, _Proposal] = {}
        for partition, proposal in list(self._proposed.items()):
            if not self._is_current(partition, proposal):
                del self._proposed[partition]
            elif len(asking) < PARTITIONS_PER_REQUEST_MAX:
                asking[partition] = proposal
        if not asking:
            return
        self._is_asking = True
        self._ask(self._request(asking)).then(lambda answer: self._answered(asking, answer))

    def _is_current(self, partition: Partition, proposal: _Proposal) -> bool:
        return partition.is_leading and partition.partition_epoch == proposal.partition_epoch

    def _request(self, asking: dict[Partition, _Proposal]) -> AlterPartitionRequest:
        topics: dict[TopicId, TopicData] = {}
        for partition, proposal in asking.items():
            topic = topics.get(partition.topic_id)
            if topic is None:
                topic = topics[partition.topic_id] = TopicData(topic_id=partition.topic_id, partitions=[])
            topic.partitions.append(
                PartitionData(
                    partition_index=partition.topic_partition.partition,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=self._states(partition, proposal.isr),
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._me.node_id, broker_epoch=self._me.broker_epoch, topics=list(topics.values())
        )

    def _states(self, partition: Partition, isr: tuple[NodeId, ...]) -> list[BrokerState]:
        role = partition.role
        assert isinstance(role, Leading)
        return [
            BrokerState(
                broker_id=node,
                broker_epoch=self._me.broker_epoch if node == self._me.node_id else role.followers[node].broker_epoch,
            )
            for node in isr
        ]

    def _answered(self, asking: dict[Partition, _Proposal], answer: Response) -> None:
        self._is_asking = False
        assert isinstance(answer, AlterPartitionResponse)
        if answer.error_code != ErrorCode.NONE:
            # Nobody knows whether it was done. What was proposed stays so until the metadata tells.
            logger.debug("in-sync sets are not changed: %s", ErrorCode.of(answer.error_code).name)
            self._send_after(RETRY_MS)
            return
        answers = {
            (TopicId(topic.topic_id), each.partition_index): each
            for topic in answer.topics
            for each in topic.partitions
        }
        for partition, proposal in asking.items():
            told = answers.get((partition.topic_id, partition.topic_partition.partition))
            if told is not None and self._proposed.get(partition) is proposal:
                self._take(partition, proposal, told)
        self._send_after(RETRY_MS)

    def _take(self, partition: Partition, proposal: _Proposal, told: AlterPartitionPartitionData) -> None:
        error = ErrorCode.of(told.error_code)
        if error in _NOTHING_CHANGED:
            del self._proposed[partition]
            self._refused_ms[partition] = self._clock.monotonic_ms() + REFUSED_PAUSE_MS
            if self._is_current(partition, proposal):
                partition.count_joining(())
        elif error is ErrorCode.NONE or error in _FINAL:
            del self._proposed[partition]
            self._asked[partition] = proposal

"""What must hold of a cluster at every moment, whatever befalls it. A watcher looks at all nodes again and again.

election safety          no epoch of a partition, and none of the quorum, has two leaders
leader completeness      a new leader has everything that was committed before its epoch
log matching             a batch is named by its offset and its leader's epoch, and is the same bytes on every replica
committed stays          what one replica took for committed is so for all, for ever, and none of them cuts it off
high watermark           goes back neither on a leader in its epoch, nor for a consumer that asks where a partition ends
in-sync has it all       a member of the in-sync set has what any replica calls committed
committed metadata       what one node took for committed in the metadata log, every other one does
acknowledged stays       a record that was acknowledged by acks=all and two in-sync replicas is there in the end, at its place
written once             a record of an idempotent producer is there once
transactions atomic      of a transaction that committed all is seen, of one that aborted nothing, of any other all or nothing
generations monotone     no member of a group is in an earlier generation than one was before
commits stay             an offset that was committed does not go back; who is given a partition afterwards begins no earlier
liveness                 when all faults are over, all replicas are in sync and equal again, and all clients get on
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.broker.node.node import BrokerNode
from tidelog.controller.image import ClusterImage
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.replication.partition import Partition
from tidelog.simulation.cluster import Machine, SimulatedCluster
from tidelog.storage.fetched import FetchIsolation
from tidelog.storage.partition_log import PartitionLog
from tidelog.wire.record_batch import each_batch


class BrokenInvariantError(AssertionError):
    """The name of the invariant comes first."""


def expect(holds: bool, name: str, detail: str) -> None:
    if not holds:
        raise BrokenInvariantError(f"{name}: {detail}")


def named(replica: TopicPartition) -> str:
    return f"{replica.topic}-{replica.partition}"


@dataclass(slots=True)
class _Batch:
    next_offset: int
    epoch: int
    data: bytes


@dataclass(slots=True)
class _Seen:
    """One replica's log in one life of its node."""

    log: PartitionLog
    high_watermark: int = 0
    """The highest: one that follows a new leader may for a moment know of less than before."""
    led: tuple[int, int] = (-1, 0)
    """The last epoch in which it led, and its high watermark then."""
    looked_at: int = 0
    """Up to where its batches are known to match."""
    epochs: dict[int, int] = field(default_factory=dict)
    """Of its batches."""


@dataclass(slots=True)
class Committed:
    """What replicas of one partition have called committed so far, and all that leaders ever wrote."""

    batches: dict[int, _Batch] = field(default_factory=dict)
    end: int = 0
    epochs: dict[int, int] = field(default_factory=dict)
    """Who led in which epoch."""
    written: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """By offset and epoch."""

    def data(self) -> bytes:
        return b"".join(self.batches[offset].data for offset in sorted(self.batches))


class ClusterInvariants:
    """The memory of everything that nodes have shown. `look` compares it with what they show now."""

    def __init__(self, cluster: SimulatedCluster, topics: list[str]) -> None:
        self._cluster = cluster
        self._topics = [TopicName(topic) for topic in topics]
        self._newest = ClusterImage()
        self._seen: dict[tuple[int, TopicPartition], _Seen] = {}
        self._quorum_leaders: dict[int, int] = {}
        self._metadata: dict[int, tuple[int, int, int]] = {}
        self._metadata_end = 0
        self._metadata_epoch = 0
        self._delivered: dict[int, tuple[BrokerNode, int]] = {}
        self.partitions: dict[TopicPartition, Committed] = {}
        self.changes = 0
        """How many leaders were seen."""

    def heard(self, image: ClusterImage) -> None:
        """A node has another image. The newest of all says who is in sync."""
        if image.offset > self._newest.offset:
            self._newest = image

    @property
    def image(self) -> ClusterImage:
        return self._newest

    def look(self) -> None:
        for machine in self._cluster.machines.values():
            node = machine.node
            if node is None or node.fault is not None:
                # Or it has given up by itself, and is a process that only has to end.
                continue
            self._look_at_metadata(machine, node)
            if not node.is_broker:
                continue
            for topic in self._topics:
                for replica in node.partitions.named(topic).values():
                    log = replica.log
                    # Where its disk has failed in this very moment, the node has not heard of it yet.
                    if log is not None and log.fault is None:
                        self._look_at_log(machine, replica, log)
        self._look_at_in_sync_sets()

    # --- logs --------------------------------------------------------------------------------------------------------------

    def _look_at_log(self, machine: Machine, replica: Partition, log: PartitionLog) -> None:
        where = replica.topic_partition
        seen = self._seen.get((machine.number, where))
        if seen is None or seen.log is not log:
            seen = self._seen[machine.number, where] = _Seen(log)
        committed = self.partitions.setdefault(where, Committed())
        name = f"{named(where)} on node {machine.number}"
        end, high_watermark = int(log.log_end_offset), int(log.high_watermark)
        expect(end >= seen.high_watermark, "committed stays", f"{name} is cut to {end} below {seen.high_watermark}")
        if replica.is_leading:
            epoch, before = seen.led
            expect(
                epoch != replica.leader_epoch or high_watermark >= before,
                "high watermark",
                f"{name}, which leads, goes back from {before} to {high_watermark}",
            )
            seen.led = (replica.leader_epoch, high_watermark)
        if high_watermark > seen.high_watermark or end != seen.looked_at:
            self._read(name, log, seen, committed, high_watermark)
        if replica.is_leading and replica.leader_epoch not in committed.epochs:
            self._look_at_new_leader(machine, replica, seen, committed, name)
        elif replica.is_leading:
            self._expect_one_leader(committed.epochs, replica.leader_epoch, machine.number, named(where))

    def _read(self, name: str, log: PartitionLog, seen: _Seen, committed: Committed, high_watermark: int) -> None:
        """Compare every batch that was not looked at, and those that are newly committed with what others committed."""
        # What was not committed may have been cut off since.
        offset = max(min(seen.looked_at, seen.high_watermark), int(log.log_start_offset))
        seen.epochs = {known: epoch for known, epoch in seen.epochs.items() if known < offset}
        while offset < log.log_end_offset:
            fetched = log.read(offset, 1 << 20, upper_bound=FetchIsolation.LOG_END)
            assert not isinstance(fetched, ErrorCode), f"{name} cannot be read at {offset}: {fetched}"
            data = b"".join(region.read() for region in fetched.regions)
            if not data:
                break
            for position, header in each_batch(data):
                batch = bytes(data[position : position + header.size_bytes])
                epoch = header.partition_leader_epoch
                seen.epochs[header.base_offset] = epoch
                known = committed.written.setdefault((header.base_offset, epoch), batch)
                expect(
                    known == batch,
                    "log matching",
                    f"{name} has another batch of epoch {epoch} at {header.base_offset} than was there before",
                )
                if header.next_offset <= high_watermark:
                    self._commit(name, committed, header.base_offset, _Batch(header.next_offset, epoch, batch))
                offset = header.next_offset
        seen.looked_at = offset
        seen.high_watermark = max(high_watermark, seen.high_watermark)

    def _commit(self, name: str, committed: Committed, base_offset: int, batch: _Batch) -> None:
        known = committed.batches.get(base_offset)
        if known is None:
            expect(
                base_offset == committed.end,
                "committed stays",
                f"{name} commits a batch at {base_offset} of epoch {batch.epoch}, and all that was committed ends at "
                f"{committed.end}",
            )
            committed.batches[base_offset] = batch
            committed.end = batch.next_offset
        else:
            expect(
                known.data == batch.data,
                "committed stays",
                f"{name} commits a batch of epoch {batch.epoch} at {base_offset}, and one of epoch {known.epoch} was",
            )

    def _look_at_new_leader(
        self, machine: Machine, replica: Partition, seen: _Seen, committed: Committed, name: str
    ) -> None:
        epoch, where = replica.leader_epoch, replica.topic_partition
        committed.epochs[epoch] = machine.number
        self.changes += 1
        topic = self._newest.topic(where.topic)
        known = None if topic is None else topic.partitions.get(PartitionIndex(where.partition))
        if known is not None and known.leader_epoch > epoch:
            # It hears late of an election, when a later leader may have committed more.
            return
        for offset, batch in committed.batches.items():
            expect(
                seen.epochs.get(offset) == batch.epoch or offset < seen.log.log_start_offset,
                "leader completeness",
                f"{name} leads in epoch {epoch} without the batch of epoch {batch.epoch} that is committed at {offset}: "
                f"it ends at {seen.log.log_end_offset}",
            )

    def _expect_one_leader(self, epochs: dict[int, int], epoch: int, node: int, name: str) -> None:
        other = epochs.setdefault(epoch, node)
        expect(other == node, "election safety", f"both {other} and {node} lead {name} in epoch {epoch}")

    def _look_at_in_sync_sets(self) -> None:
        for where, committed in self.partitions.items():
            topic = self._newest.topic(where.topic)
            known = None if topic is None else topic.partitions.get(PartitionIndex(where.partition))
            if known is None:
                continue
            for member in known.isr:
                node = self._cluster.machines[member].node
                replica = None if node is None else node.partitions.named(where.topic).get(where.partition)
                log = None if replica is None else replica.log
                if log is not None:
                    expect(
                        log.log_end_offset >= committed.end,
                        "in-sync has it all",
                        f"{named(where)}: node {member} of the in-sync set {list(known.isr)} has a log up to "
                        f"{log.log_end_offset}, and {committed.end} is committed",
                    )

    # --- metadata ----------------------------------------------------------------------------------------------------------

    def _look_at_metadata(self, machine: Machine, node: BrokerNode) -> None:
        quorum = node.quorum
        if quorum.is_leader:
            self._expect_one_leader(self._quorum_leaders, quorum.epoch, machine.number, "the quorum")
        known, start = self._delivered.get(machine.number, (None, 0))
        if known is not node:
            start = 0
        start = max(start, int(quorum.log.start_offset()))
        end = int(quorum.delivered)
        if end > start:
            for batch in quorum.log.batches(Offset(start), Offset(end)):
                said = (int(batch.next_offset), int(batch.epoch), batch.size_bytes)
                before = self._metadata.setdefault(int(batch.base_offset), said)
                self._metadata_epoch = max(self._metadata_epoch, said[1])
                expect(
                    before == said,
                    "committed metadata",
                    f"node {machine.number} takes a batch of epoch {said[1]} at {batch.base_offset} for committed, and one of "
                    f"epoch {before[1]} was",
                )
            self._metadata_end = max(self._metadata_end, end)
        self._delivered[machine.number] = (node, end)
        # One that has not heard of its successor yet has not what that has committed.
        if quorum.is_leader and quorum.epoch >= self._metadata_epoch:
            expect(
                quorum.next_offset >= self._metadata_end,
                "committed metadata",
                f"node {machine.number} leads the quorum in epoch {quorum.epoch} with a log up to {quorum.next_offset}, and "
                f"{self._metadata_end} is committed",
            )

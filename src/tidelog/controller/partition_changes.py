"""Who leads a partition and who is in sync, after something happened to its replicas.

    `change_partition`       one partition: a wanted in-sync set in, at most one record out
    `replicas_lost`          a broker left (fenced, stopping, gone): it leaves in-sync sets, others lead
    `replicas_forgotten`     a broker came back from an unclean stop: it may have lost records, so it counts nowhere
    `leaders_found`          a broker came back: it leads what nobody led

The leader is, in this order: the one that leads, if it still may; the first replica in sync; where nobody is in sync, the
first of those that were in sync last and stopped cleanly (the eligible leader replicas of KIP-966); the last one that led, or any
replica where the topic allows it, both at the price of records, so that the new leader has to recover first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum

from msgspec import Struct

from tidelog.controller.cluster_view import (
    TopicDefaults,
    allows_unclean_election,
    default_directory,
    each_partition,
    has_eligible_leader_replicas,
    is_active,
    is_online,
    min_insync_replicas,
)
from tidelog.controller.decision import framed
from tidelog.controller.image import NO_LEADER, ClusterImage, LeaderRecovery, Partition, Topic
from tidelog.model.ids import DirectoryId, NodeId, PartitionIndex
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.internal.cluster_metadata import PartitionChangeRecord

_NO_LEADER_CHANGE = -2


class Election(Enum):
    """How far an election may go."""

    ONLINE = "whoever is in sync"
    PREFERRED = "the first replica, if it is in sync"
    UNCLEAN = "any replica, where nobody is in sync"


class Assignment(Struct, frozen=True):
    """Who has a partition. While it is reassigned, `replicas` are those that are to have it and, last, those that leave."""

    replicas: tuple[NodeId, ...]
    adding: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()


class _Elected(Struct, frozen=True):
    leader: NodeId
    is_unclean: bool = False


def change_partition(
    image: ClusterImage,
    topic: Topic,
    index: PartitionIndex,
    defaults: TopicDefaults,
    *,
    isr: Iterable[NodeId] | None = None,
    recovery: LeaderRecovery | None = None,
    election: Election | None = None,
    may_lead: Callable[[NodeId], bool] | None = None,
    unclean_stop: NodeId | None = None,
    directories: Mapping[NodeId, DirectoryId] | None = None,
    assignment: Assignment | None = None,
) -> FramedRecord | None:
    """The record that gives a partition other replicas, another in-sync set, leader or directory; None where nothing changes.

    Without `election` the topic says whether an unclean one is allowed. Without `may_lead` that are the active brokers; in either
    case the replica's directory has to be online. `unclean_stop` is a broker that cannot be trusted to have what it had.
    """
    partition = topic.partitions[index]
    if election is None:
        is_unclean_allowed = allows_unclean_election(image, topic.name, defaults)
        election = Election.UNCLEAN if is_unclean_allowed else Election.ONLINE
    change = _Change(
        partition,
        has_elr=has_eligible_leader_replicas(image),
        may_lead=_leadership_test(image, partition, may_lead),
        election=election,
    )
    if isr is not None:
        change.isr = list(isr)
    if assignment is not None:
        change.assign(assignment)
    change.complete_reassignment()
    change.find_eligible(min_insync_replicas(image, topic, defaults), unclean_stop)
    record = PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id)
    change.elect(record)
    change.describe(record)
    if image.metadata_version.bumps_leader_epoch_on_shrink:
        change.bump_leader_epoch_on_shrink(record)
    if recovery is not None and recovery != partition.leader_recovery:
        record.leader_recovery_state = recovery
    if image.metadata_version.has_directories:
        known = dict(zip(partition.replicas, partition.directories, strict=False)) | dict(directories or {})
        wanted = [known.get(replica) or default_directory(image, replica) for replica in change.replicas]
        if tuple(wanted) != partition.directories:
            record.directories = list(wanted)
    unchanged = PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id)
    return None if record == unchanged else framed(image, record)


def replicas_lost(image: ClusterImage, node: NodeId, defaults: TopicDefaults) -> Iterator[FramedRecord]:
    """A broker is not to lead or count as in sync any longer."""
    for topic, index, partition in each_partition(image):
        if node in partition.isr:
            yield from _without(image, topic, index, node, defaults, unclean_stop=None)


def replicas_forgotten(image: ClusterImage, node: NodeId, defaults: TopicDefaults) -> Iterator[FramedRecord]:
    """A broker stopped uncleanly: with KIP-966 it is not even eligible any longer."""
    for topic, index, partition in each_partition(image):
        if node in partition.isr or node in partition.eligible_leader_replicas:
            yield from _without(image, topic, index, node, defaults, unclean_stop=node)


def directories_lost(
    image: ClusterImage, node: NodeId, lost: Iterable[DirectoryId], defaults: TopicDefaults
) -> Iterator[FramedRecord]:
    """Some directories of a broker are offline: what lies in them is not in sync."""
    gone = tuple(lost)
    for topic, index, partition in each_partition(image):
        if node in partition.isr and partition.directory_of(node) in gone:
            yield from _without(image, topic, index, node, defaults, unclean_stop=None)


def leaders_found(image: ClusterImage, node: NodeId, defaults: TopicDefaults) -> Iterator[FramedRecord]:
    """A broker that is fenced in the image is about to be active: it may lead partitions that have no leader."""
    for topic, index, partition in each_partition(image):
        if partition.leader == NO_LEADER:
            record = change_partition(
                image,
                topic,
                index,
                defaults,
                may_lead=lambda replica: replica == node or is_active(image.brokers.get(replica)),
            )
            if record is not None:
                yield record


def _without(
    image: ClusterImage,
    topic: Topic,
    index: PartitionIndex,
    node: NodeId,
    defaults: TopicDefaults,
    *,
    unclean_stop: NodeId | None,
) -> Iterator[FramedRecord]:
    record = change_partition(
        image,
        topic,
        index,
        defaults,
        isr=[replica for replica in topic.partitions[index].isr if replica != node],
        may_lead=lambda replica: replica != node and is_active(image.brokers.get(replica)),
        unclean_stop=unclean_stop,
    )
    if record is not None:
        yield record


def _leadership_test(
    image: ClusterImage, partition: Partition, may_lead: Callable[[NodeId], bool] | None
) -> Callable[[NodeId], bool]:
    def test(replica: NodeId) -> bool:
        broker = image.brokers.get(replica)
        if broker is None or not is_online(broker, partition.directory_of(replica)):
            return False
        return is_active(broker) if may_lead is None else may_lead(replica)

    return test


class _Change:
    """One partition on its way from a registered state to a wanted one."""

    def __init__(
        self, partition: Partition, *, has_elr: bool, may_lead: Callable[[NodeId], bool], election: Election
    ) -> None:
        self._before = partition
        self._has_elr = has_elr
        self._may_lead = may_lead
        self._election = election
        self._is_unclean = False
        self.isr = list(partition.isr)
        self.replicas = list(partition.replicas)
        self._adding = list(partition.adding_replicas)
        self._removing = list(partition.removing_replicas)
        self._eligible = list(partition.eligible_leader_replicas)

    def assign(self, assignment: Assignment) -> None:
        self.replicas = list(assignment.replicas)
        self._adding = list(assignment.adding)
        self._removing = list(assignment.removing)

    def complete_reassignment(self) -> None:
        """A reassignment ends when all that are to be added are in sync and somebody is left. Where fewer come than go, all who
        stay have to be in sync: the partition would otherwise be less safe than it was."""
        if not self._adding and not self._removing:
            return
        staying = [replica for replica in self.replicas if replica not in self._removing]
        in_sync = [replica for replica in self.isr if replica not in self._removing]
        awaited = self._adding if len(self._adding) >= len(self._removing) else [*self._adding, *staying]
        if staying and in_sync and all(replica in in_sync for replica in awaited):
            self.replicas, self.isr, self._adding, self._removing = staying, in_sync, [], []

    def find_eligible(self, min_isr: int, unclean_stop: NodeId | None) -> None:
        """Below the minimum, whoever leaves the in-sync set stays eligible: nothing has been acknowledged without it."""
        if not self._has_elr:
            return
        if len(self.isr) >= min_isr:
            self._eligible = []
            return
        candidates = {*self._eligible, *self._before.isr}
        self._eligible = sorted(
            replica for replica in candidates if replica not in self.isr and replica != unclean_stop
        )

    def elect(self, record: PartitionChangeRecord) -> None:
        before = self._before
        elected = self._elect()
        if elected.leader != before.leader:
            if elected.leader in self._eligible:
                self.isr = [elected.leader]
                self._eligible.remove(elected.leader)
            record.leader = elected.leader
            if elected.is_unclean:
                self._is_unclean = True
                self.isr = [elected.leader]
                if before.leader_recovery is not LeaderRecovery.RECOVERING:
                    record.leader_recovery_state = LeaderRecovery.RECOVERING
        elif any(replica not in self.replicas for replica in before.replicas):
            # Who left must notice by the epoch that it no longer follows this leader.
            record.leader = before.leader

    def _elect(self) -> _Elected:
        leader = self._before.leader
        if self._election is Election.PREFERRED:
            candidates = [self.replicas[0], leader, *self.replicas[1:]]
        else:
            candidates = [leader, *self.replicas]
        for candidate in candidates:
            is_safe = candidate in self.isr or (not self.isr and candidate in self._eligible)
            if is_safe and self._may_lead(candidate):
                return _Elected(candidate)
        last_known = self._before.last_known_elr
        is_nobody_safe = self._has_elr and not self._eligible and not self.isr
        if is_nobody_safe and len(last_known) == 1 and self._may_lead(last_known[0]):
            return _Elected(last_known[0], is_unclean=True)
        if self._election is Election.UNCLEAN:
            for candidate in self.replicas:
                if self._may_lead(candidate):
                    return _Elected(candidate, is_unclean=True)
        return _Elected(NO_LEADER)

    def describe(self, record: PartitionChangeRecord) -> None:
        """Put down what differs from before."""
        before = self._before
        if self._is_unclean or not self._has_elr:
            self._eligible = []
        if tuple(self._eligible) != before.eligible_leader_replicas:
            record.eligible_leader_replicas = list(self._eligible)
        # Without KIP-966 the last one in sync stays so although it is gone: it alone is known to have everything.
        if (self.isr or self._has_elr) and tuple(self.isr) != before.isr:
            record.isr = list(self.isr)
        if self._has_elr:
            self._note_last_leader(record)
        if tuple(self.replicas) != before.replicas:
            record.replicas = list(self.replicas)
        if tuple(self._removing) != before.removing_replicas:
            record.removing_replicas = list(self._removing)
        if tuple(self._adding) != before.adding_replicas:
            record.adding_replicas = list(self._adding)

    def bump_leader_epoch_on_shrink(self, record: PartitionChangeRecord) -> None:
        """Who left the in-sync set learns of it by another epoch of the same leader."""
        is_smaller = record.isr is not None and any(replica not in record.isr for replica in self._before.isr)
        if is_smaller and record.leader == _NO_LEADER_CHANGE:
            record.leader = self._before.leader

    def _note_last_leader(self, record: PartitionChangeRecord) -> None:
        before = self._before
        if record.isr == []:
            if before.leader != NO_LEADER and before.last_known_elr != (before.leader,):
                record.last_known_elr = [before.leader]
            return
        leader = before.leader if record.leader == _NO_LEADER_CHANGE else record.leader
        if leader != NO_LEADER and before.last_known_elr:
            record.last_known_elr = []

"""One streams group (KIP-1071): what the log says of it. Only replayed records change it.

Its state is what its members, topology and epochs say, nothing that is kept:

    Empty          no members
    NotReady       topics are missing, or have the wrong numbers of partitions
    Assigning      the group's epoch is ahead of the target assignment's
    Reconciling    some member has not reached the target yet
    Stable         all have
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.coordination.group import EpochOf
from tidelog.coordination.streams.configured_topology import ConfiguredTopology
from tidelog.coordination.streams.member import StreamsMember
from tidelog.coordination.streams.records import group_tombstones
from tidelog.coordination.streams.tasks import OwnedTasks, TaskSets
from tidelog.coordination.streams.topology import Topology
from tidelog.coordination.timeline import Earlier, all_as_committed, as_committed
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.wire.internal_records import CoordinatorRecord

INITIAL_EPOCH = 1
STREAMS_PROTOCOL_TYPE = "streams"
NOT_VALIDATED = -1
# The first version of OffsetCommit that carries a member epoch in place of a generation.
_EPOCH_COMMIT_VERSION = 9
# What a producer says that does not know the member's epoch.
_NO_EPOCH = -1
TOPOLOGY = "topology"

_Task = tuple[str, int]


class StreamsGroup:
    """A group, its topology, its members and their assignments. Fits `coordination.group.Group`."""

    __slots__ = (
        "_active_at",
        "_readers",
        "_standby_at",
        "_warmup_at",
        "assignment_configs",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "configured",
        "earlier_epochs",
        "earlier_members",
        "earlier_targets",
        "earlier_topology",
        "endpoint_epoch",
        "epoch",
        "group_id",
        "looked_at_epoch",
        "members",
        "metadata_hash",
        "required_topics",
        "shutdown_requested_by",
        "targets",
        "topology",
        "validated_topology_epoch",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = INITIAL_EPOCH
        self.metadata_hash = 0
        self.validated_topology_epoch = NOT_VALIDATED
        self.assignment_configs: Mapping[str, str] = {}
        """What the assignor was told when the epoch rose last."""
        self.assignment_epoch = INITIAL_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, StreamsMember] = {}
        self.targets: dict[str, TaskSets] = {}
        self.topology: Topology | None = None
        self.required_topics: frozenset[TopicName] = frozenset()
        # What no record holds.
        self.configured: ConfiguredTopology | None = None
        """The topology on the topics that there were when the group looked last."""
        self.looked_at_epoch: int | None = None
        """The group's epoch when its topics were last compared with the cluster's; None: they are to be compared."""
        self.shutdown_requested_by: str | None = None
        """The member that wants the whole application to end, for as long as there are members."""
        self.endpoint_epoch = 0
        """Rises when a member with an endpoint has other tasks."""
        self.earlier_epochs: Earlier[EpochOf, int] = {}
        self.earlier_members: Earlier[str, StreamsMember] = {}
        self.earlier_targets: Earlier[str, TaskSets] = {}
        self.earlier_topology: Earlier[str, Topology] = {}
        """What uncommitted records have replaced, of all that others are told of the group."""
        self._readers: Mapping[TopicName, str] = {}
        self._active_at: dict[_Task, str] = {}
        self._standby_at: dict[_Task, set[str]] = {}
        self._warmup_at: dict[_Task, set[str]] = {}

    # What others ask of any group

    @property
    def type_name(self) -> str:
        return "streams"

    @property
    def protocol_type(self) -> str:
        return STREAMS_PROTOCOL_TYPE

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def gives_way(self) -> bool:
        return True

    @property
    def has_offsets(self) -> bool:
        return True

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and topic in self._readers

    @property
    def offsets_may_expire(self) -> bool:
        # What the group reads is always known.
        return True

    def offsets_expire_from_ms(self) -> int | None:
        return None

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        api_version: int,
        now_ms: int,  # noqa: ARG002 - only heartbeats keep a member alive
        is_transactional: bool = False,
    ) -> ErrorCode:
        """An epoch before the member's own may be right for some partitions: see `check_commit_of`."""
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        if is_transactional and epoch == _NO_EPOCH and not member_id and instance_id is None:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if api_version < _EPOCH_COMMIT_VERSION and not is_transactional:
            return ErrorCode.UNSUPPORTED_VERSION
        return ErrorCode.STALE_MEMBER_EPOCH if epoch != member.member_epoch else ErrorCode.NONE

    def check_commit_of(self, member_id: str, epoch: int, topic: TopicName, partition: int) -> ErrorCode:
        """Whether the member may commit one partition's offset with an epoch that `check_commit` found wrong.

        It may with an earlier epoch, as long as it has had the task since then: only a commit from before the task came to it
        could be a zombie's.
        """
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        reader = self._readers.get(topic)
        since = None if reader is None else member.assignment_epoch(reader, partition)
        is_own = since is not None and since <= epoch <= member.member_epoch
        return ErrorCode.NONE if is_own else ErrorCode.STALE_MEMBER_EPOCH

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = None if member_id is None else self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.STALE_MEMBER_EPOCH if epoch != member.member_epoch else ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        return group_tombstones(self.group_id, self.members)

    def as_committed(self) -> StreamsGroup:
        """Knows members, targets, topology and epochs: enough for its state, its description, and who may fetch offsets."""
        if not (self.earlier_members or self.earlier_targets or self.earlier_epochs or self.earlier_topology):
            return self
        committed = StreamsGroup(self.group_id)
        committed.members = all_as_committed(self.members, self.earlier_members)
        committed.targets = all_as_committed(self.targets, self.earlier_targets)
        committed.topology = as_committed(self.earlier_topology, TOPOLOGY, self.topology)
        committed.configured = self.configured if committed.topology is self.topology else None

        def epoch(which: EpochOf, now: int) -> int:
            found = as_committed(self.earlier_epochs, which, now)
            assert found is not None
            return found

        committed.epoch = epoch(EpochOf.GROUP, self.epoch)
        committed.assignment_epoch = epoch(EpochOf.ASSIGNMENT, self.assignment_epoch)
        committed.validated_topology_epoch = epoch(EpochOf.VALIDATED_TOPOLOGY, self.validated_topology_epoch)
        return committed

    # Which processes have a task, or have yet to let go of it: `reconciliation.TaskHolders`

    def active_process(self, subtopology_id: str, partition: int) -> str | None:
        return self._active_at.get((subtopology_id, partition))

    def is_standby_at(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        return process_id in self._standby_at.get((subtopology_id, partition), ())

    def is_warmup_at(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        return process_id in self._warmup_at.get((subtopology_id, partition), ())

    # Replay

    def set_topology(self, topology: Topology | None) -> None:
        self.topology = topology
        self.required_topics = frozenset() if topology is None else frozenset(topology.required_topics)
        self._readers = {} if topology is None else topology.readers
        self.configured = None

    def set_member(self, member: StreamsMember) -> None:
        self._disown(self.members.get(member.member_id))
        self.members[member.member_id] = member
        self._own(member)

    def remove_member(self, member_id: str) -> None:
        self._disown(self.members.pop(member_id, None))
        if not self.members:
            self.shutdown_requested_by = None

    def _own(self, member: StreamsMember) -> None:
        for owned in (member.assigned, member.pending_revocation):
            for task in _active(owned):
                self._active_at[task] = member.process_id
            for task, holders in self._copies(owned):
                holders.setdefault(task, set()).add(member.process_id)

    def _disown(self, member: StreamsMember | None) -> None:
        if member is None:
            return
        for owned in (member.assigned, member.pending_revocation):
            for task in _active(owned):
                if self._active_at.get(task) == member.process_id:
                    del self._active_at[task]
            for task, holders in self._copies(owned):
                at = holders.get(task, set())
                at.discard(member.process_id)
                if not at:
                    holders.pop(task, None)

    def _copies(self, owned: OwnedTasks) -> Iterable[tuple[_Task, dict[_Task, set[str]]]]:
        for tasks, holders in ((owned.standby, self._standby_at), (owned.warmup, self._warmup_at)):
            for name, partitions in tasks.items():
                for partition in partitions:
                    yield (name, partition), holders


def _active(owned: OwnedTasks) -> Iterable[_Task]:
    return ((name, partition) for name, since in owned.active.items() for partition in since)

# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""The replicas on this node, by the name and by the id of their topic.

They follow the cluster's metadata: `apply` opens, moves between roles, reconfigures and deletes what a new image asks for.
Whatever the disk does, `apply` goes on with the other partitions; what could not be opened is there as an offline replica.

Opening or deleting a replica takes some file operations. What one image brings beyond a turn's worth of them is done later, a
few at a time (`later`), so that others are served and heartbeats sent meanwhile. A replica that waits to be opened is not there
yet: clients that come too early are told to try again, and `opened` tells when none waits. One that waits to be deleted serves
nobody.

A name may come back with another id. The directory on disk says whose it is (`partition.metadata`); one that belongs to another
id than the metadata's is set aside, never taken over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

from tidelog.model.clock import Clock
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    DirectoryId,
    NodeId,
    PartitionIndex,
    TopicId,
    TopicName,
    TopicPartition,
    is_reserved,
)
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.model.pending import Pending
from tidelog.replication.metadata_view import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    MetadataChange,
    MetadataView,
    PartitionMetadata,
    TopicMetadata,
)
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Offline
from tidelog.replication.throttles import ReplicationThrottles
from tidelog.replication.topic_config import TopicConfig
from tidelog.replication.traffic import ReplicationTraffic
from tidelog.replication.waiting import Wakeups
from tidelog.storage.errors import StorageError
from tidelog.storage.log_directories import LogDirectories
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.partition_log import PartitionLog

logger = logging.getLogger(__name__)

# By partition index.
TopicReplicas = Mapping[int, Partition]

# So many in one turn of the event loop, and no more of them than fit this time: a file system takes between a tenth of a
# millisecond and several to make the files of one partition.
PER_TURN_MAX = 32
TURN_MS_MAX = 10
_UNLIMITED = 2**62

_NOTHING: dict[int, Partition] = {}


class Partitions:
    """All replicas on a node. `config_of` gives a topic's configuration as it is at the moment of the call.

    `on_placed` is told where a replica lies if the metadata says otherwise: the controller must learn it (AssignReplicasToDirs).
    `later` calls back once others had their turn; without it nothing is put off. `on_role` is told of each partition to which
    the metadata gave a role, also the one that it had, and of those that are gone. Without `throttles` nobody is held back.
    """

    __slots__ = (
        "_by_id",
        "_by_name",
        "_clock",
        "_config_of",
        "_directories",
        "_image",
        "_is_put_off",
        "_later",
        "_node_id",
        "_on_placed",
        "_on_role",
        "_to_delete",
        "_to_open",
        "_turn_ends_ms",
        "_turn_left",
        "_waiting_for_opened",
        "throttles",
        "traffic",
        "wakeups",
    )

    def __init__(
        self,
        node_id: NodeId,
        directories: LogDirectories,
        clock: Clock,
        *,
        config_of: Callable[[TopicName], TopicConfig],
        on_placed: Callable[[TopicId, PartitionIndex, DirectoryId], None] | None = None,
        later: Callable[[Callable[[], None]], object] | None = None,
        on_role: Callable[[Partition], None] | None = None,
        throttles: ReplicationThrottles | None = None,
    ) -> None:
        # Each topic with its partitions by their index, by the topic's name and by its id.
        self._by_name: dict[TopicName, dict[int, Partition]] = {}
        self._by_id: dict[TopicId, dict[int, Partition]] = {}
        self.wakeups = Wakeups()
        self.throttles = throttles or ReplicationThrottles(node_id, clock)
        self.traffic = ReplicationTraffic(node_id)
        self._on_role = on_role
        self._node_id = node_id
        self._directories = directories
        self._clock = clock
        self._config_of = config_of
        self._on_placed = on_placed
        self._image: MetadataView | None = None
        self._later = later
        self._turn_left = 0
        self._turn_ends_ms = 0
        self._is_put_off = False
        # In the order in which they came.
        self._to_open: dict[tuple[TopicId, PartitionIndex], None] = {}
        self._to_delete: dict[TopicPartition, LogDirectory] = {}
        self._waiting_for_opened: list[Pending[None]] = []
        for directory in directories:
            directory.on_expired = self._expired

    def __iter__(self) -> Iterator[Partition]:
        for replicas in self._by_id.values():
            yield from replicas.values()

    def __len__(self) -> int:
        return sum(map(len, self._by_id.values()))

    def _expired(self, topic_partition: TopicPartition, log: PartitionLog) -> None:
        """Retention has moved the start of a log."""
        partition = self.named(topic_partition.topic).get(topic_partition.partition)
        if partition is not None and partition.log is log:
            partition.changed()

    # --- looking up --------------------------------------------------------------------------------------------------------

    def named(self, topic: TopicName) -> TopicReplicas:
        """The replicas of a topic on this node."""
        return self._by_name.get(topic, _NOTHING)

    def identified(self, topic_id: TopicId) -> TopicReplicas:
        """The same by the topic's id."""
        return self._by_id.get(topic_id, _NOTHING)

    def led_partition(self, topic: TopicName, index: int) -> Partition | ErrorCode:
        """The partition, if this node leads it; otherwise what a client is to be told."""
        partition = self.named(topic).get(index)
        if partition is None:
            return self.missing(topic, index)
        return partition if partition.is_leading else partition.role.error

    def missing(self, topic: TopicName, index: int) -> ErrorCode:
        """Why this node has no replica: there is no such partition, or it is elsewhere."""
        image = self._image
        topic_id = None if image is None else image.topic_ids.get(topic)
        if image is None or topic_id is None or index not in image.topics[topic_id].partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    # --- following the metadata --------------------------------------------------------------------------------------------

    def is_stray(self, image: MetadataView, log: PartitionLog) -> bool:
        """Whether a log that was found on disk belongs to no replica of this node: for `LogDirectory.load`."""
        name, index = log.topic_partition
        topic_id = image.topic_ids.get(name)
        if topic_id is None or log.topic_id not in {topic_id, None}:
            return True
        if log.topic_id is None and not log.is_empty:
            return True
        # A crash after its creation has left it without an owner. There is nothing in it that could be somebody else's.
        metadata = image.topics[topic_id].partitions.get(index)
        return metadata is None or self._node_id not in metadata.replicas

    def apply(self, image: MetadataView, change: MetadataChange | None = None) -> None:
        """Bring the replicas in line with an image. `change` says where it differs from the last one; None: look at all of it,
        and put nothing off."""
        self._image = image
        self._begin_turn(is_limited=change is not None and self._later is not None)
        self.wakeups.hold()
        try:
            if change is None:
                removed = [topic_id for topic_id in self._by_id if topic_id not in image.topics]
                changed = list(image.topics)
            else:
                removed = list(change.topics_removed)
                changed = [topic_id for topic_id in change.topics_changed if topic_id in image.topics]
            # Deletions first: a new topic may have the name of a deleted one.
            for topic_id in removed:
                for index in list(self._by_id.get(topic_id, ())):
                    self._delete(topic_id, index)
            for topic_id in changed:
                self._apply_topic(image.topics[topic_id])
            if change is not None:
                self._apply_configs(change)
        finally:
            self.wakeups.release()
        self._end_turn()

    def opened(self) -> Pending[None]:
        """Complete when no replica of the images so far waits to be opened."""
        pending: Pending[None] = Pending()
        if self._to_open:
            self._waiting_for_opened.append(pending)
        else:
            pending.complete(None)
        return pending

    def _go_on(self) -> None:
        """Some of what was put off. The image may have moved on meanwhile: what counts is what it says now."""
        self._is_put_off = False
        self._begin_turn(is_limited=True)
        self.wakeups.hold()
        try:
            while self._to_open and self._has_turn():
                topic_id, index = next(iter(self._to_open))
                del self._to_open[topic_id, index]
                topic = None if self._image is None else self._image.topics.get(topic_id)
                metadata = None if topic is None else topic.partitions.get(index)
                if topic is not None and metadata is not None and self._node_id in metadata.replicas:
                    self._apply_partition(topic, index, metadata)
            while self._to_delete and self._has_turn():
                self._delete_log(next(iter(self._to_delete)))
        finally:
            self.wakeups.release()
        self._end_turn()

    def _end_turn(self) -> None:
        self._directories.settle_new()
        if self._later is not None and (self._to_open or self._to_delete) and not self._is_put_off:
            self._is_put_off = True
            self._later(self._go_on)
        if not self._to_open and self._waiting_for_opened:
            waiting, self._waiting_for_opened = self._waiting_for_opened, []
            for pending in waiting:
                pending.complete(None)

    def _begin_turn(self, *, is_limited: bool) -> None:
        self._turn_left = PER_TURN_MAX if is_limited else _UNLIMITED
        self._turn_ends_ms = self._clock.monotonic_ms() + TURN_MS_MAX if is_limited else _UNLIMITED

    def _has_turn(self) -> bool:
        """Whether one more replica may be opened or deleted now. Counts it."""
        self._turn_left -= 1
        return self._turn_left >= 0 and self._clock.monotonic_ms() <= self._turn_ends_ms

    def _may_do_now(self, topic: TopicName) -> bool:
        """The same for a replica of a certain topic: coordinators look for theirs as soon as they lead."""
        return topic in INTERNAL_TOPICS or self._has_turn()

    def _apply_topic(self, topic: TopicMetadata) -> None:
        replicas = self.identified(topic.topic_id)
        for index, metadata in topic.partitions.items():
            if self._node_id not in metadata.replicas:
                if index in replicas:
                    self._delete(topic.topic_id, index)
            elif index in replicas or self._may_do_now(topic.name):
                self._apply_partition(topic, index, metadata)
            else:
                self._to_open[topic.topic_id, index] = None

    def _apply_partition(self, topic: TopicMetadata, index: PartitionIndex, metadata: PartitionMetadata) -> None:
        partition = self.identified(topic.topic_id).get(index)
        if partition is None:
            partition = self._add(TopicPartition(topic.name, index), topic.topic_id)
        elif partition.partition_epoch == metadata.partition_epoch and not isinstance(partition.role, Offline):
            # Another partition of the topic has changed.
            return
        try:
            log = partition.log or self._open_log(partition.topic_partition, topic.topic_id, metadata)
            log.reconfigure(partition.config.log)
        except StorageError as error:
            logger.error("%s is offline: %s", partition.topic_partition, error)  # noqa: TRY400 - a fault of the disk, not a bug
            partition.go_offline(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            return
        if metadata.leader == self._node_id:
            partition.lead(log, metadata)
        else:
            partition.follow(log, metadata)
        self._tell_role(partition)

    def _tell_role(self, partition: Partition) -> None:
        if self._on_role is not None:
            self._on_role(partition)

    def _add(self, topic_partition: TopicPartition, topic_id: TopicId) -> Partition:
        partition = Partition(
            topic_partition,
            topic_id,
            node_id=self._node_id,
            config=self._config_of(topic_partition.topic),
            wakeups=self.wakeups,
            clock=self._clock,
        )
        replicas = self._by_id.setdefault(topic_id, {})
        replicas[topic_partition.partition] = partition
        self._by_name[topic_partition.topic] = replicas
        return partition

    def _open_log(
        self, topic_partition: TopicPartition, topic_id: TopicId, metadata: PartitionMetadata
    ) -> PartitionLog:
        """The log of a replica, made where there is none, in the directory that the metadata names if it names one."""
        directories = self._directories
        wanted = metadata.directory_of(self._node_id)
        if wanted is not None and is_reserved(wanted):
            wanted = None
        if topic_partition in self._to_delete:
            self._delete_log(topic_partition)
        directory = directories.directory_of(topic_partition)
        if directory is not None:
            log = directory.partitions[topic_partition]
            if log.fault is not None:
                raise log.fault
            if log.assign_topic_id(topic_id) is not ErrorCode.NONE:
                logger.warning("%s belongs to another topic of that name; it is set aside", log.directory)
                directory.set_aside_stray(topic_partition)
                directory = None
            elif not log.is_settled:
                directory.settle_later(log)
        if directory is None:
            if wanted is not None and directories.offline and not self._is_online(wanted):
                # It may lie there already. To begin anew elsewhere would look like data loss to everybody else.
                raise StorageError(topic_partition.topic, "open", None, "its log directory is offline or missing")
            if wanted is not None and not self._is_online(wanted):
                wanted = None
            directories.create_partition(topic_partition, topic_id, directory_id=wanted)
            directory = directories.directory_of(topic_partition)
        if directory is None:
            raise StorageError(str(topic_partition), "open", None, "no log directory has it")
        self._report_place(topic_id, topic_partition.partition, directory, metadata)
        return directory.partitions[topic_partition]

    def _is_online(self, directory_id: DirectoryId) -> bool:
        directory = self._directories.by_id(directory_id)
        return directory is not None and not directory.is_offline

    def _report_place(
        self, topic_id: TopicId, index: PartitionIndex, directory: LogDirectory, metadata: PartitionMetadata
    ) -> None:
        if self._on_placed is None or directory.identity is None or directory.identity.directory_id is None:
            return
        placed = directory.identity.directory_id
        if metadata.directory_of(self._node_id) != placed:
            self._on_placed(topic_id, index, placed)

    def _delete(self, topic_id: TopicId, index: int) -> None:
        replicas = self._by_id[topic_id]
        partition = replicas.pop(index)
        topic_partition = partition.topic_partition
        if not replicas:
            del self._by_id[topic_id]
            if self._by_name.get(topic_partition.topic) is replicas:
                del self._by_name[topic_partition.topic]
        error = self.missing(topic_partition.topic, index)
        partition.go_offline(error, f"this broker has no replica of {topic_partition} any more")
        if partition.trace is not None:
            partition.trace.end_with(f"this node has no replica of {topic_partition} any more")
        self._tell_role(partition)
        directory = self._directories.directory_of(topic_partition)
        if directory is None:
            return
        self._to_delete[topic_partition] = directory
        if self._may_do_now(topic_partition.topic):
            self._delete_log(topic_partition)

    def _delete_log(self, topic_partition: TopicPartition) -> None:
        directory = self._to_delete.pop(topic_partition)
        if directory.is_offline or topic_partition not in directory.partitions:
            # What is left in an offline directory becomes stray when the directory comes back.
            return
        try:
            directory.delete_partition(topic_partition)
        except StorageError as fault:
            logger.error("%s could not be deleted: %s", topic_partition, fault)  # noqa: TRY400 - a fault of the disk, not a bug

    def _apply_configs(self, change: MetadataChange) -> None:
        changed = list(change.configs_changed)
        if any(resource_type == BROKER_RESOURCE for resource_type, _ in changed):
            # Where topics get their defaults from.
            self.reconfigure_all()
            return
        for resource_type, name in changed:
            if resource_type == TOPIC_RESOURCE:
                self.reconfigure(TopicName(name))

    def reconfigure(self, topic: TopicName) -> None:
        """The configuration of a topic has changed."""
        replicas = self.named(topic)
        if replicas:
            config = self._config_of(topic)
            for partition in replicas.values():
                partition.reconfigure(config)

    def reconfigure_all(self) -> None:
        """What topics get their defaults from has changed."""
        for topic in list(self._by_name):
            self.reconfigure(topic)

    # --- disks -------------------------------------------------------------------------------------------------------------

    def directory_failed(self, directory: LogDirectory) -> None:
        """A log directory went offline: so do its replicas, and everybody who waits for one of them is told."""
        reason = f"its log directory {directory.path} is offline: {directory.fault}"
        for topic_partition in directory.partitions:
            partition = self.named(topic_partition.topic).get(topic_partition.partition)
            if partition is not None and not isinstance(partition.role, Offline):
                partition.go_offline(ErrorCode.KAFKA_STORAGE_ERROR, reason)

    def save_high_watermarks(self) -> None:
        """Write down the high watermarks of all directories: `replication-offset-checkpoint`."""
        for directory in self._directories.online:
            try:
                directory.save_high_watermarks()
            except StorageError as error:
                # The directory has gone offline by this, and said so.
                logger.warning("the high watermarks in %s could not be saved: %s", directory.path, error)

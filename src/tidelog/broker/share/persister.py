"""What the leader of a share partition asks of whoever keeps its state: the share coordinator, wherever it is.

    persister.read(group, topic_id, partition, leader_epoch)            when it begins to lead; fences leaders before it
    persister.write(group, topic_id, partition, ..., batches)           what has changed; fenced by both epochs

What is asked of one share partition is asked one after the other; of many at once, which the persister may send together.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicId
from tidelog.model.pending import Pending

NO_START_OFFSET = -1
"""The state of a share partition that nobody has acknowledged anything of: its group's configuration says where it begins."""


class StateBatch(NamedTuple):
    """Offsets with one state, of `RecordState`."""

    first_offset: int
    last_offset: int
    state: int
    delivery_count: int


class ShareState(NamedTuple):
    """What is kept of a share partition. The batches do not overlap and are in order."""

    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


class PersisterError(NamedTuple):
    """Why something was not read or written; `message` is for people."""

    code: ErrorCode
    message: str | None = None


class Persister(Protocol):
    """`cluster_persister.ClusterPersister`, as the leaders of share partitions use it. An error is final: what may pass by itself
    was tried again already."""

    @property
    def has_room(self) -> bool:
        """Whether much more may be asked before some of it is done. Without room everything is refused at once."""
        ...

    def read(
        self, group_id: str, topic_id: TopicId, partition: PartitionIndex, leader_epoch: int
    ) -> Pending[ShareState | PersisterError]: ...

    def write(
        self,
        group_id: str,
        topic_id: TopicId,
        partition: PartitionIndex,
        leader_epoch: int,
        state_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: list[StateBatch],
    ) -> Pending[PersisterError | None]:
        """None once it is committed."""
        ...

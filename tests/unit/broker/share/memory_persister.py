"""A persister that a test answers for."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.broker.share.persister import PersisterError, ShareState, StateBatch
from tidelog.model.ids import PartitionIndex, TopicId
from tidelog.model.pending import Pending


class Written(NamedTuple):
    """One write that has come."""

    start_offset: int
    completed_count: int
    batches: list[StateBatch]
    outcome: Pending[PersisterError | None]


class MemoryPersister:
    """What is asked waits until a test answers it."""

    has_room = True

    def __init__(self) -> None:
        self.reads: list[Pending[ShareState | PersisterError]] = []
        self.writes: list[Written] = []

    def read(
        self, group_id: str, topic_id: TopicId, partition: PartitionIndex, leader_epoch: int
    ) -> Pending[ShareState | PersisterError]:
        self.reads.append(Pending())
        return self.reads[-1]

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
        self.writes.append(Written(start_offset, delivery_complete_count, batches, Pending()))
        return self.writes[-1].outcome

    def answer(self, error: PersisterError | None = None) -> None:
        """Answer the last write."""
        self.writes[-1].outcome.complete(error)

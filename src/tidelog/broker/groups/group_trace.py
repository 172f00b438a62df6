"""What the coordinator of a group tells of while somebody listens: offsets that were committed, and rebalances.

    groups.traces[group_id] = GroupTrace(...)      from now on requests of the group are looked at

A rebalance is found by a look at the group a moment after a request about it (`look`), and with every heartbeat of a listener:
sessions end without a request. What is told is committed. Offsets that are committed within a transaction are not told: they
count from the transaction's end on, which its own coordinator tells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from tidelog.coordination.classic.group import ClassicGroup
from tidelog.coordination.consumer.group import ConsumerGroup
from tidelog.coordination.share.group import ShareGroup
from tidelog.model.errors import ErrorCode
from tidelog.model.timers import Timers
from tidelog.model.trace import Trace
from tidelog.model.trace_events import OffsetCommitted, Rebalanced, short

if TYPE_CHECKING:
    from tidelog.coordination.group import Group
    from tidelog.wire.typed.group_offsets import OffsetCommitRequest, OffsetCommitResponse

# What a request brings about is decided and committed by then, as a rule; if not, the next look finds it.
LOOK_AFTER_MS = 20


class GroupFinder(Protocol):
    """Who knows the groups."""

    def committed_group(self, group_id: str) -> Group | None: ...


class GroupTrace(Trace):
    """The listeners of one group."""

    def __init__(self, group_id: str, groups: GroupFinder, timers: Timers, now_ns: Callable[[], int]) -> None:
        super().__init__(now_ns)
        self._group_id = group_id
        self._groups = groups
        self._timers = timers
        self._is_looking = False
        self._known = self.now()

    def now(self) -> tuple[str, int, int]:
        """The group's state, its generation (or epoch) and how many members it has."""
        group = self._groups.committed_group(self._group_id)
        if isinstance(group, ClassicGroup):
            return group.state_name, group.generation_id, len(group.members)
        if isinstance(group, ConsumerGroup | ShareGroup):
            return group.state_name, group.epoch, len(group.members)
        return "Dead", 0, 0

    def look(self) -> None:
        """Something was asked of the group."""
        if not self._is_looking:
            self._is_looking = True
            self._timers.after(LOOK_AFTER_MS, self._look_again)

    def _look_again(self) -> None:
        self._is_looking = False
        self.tell_changes()

    def tell_changes(self) -> None:
        """Tell of the group as it is, if it is not as it was."""
        now = self.now()
        if now != self._known:
            self._known = now
            state, generation, members = now
            self.tell(Rebalanced(short(self._group_id), generation, members, state))

    def committing(
        self, request: OffsetCommitRequest, client_id: str | None
    ) -> Callable[[OffsetCommitResponse], OffsetCommitResponse]:
        """Tells, with the answer to a request, what was committed by it. What was refused is not told."""
        offsets = {
            (topic.name, each.partition_index): each.committed_offset
            for topic in request.topics
            for each in topic.partitions
        }
        names = {topic.topic_id: topic.name for topic in request.topics}
        member, group = request.member_id, short(self._group_id)

        def answered(response: OffsetCommitResponse) -> OffsetCommitResponse:
            for topic in response.topics:
                name = topic.name or names.get(topic.topic_id, "")
                for each in topic.partitions:
                    offset = offsets.get((name, each.partition_index))
                    if each.error_code == ErrorCode.NONE and offset is not None:
                        self.tell(
                            OffsetCommitted(group, name, each.partition_index, offset, short(member), short(client_id))
                        )
            return response

        return answered

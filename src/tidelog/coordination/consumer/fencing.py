"""Members that leave, or are taken out because they were silent or slow."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from tidelog.coordination.classic.groups import ClassicGroups
from tidelog.coordination.classic.records import group_record as classic_group_record
from tidelog.coordination.consumer.context import GroupContext
from tidelog.coordination.consumer.conversion import may_downgrade, to_classic
from tidelog.coordination.consumer.group import ConsumerGroup
from tidelog.coordination.consumer.member import ConsumerMember
from tidelog.coordination.consumer.records import group_record, member_tombstones, regex_tombstone
from tidelog.coordination.decision import Decision
from tidelog.model.errors import ErrorCode
from tidelog.wire.internal_records import CoordinatorRecord

logger = logging.getLogger(__name__)

A = TypeVar("A")


class Fencing:
    """Decides what a group becomes without some of its members."""

    def __init__(self, context: GroupContext, classic: ClassicGroups | None) -> None:
        self._context = context
        self._classic = classic
        context.fence = self.expire

    def expire(self, group_id: str, member_id: str, reason: str, now_ms: int) -> Decision[None] | None:
        """A member's time has run out."""
        group = self._context.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if not isinstance(group, ConsumerGroup) or member is None:
            return None
        logger.info("member %s of group %s is fenced because %s", member_id, group_id, reason)
        return self.fence(group, [member], None, now_ms)

    def fence(self, group: ConsumerGroup, leaving: Sequence[ConsumerMember], answer: A, now_ms: int) -> Decision[A]:
        """Take members out. The others get their partitions with the next target assignment."""
        if not leaving:
            return Decision(answer)
        context, group_id = self._context, group.group_id
        leaving_ids = [member.member_id for member in leaving]
        if self._classic is not None and may_downgrade(context, group, leaving_ids):
            stay = {member_id: member for member_id, member in group.members.items() if member_id not in leaving_ids}
            records, settled = self.downgrade(group, stay, group.tombstones(), now_ms, rebalances=True)
            return Decision(answer, tuple(records), replays=False, settled=settled)
        written = [record for member_id in leaving_ids for record in member_tombstones(group_id, member_id)]
        regexes = group.regexes_with(leaving)
        written += [regex_tombstone(group_id, regex) for regex in group.regex_subscribers if regex not in regexes]
        resolved = {regex: found for regex, found in group.resolved_regexes.items() if regex in regexes}
        metadata_hash = context.metadata_hash(group.subscribed_topics(leaving, None, resolved))
        written.append(group_record(group_id, group.epoch + 1, metadata_hash))
        return Decision(answer, tuple(written))

    def downgrade(
        self,
        group: ConsumerGroup,
        stay: dict[str, ConsumerMember],
        tombstones: Sequence[CoordinatorRecord],
        now_ms: int,
        *,
        rebalances: bool,
    ) -> tuple[list[CoordinatorRecord], Callable[[ErrorCode], None]]:
        """Put a classic group in this one's place at once. The second result takes it back where nothing could be written."""
        assert self._classic is not None
        context, group_id, classic = self._context, group.group_id, self._classic
        converted = to_classic(group, stay, context.topics, now_ms)
        for member_id in group.members:
            context.forget_member(group_id, member_id)
        records = [*tombstones, classic_group_record(converted)]
        records += classic.adopt(converted, now_ms, rebalances=rebalances)
        logger.info("group %s goes back to the classic protocol", group_id)

        def settled(error: ErrorCode) -> None:
            if error is ErrorCode.NONE or context.groups.get(group_id) is not converted:
                return
            classic.release(converted)
            context.groups[group_id] = group
            for member in group.members.values():
                context.watch_member(group_id, member, now_ms)

        return records, settled

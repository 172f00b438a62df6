"""The sticky assignment in two rebalances (KIP-429): first whoever has to give something up does, then others get it.

Members keep what they own while the group rebalances, and say so in their subscription. A partition that shall go from one to
another is therefore left out of this assignment: its owner sees that it is gone, gives it up and joins again, and in the
rebalance that follows nobody owns it any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct as Layout, error as struct_error

from tidelog.client.consumer.assignors.assignor import (
    NO_GENERATION,
    Assignment,
    LastAssignment,
    MemberSubscription,
    PartitionRacks,
)
from tidelog.client.consumer.assignors.sticky import StickyAssignor
from tidelog.client.consumer.topic_partition import TopicPartition

_INT32 = Layout(">i")


class CooperativeStickyAssignor(StickyAssignor):
    """Kafka's `cooperative-sticky`."""

    name = "cooperative-sticky"
    is_cooperative = True

    def user_data(self, last: LastAssignment) -> bytes | None:
        return _INT32.pack(last.generation_id)

    def claim_of(self, member: MemberSubscription) -> LastAssignment:
        generation_id = member.generation_id
        if generation_id == NO_GENERATION and member.user_data:
            # Before subscriptions had a field for it.
            try:
                (generation_id,) = _INT32.unpack_from(member.user_data)
            except struct_error:
                generation_id = NO_GENERATION
        return LastAssignment(member.owned, generation_id)

    def assign(self, partitions: PartitionRacks, members: Mapping[str, MemberSubscription]) -> Assignment:
        assignment = super().assign(partitions, members)
        owners: dict[TopicPartition, dict[str, int]] = {}
        for member, each in members.items():
            generation_id = self.claim_of(each).generation_id
            for partition in each.owned:
                owners.setdefault(partition, {})[member] = generation_id
        return {
            member: [each for each in assigned if _is_free_for(member, owners.get(each, {}))]
            for member, assigned in assignment.items()
        }


def _is_free_for(member: str, owners: Mapping[str, int]) -> bool:
    """Whether nobody else has a partition, or only members whose word is older: they have missed that it was taken away."""
    if not owners:
        return True
    mine = owners.get(member)
    return mine is not None and all(other == member or theirs < mine for other, theirs in owners.items())

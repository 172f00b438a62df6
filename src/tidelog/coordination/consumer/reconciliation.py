"""How a member comes from the partitions that it has to those that it should have.

    what it has, and keeps               stays assigned
    what it has, and should not have     is to be revoked: the member stays in its epoch until it says that it let go
    what it should have, and is free     is assigned, together with the target's epoch
    what it should have, and is owned    waits until the owner let go

The rule that follows, and for which all of this is made: no partition has two owners.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tidelog.coordination.consumer.assignors.subscription import Assignment
from tidelog.coordination.consumer.member import ConsumerMember, MemberState, OwnedPartitions
from tidelog.coordination.consumer.refusal import RefusedError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId
from tidelog.wire.messages.consumer_groups import TopicPartitions

Claimed = Sequence[TopicPartitions] | None
"""The partitions that a member says it has; None where it does not say."""


class Goal(Struct, frozen=True):
    """Where a member is to go."""

    epoch: int
    target: Assignment
    subscribed: Container[TopicId]
    """What the member reads now, which may be newer than the target."""
    has_changed_subscription: bool
    owner_of: Callable[[TopicId, int], str | None]


def reconcile(member: ConsumerMember, goal: Goal, claimed: Claimed) -> ConsumerMember:
    """The member's next step; the same object where there is none."""
    if member.state is MemberState.STABLE:
        if member.member_epoch != goal.epoch:
            return _next_assignment(member, goal, claimed)
        return _drop_unsubscribed(member, goal, claimed) if goal.has_changed_subscription else member
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if claims_any(claimed, member.pending_revocation):
            return _drop_unsubscribed(member, goal, claimed) if goal.has_changed_subscription else member
        return _next_assignment(member, goal, claimed)
    if member.state is MemberState.UNKNOWN and (claimed is None or claimed):
        raise RefusedError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
        )
    return _next_assignment(member, goal, claimed)


def claims_any(claimed: Claimed, partitions: OwnedPartitions) -> bool:
    """Whether the member has one of them still. It has where it does not say."""
    if claimed is None:
        return True
    return any(
        partition in partitions[TopicId(topic.topic_id)]
        for topic in claimed
        if topic.topic_id in partitions
        for partition in topic.partitions
    )


def claims_only(claimed: Claimed, partitions: OwnedPartitions) -> bool:
    """Whether the member says what it has, and it is nothing else than these."""
    if claimed is None:
        return False
    for topic in claimed:
        known = partitions.get(TopicId(topic.topic_id))
        if known is None or not all(partition in known for partition in topic.partitions):
            return False
    return True


def _next_assignment(member: ConsumerMember, goal: Goal, claimed: Claimed) -> ConsumerMember:
    keeps: dict[TopicId, dict[int, int]] = {}
    revokes: dict[TopicId, dict[int, int]] = {}
    gains: dict[TopicId, dict[int, int]] = {}
    is_waiting = False
    for topic in sorted({*goal.target, *member.assigned}):
        target = goal.target.get(topic, ()) if topic in goal.subscribed else ()
        wanted = set(target)
        has = member.assigned.get(topic, {})
        keeps_here = {partition: epoch for partition, epoch in has.items() if partition in wanted}
        revokes_here = {partition: epoch for partition, epoch in has.items() if partition not in wanted}
        gains_here = {}
        for partition in target:
            if partition in keeps_here:
                continue
            owner = goal.owner_of(topic, partition)
            # What it is about to let go of is its own to take back.
            if owner is None or owner == member.member_id:
                gains_here[partition] = goal.epoch
            else:
                is_waiting = True
        for partitions, found in ((keeps, keeps_here), (revokes, revokes_here), (gains, gains_here)):
            if found:
                partitions[topic] = found
    if revokes and claims_any(claimed, revokes):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.member_epoch, keeps, revokes)
    for topic, gained in gains.items():
        keeps[topic] = dict(sorted((keeps.get(topic, {}) | gained).items()))
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    return _moved(member, state, goal.epoch, dict(sorted(keeps.items())), {})


def _drop_unsubscribed(member: ConsumerMember, goal: Goal, claimed: Claimed) -> ConsumerMember:
    """The target is as it was, but the member does not read some topics any more."""
    dropped = {topic: epochs for topic, epochs in member.assigned.items() if topic not in goal.subscribed}
    if not dropped:
        return member
    keeps = {topic: epochs for topic, epochs in member.assigned.items() if topic not in dropped}
    revokes = dict(member.pending_revocation)
    for topic, epochs in dropped.items():
        revokes[topic] = dict(sorted({**revokes.get(topic, {}), **epochs}.items()))
    revokes = dict(sorted(revokes.items()))
    if claims_any(claimed, revokes):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.member_epoch, keeps, revokes)
    return _moved(member, member.state, member.member_epoch, keeps, member.pending_revocation)


def _moved(
    member: ConsumerMember, state: MemberState, epoch: int, assigned: OwnedPartitions, revokes: OwnedPartitions
) -> ConsumerMember:
    return replace(
        member,
        state=state,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        assigned=assigned,
        pending_revocation=revokes,
    )

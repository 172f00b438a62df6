"""What a group does when one of its members has spoken: the part that both protocols share.

    1  the member is written down if it said something new
    2  its regular expression is checked, and resolved afterwards, with the others if they are due (`resolution`)
    3  the group's epoch rises if its subscriptions or their topics have changed; a new expression counts once it is resolved
    4  the target assignment is computed if it is behind the group's epoch, and the last one is not too recent
    5  the member takes its next step towards the target

Records come in this order, which is Kafka's.
"""

from __future__ import annotations

from tidelog.coordination.consumer.assignors import ASSIGNORS
from tidelog.coordination.consumer.assignors.subscription import NOTHING, Assignment, Subscription
from tidelog.coordination.consumer.context import GroupContext
from tidelog.coordination.consumer.group import ConsumerGroup
from tidelog.coordination.consumer.member import ConsumerMember, MemberState
from tidelog.coordination.consumer.reconciliation import Claimed, Goal, reconcile
from tidelog.coordination.consumer.records import (
    current_record,
    group_record,
    member_record,
    partition_metadata_tombstone,
    regex_tombstone,
    target_epoch_record,
    target_record,
)
from tidelog.coordination.consumer.regular_expressions import check_regex
from tidelog.coordination.consumer.resolution import resolve_if_due
from tidelog.coordination.decision import Caller
from tidelog.model.ids import TopicId, TopicName
from tidelog.wire.internal_records import CoordinatorRecord


class Progress:
    """One decision in the making. `member` is as the group has it (or new), `updated` as it is from now on."""

    def __init__(
        self,
        context: GroupContext,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        records: list[CoordinatorRecord],
        caller: Caller,
        now_ms: int,
    ) -> None:
        self._context = context
        self._caller = caller
        self._group = group
        self._member = member
        self.updated = updated
        self.records = records
        self._now_ms = now_ms
        # The member that the group knows in this one's place: itself, or the static member that it replaces.
        known = group.members.get(updated.member_id) or group.static_member(updated.instance_id)
        self._known = known
        self._resolved = {
            regex: found for regex, found in group.resolved_regexes.items() if group.regex_subscribers.get(regex)
        }
        self.epoch = group.epoch
        self.has_changed_subscription = False

    def update_subscription(self, *, waits_for_regexes: bool = True) -> None:
        """Steps 1 to 3. Unless it waits, a changed expression lets the epoch rise at once."""
        group, member, updated = self._group, self._member, self.updated
        if updated != member:
            self.records.append(member_record(group.group_id, updated))
        has_new_names = updated.subscribed_names != member.subscribed_names
        has_new_regex = (member.subscribed_regex or "") != (updated.subscribed_regex or "")
        self.has_changed_subscription = has_new_names or has_new_regex
        is_resolved = self._follow_regexes(has_new_regex=has_new_regex)
        bumps = has_new_names or (is_resolved if waits_for_regexes else has_new_regex)
        is_due = group.looked_at_epoch is None or group.epoch < group.looked_at_epoch
        if not (bumps or is_due):
            return
        topics = group.subscribed_topics((self._known,) if self._known else (), updated, self._resolved)
        metadata_hash = self._context.metadata_hash(topics)
        if bumps or metadata_hash != group.metadata_hash:
            self.epoch += 1
            self.records.append(group_record(group.group_id, self.epoch, metadata_hash))
        group.looked_at_epoch = self.epoch
        if group.has_partition_metadata:
            self.records.append(partition_metadata_tombstone(group.group_id))

    def advance(self, claimed: Claimed) -> None:
        """Steps 4 and 5."""
        group = self._group
        if group.assignment_epoch >= self.epoch or not self._context.may_assign(group, self._now_ms):
            self.approach(group.assignment_epoch, group.target_of(self.updated), claimed)
        else:
            self.approach(self.epoch, self._assign(), claimed)

    def approach(self, epoch: int, target: Assignment, claimed: Claimed) -> None:
        """Step 5."""
        updated = self.updated
        if not self.has_changed_subscription and updated.is_reconciled_to(epoch):
            return
        goal = Goal(epoch, target, self._topic_ids(updated), self.has_changed_subscription, self._owner_of)
        stepped = reconcile(updated, goal, claimed)
        if stepped == updated:
            return
        self.updated = stepped
        context, group_id = self._context, self._group.group_id
        self.records.append(current_record(group_id, stepped))
        if stepped.classic is None and stepped.state is MemberState.UNREVOKED_PARTITIONS:
            context.watch_revocation(group_id, stepped, self._now_ms)

    def _follow_regexes(self, *, has_new_regex: bool) -> bool:
        """Whether the member has changed its expression, to one whose topics are known, or to none."""
        group = self._group
        regexes = group.regexes_with((self._known,) if self._known else (), self.updated)
        is_new = is_resolved = False
        if has_new_regex:
            old, new = self._member.subscribed_regex, self.updated.subscribed_regex
            if old and old not in regexes:
                self.records.append(regex_tombstone(group.group_id, old))
            if not new:
                is_resolved = True
            elif group.regex_subscribers.get(new):
                is_resolved = new in group.resolved_regexes
            else:
                check_regex(new)
                is_new = True
        self._resolved = {regex: found for regex, found in self._resolved.items() if regex in regexes}
        resolve_if_due(self._context, group, regexes, self._caller.may_describe, self._now_ms, has_new=is_new)
        return is_resolved

    def _assign(self) -> Assignment:
        group, context, updated = self._group, self._context, self.updated
        members = dict(group.members)
        targets = group.targets
        mine = group.target_of(updated)
        if self._known is not None:
            members.pop(self._known.member_id, None)
        members[updated.member_id] = updated
        shared: dict[tuple[tuple[TopicName, ...], str | None], tuple[TopicId, ...]] = {}
        counts: dict[TopicId, int] = {}
        subscriptions: dict[str, Subscription] = {}
        for member_id, member in members.items():
            what = member.subscribed_names, member.subscribed_regex
            topics = shared.get(what)
            if topics is None:
                topics = shared[what] = tuple(sorted(self._topic_ids(member)))
                counts.update((topic, len(context.topics.topics[topic].partitions)) for topic in topics)
            target = mine if member is updated else targets.get(member_id, NOTHING)
            subscriptions[member_id] = Subscription(member.instance_id, topics, target)
        name = group.preferred_assignor(self._known, updated)
        default = context.settings.consumer_assignors[0]
        assignor = ASSIGNORS[default if name is None or name not in ASSIGNORS else name]
        assignments = assignor(subscriptions, counts)
        for member_id in members:
            if assignments[member_id] != targets.get(member_id):
                self.records.append(target_record(group.group_id, member_id, assignments[member_id]))
        self.records.append(target_epoch_record(group.group_id, self.epoch, self._now_ms))
        return assignments[updated.member_id]

    def _topic_ids(self, member: ConsumerMember) -> set[TopicId]:
        """The topics that a member reads, as far as they exist."""
        names: set[TopicName] = set(member.subscribed_names)
        resolved = self._resolved.get(member.subscribed_regex or "")
        if resolved is not None:
            names.update(resolved.topics)
        topic_ids = self._context.topics.topic_ids
        return {topic_ids[name] for name in names if name in topic_ids}

    def _owner_of(self, topic_id: TopicId, partition: int) -> str | None:
        owner = self._group.owner_of(topic_id, partition)
        is_own = self._known is not None and owner == self._known.member_id
        return self.updated.member_id if is_own else owner

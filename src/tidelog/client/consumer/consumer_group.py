"""A membership of the new protocol (KIP-848), hosted: heartbeats by a timer, reconciliation within `advance`."""

from __future__ import annotations

from tidelog.client.consumer.classic_member import GroupSettings
from tidelog.client.consumer.committed_offsets import Committer
from tidelog.client.consumer.consumer_member import ConsumerMember, State, Wanted, named
from tidelog.client.consumer.group import Group, GroupParts
from tidelog.client.consumer.heartbeats import Heartbeats
from tidelog.client.consumer.membership import Failed, Next, difference
from tidelog.client.consumer.subscription import Mode
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import AuthenticationError, FencedError, UnsupportedError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import random_uuid, uuid_to_text
from tidelog.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


class ConsumerGroup(Group):
    """Says what it has, is told what it shall have, and changes the one into the other."""

    def __init__(self, parts: GroupParts) -> None:
        options = parts.options
        self._parts = parts
        settings = GroupSettings(
            parts.group_id,
            options.group_instance_id,
            rebalance_timeout_ms=options.max_poll_interval_ms,
            rack_id=options.client_rack or None,
        )
        member_id = uuid_to_text(random_uuid(parts.random))
        self.member = ConsumerMember(settings, member_id, options.group_remote_assignor)
        self._heartbeats = Heartbeats(
            parts.for_heartbeats(),
            self.member,
            ConsumerGroupHeartbeatResponse,
            self._request,
            self._heard,
            self._away,
        )
        parts.metadata.on_change(self._metadata_changed)

    @property
    def state(self) -> str:
        return self.member.state.value

    @property
    def needs_attention(self) -> bool:
        return (
            self.error is not None
            or self.member.state is State.FENCED
            or (self.member.needs_reconciling and self._can_reconcile())
        )

    def polled(self) -> None:
        self._heartbeats.polled()

    def committer(self) -> Committer:
        if not self.member.is_in_group:
            return Committer()
        return Committer(self.member.member_epoch, self.member.member_id, self._parts.options.group_instance_id)

    def subscription_changed(self) -> None:
        subscription = self._parts.subscription
        if subscription.mode is Mode.SERVER_PATTERN:
            self._parts.metadata.want_all_topics()
            self.member.subscribe(Wanted(regex=subscription.server_pattern))
        else:
            self.member.subscribe(Wanted(subscription.topics))
        self._heartbeats.begin()

    # Reconciling.

    def _target(self) -> list[TopicPartition]:
        """What the coordinator wants this member to have, as far as the names of the topics are known."""
        return named(self.member.target or {}, self._parts.metadata.names_by_id)

    def _can_reconcile(self) -> bool:
        target = self.member.target or {}
        if all(topic_id in self._parts.metadata.names_by_id for topic_id in target):
            return True
        return set(self._target()) != self._parts.subscription.assignment

    def _metadata_changed(self) -> None:
        if self.member.needs_reconciling:
            self._parts.on_news()

    async def advance(self) -> None:
        self.polled()
        if self.error is not None:
            error = self.error
            if isinstance(error, AuthenticationError):
                # The partitions stay, and the next poll may be let in.
                self.error = None
                self._heartbeats.send_soon()
                raise error
            if not isinstance(error, FencedError):
                self.error = None
            await self._give_up_lost()
            raise error
        if self.member.state is State.FENCED:
            await self._give_up_lost()
            self.member.given_up()
            self._heartbeats.send_soon()
        if self.member.needs_reconciling:
            await self._reconcile()

    async def _reconcile(self) -> None:
        subscription, metadata = self._parts.subscription, self._parts.metadata
        if any(topic_id not in metadata.names_by_id for topic_id in self.member.target or {}):
            metadata.request_update()
        target = self._target()
        owned = sorted(subscription.assignment)
        revoked = difference(owned, target)
        added = difference(target, owned)
        if revoked:
            for partition in revoked:
                subscription.of(partition).is_revoking = True
            await self._parts.owner.before_revoke()
            await self._parts.owner.tell_revoked(revoked)
        if not self.member.needs_reconciling:
            # Fenced while the callback ran: what is left is lost, as the next round says.
            return
        subscription.share_out(target)
        metadata.add_topics({each.topic for each in target})
        await self._parts.owner.tell_assigned(added)
        by_id: dict[bytes, list[int]] = {}
        for partition in target:
            by_id.setdefault(metadata.topics[partition.topic].id, []).append(partition.partition)
        self.member.reconciled(by_id)
        self._heartbeats.send_soon()

    async def _give_up_lost(self) -> None:
        lost = sorted(self._parts.subscription.assignment)
        self._parts.subscription.share_out(())
        if lost:
            await self._parts.owner.tell_lost(lost)

    # Heartbeats.

    def _away(self) -> None:
        self.member.lost()
        self._parts.on_news()

    def _request(self, version: int) -> ConsumerGroupHeartbeatRequest:
        made = self.member.heartbeat_request()
        if version < 1 and made.subscribed_topic_regex:
            raise UnsupportedError("the coordinator knows no subscriptions by pattern yet")
        if version < 1:
            made.subscribed_topic_regex = None
        return made

    def _heard(self, outcome: Next | Failed) -> None:
        if isinstance(outcome, Failed):
            self.error = outcome.error
        if isinstance(outcome, Failed) or outcome is Next.LOST or self.member.needs_reconciling:
            self._parts.on_news()

    def commit_refused(self, code: ErrorCode) -> None:
        if code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH}:
            self._heartbeats.send_soon()

    # The end.

    async def leave(self, timeout_ms: float) -> None:
        self.stop()
        owned = sorted(self._parts.subscription.assignment)
        if owned:
            if self.member.is_in_group:
                await self._parts.owner.tell_revoked(owned)
            else:
                await self._parts.owner.tell_lost(owned)
        await self._heartbeats.leave(timeout_ms)
        self.member.left()
        self.error = None

    def stop(self) -> None:
        self._heartbeats.stop()

"""A membership of the new protocol (KIP-848), hosted: heartbeats by a timer, reconciliation within `advance`."""

from __future__ import annotations

import asyncio
import logging

from tidelog.client.connections import Channel
from tidelog.client.consumer.classic_member import GroupSettings
from tidelog.client.consumer.committed_offsets import Committer
from tidelog.client.consumer.consumer_member import ConsumerMember, State, Wanted, named
from tidelog.client.consumer.group import Group, GroupParts
from tidelog.client.consumer.membership import Failed, Next, difference
from tidelog.client.consumer.subscription import Mode
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.coordinators import CoordinatorKind
from tidelog.client.errors import AuthenticationError, ClientError, ClosedError, FencedError, UnsupportedError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import random_uuid, uuid_to_text
from tidelog.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

log = logging.getLogger(__name__)

# Until the coordinator has said how often it wants to hear from its members.
_HEARTBEAT_INTERVAL_MS = 5_000


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
        self._timer: asyncio.TimerHandle | None = None
        self._in_flight = False
        self._failures = 0
        self._last_poll_s = parts.loop.time()
        self._finding: asyncio.Task[None] | None = None
        self._is_stopped = False
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
        self._last_poll_s = self._parts.loop.time()

    def committer(self) -> Committer:
        if not self.member.is_in_group:
            return Committer()
        return Committer(self.member.member_epoch, self.member.member_id, self._parts.options.group_instance_id)

    def subscription_changed(self) -> None:
        subscription = self._parts.subscription
        self._is_stopped = False
        if subscription.mode is Mode.SERVER_PATTERN:
            self._parts.metadata.want_all_topics()
            self.member.subscribe(Wanted(regex=subscription.server_pattern))
        else:
            self.member.subscribe(Wanted(subscription.topics))
        self._heartbeat_soon()

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
                self._heartbeat_soon()
                raise error
            if not isinstance(error, FencedError):
                self.error = None
            await self._give_up_lost()
            raise error
        if self.member.state is State.FENCED:
            await self._give_up_lost()
            self.member.given_up()
            self._heartbeat_soon()
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
        subscription.assign_from_group(target)
        metadata.add_topics({each.topic for each in target})
        await self._parts.owner.tell_assigned(added)
        by_id: dict[bytes, list[int]] = {}
        for partition in target:
            by_id.setdefault(metadata.topics[partition.topic].id, []).append(partition.partition)
        self.member.reconciled(by_id)
        self._heartbeat_soon()

    async def _give_up_lost(self) -> None:
        lost = sorted(self._parts.subscription.assignment)
        self._parts.subscription.assign_from_group(())
        if lost:
            await self._parts.owner.tell_lost(lost)

    # Heartbeats.

    def _heartbeat_soon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._parts.loop.call_soon(self._heartbeat)

    def _heartbeat_after(self, delay_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._parts.loop.call_later(delay_ms / 1000, self._heartbeat)

    def _heartbeat(self) -> None:
        parts = self._parts
        self._timer = None
        if self._in_flight or self._is_stopped or self.member.state in {State.UNSUBSCRIBED, State.FENCED}:
            return
        if (parts.loop.time() - self._last_poll_s) * 1000 > parts.options.max_poll_interval_ms:
            log.warning(
                "group %s: nothing was polled for %d ms (max_poll_interval_ms), so this member leaves",
                parts.group_id,
                parts.options.max_poll_interval_ms,
            )
            self._send_leave()
            self.member.lost()
            parts.on_news()
            return
        node_id = parts.coordinators.known(CoordinatorKind.GROUP, parts.group_id)
        if node_id is None:
            self._find_coordinator()
            return
        self._in_flight = True
        parts.connections.send(
            node_id,
            self._request,
            ConsumerGroupHeartbeatResponse,
            self._answered,
            channel=Channel.COORDINATOR,
            timeout_ms=parts.options.request_timeout_ms,
        )

    def _request(self, version: int) -> ConsumerGroupHeartbeatRequest:
        made = self.member.heartbeat_request()
        if version < 1 and made.subscribed_topic_regex:
            raise UnsupportedError("the coordinator knows no subscriptions by pattern yet")
        if version < 1:
            made.subscribed_topic_regex = None
        return made

    def _find_coordinator(self) -> None:
        if self._finding is not None:
            return

        async def find() -> None:
            try:
                await self._parts.coordinators.find(
                    CoordinatorKind.GROUP, self._parts.group_id, timeout_ms=self._parts.options.default_api_timeout_ms
                )
            except ClientError as error:
                if not error.retriable and not isinstance(error, ClosedError):
                    self._fail(error)
                    return
                log.debug("group %s: %s", self._parts.group_id, error)
            finally:
                self._finding = None
            self._heartbeat_soon()

        self._finding = self._parts.loop.create_task(find())

    def _answered(self, answer: ConsumerGroupHeartbeatResponse | ClientError) -> None:
        self._in_flight = False
        if self._is_stopped:
            return
        if isinstance(answer, ClientError):
            self.member.unanswered()
            if isinstance(answer, (AuthenticationError, UnsupportedError)):
                self._fail(answer)
                return
            if not isinstance(answer, ClosedError):
                self._parts.coordinator_lost()
                self._retry()
            return
        outcome = self.member.answered(answer)
        match outcome:
            case Failed(error):
                self._fail(error)
            case Next.LOST:
                self._parts.on_news()
            case Next.FIND_COORDINATOR:
                self._parts.coordinator_lost()
                self._retry()
            case Next.RETRY:
                self._retry()
            case _:
                self._failures = 0
                if self.member.has_news:
                    self._heartbeat_soon()
                else:
                    self._heartbeat_after(self.member.heartbeat_interval_ms or _HEARTBEAT_INTERVAL_MS)
                if self.member.needs_reconciling:
                    self._parts.on_news()

    def _retry(self) -> None:
        self._failures += 1
        self._heartbeat_after(self._parts.backoff.after(self._failures))

    def _fail(self, error: ClientError) -> None:
        self.error = error
        self._parts.on_news()

    def commit_refused(self, code: ErrorCode) -> None:
        if code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH}:
            self._heartbeat_soon()

    # The end.

    def _send_leave(self) -> asyncio.Future[None] | None:
        node_id = self._parts.coordinators.known(CoordinatorKind.GROUP, self._parts.group_id)
        if node_id is None or not self.member.is_in_group:
            return None
        done: asyncio.Future[None] = self._parts.loop.create_future()

        def answered(_answer: ConsumerGroupHeartbeatResponse | ClientError) -> None:
            if not done.done():
                done.set_result(None)

        self._parts.connections.send(
            node_id,
            self.member.leave_request(),
            ConsumerGroupHeartbeatResponse,
            answered,
            channel=Channel.COORDINATOR,
            timeout_ms=5_000,
        )
        return done

    async def leave(self, timeout_ms: float) -> None:
        self.stop()
        owned = sorted(self._parts.subscription.assignment)
        if owned:
            if self.member.is_in_group:
                await self._parts.owner.tell_revoked(owned)
            else:
                await self._parts.owner.tell_lost(owned)
        left = self._send_leave()
        if left is not None:
            await asyncio.wait({left}, timeout=timeout_ms / 1000)
        self.member.left()
        self.error = None

    def stop(self) -> None:
        self._is_stopped = True
        if self._finding is not None:
            self._finding.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

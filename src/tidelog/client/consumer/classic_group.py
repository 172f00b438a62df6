"""A classic membership, hosted: joins and syncs in a task of its own, heartbeats by a timer, callbacks within `advance`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tidelog.client.connections import Channel
from tidelog.client.consumer.classic_member import Assigned, ClassicMember, GroupSettings, Leading, State
from tidelog.client.consumer.committed_offsets import Committer
from tidelog.client.consumer.group import Group, GroupParts
from tidelog.client.consumer.membership import Failed, Next, difference
from tidelog.client.consumer.subscription import Mode
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.coordinators import CoordinatorKind
from tidelog.client.errors import (
    AuthenticationError,
    ClientError,
    ClosedError,
    FencedError,
    TimedOutError,
    UnsupportedError,
)
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.groups_classic import (
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

log = logging.getLogger(__name__)

# The coordinator answers a join when all have joined or the rebalance time-out is over; then the answer has to travel.
_JOIN_SLACK_MS = 5_000
# How long a leader waits for the metadata of topics that only other members are subscribed to.
_TOPICS_TIMEOUT_MS = 5_000


class ClassicGroup(Group):
    """Joins when the application polls, and stays by heartbeats."""

    def __init__(self, parts: GroupParts) -> None:
        options = parts.options
        self._parts = parts
        self._settings = GroupSettings(
            parts.group_id,
            options.group_instance_id,
            options.session_timeout_ms,
            options.max_poll_interval_ms,
            options.client_rack or None,
        )
        self.member = ClassicMember(self._settings, options.partition_assignment_strategy)
        self._joining: asyncio.Task[None] | None = None
        self._finding: asyncio.Task[None] | None = None
        # What the coordinator has assigned, and the application has yet to hear of.
        self._pending: Assigned | None = None
        self._is_prepared = False
        self._is_lost = False
        self._heartbeat_timer: asyncio.TimerHandle | None = None
        self._heartbeat_in_flight = False
        self._last_heard_s = 0.0
        self._last_poll_s = parts.loop.time()
        # How many partitions each topic of the group had when this member shared them out.
        self._shared_out: dict[str, int] | None = None
        parts.metadata.on_change(self._metadata_changed)

    @property
    def state(self) -> str:
        return self.member.state.value

    @property
    def _needs_join(self) -> bool:
        return self._parts.subscription.uses_group and self.member.state is not State.STABLE

    @property
    def needs_attention(self) -> bool:
        return (
            self.error is not None
            or self._is_lost
            or self._pending is not None
            or (self._needs_join and self._joining is None)
        )

    def polled(self) -> None:
        self._last_poll_s = self._parts.loop.time()

    def committer(self) -> Committer:
        if not self.member.is_in_group:
            return Committer()
        return Committer(self.member.generation_id, self.member.member_id, self._settings.group_instance_id)

    def subscription_changed(self) -> None:
        self.member.rejoin("the subscription changed")

    def _metadata_changed(self) -> None:
        """The leader sees to it that new partitions find somebody."""
        if self._shared_out is None or not self.member.leads or self.member.state is not State.STABLE:
            return
        now = self._counts(set(self._shared_out))
        if now != self._shared_out:
            self.member.rejoin("the partitions of the topics changed")
            self._parts.on_news()

    def _counts(self, topics: set[str]) -> dict[str, int]:
        known = self._parts.metadata.topics
        return {topic: len(known[topic].partitions) if topic in known else 0 for topic in topics}

    # Rebalancing.

    async def advance(self) -> None:
        self.polled()
        if self.error is not None:
            error, self.error = self.error, None
            if not isinstance(error, FencedError):
                raise error
            self.error = error
            await self._give_up_lost()
            raise error
        if self._is_lost:
            await self._give_up_lost()
        if self._pending is not None:
            assigned, self._pending = self._pending, None
            await self._take(assigned)
        if not self._needs_join or self._joining is not None:
            return
        if not self._is_prepared:
            await self._prepare()
            self._is_prepared = True
        if self._is_lost:
            await self._give_up_lost()
        self._joining = self._parts.loop.create_task(self._join())
        self._joining.add_done_callback(self._joined)

    def _joined(self, task: asyncio.Task[None]) -> None:
        if task is self._joining:
            self._joining = None
        if not task.cancelled():
            error = task.exception()
            if isinstance(error, ClientError):
                self.error = error
                self._is_prepared = False
            elif error is not None:
                raise error
        self._parts.on_news()

    async def _prepare(self) -> None:
        """Before the member joins: an eager one gives everything up, a cooperative one what it is not subscribed to any more."""
        subscription = self._parts.subscription
        owned = sorted(subscription.assignment)
        if self.member.is_cooperative:
            revoked = [] if subscription.mode is Mode.NONE else [p for p in owned if p.topic not in subscription.topics]
        else:
            revoked = owned
        if owned:
            await self._parts.owner.before_revoke()
        if not revoked:
            return
        for partition in revoked:
            subscription.of(partition).is_revoking = True
        await self._parts.owner.tell_revoked(revoked)
        subscription.share_out(difference(owned, revoked))

    async def _take(self, assigned: Assigned) -> None:
        """The new generation's part: give up what is not in it, then take what is new."""
        self._is_prepared = False
        subscription = self._parts.subscription
        owned = sorted(subscription.assignment)
        revoked = difference(owned, assigned.partitions)
        added = difference(assigned.partitions, owned)
        if revoked:
            for partition in revoked:
                subscription.of(partition).is_revoking = True
            await self._parts.owner.before_revoke()
            await self._parts.owner.tell_revoked(revoked)
            # Others get these only in a rebalance in which this member does not own them.
            self.member.rejoin("partitions were given up")
        subscription.share_out(assigned.partitions)
        self._parts.metadata.add_topics({each.topic for each in assigned.partitions})
        await self._parts.owner.tell_assigned(added)

    async def _give_up_lost(self) -> None:
        self._is_lost = False
        self._is_prepared = False
        self._pending = None
        lost = sorted(self._parts.subscription.assignment)
        self._parts.subscription.share_out(())
        if lost:
            await self._parts.owner.tell_lost(lost)

    # The way into a generation.

    async def _join(self) -> None:
        """Until there is a part in the next generation, or the member is lost on the way and callbacks have to run first."""
        parts = self._parts
        failures = 0
        while True:
            outcome = await self._join_once()
            match outcome:
                case Assigned():
                    self._last_heard_s = parts.loop.time()
                    self._pending = outcome
                    self._start_heartbeats()
                    return
                case Failed(error):
                    raise error
                case Next.LOST:
                    if parts.subscription.assignment:
                        self._is_lost = True
                        return
                case Next.REJOIN:
                    failures = 0
                    continue
                case Next.FIND_COORDINATOR:
                    parts.coordinator_lost()
            failures += 1
            await asyncio.sleep(parts.backoff.after(failures) / 1000)

    async def _join_once(self) -> Assigned | Next | Failed:
        parts = self._parts
        try:
            node_id = await parts.coordinators.find(
                CoordinatorKind.GROUP, parts.group_id, timeout_ms=parts.options.default_api_timeout_ms
            )
            owned = sorted(parts.subscription.assignment) if self.member.is_cooperative else []
            answer = await parts.connections.ask(
                node_id,
                self._join_request(owned),
                JoinGroupResponse,
                channel=Channel.COORDINATOR,
                timeout_ms=parts.options.max_poll_interval_ms + _JOIN_SLACK_MS,
            )
            joined = self.member.joined(answer)
            if isinstance(joined, Leading):
                assignments = await self._share_out(joined)
            elif joined is Next.GO_ON:
                assignments, self._shared_out = [], None
            else:
                return joined
            synced = await parts.connections.ask(
                node_id,
                lambda _version: self.member.sync_request(assignments),
                SyncGroupResponse,
                channel=Channel.COORDINATOR,
                timeout_ms=parts.options.max_poll_interval_ms + _JOIN_SLACK_MS,
            )
            return self.member.synced(synced)
        except (ClosedError, UnsupportedError):
            raise
        except ClientError as error:
            if not error.retriable:
                return Failed(error)
            log.debug("group %s: %s", parts.group_id, error)
            return Next.FIND_COORDINATOR

    def _join_request(self, owned: list[TopicPartition]) -> Callable[[int], JoinGroupRequest]:
        def request(version: int) -> JoinGroupRequest:
            made = self.member.join_request(self._parts.subscription.topics, owned)
            if version < 5:
                made.group_instance_id = None
            if version < 1:
                made.rebalance_timeout_ms = -1
            return made

        return request

    async def _share_out(self, leading: Leading) -> list[SyncGroupRequestAssignment]:
        metadata = self._parts.metadata
        unknown = {topic for topic in leading.topics if topic not in metadata.topics}
        if unknown:
            metadata.add_topics(unknown)
            try:
                await metadata.updated(_TOPICS_TIMEOUT_MS)
            except TimedOutError as error:
                log.warning("group %s: sharing out without %s: %s", self._parts.group_id, sorted(unknown), error)
        self._shared_out = self._counts(leading.topics)
        return self.member.share_out(leading, self._parts.racks_of(leading.topics))

    # Heartbeats.

    def _start_heartbeats(self) -> None:
        if self._heartbeat_timer is None:
            self._heartbeat_later()

    def _heartbeat_later(self) -> None:
        self._heartbeat_timer = self._parts.loop.call_later(
            self._parts.options.heartbeat_interval_ms / 1000, self._heartbeat
        )

    def _heartbeat(self) -> None:
        parts = self._parts
        self._heartbeat_timer = None
        if not self.member.is_in_group:
            return
        now_s = parts.loop.time()
        if (now_s - self._last_poll_s) * 1000 > parts.options.max_poll_interval_ms and not self._is_joining:
            log.warning(
                "group %s: nothing was polled for %d ms (max_poll_interval_ms), so this member leaves; "
                "poll more often, or take fewer records at a time with max_poll_records",
                parts.group_id,
                parts.options.max_poll_interval_ms,
            )
            self._send_leave("the application did not poll")
            self._lose("the application did not poll")
            return
        self._heartbeat_later()
        if self._heartbeat_in_flight or self._is_joining:
            return
        if (now_s - self._last_heard_s) * 1000 > parts.options.session_timeout_ms:
            parts.coordinator_lost()
            self._last_heard_s = now_s
        node_id = parts.coordinators.known(CoordinatorKind.GROUP, parts.group_id)
        if node_id is None:
            self._find_coordinator()
            return
        self._heartbeat_in_flight = True
        generation_id = self.member.generation_id
        request = self.member.heartbeat_request()

        def answered(answer: HeartbeatResponse | ClientError) -> None:
            self._heartbeat_in_flight = False
            if generation_id == self.member.generation_id:
                self._heartbeat_answered(answer)

        parts.connections.send(
            node_id,
            request,
            HeartbeatResponse,
            answered,
            channel=Channel.COORDINATOR,
            timeout_ms=parts.options.request_timeout_ms,
        )

    @property
    def _is_joining(self) -> bool:
        return self._joining is not None

    def _find_coordinator(self) -> None:
        if self._finding is not None and not self._finding.done():
            return

        async def find() -> None:
            try:
                await self._parts.coordinators.find(
                    CoordinatorKind.GROUP, self._parts.group_id, timeout_ms=self._parts.options.session_timeout_ms
                )
            except ClientError as error:
                log.debug("group %s: %s", self._parts.group_id, error)

        self._finding = self._parts.loop.create_task(find())

    def _heartbeat_answered(self, answer: HeartbeatResponse | ClientError) -> None:
        if isinstance(answer, AuthenticationError):
            self.heard(Failed(answer))
            return
        if isinstance(answer, ClientError):
            if not isinstance(answer, ClosedError):
                self._parts.coordinator_lost()
            return
        self._last_heard_s = self._parts.loop.time()
        self.heard(self.member.heartbeat_answered(answer.error_code))

    def heard(self, outcome: Next | Failed) -> None:
        """What an answer, to a heartbeat or a commit, says about the membership."""
        match outcome:
            case Next.LOST:
                self._is_lost = True
            case Next.FIND_COORDINATOR:
                self._parts.coordinator_lost()
                return
            case Failed(error):
                self.error = error
            case Next.GO_ON | Next.RETRY:
                return
        self._parts.on_news()

    def commit_refused(self, code: ErrorCode) -> None:
        self.heard(self.member.commit_refused(code))

    def _lose(self, reason: str) -> None:
        self.member.forget_identity(reason)
        self._is_lost = True
        self._parts.on_news()

    # The end.

    def _send_leave(self, reason: str) -> asyncio.Future[None] | None:
        """A static member does not say that it goes: it means to come back."""
        node_id = self._parts.coordinators.known(CoordinatorKind.GROUP, self._parts.group_id)
        if node_id is None or not self.member.member_id or self._settings.group_instance_id is not None:
            return None
        done: asyncio.Future[None] = self._parts.loop.create_future()
        member_id = self.member.member_id

        def answered(_answer: LeaveGroupResponse | ClientError) -> None:
            if not done.done():
                done.set_result(None)

        def request(version: int) -> LeaveGroupRequest:
            made = self.member.leave_request(version, reason)
            if version < 3:
                made.member_id = member_id
            else:
                made.members[0].member_id = member_id
            return made

        self._parts.connections.send(
            node_id, request, LeaveGroupResponse, answered, channel=Channel.COORDINATOR, timeout_ms=5_000
        )
        return done

    async def leave(self, timeout_ms: float) -> None:
        self.stop()
        owned = sorted(self._parts.subscription.assignment)
        if owned:
            if self.member.is_in_group and not self._is_lost:
                await self._parts.owner.tell_revoked(owned)
            else:
                await self._parts.owner.tell_lost(owned)
        left = self._send_leave("the consumer is closed or unsubscribed")
        if left is not None:
            await asyncio.wait({left}, timeout=timeout_ms / 1000)
        self.member.forget_identity("the member left")
        self._is_lost = self._is_prepared = False
        self.error = None

    def stop(self) -> None:
        for task in (self._joining, self._finding):
            if task is not None:
                task.cancel()
        self._joining = self._finding = None
        self._pending = None
        if self._heartbeat_timer is not None:
            self._heartbeat_timer.cancel()
            self._heartbeat_timer = None

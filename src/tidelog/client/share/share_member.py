"""A member of a share group, as a pure machine. One request, the heartbeat, does everything.

    UNSUBSCRIBED --subscribe--> JOINING --answer--> STABLE --fenced--> JOINING          any --leave--> UNSUBSCRIBED
                                                    STABLE --away too long--> AWAY --back--> JOINING

What the coordinator names is this member's at once: others may have the same partitions, so that nothing has to be given up
first. A heartbeat carries only what changed since the last one that was answered; one that got no answer is followed by a full
one.
"""

from __future__ import annotations

from enum import Enum

from tidelog.client.consumer.membership import Failed, Next, asked_by
from tidelog.client.errors import refusal
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.share_groups import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

JOINING_EPOCH = 0
LEAVING_EPOCH = -1


class State(Enum):
    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    STABLE = "stable"
    AWAY = "away"


class ShareMember:
    """One consumer's membership. `member_id` is the client's own choice and never changes: locks are held in its name."""

    def __init__(self, group_id: str, member_id: str, rack_id: str | None = None) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.state = State.UNSUBSCRIBED
        self.member_epoch = JOINING_EPOCH
        self.heartbeat_interval_ms = 0
        """The coordinator's: 0 until it has said."""
        self.assigned: dict[bytes, list[int]] = {}
        """By topic id."""
        self._rack_id = rack_id
        self._wanted: frozenset[str] = frozenset()
        # What the coordinator knows: None where it has to be told.
        self._told: frozenset[str] | None = None
        self._sent: frozenset[str] | None = None

    @property
    def topics(self) -> frozenset[str]:
        return self._wanted

    @property
    def is_in_group(self) -> bool:
        return self.member_epoch > JOINING_EPOCH

    @property
    def is_silent(self) -> bool:
        return self.state in {State.UNSUBSCRIBED, State.AWAY}

    @property
    def has_news(self) -> bool:
        return self.state is State.JOINING or (self.state is State.STABLE and self._told != self._wanted)

    def subscribe(self, topics: frozenset[str]) -> None:
        self._wanted = topics
        if self.state is State.UNSUBSCRIBED:
            self._join()

    def subscribe_to_nothing(self) -> None:
        self._wanted = frozenset()

    def _join(self) -> None:
        self.state = State.JOINING
        self.member_epoch = JOINING_EPOCH
        self._told = None
        self.assigned = {}

    def heartbeat_request(self) -> ShareGroupHeartbeatRequest:
        is_full = self._told is None
        self._sent = self._wanted
        return ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.member_epoch,
            rack_id=self._rack_id if is_full else None,
            subscribed_topic_names=sorted(self._wanted) if is_full or self._told != self._wanted else None,
        )

    def answered(self, answer: ShareGroupHeartbeatResponse) -> Next | Failed:
        code = ErrorCode.of(answer.error_code)
        if code is not ErrorCode.NONE:
            return self._refused(code, answer.error_message)
        if self.is_silent:
            return Next.GO_ON
        self.state = State.STABLE
        self.member_epoch = answer.member_epoch
        self.heartbeat_interval_ms = answer.heartbeat_interval_ms
        self._told = self._sent
        if answer.assignment is not None:
            self.assigned = {
                each.topic_id: sorted(each.partitions) for each in answer.assignment.topic_partitions if each.partitions
            }
        return Next.GO_ON

    def unanswered(self) -> None:
        """Whether the coordinator got the last heartbeat is unknown: the next one is a full one."""
        self._told = None

    def _refused(self, code: ErrorCode, message: str | None) -> Next | Failed:
        asked = asked_by(code)
        if asked is Next.LOST:
            if not self.is_silent:
                self._join()
            return asked
        self.unanswered()
        if asked is not None:
            return asked
        self.left()
        return Failed(refusal(code, message, about=f"share group {self.group_id!r}"))

    def away(self) -> None:
        """The application did not poll for too long, and the coordinator was told that this member leaves."""
        if self.state is not State.UNSUBSCRIBED:
            self.left()
            self.state = State.AWAY

    def back(self) -> bool:
        """The application polls again. Whether that has the member join again."""
        if self.state is State.AWAY:
            self._join()
            return True
        return False

    def leave_request(self) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVING_EPOCH)

    def left(self) -> None:
        self.state = State.UNSUBSCRIBED
        self.member_epoch = JOINING_EPOCH
        self._told = None
        self.assigned = {}

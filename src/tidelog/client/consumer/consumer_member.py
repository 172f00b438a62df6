"""A member of a group of the new protocol (KIP-848), as a pure machine. One request, the heartbeat, does everything.

    UNSUBSCRIBED --subscribe--> JOINING --answer--> STABLE <--acknowledged-- ACKNOWLEDGING <--reconciled-- RECONCILING
                                                       \\------------ the answer names another target -----------/
    any --fenced--> FENCED --partitions given up--> JOINING          any --leave--> UNSUBSCRIBED

The coordinator names a target. The member gives up what is not in it, takes what is new, and says what it then has: only after
that does the coordinator count it as there. A heartbeat carries only what changed since the last one that was answered; one that
got no answer is followed by a full one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from tidelog.client.consumer.classic_member import GroupSettings
from tidelog.client.consumer.membership import Failed, Next, asked_by
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import FencedError, refusal
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
LEAVING_FOR_A_WHILE_EPOCH = -2


class State(Enum):
    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    FENCED = "fenced"


class Wanted(NamedTuple):
    """What the application is subscribed to."""

    topics: frozenset[str] = frozenset()
    regex: str | None = None


class ConsumerMember:
    """One consumer's membership. `member_id` is the client's own choice (KIP-1082) and never changes."""

    def __init__(self, settings: GroupSettings, member_id: str, server_assignor: str | None = None) -> None:
        self.settings = settings
        self.member_id = member_id
        self.state = State.UNSUBSCRIBED
        self.member_epoch = JOINING_EPOCH
        self.heartbeat_interval_ms = 0
        """The coordinator's: 0 until it has said."""
        self.target: dict[bytes, list[int]] | None = None
        """What the coordinator wants this member to have, by topic id; None where it has named nothing yet."""
        self._server_assignor = server_assignor
        self._wanted = Wanted()
        self._owned: dict[bytes, list[int]] = {}
        # What the coordinator knows: None where it has to be told.
        self._told_wanted: Wanted | None = None
        self._told_owned: dict[bytes, list[int]] | None = None
        self._sent: tuple[Wanted, dict[bytes, list[int]]] | None = None

    @property
    def is_in_group(self) -> bool:
        return self.member_epoch > 0 and self.state is not State.FENCED

    @property
    def has_news(self) -> bool:
        """Whether a heartbeat should not wait for its time."""
        return self.state in {State.JOINING, State.ACKNOWLEDGING} or (
            self.is_in_group and self._told_wanted != self._wanted
        )

    @property
    def is_silent(self) -> bool:
        return self.state in {State.UNSUBSCRIBED, State.FENCED}

    @property
    def needs_reconciling(self) -> bool:
        return self.state is State.RECONCILING

    def subscribe(self, wanted: Wanted) -> None:
        self._wanted = wanted
        if self.state is State.UNSUBSCRIBED:
            self._join()

    def _join(self) -> None:
        self.state = State.JOINING
        self.member_epoch = JOINING_EPOCH
        self._told_wanted = self._told_owned = None
        self._owned = {}
        self.target = None

    def heartbeat_request(self) -> ConsumerGroupHeartbeatRequest:
        full = self._told_wanted is None
        regex_changed = full or (self._told_wanted is not None and self._told_wanted.regex != self._wanted.regex)
        topics_changed = full or (self._told_wanted is not None and self._told_wanted.topics != self._wanted.topics)
        self._sent = (self._wanted, self._owned)
        # The coordinator takes null for "as before", so that a pattern that is gone is an empty one.
        regex = self._wanted.regex if full else (self._wanted.regex or "")
        return ConsumerGroupHeartbeatRequest(
            group_id=self.settings.group_id,
            member_id=self.member_id,
            member_epoch=self.member_epoch,
            instance_id=self.settings.group_instance_id if full else None,
            rack_id=self.settings.rack_id if full else None,
            rebalance_timeout_ms=self.settings.rebalance_timeout_ms if full else -1,
            subscribed_topic_names=sorted(self._wanted.topics) if topics_changed else None,
            subscribed_topic_regex=regex if regex_changed else None,
            server_assignor=self._server_assignor if full else None,
            topic_partitions=listed(self._owned) if self._told_owned != self._owned else None,
        )

    def answered(self, answer: ConsumerGroupHeartbeatResponse) -> Next | Failed:
        code = ErrorCode.of(answer.error_code)
        if code is not ErrorCode.NONE:
            return self._refused(code, answer.error_message)
        if self.is_silent:
            return Next.GO_ON
        if answer.member_id:
            self.member_id = answer.member_id
        self.member_epoch = answer.member_epoch
        self.heartbeat_interval_ms = answer.heartbeat_interval_ms
        if self._sent is not None:
            self._told_wanted, self._told_owned = self._sent
        if answer.assignment is not None:
            self.target = {
                each.topic_id: sorted(each.partitions) for each in answer.assignment.topic_partitions if each.partitions
            }
        if self.target is not None and self.target != self._owned:
            self.state = State.RECONCILING
        elif self._told_owned == self._owned:
            self.state = State.STABLE
        return Next.GO_ON

    def unanswered(self) -> None:
        """Whether the coordinator got the last heartbeat is unknown: the next one is a full one."""
        self._told_wanted = self._told_owned = None

    def reconciled(self, owned: Mapping[bytes, Iterable[int]]) -> None:
        """The application has given up and taken what it had to; this is what it has."""
        self._owned = {topic_id: sorted(partitions) for topic_id, partitions in owned.items() if partitions}
        if self.state is State.RECONCILING:
            self.state = State.ACKNOWLEDGING

    def given_up(self) -> None:
        """A fenced member has told the application that its partitions are lost, and may join again."""
        if self.state is State.FENCED:
            self._join()

    def _refused(self, code: ErrorCode, message: str | None) -> Next | Failed:
        asked = asked_by(code)
        if asked is Next.LOST:
            self.state = State.FENCED
            self.member_epoch = JOINING_EPOCH
        elif asked is not None:
            self.unanswered()
        if asked is not None:
            return asked
        self.state = State.UNSUBSCRIBED
        about = f"group {self.settings.group_id!r}"
        if code in {ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID}:
            return Failed(refusal(code, message, about=about, kind=FencedError))
        return Failed(refusal(code, message, about=about))

    def lost(self) -> None:
        """The application did not poll for too long: everything is given up, as if the coordinator had said so."""
        if self.state is not State.UNSUBSCRIBED:
            self.state = State.FENCED
            self.member_epoch = JOINING_EPOCH

    def leave_request(self) -> ConsumerGroupHeartbeatRequest:
        """The last heartbeat. A static member says that it will come back, and keeps its place for the session's time."""
        epoch = LEAVING_EPOCH if self.settings.group_instance_id is None else LEAVING_FOR_A_WHILE_EPOCH
        return ConsumerGroupHeartbeatRequest(
            group_id=self.settings.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.settings.group_instance_id,
        )

    def left(self) -> None:
        self.state = State.UNSUBSCRIBED
        self.member_epoch = JOINING_EPOCH
        self._owned = {}
        self.target = None
        self._told_wanted = self._told_owned = None


def listed(partitions: Mapping[bytes, Iterable[int]]) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=topic_id, partitions=sorted(each)) for topic_id, each in partitions.items()]


def named(partitions: Mapping[bytes, Iterable[int]], names: Mapping[bytes, str]) -> list[TopicPartition]:
    """The partitions by name; those of topics whose name is not known yet are left out."""
    return sorted(
        TopicPartition(names[topic_id], partition)
        for topic_id, each in partitions.items()
        if topic_id in names
        for partition in each
    )

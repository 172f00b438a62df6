"""What all kinds of groups have in common, for those who do not care which kind it is: offsets, listing, deletion."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from tidelog.model.errors import ErrorCode
from tidelog.wire.internal_records import CoordinatorRecord


class EpochOf(Enum):
    """What a group counts that is written down."""

    GROUP = "group"
    ASSIGNMENT = "assignment"
    VALIDATED_TOPOLOGY = "validated topology"
    """Of streams groups."""


class Group(Protocol):
    """A group of some kind. `ClassicGroup`, `ConsumerGroup`, `ShareGroup` and `StreamsGroup` are; offsets are kept beside it, by
    group id."""

    group_id: str

    @property
    def type_name(self) -> str:
        """As ListGroups has it: `classic`, `consumer`, `share` or `streams`."""
        ...

    @property
    def protocol_type(self) -> str:
        """`consumer` for consumers of either protocol; what the members said; empty where nobody ever joined."""
        ...

    @property
    def state_name(self) -> str:
        """As ListGroups has it: `Stable`, `PreparingRebalance`, `Reconciling`..."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        ...

    @property
    def gives_way(self) -> bool:
        """Whether a classic group may take its place while it has no members."""
        ...

    @property
    def has_offsets(self) -> bool:
        """Whether its members commit offsets. False: it has no use for any, and does not end for want of them."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic: its offsets neither expire nor can they be deleted. True where that is unknown."""
        ...

    @property
    def offsets_may_expire(self) -> bool:
        """False while it is not settled who reads what: nothing expires then."""
        ...

    def offsets_expire_from_ms(self) -> int | None:
        """Since when all offsets count as unused (the group became empty); None: from each one's own commit."""
        ...

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        api_version: int,
        now_ms: int,
        is_transactional: bool = False,
    ) -> ErrorCode:
        """Whether this member may commit offsets now; `epoch` is its generation or member epoch. Counts as a sign of life.

        A producer that commits them in its transaction need not say which member it does that for, as old ones do not.
        """
        ...

    def as_committed(self) -> Group:
        """The group as its committed records have it, to be looked at and not to be changed."""
        ...

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether this member may ask for committed offsets now. No member id and a negative epoch: an administrator."""
        ...

    def check_delete(self) -> ErrorCode:
        """NONE, or NON_EMPTY_GROUP."""
        ...

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        """The records that end everything that is written down about the group, offsets apart."""
        ...

"""What both group protocols have in common: what a member does next, and what it may be told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple, Protocol

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError
from tidelog.client.retries import needs_coordinator
from tidelog.model.errors import ErrorCode


class Next(Enum):
    """What an answer of the coordinator asks of a member."""

    GO_ON = "go on"
    RETRY = "retry"
    """The same again, after a wait."""
    FIND_COORDINATOR = "find coordinator"
    """The same again, at another broker, after a wait."""
    REJOIN = "rejoin"
    """The group rebalances: join again, and keep the member id."""
    LOST = "lost"
    """The group has gone on without this member: its partitions are others', and it joins as a new one."""


class Failed(NamedTuple):
    """The member cannot go on by itself; the application has to know."""

    error: ClientError


_FORGOTTEN = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


def asked_by(code: ErrorCode) -> Next | None:
    """What the error of a heartbeat asks of a member whose coordinator does the sharing out; None where it cannot go on."""
    if code in _FORGOTTEN:
        return Next.LOST
    if needs_coordinator(code):
        return Next.FIND_COORDINATOR
    return Next.RETRY if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else None


class RebalanceListener(Protocol):
    """Hears of partitions that come and go, from within `poll` and `close`. Each method may be a coroutine function.

    >>> class Saving(RebalanceListener):
    ...     def on_partitions_revoked(self, partitions):
    ...         database.save(consumer.position(each) for each in partitions)
    ...
    ...     def on_partitions_assigned(self, partitions):
    ...         for each in partitions:
    ...             consumer.seek(each, database.offset_of(each))
    """

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> object:
        """These are new. Seeking in them is possible, and goes before any committed offset."""

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> object:
        """These are about to go. Committing is still possible."""

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> object:
        """These may be others' already, since this member was away too long. Unless overridden: as if revoked."""
        return self.on_partitions_revoked(partitions)


class CallbackListener(RebalanceListener):
    """A listener made of functions."""

    def __init__(
        self,
        on_assigned: Callable[[list[TopicPartition]], object] | None = None,
        on_revoked: Callable[[list[TopicPartition]], object] | None = None,
        on_lost: Callable[[list[TopicPartition]], object] | None = None,
    ) -> None:
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_lost = on_lost or on_revoked

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> object:
        return self._on_assigned(partitions) if self._on_assigned is not None else None

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> object:
        return self._on_revoked(partitions) if self._on_revoked is not None else None

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> object:
        return self._on_lost(partitions) if self._on_lost is not None else None


def difference(these: Iterable[TopicPartition], those: Iterable[TopicPartition]) -> list[TopicPartition]:
    """What is in `these` and not in `those`, in order."""
    return sorted(set(these).difference(those))

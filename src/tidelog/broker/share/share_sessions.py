"""Share sessions: a member of a share group names its partitions once, then only what changes.

    epoch 0          opens a session; one that the member had is forgotten
    epoch 1, 2, ...  goes on with it, each request with the next number. ShareAcknowledge counts in the same sequence
    epoch -1         closes it, and gives back all that the member has in hand

The end of the connection that opened a session closes it as well. A session is not replaced for want of room: who finds none
waits and is told so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicId

INITIAL_EPOCH = 0
FINAL_EPOCH = -1

# A member that names more must not take the node's memory: as many as a fetch session may have.
SESSION_PARTITIONS_MAX = 100_000

# A connection that goes from group to group must not leave something behind of each until it ends.
CONNECTION_GROUPS_MAX = 100

_INT32_MAX = 2**31 - 1


class SessionKey(NamedTuple):
    """A member of a group."""

    group_id: str
    member_id: str


class FetchedPartition(NamedTuple):
    """A partition as a request names it."""

    topic_id: TopicId
    partition: PartitionIndex


class WaitingFetch(Protocol):
    """A fetch of a session that waits for records."""

    def give_up(self) -> None:
        """The session has gone on without it, or is over: nothing is to be acquired any more."""
        ...


class ShareSession:
    """What one member fetches. `epoch` is that of the request that comes next."""

    __slots__ = ("connection_id", "epoch", "key", "partitions", "waiting")

    def __init__(self, key: SessionKey, partitions: Iterable[FetchedPartition], connection_id: int) -> None:
        self.key = key
        self.epoch = 1
        self.connection_id = connection_id
        # Each with whether the client is still to be told of it, records or not.
        self.partitions: dict[FetchedPartition, bool] = dict.fromkeys(partitions, False)
        self.waiting: WaitingFetch | None = None

    def update(self, named: Iterable[FetchedPartition], forgotten: Iterable[FetchedPartition]) -> bool:
        """Take in what a request names and forgets. False: that is more than a session may have."""
        for each in named:
            self.partitions.setdefault(each, True)
        for each in forgotten:
            self.partitions.pop(each, None)
        return len(self.partitions) <= SESSION_PARTITIONS_MAX

    def stop_waiting(self) -> None:
        """The fetch that waits is not to acquire anything any more."""
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            waiting.give_up()

    def in_turn(self, epoch: int) -> list[FetchedPartition]:
        """Its partitions, beginning with another one in each request, so that a limit on bytes starves none."""
        partitions = list(self.partitions)
        start = epoch % len(partitions) if partitions and epoch > 0 else 0
        return partitions[start:] + partitions[:start]


class ShareSessions:
    """The sessions of a node, at most `sessions_max`."""

    def __init__(self, sessions_max: int) -> None:
        self._sessions_max = sessions_max
        self._sessions: dict[SessionKey, ShareSession] = {}
        # The sessions that a connection has opened and that are still there, and the groups that they were of: dicts for their
        # order. Nearly always one of each.
        self._by_connection: dict[int, dict[SessionKey, None]] = {}
        self._groups_by_connection: dict[int, dict[str, None]] = {}
        self._counts: dict[str, int] = {}
        self.evictions = 0
        """Sessions that have ended with their connections."""
        self.on_member_gone: Callable[[ShareSession], None] | None = None
        """Gives back what the member has in hand."""
        self.on_group_gone: Callable[[str], None] | None = None
        """No member of a group has a session here any more, and a connection of it has ended."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def get(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.get(key)

    def open(self, key: SessionKey, partitions: list[FetchedPartition], connection_id: int) -> ShareSession | ErrorCode:
        """A new session, in place of the one that the member has."""
        self._forget(key)
        if len(self._sessions) >= self._sessions_max or len(partitions) > SESSION_PARTITIONS_MAX:
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session = ShareSession(key, partitions, connection_id)
        self._sessions[key] = session
        self._by_connection.setdefault(connection_id, {})[key] = None
        self._note_group(connection_id, key.group_id)
        self._counts[key.group_id] = self._counts.get(key.group_id, 0) + 1
        return session

    def go_on(self, key: SessionKey, epoch: int) -> ShareSession | ErrorCode:
        """The session of a request that has its next epoch. What waits for records in it waits no longer."""
        session = self._sessions.get(key)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch == FINAL_EPOCH:
            return session
        if session.epoch != epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.epoch = 1 if epoch == _INT32_MAX else epoch + 1
        session.stop_waiting()
        return session

    def close(self, session: ShareSession) -> None:
        """The member ends it."""
        if self._sessions.get(session.key) is session:
            self._forget(session.key)
            self._release(session)

    def connection_closed(self, connection_id: int) -> None:
        """Whoever was at the other end has gone. A session that has a newer connection is not hurt."""
        for key in list(self._by_connection.get(connection_id, ())):
            self.evictions += 1
            self.close(self._sessions[key])
        for group_id in self._groups_by_connection.pop(connection_id, {}):
            self._look_at_group(group_id)

    def close_all(self) -> None:
        """Share groups are switched off."""
        for session in list(self._sessions.values()):
            self.close(session)

    def _note_group(self, connection_id: int, group_id: str) -> None:
        groups = self._groups_by_connection.setdefault(connection_id, {})
        groups[group_id] = None
        if len(groups) > CONNECTION_GROUPS_MAX:
            oldest = next(iter(groups))
            del groups[oldest]
            self._look_at_group(oldest)

    def _look_at_group(self, group_id: str) -> None:
        if group_id not in self._counts and self.on_group_gone is not None:
            self.on_group_gone(group_id)

    def _release(self, session: ShareSession) -> None:
        if self.on_member_gone is not None:
            self.on_member_gone(session)

    def _forget(self, key: SessionKey) -> None:
        session = self._sessions.pop(key, None)
        if session is None:
            return
        keys = self._by_connection[session.connection_id]
        del keys[key]
        if not keys:
            del self._by_connection[session.connection_id]
        session.stop_waiting()
        left = self._counts[key.group_id] - 1
        if left:
            self._counts[key.group_id] = left
        else:
            del self._counts[key.group_id]

"""How far one record, or a batch of records that share one fate, has come with a share group.

    from \\ event   acquired    accepted       released          rejected, gap   log start passes it
    AVAILABLE      ACQUIRED    -              -                 -               ARCHIVED
    ACQUIRED       -           ACKNOWLEDGED   AVAILABLE         ARCHIVED        - (until its lock ends)
    ACKNOWLEDGED   -           -              -                 -               -
    ARCHIVED       -           -              -                 -               -

What is released after as many deliveries as the group allows is ARCHIVED. What a member asks for is *begun*, written to the
share coordinator, and then *settled*: kept, or taken back where the write has failed. Until then nobody else may change it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class RecordState(IntEnum):
    """As the share coordinator keeps it. ACQUIRED is never written; 3 is reserved."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


# Members that are reached through their class cost more, and every record asks for these.
AVAILABLE = RecordState.AVAILABLE
ACQUIRED = RecordState.ACQUIRED
ACKNOWLEDGED = RecordState.ACKNOWLEDGED
ARCHIVED = RecordState.ARCHIVED

NOBODY = ""
"""In place of a member's id: nobody holds it."""

NO_LOCK = -1


class _Before(NamedTuple):
    """What a delivery goes back to if its change is not written."""

    state: RecordState
    member_id: str
    deliveries_max: int


class Delivery:
    """See the module. `locked_until_ms` is when the lock of an acquired one ends."""

    __slots__ = ("_before", "_is_final", "count", "locked_until_ms", "member_id", "state")

    def __init__(self, state: RecordState, count: int, member_id: str = NOBODY, locked_until_ms: int = NO_LOCK) -> None:
        self.state = state
        self.count = count
        self.member_id = member_id
        self.locked_until_ms = locked_until_ms
        self._before: _Before | None = None
        self._is_final = False

    def __repr__(self) -> str:
        changing = "" if self._before is None else f" from {self._before.state.name}"
        return f"Delivery({self.state.name}{changing}, {self.count}, {self.member_id!r})"

    @property
    def is_changing(self) -> bool:
        """Whether a change of it has begun and is not settled."""
        return self._before is not None

    @property
    def is_terminal(self) -> bool:
        return self.state is ACKNOWLEDGED or self.state is ARCHIVED

    @property
    def can_be_acquired(self) -> bool:
        return self.state is AVAILABLE and self._before is None

    def copy(self) -> Delivery:
        """The same for a part of the records, which have one fate no longer."""
        twin = Delivery(self.state, self.count, self.member_id, self.locked_until_ms)
        twin._before = self._before
        twin._is_final = self._is_final
        return twin

    def acquire(self, member_id: str, locked_until_ms: int) -> None:
        """Give it to a member, once more."""
        self.state = ACQUIRED
        self.count += 1
        self.member_id = member_id
        self.locked_until_ms = locked_until_ms

    def give_back(self) -> None:
        """It does not reach the member after all: that is no delivery."""
        self.state = AVAILABLE
        self.count -= 1
        self.member_id = NOBODY
        self.locked_until_ms = NO_LOCK

    def begin(self, state: RecordState, deliveries_max: int) -> None:
        """What its member, or the end of that, wants it to become."""
        self._before = _Before(self.state, self.member_id, deliveries_max)
        self.state = _limited(state, self.count, deliveries_max)
        self.member_id = NOBODY

    def settle(self, is_written: bool, now_ms: int, is_below_start: bool) -> None:
        """What was begun is written, or is taken back: then its lock may have ended meanwhile."""
        before = self._before
        self._before = None
        if is_written or self._is_final or before is None:
            self.locked_until_ms = NO_LOCK
        elif NO_LOCK < self.locked_until_ms <= now_ms:
            state = ARCHIVED if is_below_start else AVAILABLE
            self.state = _limited(state, self.count, before.deliveries_max)
            self.locked_until_ms = NO_LOCK
        else:
            self.state = before.state
            self.member_id = before.member_id

    def time_out(self, deliveries_max: int, is_below_start: bool) -> None:
        """Its lock has ended: that counts at once, whether or not it can be written."""
        self.state = _limited(ARCHIVED if is_below_start else AVAILABLE, self.count, deliveries_max)
        self.member_id = NOBODY
        self.locked_until_ms = NO_LOCK

    def archive(self) -> None:
        """Its records are gone, or not to be given to anybody: whatever comes of a change that has begun."""
        self._is_final = True
        self.state = ARCHIVED
        self.member_id = NOBODY
        self.locked_until_ms = NO_LOCK


def _limited(state: RecordState, count: int, deliveries_max: int) -> RecordState:
    return ARCHIVED if state is AVAILABLE and count >= deliveries_max else state

"""How long a member may be silent, as deadlines: for groups whose members send one kind of heartbeat."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tidelog.coordination.deadlines import Deadlines
from tidelog.coordination.decision import Decision


class MemberSessions:
    """The sessions of the members of some groups. `timeout_of` gives a group's session time-out in ms."""

    def __init__(self, deadlines: Deadlines, timeout_of: Callable[[str], int]) -> None:
        self._deadlines = deadlines
        self._timeout_of = timeout_of

    def renew(
        self, group_id: str, member_id: str, now_ms: int, expire: Callable[[str, str, int], Decision[Any] | None]
    ) -> None:
        """The member lives; it has a whole session until its next sign of life."""
        key = ("session", group_id, member_id)
        at_ms = now_ms + self._timeout_of(group_id)
        # Nearly always it is enough to move the deadline, since its action stays the same.
        if not self._deadlines.move(key, at_ms):
            self._deadlines.set(key, at_ms, partial(expire, group_id, member_id))

    def forget(self, group_id: str, member_id: str) -> None:
        self._deadlines.cancel(("session", group_id, member_id))

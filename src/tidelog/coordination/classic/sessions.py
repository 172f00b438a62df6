# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""The sessions of members: each has to give a sign of life before its time-out, or it is taken out of the group."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.coordination.classic.group import ClassicGroup
from tidelog.coordination.classic.member import ClassicMember
from tidelog.coordination.deadlines import Deadlines

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from tidelog.coordination.decision import Decision

    # Given the group's id, the member's id and the time. The group may be another one by then.
    Expiry: TypeAlias = "Callable[[str, str, int], Decision[Any] | None]"


class Sessions:
    """Deadlines of members, pending ones included."""

    __slots__ = ("_deadlines", "_expire")

    def __init__(self, deadlines: Deadlines, expire: Expiry) -> None:
        self._deadlines = deadlines
        self._expire = expire

    def watch(self, group: ClassicGroup) -> None:
        """Let a group report its members' signs of life here."""
        group.sessions = self

    def renew(self, group: ClassicGroup, member: ClassicMember, now_ms: int, timeout_ms: int | None = None) -> None:
        """The member lives: its session ends a time-out from now, its own unless another one is given."""
        action = member.session_action
        if action is None:
            member.session_key = _key(group.group_id, member.member_id)
            member.session_action = action = partial(self._expire, group.group_id, member.member_id)
        at_ms = now_ms + (member.session_timeout_ms if timeout_ms is None else timeout_ms)
        self._deadlines.set(member.session_key, at_ms, action)

    def expect(self, group_id: str, member_id: str, at_ms: int) -> None:
        """Somebody was given this id, and has to join with it before `at_ms`."""
        self._deadlines.set(_key(group_id, member_id), at_ms, partial(self._expire, group_id, member_id))

    def end(self, group_id: str, member_id: str) -> None:
        self._deadlines.cancel(_key(group_id, member_id))


def _key(group_id: str, member_id: str) -> tuple[str, str, str]:
    return ("classic-session", group_id, member_id)

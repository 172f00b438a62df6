"""Which protocols the members of a group have in common, and which one they choose."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.coordination.classic.member import ClassicMember, Protocols


class SupportedProtocols:
    """How many members support each name. Names that nobody supports are not kept."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, protocols: Protocols) -> None:
        for name, _metadata in protocols:
            self._counts[name] = self._counts.get(name, 0) + 1

    def remove(self, protocols: Protocols) -> None:
        for name, _metadata in protocols:
            left = self._counts[name] - 1
            if left:
                self._counts[name] = left
            else:
                del self._counts[name]

    def has_one_for_all(self, protocols: Protocols, members_count: int) -> bool:
        """Whether one of these names is supported by all of so many members."""
        return any(self._counts.get(name, 0) == members_count for name, _metadata in protocols)

    def select(self, members: Iterable[ClassicMember], members_count: int) -> str:
        """The name with the most votes; between equals, the first voter's. A member votes for its first one that all support."""
        votes: dict[str, int] = {}
        for member in members:
            for name, _metadata in member.protocols:
                if self._counts[name] == members_count:
                    votes[name] = votes.get(name, 0) + 1
                    break
        if not votes:
            raise RuntimeError("the members of a group have no protocol in common")
        return max(votes, key=votes.__getitem__)

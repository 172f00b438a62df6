"""The groups of a shard by their ids: those that are written down, and those that are committed."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.coordination.group import Group
from tidelog.coordination.timeline import Earlier, Timeline, as_committed


class GroupTable(dict[str, Group]):
    """A dict of what is written down. Changed by `[]=` and `del` alone, which keep the timeline."""

    __slots__ = ("_earlier", "_timeline")

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self._timeline = timeline
        self._earlier: Earlier[str, Group] = {}

    def __setitem__(self, group_id: str, group: Group) -> None:
        self._timeline.note(self._earlier, group_id, self.get(group_id))
        super().__setitem__(group_id, group)

    def __delitem__(self, group_id: str) -> None:
        self._timeline.note(self._earlier, group_id, self.get(group_id))
        super().__delitem__(group_id)

    def committed(self, group_id: str) -> Group | None:
        """The group as of the committed records; None where there is none then. Not to be changed."""
        group = as_committed(self._earlier, group_id, self.get(group_id))
        return None if group is None else group.as_committed()

    def all_committed(self) -> Iterator[Group]:
        """All groups as of the committed records."""
        for group_id in (*self, *(each for each in self._earlier if each not in self)):
            group = self.committed(group_id)
            if group is not None:
                yield group

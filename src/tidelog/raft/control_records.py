"""The control records that consensus writes into its own log, and what they say at each offset.

A voter set holds from the moment it is appended, committed or not (KIP-853), so a replica keeps the sets that its log names by
offset: a truncation brings an older one back. Under them all lies the static set from configuration, which holds
as long as the log names none.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct

from tidelog.model.ids import NO_OFFSET, NodeId, Offset
from tidelog.raft.errors import invariant
from tidelog.raft.voter_set import VoterSet


class LeaderChange(Struct, frozen=True):
    """Opens every epoch, so that the leader has a record of its own to commit."""

    leader_id: NodeId
    voters: tuple[NodeId, ...]
    granting_voters: tuple[NodeId, ...]


class KRaftVersion(Struct, frozen=True):
    """The finalised kraft.version: 0 for static voters, 1 for voters in the log."""

    level: int


class Voters(Struct, frozen=True):
    """The voter set from here on."""

    voter_set: VoterSet


Value = TypeVar("Value")

ControlRecord = LeaderChange | KRaftVersion | Voters

# The first version whose voter set is kept in the log and can change.
RECONFIGURATION_VERSION = 1


class ControlHistory:
    """The voter sets and kraft versions that the log names, by offset.

    The content of a snapshot counts at the last offset that the snapshot holds; that of the bootstrap checkpoint at -1.
    """

    def __init__(self, static_voters: VoterSet, records: Iterable[tuple[Offset, ControlRecord]] = ()) -> None:
        self._static_voters = static_voters
        self._voters: list[tuple[Offset, VoterSet]] = []
        self._versions: list[tuple[Offset, int]] = []
        for offset, record in records:
            self.apply(offset, record)

    @property
    def voters(self) -> VoterSet:
        """The set that elects and commits now."""
        return self._voters[-1][1] if self._voters else self._static_voters

    @property
    def voters_offset(self) -> Offset | None:
        """Where the present set was written; -1 in the bootstrap checkpoint; None where it is the static one."""
        return self._voters[-1][0] if self._voters else None

    @property
    def former_voters(self) -> VoterSet | None:
        """The set before the present one, as far as the log still tells."""
        return self._voters[-2][1] if len(self._voters) > 1 else None

    @property
    def kraft_version(self) -> int:
        return self._versions[-1][1] if self._versions else 0

    @property
    def is_reconfigurable(self) -> bool:
        return self.kraft_version >= RECONFIGURATION_VERSION

    def voters_at(self, offset: Offset) -> VoterSet | None:
        """The set that the log names at an offset, for the head of a snapshot; None where it is the static one."""
        index = bisect_right(self._voters, offset, key=lambda entry: entry[0])
        return self._voters[index - 1][1] if index else None

    def kraft_version_at(self, offset: Offset) -> int:
        index = bisect_right(self._versions, offset, key=lambda entry: entry[0])
        return self._versions[index - 1][1] if index else 0

    def apply(self, offset: Offset, record: ControlRecord) -> None:
        match record:
            case Voters(voter_set):
                if self._voters and self._voters[-1][0] > NO_OFFSET:
                    invariant(
                        self._voters[-1][1].has_overlapping_majority(voter_set),
                        f"the voters at offset {offset} differ from those before by more than one: {voter_set}",
                    )
                _put(self._voters, offset, voter_set)
            case KRaftVersion(level):
                _put(self._versions, offset, level)
            case LeaderChange():
                pass

    def truncate_from(self, end_offset: Offset) -> None:
        """Forgets what the log no longer holds after its end moved back."""
        for history in (self._voters, self._versions):
            while history and history[-1][0] >= end_offset:
                history.pop()

    def forget_before(self, start_offset: Offset) -> None:
        """Forgets what a snapshot made superfluous, but not the values that hold at the new start."""
        _forget(self._voters, start_offset)
        _forget(self._versions, start_offset)

    def replace(self, records: Iterable[tuple[Offset, ControlRecord]]) -> None:
        """Starts again from a snapshot's content."""
        self._voters.clear()
        self._versions.clear()
        for offset, record in records:
            self.apply(offset, record)


def _put(history: list[tuple[Offset, Value]], offset: Offset, value: Value) -> None:
    invariant(
        not history or history[-1][0] <= offset, f"control records must come in order of offset, not {offset} last"
    )
    if history and history[-1][0] == offset:
        history.pop()
    history.append((offset, value))


def _forget(history: list[tuple[Offset, Value]], start_offset: Offset) -> None:
    index = bisect_right(history, start_offset, key=lambda entry: entry[0])
    del history[: max(0, index - 1)]

"""The effects that wait to leave, in order, behind the last save of the quorum state.

All safety of voting hangs on one rule: nothing that a replica says or writes may be seen before the election state
that it was said in is on disk. The rule is kept here once, by order, so that no handler can forget it.
"""

from __future__ import annotations

from collections import deque

from tidelog.raft.effects import Effect, SaveQuorumState
from tidelog.raft.errors import invariant
from tidelog.raft.quorum_state import QuorumState


class Outbox:
    """A queue of effects that blocks behind each save until the save is reported done."""

    def __init__(self) -> None:
        self._queue: deque[Effect] = deque()
        self._saving: int | None = None
        self._save_id_last = 0

    @property
    def held(self) -> int:
        """How many effects wait for the disk."""
        return len(self._queue)

    def emit(self, effect: Effect) -> None:
        self._queue.append(effect)

    def save(self, state: QuorumState) -> None:
        self._save_id_last += 1
        self._queue.append(SaveQuorumState(self._save_id_last, state))

    def saved(self, save_id: int) -> None:
        invariant(
            save_id == self._saving, f"quorum state {save_id} was reported saved while {self._saving} was being saved"
        )
        self._saving = None

    def drain(self) -> list[Effect]:
        """What may be carried out now: up to and including the next save."""
        leaving: list[Effect] = []
        while self._queue and self._saving is None:
            effect = self._queue.popleft()
            if isinstance(effect, SaveQuorumState):
                self._saving = effect.save_id
            leaving.append(effect)
        return leaving

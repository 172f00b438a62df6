"""What is kept of one share partition: where its group is in it, and what became of the records behind that."""

from __future__ import annotations

import msgspec

from tidelog.coordination.share_state.state_batches import NO_START_OFFSET, StateBatch, merged

NO_EPOCH = -1
"""In a request or an update that names none."""
INITIAL_EPOCH = 0
NO_COUNT = -1
NO_TIME_MS = 0


class ShareState(msgspec.Struct, frozen=True):
    """As of the last snapshot and the updates since then."""

    snapshot_epoch: int
    """Rises with each snapshot."""
    state_epoch: int
    """Rises when the state begins anew. The group's coordinator gives it; older ones are fenced."""
    leader_epoch: int
    """The epoch of the partition's leader that has read the state last."""
    start_offset: int
    """The first offset that is not settled; -1 before the first delivery."""
    delivery_complete_count: int
    """How many offsets from the start on are settled; -1 where the leader has not said."""
    batches: tuple[StateBatch, ...] = ()
    create_timestamp_ms: int = NO_TIME_MS
    """When the state was last written by a leader's request."""
    write_timestamp_ms: int = NO_TIME_MS
    """When the last snapshot was: later than the other where nothing has changed."""

    @property
    def is_rewritten(self) -> bool:
        """Whether the last snapshot was written only to have an older one out of the way."""
        return self.create_timestamp_ms != self.write_timestamp_ms

    def updated(
        self, leader_epoch: int, start_offset: int, delivery_complete_count: int, batches: tuple[StateBatch, ...]
    ) -> ShareState:
        """With what an update says. -1 leaves the leader epoch or the start where they are."""
        start = self.start_offset if start_offset == NO_START_OFFSET else start_offset
        return msgspec.structs.replace(
            self,
            leader_epoch=self.leader_epoch if leader_epoch == NO_EPOCH else leader_epoch,
            start_offset=start,
            delivery_complete_count=delivery_complete_count,
            batches=merged(self.batches, batches, start),
        )


def initial_state(snapshot_epoch: int, state_epoch: int, start_offset: int, now_ms: int) -> ShareState:
    """A state that begins at an offset, or (-1) wherever the leader of the partition finds the beginning."""
    return ShareState(
        snapshot_epoch=snapshot_epoch,
        state_epoch=state_epoch,
        leader_epoch=INITIAL_EPOCH,
        start_offset=start_offset,
        # Lag can be told from a known offset on, and only from there.
        delivery_complete_count=NO_COUNT if start_offset == NO_START_OFFSET else 0,
        create_timestamp_ms=now_ms,
        write_timestamp_ms=now_ms,
    )

"""Known bugs of replication, each as a patch to the real code: a simulation that does not find them proves nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Leading

Patch = pytest.MonkeyPatch


def answer_before_the_high_watermark(patch: Patch) -> None:
    """A write with acks=all is answered when the leader alone has it."""

    def when_committed(self: Partition, _offset: int) -> ErrorCode | Pending[ErrorCode]:
        return ErrorCode.NONE if self.is_leading else ErrorCode.NOT_LEADER_OR_FOLLOWER

    patch.setattr(Partition, "when_committed", when_committed)


def count_only_the_leader(patch: Patch) -> None:
    """The high watermark is the leader's own log end."""

    def advance(self: Partition, leading: Leading) -> None:
        log = leading.log
        if log.log_end_offset > log.high_watermark:
            log.set_high_watermark(log.log_end_offset)
            self._committed.reached(log.log_end_offset, ErrorCode.NONE)

    patch.setattr(Partition, "_advance_high_watermark", advance)


# With a seed that finds each.
MUTANTS: dict[Callable[[Patch], None], int] = {
    answer_before_the_high_watermark: 5,
    count_only_the_leader: 5,
}

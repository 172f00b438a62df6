# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""One partition of a fetch: what the client asks for, what it was told last, and what was read for it.

The entries of a fetch without a session live as long as the fetch. Those of a session are kept from one request to the next, and
its `SessionWatch` keeps two marks on each of them: whether the next answer has to look at it, and whether the partition tells
the watch of its next change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tidelog.model.errors import ErrorCode
    from tidelog.replication.divergence import Diverged
    from tidelog.replication.partition import Partition
    from tidelog.storage.fetched import Fetched
    from tidelog.wire.typed.fetch import FetchPartition

    # What was read of a partition. None: nothing, since the client knows all there is to know of it, or nothing could be read.
    ReadResult: TypeAlias = "Fetched | Diverged | ErrorCode | None"


class FetchEntry:
    """See the module."""

    __slots__ = (
        "_former_high_watermark",
        "_former_log_start_offset",
        "_former_rank",
        "asked",
        "error",
        "high_watermark",
        "is_linked",
        "is_noted",
        "is_stale",
        "log_start_offset",
        "partition",
        "rank",
        "result",
        "size_bytes",
        "stays_noted",
        "topic",
    )

    def __init__(self, topic: str | bytes, asked: FetchPartition) -> None:
        self.topic = topic
        """The topic's name, or its id from v13 on."""
        self.asked = asked
        self.high_watermark = -1
        """With `log_start_offset`: what the client was told last."""
        self.log_start_offset = -1
        self.partition: Partition | None = None
        """What is read, if anything is."""
        self.error: ErrorCode | None = None
        """Why nothing is, where this node should have a replica and has none."""
        self.result: ReadResult = None
        self.size_bytes = 0
        """Of the records in `result`."""
        self.rank = 0
        """Its place in the order of its session; -1 once the session has forgotten it."""
        self.is_noted = False
        """Whether the session's next answer has to look at it."""
        self.is_linked = False
        """Whether the partition tells the session's watch of its next change."""
        self.stays_noted = False
        """Whether every answer has to look at it: its result may change without a change of the partition."""
        self.is_stale = False
        """Whether the partition has changed after it was read, while others were still being read."""

        self._former_high_watermark = self._former_log_start_offset = -1
        self._former_rank = 0

    def remember(self) -> None:
        """Before an answer is made that may not be given: what the client was told so far."""
        self._former_high_watermark = self.high_watermark
        self._former_log_start_offset = self.log_start_offset
        self._former_rank = self.rank

    def recall(self) -> None:
        """It was not given."""
        self.high_watermark = self._former_high_watermark
        self.log_start_offset = self._former_log_start_offset
        self.rank = self._former_rank

    def knows(self, high_watermark: int, log_start_offset: int) -> bool:
        """Whether the client was told of these."""
        return high_watermark == self.high_watermark and log_start_offset == self.log_start_offset

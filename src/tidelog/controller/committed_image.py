"""The image of the cluster as far as the metadata log is committed, and who is told of it.

Listens to the quorum, applies what is committed, and publishes each new image with the delta that made it. What a metadata
transaction (KIP-868) writes counts when the transaction ends: until then neither the image nor its offset moves, so no snapshot
cuts one in two. An aborted one is as if it had not been.

    subscribers hear       (image, delta), in order; once with everything when a snapshot is loaded (`delta` from an empty image)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.controller.errors import InconsistentMetadataError
from tidelog.controller.image import ClusterImage
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.metadata_log import LoggedBatch
from tidelog.controller.snapshot_file import Snapshot
from tidelog.model.ids import NO_OFFSET, LeaderEpoch, Offset
from tidelog.raft.log_view import BOOTSTRAP_SNAPSHOT_ID, OffsetAndEpoch
from tidelog.wire.messages.internal.cluster_metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from tidelog.wire.schema import MetadataRecord

Subscriber = Callable[[ClusterImage, ImageDelta], None]


class CommittedImage:
    """The latest image. A `QuorumListener`: added before all others, so that they find it up to date."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.bytes_since_snapshot = 0
        """How much the log has grown since the image was last loaded from, or written as, a snapshot."""
        self._subscribers: list[Subscriber] = []
        self._transaction: list[tuple[MetadataRecord, Offset]] | None = None
        self._transaction_offset: Offset | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the log has never said anything: the next leader is the cluster's first."""
        return self.image.offset == NO_OFFSET or not self.image.features

    @property
    def open_transaction_offset(self) -> Offset | None:
        """Where a metadata transaction began that has not ended."""
        return self._transaction_offset

    def subscribe(self, subscriber: Subscriber) -> None:
        """Tell of every image from the next one on. A delta may be empty: only the offset moved."""
        self._subscribers.append(subscriber)

    def snapshot_begun(self) -> None:
        """A snapshot of the present image is being written."""
        self.bytes_since_snapshot = 0

    # --- what the quorum tells ---------------------------------------------------------------------------------------------

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, snapshot: Snapshot) -> None:
        if snapshot_id == BOOTSTRAP_SNAPSHOT_ID:
            # It holds the voters only, which are the quorum's own affair.
            return
        empty = ClusterImage()
        delta = ImageDelta(empty)
        last_offset = Offset(snapshot_id.offset - 1)
        for framed in snapshot.records:
            delta.apply(framed.message, last_offset)
        delta.replaces(self.image)
        self.bytes_since_snapshot = 0
        self._transaction = self._transaction_offset = None
        self._publish(delta, last_offset, snapshot_id.epoch, snapshot.head.last_contained_ms)

    def commit(self, batches: Sequence[LoggedBatch]) -> None:
        delta: ImageDelta | None = None
        for batch in batches:
            self.bytes_since_snapshot += batch.size_bytes
            if delta is None:
                delta = ImageDelta(self.image)
            for number, framed in enumerate(batch.records):
                self._take(delta, framed.message, Offset(batch.base_offset + number))
        # An open transaction holds the image back where it was when that began.
        settled = [batch for batch in batches if self._is_settled(batch)]
        if delta is not None and settled:
            last = settled[-1]
            self._publish(delta, Offset(last.next_offset - 1), last.epoch, last.timestamp_ms)

    def lead(self, epoch: LeaderEpoch) -> None: ...

    def resign(self, epoch: LeaderEpoch) -> None: ...

    def _is_settled(self, batch: LoggedBatch) -> bool:
        return self._transaction_offset is None or batch.next_offset <= self._transaction_offset

    def _take(self, delta: ImageDelta, record: MetadataRecord, offset: Offset) -> None:
        match record:
            case BeginTransactionRecord():
                if self._transaction is not None:
                    raise InconsistentMetadataError(f"a metadata transaction begins at offset {offset} inside another")
                self._transaction, self._transaction_offset = [], offset
            case EndTransactionRecord():
                for held, held_offset in self._end_transaction(offset):
                    delta.apply(held, held_offset)
            case AbortTransactionRecord():
                self._end_transaction(offset)
            case _ if self._transaction is not None:
                self._transaction.append((record, offset))
            case _:
                delta.apply(record, offset)

    def _end_transaction(self, offset: Offset) -> list[tuple[MetadataRecord, Offset]]:
        held, self._transaction, self._transaction_offset = self._transaction, None, None
        if held is None:
            raise InconsistentMetadataError(f"a metadata transaction ends at offset {offset} that never began")
        return held

    def _publish(self, delta: ImageDelta, offset: Offset, epoch: LeaderEpoch, timestamp_ms: int) -> None:
        self.image = delta.image(offset, epoch, timestamp_ms)
        for subscriber in self._subscribers:
            subscriber(self.image, delta)

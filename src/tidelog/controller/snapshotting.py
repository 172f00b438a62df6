"""When the metadata gets a snapshot: after so many bytes of log, or so much time.

Each node makes its own, from its own image, so there is nothing to agree on. What a snapshot makes superfluous is removed by
the quorum afterwards.
"""

from __future__ import annotations

from tidelog.controller.committed_image import CommittedImage
from tidelog.controller.image import ClusterImage
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.image_records import image_records
from tidelog.controller.quorum import MetadataQuorum
from tidelog.model import controller_config as keys
from tidelog.model.clock import Clock
from tidelog.model.config import ConfigValues
from tidelog.model.ids import Offset
from tidelog.raft.log_view import OffsetAndEpoch


class Snapshotting:
    """Watches the image grow older."""

    def __init__(
        self,
        quorum: MetadataQuorum,
        committed: CommittedImage,
        clock: Clock,
        *,
        record_bytes_max: int = keys.METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS.default,
        interval_ms: int = keys.METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS.default,
    ) -> None:
        self._quorum = quorum
        self._committed = committed
        self._clock = clock
        self._record_bytes_max = record_bytes_max
        self._interval_ms = interval_ms
        self._last_ms = clock.monotonic_ms()
        committed.subscribe(self._published)

    @classmethod
    def from_values(
        cls, quorum: MetadataQuorum, committed: CommittedImage, clock: Clock, values: ConfigValues
    ) -> Snapshotting:
        return cls(
            quorum,
            committed,
            clock,
            record_bytes_max=values[keys.METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS],
            interval_ms=values[keys.METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS],
        )

    def _published(self, image: ClusterImage, _delta: ImageDelta) -> None:
        waited_ms = self._clock.monotonic_ms() - self._last_ms
        is_time = 0 < self._interval_ms <= waited_ms and self._committed.bytes_since_snapshot > 0
        if is_time or self._committed.bytes_since_snapshot >= self._record_bytes_max:
            self._write(image)

    def _write(self, image: ClusterImage) -> None:
        end = OffsetAndEpoch(offset=Offset(image.offset + 1), epoch=image.epoch)
        if self._quorum.write_snapshot(end, image.timestamp_ms, lambda: image_records(image)):
            # An image never changes, so that the records can be made on another thread.
            self._last_ms = self._clock.monotonic_ms()
            self._committed.snapshot_begun()

"""What is done for tables and directories between batches: what no batch counts is removed, small files are made one, old
snapshots expire.

    upkeep = OutputUpkeep(sinks, clock)
    upkeep.after(batch_id)                  in the driver, once a batch is finished and before the next one starts

No decision is open then, so that nothing is named by one; still only what is old is removed, since a recovery may be about to
end something, and clocks differ. Manifests stay for some time: an audit reads a batch again by them.

Nothing depends on it. What fails is told, and tried again the next time.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

import msgspec

from tidelog.model.clock import Clock
from tidelog.spark.errors import OptionError, SinkError
from tidelog.spark.outputs.kind import Swept, kind_of
from tidelog.spark.outputs.storage import Storage
from tidelog.spark.pipelines.sink_targets import StagedSink

log = logging.getLogger(__name__)

# Looking for what to sweep lists directories: not after every batch.
SWEEP_INTERVAL_MS = 10 * 60_000
# Longer than anybody takes to end a batch.
SWEEP_AGE_S = 3600.0
MANIFESTS_KEPT = 100
"""Of each sink: the last batches that `tidelog pipeline audit --verify` can read again."""
_MANIFEST = re.compile(r"manifest-(\d{10})-[^/]*\.json")


class UpkeepTotals(msgspec.Struct, frozen=True):
    """All that was done in this run."""

    swept_files: int = 0
    swept_bytes: int = 0
    swept_rows: int = 0
    compacted_files: int = 0
    expired_snapshots: int = 0
    failures: int = 0

    def with_swept(self, swept: Swept) -> UpkeepTotals:
        return msgspec.structs.replace(
            self,
            swept_files=self.swept_files + swept.files,
            swept_bytes=self.swept_bytes + swept.bytes,
            swept_rows=self.swept_rows + swept.rows,
        )


class OutputUpkeep:
    def __init__(self, sinks: Sequence[StagedSink], clock: Clock) -> None:
        self._sinks = sinks
        self._clock = clock
        self._next_sweep_ms = 0
        self.totals = UpkeepTotals()

    def after(self, batch_id: int) -> None:
        """What is due now."""
        now_ms = self._clock.monotonic_ms()
        is_sweep_due = now_ms >= self._next_sweep_ms
        if is_sweep_due:
            self._next_sweep_ms = now_ms + SWEEP_INTERVAL_MS
        for each in self._sinks:
            try:
                if is_sweep_due:
                    self._sweep(each, batch_id)
                if each.target.kind == "delta":
                    self._compact(each, batch_id)
                elif each.target.kind == "iceberg":
                    self._expire(each, batch_id)
            except (SinkError, OptionError, OSError) as error:
                self.totals = msgspec.structs.replace(self.totals, failures=self.totals.failures + 1)
                log.warning("the upkeep of the sink %s is left for later: %s", each.label, error)

    def _sweep(self, sink: StagedSink, batch_id: int) -> None:
        kind = kind_of(sink.target, sink.staging, sink.staging_storage)
        self.totals = self.totals.with_swept(kind.sweep(frozenset(), older_than_s=SWEEP_AGE_S))
        storage = Storage.at(sink.staging, sink.staging_storage)
        for path in old_manifests([each.path for each in storage.files()], batch_id):
            storage.delete(path)

    def _compact(self, sink: StagedSink, batch_id: int) -> None:
        from tidelog.spark.outputs.delta_upkeep import is_due, upkeep  # noqa: PLC0415 - only for those who have deltalake

        if not is_due(batch_id):
            return
        done = upkeep(sink.target, frozenset())
        totals = self.totals.with_swept(done.vacuumed)
        self.totals = msgspec.structs.replace(totals, compacted_files=totals.compacted_files + done.compacted)

    def _expire(self, sink: StagedSink, batch_id: int) -> None:
        from tidelog.spark.outputs.iceberg_upkeep import is_due, upkeep  # noqa: PLC0415 - only for those who have pyiceberg

        if is_due(batch_id):
            done = upkeep(sink.target, frozenset())
            totals = self.totals.with_swept(done.deleted)
            self.totals = msgspec.structs.replace(totals, expired_snapshots=totals.expired_snapshots + done.expired)


def old_manifests(paths: Sequence[str], batch_id: int) -> list[str]:
    """Of batches before the last `MANIFESTS_KEPT`; other files are none of ours."""
    found = [(path, _MANIFEST.fullmatch(path)) for path in paths]
    return [path for path, match in found if match is not None and int(match[1]) <= batch_id - MANIFESTS_KEPT]

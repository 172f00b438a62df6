"""What is done for tables and directories between batches: what no batch counts is removed, small files are made one, old
snapshots expire.

    upkeep = OutputUpkeep(sinks, clock)
    upkeep.after(batch_id, protected)       in the driver, once a batch is finished and before the next one starts

Only the decider removes anything: a driver that has slept may wake up behind a newer one, which has staged and decided since. So
`protected` asks first, and tells what stays whatever its age: the rows of sinks that a batch counts without are for a person.
Everything else is removed only once it is old, since clocks differ and asking takes time. Manifests stay for some batches more:
an audit reads a batch again by them.

Nothing depends on it. What fails is told, and tried again the next time.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

import msgspec

from tidelog.model.clock import Clock
from tidelog.spark.errors import OptionError, SinkError
from tidelog.spark.outputs.kind import Swept, kind_of
from tidelog.spark.outputs.manifest_store import MANIFEST_BYTES_MAX
from tidelog.spark.outputs.staged import Manifest
from tidelog.spark.outputs.storage import Storage, StoredFile
from tidelog.spark.pipelines.sink_targets import StagedSink

log = logging.getLogger(__name__)

# Looking for what to sweep lists directories: not after every batch.
SWEEP_INTERVAL_MS = 10 * 60_000
# Longer than anybody takes to end a batch.
SWEEP_AGE_S = 3600.0
MANIFESTS_KEPT = 100
"""Of each sink: the last batches that `tidelog pipeline audit --verify` can read again."""
_MANIFEST = re.compile(r"manifest-(\d{10})-[^/]*\.json")

Protected = Callable[[], frozenset[str] | None]
"""Paths of manifests whose rows stay; None where the one who asks does not decide any more, or nobody knows."""


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

    def after(self, batch_id: int, protected: Protected) -> None:
        """What is due now."""
        now_ms = self._clock.monotonic_ms()
        is_sweep_due = now_ms >= self._next_sweep_ms
        due = [(each, task) for each in self._sinks for task in self._due(each, batch_id, is_sweep_due=is_sweep_due)]
        if not due:
            return
        kept = protected()
        if kept is None:
            # Asked again after the next batch, if there is one.
            self._left("there may be another run of the query, which has to do it")
            return
        if is_sweep_due:
            self._next_sweep_ms = now_ms + SWEEP_INTERVAL_MS
        for sink, task in due:
            try:
                task(kept)
            except (SinkError, OptionError, OSError) as error:
                self._left(f"sink {sink.label}: {error}")

    def _left(self, why: str) -> None:
        self.totals = msgspec.structs.replace(self.totals, failures=self.totals.failures + 1)
        log.warning("upkeep is left for later: %s", why)

    def _due(
        self, sink: StagedSink, batch_id: int, *, is_sweep_due: bool
    ) -> Iterable[Callable[[frozenset[str]], None]]:
        if is_sweep_due:
            yield partial(self._sweep, sink, batch_id)
        # A batch number says when: the libraries of tables are loaded only by those who have them.
        if sink.target.kind == "delta":
            from tidelog.spark.outputs import delta_upkeep  # noqa: PLC0415

            if delta_upkeep.is_due(batch_id):
                vacuums = delta_upkeep.is_vacuum_due(batch_id)
                yield partial(self._compact, sink, vacuums=vacuums)
        elif sink.target.kind == "iceberg":
            from tidelog.spark.outputs import iceberg_upkeep  # noqa: PLC0415

            if iceberg_upkeep.is_due(batch_id):
                yield partial(self._expire, sink)

    def _sweep(self, sink: StagedSink, batch_id: int, kept: frozenset[str]) -> None:
        kind = kind_of(sink.target, sink.staging, sink.staging_storage)
        storage = Storage.at(sink.staging, sink.staging_storage)
        swept = kind.sweep(_attempts_of(sink, storage, kept), older_than_s=SWEEP_AGE_S)
        self.totals = self.totals.with_swept(swept)
        for path in old_manifests(storage.files(), batch_id, _names_in(sink, kept), now_s=time.time()):
            storage.delete(path)

    def _compact(self, sink: StagedSink, kept: frozenset[str], *, vacuums: bool) -> None:
        from tidelog.spark.outputs.delta_upkeep import upkeep  # noqa: PLC0415

        named = _attempts_of(sink, Storage.at(sink.staging, sink.staging_storage), kept)
        done = upkeep(sink.target, named, vacuums=vacuums)
        totals = self.totals.with_swept(done.vacuumed)
        self.totals = msgspec.structs.replace(totals, compacted_files=totals.compacted_files + done.compacted)

    def _expire(self, sink: StagedSink, kept: frozenset[str]) -> None:
        from tidelog.spark.outputs.iceberg_upkeep import upkeep  # noqa: PLC0415

        done = upkeep(sink.target, _attempts_of(sink, Storage.at(sink.staging, sink.staging_storage), kept))
        totals = self.totals.with_swept(done.deleted)
        self.totals = msgspec.structs.replace(totals, expired_snapshots=totals.expired_snapshots + done.expired)


def old_manifests(files: Iterable[StoredFile], batch_id: int, kept: Collection[str] = (), *, now_s: float) -> list[str]:
    """Of batches before the last `MANIFESTS_KEPT`, once they are as old as anything that is swept; `kept` stay, and other files
    are none of ours."""
    found = [(each, _MANIFEST.fullmatch(each.path)) for each in files]
    return [
        each.path
        for each, match in found
        if match is not None
        and int(match[1]) <= batch_id - MANIFESTS_KEPT
        and now_s - each.modified_s >= SWEEP_AGE_S
        and each.path not in kept
    ]


def _names_in(sink: StagedSink, manifests: frozenset[str]) -> list[str]:
    """Those of this sink, relative to where it stages."""
    start = f"{sink.staging.rstrip('/')}/"
    return [path.removeprefix(start) for path in sorted(manifests) if path.startswith(start)]


def _attempts_of(sink: StagedSink, storage: Storage, manifests: frozenset[str]) -> frozenset[str]:
    """What manifests of this sink name. SinkError for one that cannot be read: nobody knows then what has to stay."""
    found: set[str] = set()
    for name in _names_in(sink, manifests):
        try:
            manifest = msgspec.json.decode(storage.read(name, bytes_max=MANIFEST_BYTES_MAX), type=Manifest)
        except FileNotFoundError:
            # Somebody has done with those rows, and removed them: nothing leads to them any more.
            continue
        except msgspec.DecodeError as error:
            raise SinkError(f"the manifest {name} in {sink.staging} cannot be read: {error}") from error
        found.update(each.attempt for each in manifest.parts)
    return frozenset(found)

"""Changes by key into a large Delta table, as the driver of a pipeline merges them: rows and seconds, without Spark.

python -m benchmarks.delta_merge [--quick] [--rows N] [--changes N] [--rounds N] [--directory DIR] [--json FILE]

The table has its rows in the order of their keys, a million a file, as a pipeline of appends leaves them. A batch of changes
is staged, checked and ended by the kind `delta`; half of the changes are of rows that are there, half are new. What counts is
where the keys lie:

    last      among the last rows and behind them: a file or two are written anew
    spread    all over the table: every file is written anew

The time is that of check and end, of the fastest round. The memory is the most that this process has had at any time, of all
rounds together, so that `last` goes first.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from benchmarks.compare import RESULTS
from tidelog.spark.outputs.delta_table import DeltaTableKind
from tidelog.spark.outputs.manifest_store import manifest_of, write_manifest
from tidelog.spark.outputs.staged import AttemptName, Changes, StagedBatch, StagedPart, Target

ROWS = 100_000_000
CHANGES = 1_000_000
ROUNDS = 3
QUICK = (200_000, 2_000, 1)
FILE_ROWS = 1_000_000
BATCH_ROWS = 250_000
FIELDS: dict[str, pa.DataType] = {"id": pa.int64(), "at": pa.int64(), "amount": pa.float64(), "text": pa.string()}
SCHEMA = pa.schema(FIELDS)
LAST, SPREAD = "last", "spread"
HOW = Changes(("id",), sequence_by="at")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.delta_merge", description="changes into a Delta table")
    parser.add_argument(
        "--quick", action="store_true", help="a small table: shows that all works, and measures nothing"
    )
    parser.add_argument("--rows", type=int, default=ROWS, metavar="N", help=f"of the table ({ROWS:,})")
    parser.add_argument("--changes", type=int, default=CHANGES, metavar="N", help=f"of a batch ({CHANGES:,})")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"of each ({ROUNDS})")
    parser.add_argument("--directory", type=Path, metavar="DIR", help="where the table lies (a temporary directory)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go (results/delta_merge.json)")
    given = parser.parse_args()
    rows, changes, rounds = QUICK if given.quick else (given.rows, given.changes, given.rounds)
    if not 0 < changes <= rows or rounds < 1:
        parser.error("--changes lies between 1 and --rows, and --rounds is 1 or more")
    with tempfile.TemporaryDirectory(dir=given.directory) as made:
        found = measure(Path(made), rows, changes, rounds)
    if not given.quick or given.json:
        path = given.json or RESULTS / "delta_merge.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n")


def measure(place: Path, rows: int, changes: int, rounds: int) -> dict[str, object]:
    table = Table(place)
    started_s = time.perf_counter()
    table.fill(rows)
    tell(f"{rows:,} rows in {table.files()} files, made in {time.perf_counter() - started_s:.0f} s")
    found: dict[str, object] = {"rows": rows, "changes": changes}
    for where in (LAST, SPREAD):
        best_s = min(table.merge(where, changes) for _ in range(rounds))
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        found[where] = {"seconds": round(best_s, 2), "peak_mb": peak_mb}
        tell(f"{changes:,} changes, {where}: {best_s:.1f} s, {changes / best_s:,.0f} changes/s, {peak_mb:,} MB at most")
    return found


class Table:
    """The table, and what was done to it so far."""

    def __init__(self, place: Path) -> None:
        self._appends = DeltaTableKind(Target("delta", str(place / "table")), str(place / "staging"), {})
        target = msgspec.structs.replace(self._appends.target, changes=HOW)
        self._merges = DeltaTableKind(target, self._appends.staging, {})
        self._batch_id = 0
        self._next_id = 0
        self._random = np.random.default_rng(1)

    def fill(self, rows: int) -> None:
        self._appends.prepare(SCHEMA)
        batch = self._staged(self._appends, [range(n, min(n + FILE_ROWS, rows)) for n in range(0, rows, FILE_ROWS)])
        self._appends.check(batch)
        self._appends.end(batch)
        self._next_id = rows

    def files(self) -> int:
        return len(self._appends.log.loaded().file_uris())

    def merge(self, where: str, changes: int) -> float:
        """Seconds."""
        old = changes // 2
        known = np.arange(self._next_id - old, self._next_id)
        if where == SPREAD:
            known = np.sort(self._random.choice(self._next_id, old, replace=False))
        new = np.arange(self._next_id, self._next_id + changes - old)
        batch = self._staged(self._merges, [np.concatenate([known, new])])
        self._next_id += len(new)
        started_s = time.perf_counter()
        self._merges.check(batch)
        self._merges.end(batch)
        taken_s = time.perf_counter() - started_s
        last = self._merges.last_batch(batch.manifest.app_id)
        if last != batch.manifest.batch_id:
            sys.exit(f"the table has batch {last}, expected {batch.manifest.batch_id}")
        return taken_s

    def _staged(self, kind: DeltaTableKind, tasks: list[range] | list[np.ndarray]) -> StagedBatch:
        parts: list[StagedPart] = []
        for task, ids in enumerate(tasks):
            attempt = kind.open_attempt(AttemptName("run", self._batch_id, task, 0, 0), SCHEMA)
            for rows in self._rows(np.asarray(ids)):
                attempt.write(rows)
            parts.append(attempt.hand_over())
        manifest = manifest_of("table", "tidelog/benchmark", self._batch_id, SCHEMA, parts)
        self._batch_id += 1
        return write_manifest(kind.target, kind.staging, {}, manifest, run="run")

    def _rows(self, ids: np.ndarray) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(ids), BATCH_ROWS):
            some = pa.array(ids[start : start + BATCH_ROWS], pa.int64())
            at = pa.array(np.full(len(some), self._batch_id), pa.int64())
            amount = pa.array(self._random.random(len(some)))
            # In the order of the fields.
            yield pa.RecordBatch.from_arrays([some, at, amount, some.cast(pa.string())], schema=SCHEMA)


def tell(sentence: str) -> None:
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

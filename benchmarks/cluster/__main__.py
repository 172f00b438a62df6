"""Three nodes of Tidelog beside three of Apache Kafka 4.3.1, in one run.

python -m benchmarks.cluster [--quick] [--rows NAME,NAME] [--rounds N] [--json FILE]

Ends with 1 where a goal was missed (not with --quick), and with 2 where the run failed: a client error, a record
that was not acknowledged, a node that does not start.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.broker.contestants import ContestantError
from benchmarks.broker.figures import Results, to_json
from benchmarks.broker.load_client import LoadClient, LoadError
from benchmarks.broker.table import text_table
from benchmarks.broker.topics import TopicError
from benchmarks.circumstances import circumstances, named, positive
from benchmarks.cluster.clusters import Clusters
from benchmarks.cluster.rows import FULL, QUICK, ROWS, Row, Run
from benchmarks.compare import RESULTS
from tests.support.apache_kafka import ApacheKafka, KafkaError, MissingProgramError

ROUNDS = 3
EXIT_MISSED = 1
EXIT_FAILED = 2
FAILURES = (
    ContestantError,
    KafkaError,
    LoadError,
    MissingProgramError,
    OSError,
    TopicError,
    subprocess.SubprocessError,
)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster", description="three nodes beside three of Apache Kafka"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that all works, and measures nothing")
    parser.add_argument("--rows", type=named(ROWS), default=ROWS, metavar="NAME,NAME", help="only these rows")
    parser.add_argument("--rounds", type=positive, metavar="N", help=f"counted rounds of each row ({ROUNDS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go (results/cluster.json)")
    given = parser.parse_args()
    # SIGTERM ends the run as Ctrl-C does: by the way out of every `with`.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    json = given.json or RESULTS / ("cluster-quick.json" if given.quick else "cluster.json")
    try:
        results = measure(given.rows, given.rounds or (1 if given.quick else ROUNDS), json, is_quick=given.quick)
    except FAILURES as error:
        print(f"benchmark failed: {error}", file=sys.stderr)
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        print("benchmark interrupted", file=sys.stderr)
        sys.exit(EXIT_FAILED)
    print(f"\n{text_table(results)}", flush=True)
    if results.missed and not given.quick:
        print(f"missed: {'; '.join(results.missed)}", file=sys.stderr)
        sys.exit(EXIT_MISSED)


def measure(rows: tuple[Row, ...], rounds: int, json: Path, *, is_quick: bool) -> Results:
    """Runs the rows. Whatever ends it, no process and no file of a broker is left."""
    load = LoadClient.built()
    installation = ApacheKafka.installed()
    results = Results(circumstances(installation, load.version(), rounds, is_quick=is_quick))
    begun_s = time.monotonic()

    def say(what: str) -> None:
        print(f"  {time.monotonic() - begun_s:6.1f} s  {what}", flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="tidelog-bench-") as folder,
        Run(Clusters(Path(folder), installation), results, load, QUICK if is_quick else FULL, rounds, say) as run,
    ):
        for row in rows:
            say(f"== {row.name}")
            row.measure(run)
            # After each: minutes of measuring are not lost to what goes wrong later.
            json.parent.mkdir(parents=True, exist_ok=True)
            json.write_text(to_json(results), encoding="utf-8")
    return results


if __name__ == "__main__":
    main()

"""Tidelog beside Apache Kafka 4.3.1, in one run.

python -m benchmarks.broker [--quick] [--rows NAME,NAME] [--rounds N] [--json FILE] [--publish] [--against CHECKOUT]
python -m benchmarks.broker --from FILE --from FILE [--json FILE] [--publish]     no run: the table of runs already made

Ends with 1 where a goal was missed (not with --quick), and with 2 where the run failed: a client error, a lost record, a
broker that does not start.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.broker.contestants import ContestantError, Contestants
from benchmarks.broker.course import FULL, QUICK, Course
from benchmarks.broker.figures import Results, ResultsError, read_results, to_json
from benchmarks.broker.idle_connections import TooFewFilesError, raise_open_files_limit
from benchmarks.broker.load_client import LoadClient, LoadError
from benchmarks.broker.publication import PublicationError, publish
from benchmarks.broker.rows import ROWS, Row, all_figures
from benchmarks.broker.table import text_table
from benchmarks.broker.topics import TopicError
from benchmarks.circumstances import ROUNDS_BESIDE_BEFORE, circumstances, named, peer_of, positive
from benchmarks.compare import RESULTS
from benchmarks.sessions.rows import all_figures as session_figures
from benchmarks.sitting import AGAINST_HELP
from tests.support.apache_kafka import KafkaError, MissingProgramError

ROUNDS = 3
EXIT_MISSED = 1
EXIT_FAILED = 2
FAILURES = (
    ContestantError,
    KafkaError,
    LoadError,
    MissingProgramError,
    OSError,
    PublicationError,
    ResultsError,
    TooFewFilesError,
    TopicError,
    subprocess.SubprocessError,
)


@dataclass(frozen=True)
class Options:
    quick: bool
    rows: tuple[Row, ...]
    rounds: int
    json: Path | None
    earlier: tuple[Path, ...]
    publish: bool
    directory: Path | None
    against: Path | None


def main() -> None:
    options = parse(sys.argv[1:])
    # SIGTERM ends the run as Ctrl-C does: by the way out of every `with`.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if options.earlier:
            known = (*all_figures(), *session_figures())
            results = read_results(options.earlier, {each.key: each for each in known})
        else:
            results = measure(options)
        print(f"\n{text_table(results)}", flush=True)
        write(results, options)
        if options.publish:
            publish(results)
    except FAILURES as error:
        print(f"benchmark failed: {error}", file=sys.stderr)
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        print("benchmark interrupted", file=sys.stderr)
        sys.exit(EXIT_FAILED)
    if results.missed and not options.quick:
        print(f"missed: {'; '.join(results.missed)}", file=sys.stderr)
        sys.exit(EXIT_MISSED)


def measure(options: Options) -> Results:
    """Runs the rows. Whatever ends it, no process and no file of a broker is left."""
    sizes = QUICK if options.quick else FULL
    load = LoadClient.built()
    peer = peer_of(options.against)
    results = Results(circumstances(peer, load.version(), options.rounds, is_quick=options.quick))
    # Nodes inherit the limit: what they may open, and what holds idle connections to both of them.
    raise_open_files_limit(2 * sizes.connections)
    begun_s = time.monotonic()

    def say(what: str) -> None:
        print(f"  {time.monotonic() - begun_s:6.1f} s  {what}", flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="tidelog-bench-", dir=options.directory) as folder,
        Course(results, Contestants(Path(folder), peer), load, sizes, options.rounds, say) as course,
    ):
        for row in options.rows:
            say(f"== {row.name}")
            row.measure(course)
            # After each: minutes of measuring are not lost to what goes wrong later.
            write(results, options)
    return results


def write(results: Results, options: Options) -> None:
    kind = ("-before" if options.against else "") + ("-quick" if options.quick else "")
    path = options.json or RESULTS / f"broker{kind}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_json(results), encoding="utf-8")


def parse(arguments: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.broker", description="Tidelog beside Apache Kafka")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that all works, and measures nothing")
    parser.add_argument("--rows", type=named(ROWS), default=ROWS, metavar="NAME,NAME", help="only these rows")
    parser.add_argument("--rounds", type=positive, metavar="N", help=f"counted rounds of each row ({ROUNDS})")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="where the figures go (benchmarks/results/broker.json)"
    )
    parser.add_argument(
        "--from", type=Path, action="append", default=[], dest="earlier", metavar="FILE", help="show it"
    )
    parser.add_argument("--publish", action="store_true", help="put the picture and the table into docs/speed.md")
    parser.add_argument("--directory", type=Path, metavar="DIR", help="where both brokers keep their data")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help=AGAINST_HELP)
    given = parser.parse_args(arguments)
    if given.publish and given.quick:
        parser.error("a quick run measures nothing that could be published")
    if given.publish and given.against:
        parser.error("what is published is beside Apache Kafka")
    rounds = given.rounds or (1 if given.quick else ROUNDS if given.against is None else ROUNDS_BESIDE_BEFORE)
    return Options(
        given.quick, given.rows, rounds, given.json, tuple(given.earlier), given.publish, given.directory, given.against
    )


if __name__ == "__main__":
    main()

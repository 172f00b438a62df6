"""One run of a family beside Apache Kafka: its command line, its rows one after the other, its table, and how it ends.

    main("groups", "groups beside Apache Kafka", ROWS, measure)        # measure(sitting) calls sitting.go_over(run)

Ends with 1 where a goal was missed (not with --quick), and with 2 where the run failed: a client error, an answer or a record
that is not the expected one, a broker that does not start or keep up.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import confluent_kafka

from benchmarks.broker.contestants import Contestant, ContestantError, Peer
from benchmarks.broker.figures import Results, to_json
from benchmarks.broker.load_client import LoadError
from benchmarks.broker.table import text_table
from benchmarks.broker.topics import TopicError
from benchmarks.circumstances import ROUNDS_BESIDE_BEFORE, circumstances, named, peer_of, positive
from benchmarks.compare import RESULTS
from tests.support.apache_kafka import KafkaError, MissingProgramError

ROUNDS = 3
AGAINST_HELP = "another checkout, with a .venv of its own: its node is the one beside ours, instead of Apache Kafka"
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

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)


class MeasuredRow(Protocol[R_contra]):
    """A row of the family's table."""

    @property
    def name(self) -> str: ...

    @property
    def measure(self) -> Callable[[R_contra], None]: ...


@dataclass
class Sitting(Generic[R]):
    """What a family is given to measure with. `folder` is gone afterwards."""

    rows: Sequence[MeasuredRow[R]]
    rounds: int
    is_quick: bool
    peer: Peer
    folder: Path
    results: Results
    json: Path
    _begun_s: float = field(default_factory=time.monotonic)

    def say(self, what: str) -> None:
        print(f"  {time.monotonic() - self._begun_s:6.1f} s  {what}", flush=True)

    def go_over(self, run: R) -> None:
        """Measures all rows that were asked for."""
        for row in self.rows:
            self.say(f"== {row.name}")
            row.measure(run)
            # After each: minutes of measuring are not lost to what goes wrong later.
            self.json.parent.mkdir(parents=True, exist_ok=True)
            self.json.write_text(to_json(self.results), encoding="utf-8")


def main(
    family: str,
    description: str,
    rows: Sequence[MeasuredRow[R]],
    measure: Callable[[Sitting[R]], None],
    peer: type[Contestant] | None = None,
) -> None:
    """`peer` is who is beside our nodes where it is neither Apache Kafka nor a checkout that the command line names."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{family}", description=description)
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that all works, and measures nothing")
    parser.add_argument("--rows", type=named(rows), default=rows, metavar="NAME,NAME", help="only these rows")
    parser.add_argument("--rounds", type=positive, metavar="N", help=f"counted rounds of each row ({ROUNDS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help=f"where the figures go (results/{family}.json)")
    parser.set_defaults(against=None)
    if peer is None:
        parser.add_argument("--against", type=Path, metavar="CHECKOUT", help=AGAINST_HELP)
    given = parser.parse_args()
    # SIGTERM ends the run as Ctrl-C does: by the way out of every `with`.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    kind = ("-before" if given.against else "") + ("-quick" if given.quick else "")
    json = given.json or RESULTS / f"{family}{kind}.json"
    rounds = given.rounds or (1 if given.quick else ROUNDS if given.against is None else ROUNDS_BESIDE_BEFORE)
    try:
        beside = peer or peer_of(given.against)
        librdkafka = confluent_kafka.libversion()[0]
        results = Results(circumstances(beside, librdkafka, rounds, is_quick=given.quick))
        with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as folder:
            measure(Sitting(given.rows, rounds, given.quick, beside, Path(folder), results, json))
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

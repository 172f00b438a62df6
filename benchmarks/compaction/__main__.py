"""Compaction on Tidelog beside Apache Kafka 4.3.1, in one run.

python -m benchmarks.compaction [--quick] [--rounds N] [--json FILE]

Ends with 1 where a goal was missed (not with --quick), and with 2 where the run failed.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from benchmarks.broker.contestants import ContestantError, Contestants
from benchmarks.broker.figures import OURS, THEIRS
from benchmarks.broker.topics import TopicError
from benchmarks.circumstances import machine, positive
from benchmarks.compaction.courses import FULL, QUICK, SETTINGS, Course, Sample, clean, latency
from benchmarks.compare import RESULTS
from tests.support.apache_kafka import ApacheKafka, KafkaError, MissingProgramError

ROUNDS = 3
# Of our CPU seconds over Kafka's, and of p99 beside a compaction over p99 without.
CPU_RATIO_MAX = 1.0
LATENCY_RATIO_MAX = 2.0
EXIT_MISSED = 1
EXIT_FAILED = 2
FAILURES = (
    ContestantError,
    KafkaError,
    MissingProgramError,
    OSError,
    TimeoutError,
    TopicError,
    subprocess.SubprocessError,
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compaction", description="compaction beside Kafka")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that all works, and measures nothing")
    parser.add_argument("--rounds", type=positive, metavar="N", help=f"counted rounds ({ROUNDS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go (results/compaction.json)")
    given = parser.parse_args()
    # SIGTERM ends the run as Ctrl-C does: by the way out of every `with`.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    course = QUICK if given.quick else FULL
    try:
        samples = measure(course, given.rounds or (1 if given.quick else ROUNDS), is_quick=given.quick)
    except FAILURES as error:
        print(f"benchmark failed: {error}", file=sys.stderr)
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        print("benchmark interrupted", file=sys.stderr)
        sys.exit(EXIT_FAILED)
    path = given.json or RESULTS / ("compaction-quick.json" if given.quick else "compaction.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine(), "course": course._asdict(), "samples": samples}, indent=1))
    missed = show(samples)
    if missed and not given.quick:
        print(f"missed: {'; '.join(missed)}", file=sys.stderr)
        sys.exit(EXIT_MISSED)


def measure(course: Course, rounds: int, *, is_quick: bool) -> dict[str, list[Sample]]:
    """The samples of each contestant. Both are up, one is loaded at a time, and who begins changes every round."""
    samples: dict[str, list[Sample]] = defaultdict(list)
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-compaction-") as root,
        Contestants(Path(root), ApacheKafka.installed(), SETTINGS).running_pair(print) as both,
    ):
        # The first round is for the JVM to compile what it needs, and does not count.
        for number in range(-1 if not is_quick else 0, rounds):
            for contestant in both if number % 2 else both[::-1]:
                sample = {**clean(contestant, course), **latency(contestant, course)}
                print(f"round {number + 1} {contestant.name}: {sample}", flush=True)
                if number >= 0:
                    samples[contestant.name].append(sample)
    return samples


def show(samples: dict[str, list[Sample]]) -> list[str]:
    """Print the medians; returns the goals that were missed."""
    ours, theirs = samples[OURS], samples[THEIRS]
    for name in ours[0]:
        values = [statistics.median(each[name] for each in side) for side in (ours, theirs)]
        print(f"{name:28} {OURS} {values[0]:10.3f}   {THEIRS} {values[1]:10.3f}   ratio {values[0] / values[1]:.2f}")
    cpu = statistics.median(a["cpu_s"] / b["cpu_s"] for a, b in zip(ours, theirs, strict=True))
    waits = statistics.median(each["p99_beside_ms"] / each["p99_alone_ms"] for each in ours)
    print(f"CPU of a compaction, over Kafka's: {cpu:.2f}; produce p99 beside a compaction, over without: {waits:.2f}")
    missed = [f"CPU {cpu:.2f} > {CPU_RATIO_MAX}"] if cpu > CPU_RATIO_MAX else []
    return missed + ([f"p99 {waits:.2f} > {LATENCY_RATIO_MAX}"] if waits > LATENCY_RATIO_MAX else [])


if __name__ == "__main__":
    main()

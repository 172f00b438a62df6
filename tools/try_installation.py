"""Tries an installed Tidelog as its user would: run it with the interpreter of the environment that has it.

    .../bin/python -I tools/try_installation.py [--kernels python|compiled]

A node of `tidelog up` goes through produce, consume, a group, a transaction and a compaction pass, then a cluster is embedded.
Uses nothing but Tidelog and the standard library. Prints a line for each step; the first that fails ends it with its error.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidelog import Admin, Consumer, Producer, __version__
from tidelog.testing import EmbeddedCluster

TIDELOG = str(Path(sys.executable).parent / "tidelog")

# Far beyond what any step takes, in plain Python on a busy machine too.
DEADLINE_S = 60.0

# A pass begins with a full segment, which has at least 1 MB. Twice that, of few keys.
COMPACTED_KEYS = 50
COMPACTED_ROUNDS = 40
COMPACTED_VALUE_BYTES = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", choices=("python", "compiled"), help="fail unless these are what is installed")
    _check_version(parser.parse_args().kernels)
    with tempfile.TemporaryDirectory() as directory, _node(directory) as bootstrap:
        _produce_and_consume(bootstrap)
        _read_as_group(bootstrap)
        _write_transactions(bootstrap)
        _compact(bootstrap)
    _embed()


def _check_version(kernels: str | None) -> None:
    answer = json.loads(_output(TIDELOG, "version", "--json"))
    _expect(answer["tidelog"], __version__)
    _expect(_output(TIDELOG, "--version"), f"tidelog {__version__}\n")
    twin = answer["kernels"]["twin"]
    if kernels is not None:
        _expect(twin, kernels)
    _done(f"tidelog {__version__} on {answer['python']}, kernels: {twin}")


@contextmanager
def _node(directory: str) -> Iterator[str]:
    """Where a node of `tidelog up` serves."""
    settings = ("log.cleaner.backoff.ms=20", "group.initial.rebalance.delay.ms=0")
    command = [TIDELOG, "up", "--port", "0", "--dir", directory, *(f"--set={setting}" for setting in settings)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        try:
            assert up.stdout is not None
            line = up.stdout.readline()
            if not line.startswith("ready: "):
                sys.exit(f"`tidelog up` is not ready: {line!r}")
            _done(line.strip())
            yield line.split()[1]
        finally:
            up.terminate()
            code = up.wait(DEADLINE_S)
    _expect(code, 0)


def _produce_and_consume(bootstrap: str) -> None:
    written = [b"order %d" % number for number in range(1000)]
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        topic = f"orders-{codec}"
        _create(bootstrap, topic, partitions=1)
        with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
            for value in written:
                producer.send(topic, value, key=b"customer")
        _expect(_values(bootstrap, topic, len(written)), written)
    _done("produced and consumed, with every codec")


def _read_as_group(bootstrap: str) -> None:
    _create(bootstrap, "payments", partitions=3)
    for expected in ([b"first"], [b"second"]):
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send("payments", expected[0])
        # The second member goes on where the first one has committed.
        with Consumer(
            "payments", bootstrap_servers=bootstrap, group_id="billing", auto_offset_reset="earliest"
        ) as consumer:
            _expect(_polled(consumer, 1), expected)
            consumer.commit()
    _done("read as members of a group, one after the other")


def _write_transactions(bootstrap: str) -> None:
    _create(bootstrap, "deliveries", partitions=1)
    with Producer(bootstrap_servers=bootstrap, transactional_id="shop-1") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("deliveries", b"aborted")
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("deliveries", b"committed")
        producer.commit_transaction()
    _expect(_values(bootstrap, "deliveries", 1, isolation_level="read_committed"), [b"committed"])
    _done("wrote a transaction and aborted another")


def _compact(bootstrap: str) -> None:
    eager = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": str(1024 * 1024)}
    _create(bootstrap, "prices", partitions=1, configs=eager)
    last: dict[bytes, bytes] = {}
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(COMPACTED_ROUNDS):
            for key in (b"%d" % key for key in range(COMPACTED_KEYS)):
                last[key] = (b"%d " % number).ljust(COMPACTED_VALUE_BYTES, b".")
                producer.send("prices", last[key], key=key)
    written = COMPACTED_KEYS * COMPACTED_ROUNDS
    deadline_s = time.monotonic() + DEADLINE_S
    while len(records := _records_to_end(bootstrap, "prices", written)) == written:
        if time.monotonic() > deadline_s:
            sys.exit(f"nothing was compacted within {DEADLINE_S:.0f} s")
        time.sleep(0.05)
    _expect({record.key: record.value for record in records}, last)
    _done(f"compacted {written} records to {len(records)}")


def _embed() -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders")
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send("orders", b"embedded")
        _expect(_values(cluster.bootstrap_servers, "orders", 1), [b"embedded"])
    _done("embedded a cluster")


def _create(bootstrap: str, topic: str, *, partitions: int, configs: dict[str, str] | None = None) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(topic, partitions=partitions, configs=configs or {})


def _values(bootstrap: str, topic: str, count: int, **options: str) -> list[bytes | None]:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **options) as consumer:
        consumer.assign([(topic, 0)])
        return _polled(consumer, count)


def _polled(consumer: Any, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    deadline_s = time.monotonic() + DEADLINE_S
    while len(values) < count and time.monotonic() < deadline_s:
        values += [record.value for record in consumer.poll(timeout_ms=1000)]
    return values


def _records_to_end(bootstrap: str, topic: str, end: int) -> list[Any]:
    """All records up to the last one that was written, which no compaction removes."""
    records: list[Any] = []
    deadline_s = time.monotonic() + DEADLINE_S
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        while (not records or records[-1].offset < end - 1) and time.monotonic() < deadline_s:
            records += consumer.poll(timeout_ms=1000)
    return records


def _output(*command: str) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=DEADLINE_S).stdout


def _expect(found: object, expected: object) -> None:
    if found != expected:
        sys.exit(f"expected {str(expected)[:1000]}, found {str(found)[:1000]}")


def _done(step: str) -> None:
    print(step, flush=True)


if __name__ == "__main__":
    main()

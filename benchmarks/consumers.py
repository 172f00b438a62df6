"""Consumers side by side: how fast each reads the same topic of 100-byte records from one broker of ours.

    python -m benchmarks.consumers [--count N] [--rounds N]

The broker is a process of its own, and so is every run of a contestant: each reads everything once, in turn, and reports how long
that took from the first record on. The ratio of two rates is taken within each round; the median counts. librdkafka is driven as
its documentation asks for where speed matters, with `consume(10000)`; aiokafka with `getmany`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.compare import Comparison, finish
from tests.support.node_process import NodeProcess

TOPIC = "bench"
PARTITIONS = 2
VALUE = bytes(100)


def read_rows(bootstrap: str, count: int) -> float:
    from tidelog import Consumer

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=10_000) as consumer:
        consumer.assign([(TOPIC, each) for each in range(PARTITIONS)])
        read = len(consumer.poll(timeout_ms=30_000))
        began = time.perf_counter()
        while read < count:
            read += len(consumer.poll(timeout_ms=1000))
        return time.perf_counter() - began


def read_columns(bootstrap: str, count: int) -> float:
    from tidelog import Consumer

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(TOPIC, each) for each in range(PARTITIONS)])
        first = consumer.poll_arrow(timeout_ms=30_000)
        read = 0 if first is None else first.num_rows
        began = time.perf_counter()
        while read < count:
            batch = consumer.poll_arrow(timeout_ms=1000)
            read += 0 if batch is None else batch.num_rows
        return time.perf_counter() - began


def read_async(bootstrap: str, count: int) -> float:
    async def main() -> float:
        from tidelog import AsyncConsumer

        async with AsyncConsumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=10_000
        ) as consumer:
            consumer.assign([(TOPIC, each) for each in range(PARTITIONS)])
            read = len(await consumer.poll(timeout_ms=30_000))
            began = time.perf_counter()
            while read < count:
                read += len(await consumer.poll(timeout_ms=1000))
            return time.perf_counter() - began

    return asyncio.run(main())


def read_librdkafka(bootstrap: str, count: int) -> float:
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            # By default it stops fetching for a second whenever its queue is full.
            "fetch.queue.backoff.ms": 2,
        }
    )
    consumer.assign(
        [confluent_kafka.TopicPartition(TOPIC, each, confluent_kafka.OFFSET_BEGINNING) for each in range(PARTITIONS)]
    )
    read = len(consumer.consume(1, 30))
    began = time.perf_counter()
    while read < count:
        read += len(consumer.consume(10_000, 1.0))
    taken = time.perf_counter() - began
    consumer.close()
    return taken


def read_aiokafka(bootstrap: str, count: int) -> float:
    import aiokafka

    async def main() -> float:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.assign([aiokafka.TopicPartition(TOPIC, each) for each in range(PARTITIONS)])
            read = sum(map(len, (await consumer.getmany(timeout_ms=30_000, max_records=1)).values()))
            began = time.perf_counter()
            while read < count:
                got = await consumer.getmany(timeout_ms=1000, max_records=10_000)
                read += sum(map(len, got.values()))
            return time.perf_counter() - began
        finally:
            await consumer.stop()

    return asyncio.run(main())


CONTESTANTS: dict[str, Callable[[str, int], float]] = {
    "rows": read_rows,
    "columns": read_columns,
    "async": read_async,
    "librdkafka": read_librdkafka,
    "aiokafka": read_aiokafka,
}


def run_contestant(name: str, bootstrap: str, count: int) -> tuple[float, float]:
    """Seconds of time and of CPU of one reading, in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.consumers",
        "--run",
        name,
        "--bootstrap",
        bootstrap,
        "--count",
        str(count),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300, env=os.environ)
    seconds, cpu_seconds = json.loads(done.stdout.splitlines()[-1])
    return seconds, cpu_seconds


def produce(bootstrap: str, count: int) -> None:
    import confluent_kafka
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "batch.size": 131_072,
            "queue.buffering.max.messages": 200_000,
        }
    )
    for number in range(count):
        while True:
            try:
                producer.produce(TOPIC, VALUE, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(120):
        raise RuntimeError("the records were not all written")


def ratio(
    name: str, samples: dict[str, list[tuple[float, float]]], ours: str, theirs: str, count: int, at_least: float
) -> Comparison:
    ratios = [b[0] / a[0] for a, b in zip(samples[ours], samples[theirs], strict=True)]
    cpu = [b[1] / a[1] for a, b in zip(samples[ours], samples[theirs], strict=True)]
    made = Comparison(
        name=name,
        seconds={each: statistics.median(taken for taken, _ in samples[each]) for each in (ours, theirs)},
        ratio=statistics.median(ratios),
        ratio_min=min(ratios),
        ratio_max=max(ratios),
        at_least=at_least,
        per_call=count,
        unit="records",
        rounds=len(ratios),
        notes=[f"CPU of the client: {statistics.median(cpu):.2f} x cheaper"],
    )
    print(made.line(), made.notes[0], flush=True)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--run", choices=CONTESTANTS)
    parser.add_argument("--bootstrap")
    options = parser.parse_args()
    if options.run:
        before = resource.getrusage(resource.RUSAGE_SELF)
        seconds = CONTESTANTS[options.run](options.bootstrap, options.count)
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(json.dumps([seconds, cpu_seconds]))
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory, NodeProcess(Path(directory)) as node:
        bootstrap = f"127.0.0.1:{node.port}"
        produce(bootstrap, options.count)
        samples: dict[str, list[tuple[float, float]]] = {each: [] for each in CONTESTANTS}
        for _ in range(options.rounds):
            for name in CONTESTANTS:
                samples[name].append(run_contestant(name, bootstrap, options.count))
    finish(
        "consumers",
        [
            ratio("consumer rows, 100 bytes, against librdkafka", samples, "rows", "librdkafka", options.count, 1.5),
            ratio("consumer rows, 100 bytes, async, against aiokafka", samples, "async", "aiokafka", options.count, 4),
            ratio("consumer Arrow, 100 bytes, against librdkafka", samples, "columns", "librdkafka", options.count, 5),
        ],
    )


if __name__ == "__main__":
    main()

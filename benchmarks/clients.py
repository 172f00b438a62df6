"""Our producer beside confluent-kafka's and aiokafka's: the client's CPU for a record, and the rate, against one node of ours.

Each contestant runs in a process of its own, in turn, round after round; its CPU is that process's own (threads included), its
rate the records over the time from the first `send` to the last delivery report. Ratios are taken within a round. Two asyncio
clients run on the same kind of loop, asyncio's own and uvloop's in turn.

    python benchmarks/clients.py            all comparisons
    python benchmarks/clients.py --smoke    one short round, to see that everything runs
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from statistics import median
from typing import Any

from benchmarks.compare import Comparison, finish
from tidelog.testing import EmbeddedCluster

VALUE = b"x" * 100
LINGER_MS = 5
BATCH_BYTES = 1_000_000
ROUNDS = 5

# What one process measured: seconds of CPU and of time for a record.
Sample = dict[str, float]

AsyncSend = Callable[[str, int], Coroutine[Any, Any, None]]


def tidelog_send(bootstrap: str, count: int) -> None:
    from tidelog import Producer

    reported = 0

    def delivered(error: object, _metadata: object) -> None:
        nonlocal reported
        assert error is None
        reported += 1

    with Producer(bootstrap_servers=bootstrap, linger_ms=LINGER_MS, batch_size=BATCH_BYTES) as producer:
        send = producer.send
        for _ in range(count):
            send("records", VALUE, on_delivery=delivered)
        producer.flush()
        assert reported == count


def confluent_send(bootstrap: str, count: int) -> None:
    from confluent_kafka import Producer

    reported = 0

    def delivered(error: object, _message: object) -> None:
        nonlocal reported
        assert error is None
        reported += 1

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": LINGER_MS,
            "enable.idempotence": True,
            "batch.size": BATCH_BYTES,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    produce = producer.produce
    for number in range(count):
        while True:
            try:
                produce("records", VALUE, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush()
    assert reported == count


async def tidelog_async(bootstrap: str, count: int) -> None:
    from tidelog import AsyncProducer

    async with AsyncProducer(bootstrap_servers=bootstrap, linger_ms=LINGER_MS, batch_size=BATCH_BYTES) as producer:
        deliveries = [await producer.send("records", VALUE) for _ in range(count)]
        for delivery in deliveries:
            await delivery


async def aiokafka(bootstrap: str, count: int) -> None:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, linger_ms=LINGER_MS, enable_idempotence=True, max_batch_size=BATCH_BYTES
    )
    await producer.start()
    try:
        futures = [await producer.send("records", VALUE) for _ in range(count)]
        for future in futures:
            await future
    finally:
        await producer.stop()


def on_asyncio(send: AsyncSend) -> Callable[[str, int], None]:
    return lambda bootstrap, count: asyncio.run(send(bootstrap, count))


def on_uvloop(send: AsyncSend) -> Callable[[str, int], None]:
    def run(bootstrap: str, count: int) -> None:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(send(bootstrap, count))

    return run


def tidelog_arrow(bootstrap: str, count: int) -> None:
    import pyarrow as pa

    from tidelog import Producer

    table = pa.table({"value": pa.array([VALUE] * 100_000, pa.binary())})
    with Producer(bootstrap_servers=bootstrap, linger_ms=LINGER_MS, batch_size=BATCH_BYTES) as producer:
        deliveries = [producer.send_arrow("records", table) for _ in range(count // 100_000)]
        for delivery in deliveries:
            delivery.result()


CONTESTANTS: dict[str, Callable[[str, int], None]] = {
    "tidelog_send": tidelog_send,
    "confluent_send": confluent_send,
    "tidelog_asyncio": on_asyncio(tidelog_async),
    "aiokafka_asyncio": on_asyncio(aiokafka),
    "tidelog_uvloop": on_uvloop(tidelog_async),
    "aiokafka_uvloop": on_uvloop(aiokafka),
    "tidelog_arrow": tidelog_arrow,
}


def run_here(name: str, bootstrap: str, count: int) -> None:
    """What a process of a contestant does: warm up, measure, print."""
    CONTESTANTS[name](bootstrap, 100_000 if "arrow" in name else max(1000, count // 20))
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    CONTESTANTS[name](bootstrap, count)
    taken = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"cpu": cpu / count, "wall": taken / count}))


def sample(name: str, bootstrap: str, count: int) -> Sample:
    command = [sys.executable, "-m", "benchmarks.clients", "--run", name, bootstrap, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    measured: Sample = json.loads(done.stdout.splitlines()[-1])
    return measured


def measure(
    title: str,
    ours: tuple[str, int],
    theirs: tuple[str, int],
    what: str,
    *,
    rounds: int,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Comparison:
    samples: dict[str, list[float]] = {ours[0]: [], theirs[0]: []}
    for _ in range(rounds):
        # A log of its own for each round: nobody pays for the other's retention.
        with EmbeddedCluster(config={"log.retention.bytes": 200_000_000, "log.segment.bytes": 100_000_000}) as cluster:
            cluster.create_topic("records", partitions=1)
            for name, count in (ours, theirs):
                samples[name].append(sample(name, cluster.bootstrap_servers, count)[what])
    pairs = list(zip(samples[ours[0]], samples[theirs[0]], strict=True))
    ratios = [a / b if at_most is not None else b / a for a, b in pairs]
    result = Comparison(
        name=title,
        seconds={name: median(taken) for name, taken in samples.items()},
        ratio=median(ratios),
        ratio_min=min(ratios),
        ratio_max=max(ratios),
        at_least=at_least,
        at_most=at_most,
        unit="records",
        rounds=rounds,
    )
    print(result.line(), flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--run", nargs=3)
    arguments = parser.parse_args()
    if arguments.run:
        name, bootstrap, count = arguments.run
        run_here(name, bootstrap, int(count))
        return
    rounds, scale = (1, 10) if arguments.smoke else (ROUNDS, 1)
    finish(
        "clients",
        [
            measure(
                "send() with delivery reports: CPU of the client, of confluent-kafka's",
                ("tidelog_send", 500_000 // scale),
                ("confluent_send", 500_000 // scale),
                "cpu",
                rounds=rounds,
                at_most=1.0,
            ),
            measure(
                "await send(), every delivery awaited, on asyncio's loop: rate over aiokafka's",
                ("tidelog_asyncio", 300_000 // scale),
                ("aiokafka_asyncio", 60_000 // scale),
                "wall",
                rounds=rounds,
                at_least=5.0,
            ),
            measure(
                "the same, both on uvloop",
                ("tidelog_uvloop", 300_000 // scale),
                ("aiokafka_uvloop", 60_000 // scale),
                "wall",
                rounds=rounds,
                at_least=5.0,
            ),
            measure(
                "send() of the blocking producer with delivery reports: rate over aiokafka's",
                ("tidelog_send", 500_000 // scale),
                ("aiokafka_asyncio", 60_000 // scale),
                "wall",
                rounds=rounds,
                at_least=5.0,
            ),
            measure(
                "send_arrow: rate over confluent-kafka's produce()",
                ("tidelog_arrow", 2_000_000 // scale),
                ("confluent_send", 500_000 // scale),
                "wall",
                rounds=rounds,
                at_least=5.0,
            ),
        ],
    )


if __name__ == "__main__":
    main()

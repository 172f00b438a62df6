"""Transactions of one record, one after another, by tidelog.AsyncProducer.

    python -m benchmarks.transactions.own_client BOOTSTRAP TOPIC PARTITIONS COUNT SIZE

Says `ready` when the first transactions, which do not count, are done; then what the load program says as well. librdkafka waits
a millisecond in every transaction before it tells the coordinator of a partition, whatever the broker does; this client waits for
nothing but answers.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time

from tidelog import AsyncProducer
from tidelog.broker.node.hosting import new_event_loop

DISCARDED = 20


async def write(bootstrap: str, topic: str, partitions: int, count: int, size: int) -> dict[str, float]:
    taken_s: list[float] = []
    value = bytes(size)
    async with AsyncProducer(bootstrap_servers=bootstrap, transactional_id=f"own-{topic}", linger_ms=0) as producer:

        async def transaction(number: int) -> None:
            begun_s = time.perf_counter()
            await producer.begin_transaction()
            await producer.send(topic, value, partition=number % partitions)
            await producer.commit_transaction()
            taken_s.append(time.perf_counter() - begun_s)

        await producer.init_transactions()
        for number in range(DISCARDED):
            await transaction(number)
        taken_s.clear()
        print("ready", flush=True)
        begun_s = time.perf_counter()
        for number in range(count):
            await transaction(number)
        seconds = time.perf_counter() - begun_s
    taken_s.sort()
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "transactions": count,
        "records": count,
        "seconds": seconds,
        "p50_ms": taken_s[len(taken_s) // 2] * 1e3,
        "p99_ms": taken_s[len(taken_s) * 99 // 100] * 1e3,
        "client_cpu_s": used.ru_utime + used.ru_stime,
    }


def main() -> None:
    bootstrap, topic, *numbers = sys.argv[1:]
    partitions, count, size = map(int, numbers)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        print(json.dumps(runner.run(write(bootstrap, topic, partitions, count, size))))


if __name__ == "__main__":
    main()

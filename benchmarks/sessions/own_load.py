"""The same load by tidelog's own clients.

    python -m benchmarks.sessions.own_load produce|consume|round-trip BOOTSTRAP TOPIC PARTITIONS COUNT SIZE

Each record begins with its number; all are accounted for, or the program says in one sentence what was wrong and ends with 1.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time

from tidelog import AsyncConsumer, AsyncProducer, Consumer, Producer
from tidelog.broker.node.hosting import new_event_loop

SILENCE_S = 20.0
DISCARDED = 500
NUMBER_BYTES = 8


def value(number: int, size: int) -> bytes:
    return number.to_bytes(NUMBER_BYTES, "big", signed=True) + bytes(size - NUMBER_BYTES)


def number_of(record: bytes | None) -> int:
    return int.from_bytes((record or b"")[:NUMBER_BYTES], "big", signed=True)


def produce(bootstrap: str, topic: str, partitions: int, count: int, size: int) -> dict[str, float]:
    acknowledged = 0

    def delivered(error: object, _metadata: object) -> None:
        nonlocal acknowledged
        if error is not None:
            sys.exit(f"a record was refused: {error}")
        acknowledged += 1

    begun_s = time.perf_counter()
    with Producer(bootstrap_servers=bootstrap, linger_ms=5, batch_size=131_072) as producer:
        for number in range(count):
            producer.send(topic, value(number, size), partition=number % partitions, on_delivery=delivered)
        producer.flush()
    seconds = time.perf_counter() - begun_s
    if acknowledged != count:
        sys.exit(f"{acknowledged} of {count} records were acknowledged")
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        held = sum(consumer.end_offsets([(topic, each) for each in range(partitions)]).values())
    if held != count:
        sys.exit(f"the partitions hold {held} records, where {count} were acknowledged")
    return {"records": count, "seconds": seconds, "bytes": count * size}


def consume(bootstrap: str, topic: str, partitions: int, count: int, size: int) -> dict[str, float]:
    seen = bytearray(count)
    read = 0
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=10_000) as consumer:
        consumer.assign([(topic, each) for each in range(partitions)])
        begun_s = last_s = time.perf_counter()
        while read < count:
            records = consumer.poll(timeout_ms=500)
            for record in records:
                number = number_of(record.value)
                if len(record.value or b"") != size or not 0 <= number < count:
                    sys.exit("a record is not one that was written")
                seen[number] += 1
            read += len(records)
            if records:
                last_s = time.perf_counter()
            elif time.perf_counter() - last_s > SILENCE_S:
                sys.exit(f"{read} of {count} records came")
        seconds = time.perf_counter() - begun_s
    if max(seen) > 1:
        sys.exit("a record came twice")
    return {"records": count, "seconds": seconds, "bytes": count * size}


async def round_trip(bootstrap: str, topic: str, count: int, size: int) -> dict[str, float]:
    taken_s: list[float] = []
    begun_s = 0.0
    async with (
        AsyncConsumer(bootstrap_servers=bootstrap, auto_offset_reset="latest") as consumer,
        AsyncProducer(bootstrap_servers=bootstrap, linger_ms=0) as producer,
    ):
        consumer.assign([(topic, 0)])
        consumer.seek_to_end((topic, 0))
        await consumer.position((topic, 0))
        for number in range(-DISCARDED, count):
            if number == 0:
                print("ready", flush=True)
                sys.stdin.readline()
                begun_s = time.perf_counter()
            sent_s = time.perf_counter()
            await (await producer.send(topic, value(number, size), partition=0))
            records = await consumer.poll(timeout_ms=int(SILENCE_S * 1000))
            if [number_of(each.value) for each in records] != [number]:
                sys.exit(f"record {number} did not come, or not alone")
            if number >= 0:
                taken_s.append(time.perf_counter() - sent_s)
    seconds = time.perf_counter() - begun_s
    taken_s.sort()
    return {
        "records": count,
        "seconds": seconds,
        "mean_ms": sum(taken_s) / count * 1e3,
        "p50_ms": taken_s[count // 2] * 1e3,
        "p99_ms": taken_s[count * 99 // 100] * 1e3,
    }


def main() -> None:
    kind, bootstrap, topic, *numbers = sys.argv[1:]
    partitions, count, size = map(int, numbers)
    if kind == "round-trip":
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            done = runner.run(round_trip(bootstrap, topic, count, size))
    else:
        done = (produce if kind == "produce" else consume)(bootstrap, topic, partitions, count, size)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({**done, "client_cpu_s": used.ru_utime + used.ru_stime}))


if __name__ == "__main__":
    main()

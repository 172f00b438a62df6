"""The members of share groups that the rows load a broker with, by tidelog's own client.

    python -m benchmarks.share.member read BOOTSTRAP TOPIC GROUP 0            reads until nothing comes any more
    python -m benchmarks.share.member acknowledge BOOTSTRAP TOPIC GROUP N     N records one by one, each acknowledged by itself
    python -m benchmarks.share.member idle BOOTSTRAP TOPIC PREFIX N           a member in each of N groups, which gets nothing

Says `ready` once it is in its group, does nothing until it is told to `go`, and ends with one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time

from tidelog import AsyncShareConsumer, ShareConsumer
from tidelog.broker.node.hosting import new_event_loop
from tidelog.client.errors import ClientError

# After so long without a record all have come: a member's fetches wait for half a second each.
SILENCE_S = 2.0
TIMEOUT_S = 120.0
FETCHES = "messaging.kafka.consumer.fetches"


def read(bootstrap: str, topic: str, group: str, _count: int) -> dict[str, float]:
    """Columns, implicitly acknowledged: the cheapest that this client can do, so that the broker has the more of the machine."""
    told_to_go = threading.Event()
    threading.Thread(target=_wait_for_go, args=(told_to_go,), daemon=True).start()
    with ShareConsumer(topic, bootstrap_servers=bootstrap, group_id=group) as consumer:
        _wait_sync(consumer)
        print("ready", flush=True)
        told_to_go.wait()
        records, first_s, last_s = 0, 0.0, time.monotonic()
        while time.monotonic() - last_s < SILENCE_S:
            batch = consumer.poll_arrow(timeout_ms=500)
            if batch is not None:
                last_s = time.monotonic()
                first_s = first_s or last_s
                records += batch.num_rows
                if batch.column("delivery_count").to_numpy().max() > 1:
                    sys.exit("a record was delivered twice")
    return {"records": records, "first_s": first_s, "last_s": last_s}


def _wait_for_go(told: threading.Event) -> None:
    sys.stdin.readline()
    told.set()


def _wait_sync(consumer: ShareConsumer) -> None:
    begun_s = time.monotonic()
    while not consumer.metrics()[FETCHES]:
        if consumer.poll(timeout_ms=50):
            sys.exit("records came before they were written")
        _check_time(begun_s)


async def acknowledge(bootstrap: str, topic: str, group: str, count: int) -> dict[str, float]:
    taken_s: list[float] = []
    async with AsyncShareConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        share_acknowledgement_mode="explicit",
        max_poll_records=1,
    ) as consumer:
        await _until_in_group(consumer)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        while len(taken_s) < count:
            for record in await consumer.poll(timeout_ms=5_000):
                consumer.acknowledge(record)
            begun_s = time.perf_counter()
            heard = await consumer.commit()
            if heard:
                taken_s.append(time.perf_counter() - begun_s)
            if any(heard.values()):
                sys.exit(f"an acknowledgement was refused: {heard}")
    taken_s.sort()
    return {
        "records": count,
        "p50_ms": taken_s[count // 2] * 1e3,
        "p99_ms": taken_s[count * 99 // 100] * 1e3,
    }


async def idle(bootstrap: str, topic: str, prefix: str, count: int) -> dict[str, float]:
    consumers = [
        AsyncShareConsumer(topic, bootstrap_servers=bootstrap, group_id=f"{prefix}-{number}") for number in range(count)
    ]

    async def poll(consumer: AsyncShareConsumer) -> None:
        while True:
            if await consumer.poll(timeout_ms=10_000):
                sys.exit("a record came")

    try:
        await asyncio.gather(*(_until_in_group(each) for each in consumers))
        polling = [asyncio.create_task(poll(each)) for each in consumers]
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for task in polling:
            if task.done():
                task.result()
            task.cancel()
        await asyncio.wait(polling)
    finally:
        await asyncio.gather(*(each.close() for each in consumers), return_exceptions=True)
    return {"records": 0}


async def _until_in_group(consumer: AsyncShareConsumer) -> None:
    begun_s = time.monotonic()
    while not consumer.metrics()[FETCHES]:
        if await consumer.poll(timeout_ms=50):
            sys.exit("records came before they were written")
        _check_time(begun_s)


def _check_time(begun_s: float) -> None:
    if time.monotonic() - begun_s > TIMEOUT_S:
        sys.exit(f"no partition after {TIMEOUT_S:.0f} s")


def main() -> None:
    kind, bootstrap, topic, group, count = sys.argv[1:]
    try:
        if kind == "read":
            done = read(bootstrap, topic, group, int(count))
        else:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                work = acknowledge if kind == "acknowledge" else idle
                done = runner.run(work(bootstrap, topic, group, int(count)))
    except ClientError as error:
        sys.exit(f"a member failed: {error}")
    print(json.dumps(done))


if __name__ == "__main__":
    main()

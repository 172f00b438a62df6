"""How long a consumer takes from its making to its first record, time after time in one process.

    python -m benchmarks.groups.first_record CLIENT PROTOCOL BOOTSTRAP TOPIC GROUP COUNT     prints seconds, one a line

Every time it is a new consumer in a group that nobody has seen before. Imports and the first consumer, which does not count, are
done before; so what is timed is the client's way into a group, and the broker's part in it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

TIMEOUT_S = 30.0
ERRORS: list[str] = []


def tidelog(protocol: str, bootstrap: str, topic: str, group_id: str) -> float:
    from tidelog import Consumer

    begun_s = time.perf_counter()
    with Consumer(
        bootstrap_servers=bootstrap, group_id=group_id, group_protocol=protocol, auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe([topic])
        while not consumer.poll(timeout_ms=1_000):
            _check_time(begun_s)
        return time.perf_counter() - begun_s


def librdkafka(protocol: str, bootstrap: str, topic: str, group_id: str) -> float:
    import confluent_kafka

    begun_s = time.perf_counter()
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "error_cb": lambda error: ERRORS.append(str(error)),
        }
    )
    consumer.subscribe([topic])
    while (message := consumer.poll(1.0)) is None:
        _check_time(begun_s)
    taken_s = time.perf_counter() - begun_s
    if (error := message.error()) is not None:
        ERRORS.append(str(error))
    consumer.close()
    return taken_s


CLIENTS: dict[str, Callable[[str, str, str, str], float]] = {"tidelog": tidelog, "librdkafka": librdkafka}


def _check_time(begun_s: float) -> None:
    if time.perf_counter() - begun_s > TIMEOUT_S:
        sys.exit(f"no record after {TIMEOUT_S:.0f} s")


def main() -> None:
    client, protocol, bootstrap, topic, group_id, count = sys.argv[1:]
    taken_s = [CLIENTS[client](protocol, bootstrap, topic, f"{group_id}-{each}") for each in range(int(count) + 1)]
    if ERRORS:
        sys.exit(f"{client} met an error: {ERRORS[0]}")
    for each in taken_s[1:]:
        print(each)


if __name__ == "__main__":
    main()

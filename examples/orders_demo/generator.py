"""The shop: writes the events of many orders to the topic, at their pace, and to a file what it wrote.

    python -m examples.orders_demo.generator BOOTSTRAP FILE [--orders N] [--minutes M] [--seed S] [--rest]

`plan` makes every event from the seed alone. Some are late (the shop's line was down: what follows in that order is late too),
some are sent twice, and some records are no events at all. In the end an order is placed and paid in each partition, so much
later that every minute before it is over even for those who wait for late events; the minute of these orders never is.

The file has one line for each record, in the order of sending, with what the generator knows about it: whatever others make of
the topic can be compared with that.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from heapq import merge
from pathlib import Path
from random import Random
from typing import Any

from examples.orders_demo.shop import (
    ALLOWED_LATENESS_MS,
    MINUTE_MS,
    ORDERS,
    PARTITIONS,
    PRODUCTS,
    SPEED,
    STATES,
    UNACKNOWLEDGED_MS_MAX,
)
from tidelog import Producer
from tidelog.client.errors import ClientError

# 1 June 2026, 9:00 UTC.
OPENING_MS = 1_780_304_400_000

# After every window, its watermark and the longest wait for a payment.
CLOSING_AFTER_MS = 60 * MINUTE_MS

LATE_SHARE = 0.03
TOO_LATE_SHARE = 0.005
DUPLICATE_SHARE = 0.02
BROKEN_SHARE = 0.01

DELIVERY_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Sent:
    """One record, and what is known about it."""

    sent_ms: int
    """By the shop's clock; the record's timestamp."""
    order: str
    state: str
    at_ms: int
    kind: str
    """event, duplicate, broken or closing."""
    value: str
    """The bytes, each as the character of that number."""
    product: str = ""
    cents: int = 0
    partition: int | None = None

    @property
    def is_late(self) -> bool:
        return self.sent_ms - self.at_ms > ALLOWED_LATENESS_MS


def plan(seed: int, orders: int, minutes: int) -> list[Sent]:
    """Every record of the stream, in the order of sending. The same arguments give the same records."""
    random = Random(seed)
    placed_at = sorted(OPENING_MS + random.randrange(minutes * MINUTE_MS) for _ in range(orders))
    stories = [list(_story(random, f"order-{number:05}", at_ms)) for number, at_ms in enumerate(placed_at)]
    stream = list(merge(*stories, key=lambda sent: sent.sent_ms))
    closing_ms = stream[-1].sent_ms + CLOSING_AFTER_MS if stream else OPENING_MS
    return stream + [sent for partition in range(PARTITIONS) for sent in _closing(partition, closing_ms)]


def _story(random: Random, order: str, placed_ms: int) -> Iterator[Sent]:
    """The records of one order, each sent after the one before."""
    product = random.choice(list(PRODUCTS))
    cents = PRODUCTS[product] * random.randint(1, 5)
    details: dict[str, dict[str, Any]] = {"placed": {"product": product, "cents": cents}, "paid": {"cents": cents}}
    at_ms, sent_ms = placed_ms, placed_ms
    records: list[Sent] = []
    for state in STATES:
        sent_ms = max(at_ms + _delay_ms(random), sent_ms + 1)
        event = {"order": order, "state": state, "at_ms": at_ms, **details.get(state, {})}
        sent = Sent(sent_ms, order, state, at_ms, "event", json.dumps(event), product, cents)
        records.append(sent)
        if random.random() < DUPLICATE_SHARE:
            again_ms = sent_ms + random.randint(1, MINUTE_MS)
            records.append(Sent(again_ms, order, state, at_ms, "duplicate", sent.value, product, cents))
        if random.random() < BROKEN_SHARE:
            records.append(Sent(sent_ms + 1, order, "", at_ms, "broken", _broken(random, event)))
        at_ms += random.randint(20_000, 120_000)
    yield from sorted(records, key=lambda each: each.sent_ms)


def _delay_ms(random: Random) -> int:
    """From what happens to the word of it."""
    chance = random.random()
    if chance < TOO_LATE_SHARE:
        return ALLOWED_LATENESS_MS + random.randint(MINUTE_MS, 4 * MINUTE_MS)
    if chance < TOO_LATE_SHARE + LATE_SHARE:
        return random.randint(ALLOWED_LATENESS_MS // 4, ALLOWED_LATENESS_MS - 1_000)
    return random.randint(0, 1_000)


def _broken(random: Random, event: dict[str, Any]) -> str:
    """Text that is no event: cut off, no text at all, without its state, or in a state that there is not."""
    text = json.dumps(event)
    without_state = json.dumps({name: value for name, value in event.items() if name != "state"})
    lost = json.dumps(event | {"state": "lost"})
    return random.choice([text[: len(text) // 2], "\xff\xfe\x00" + text, without_state, lost])


def _closing(partition: int, at_ms: int) -> Iterator[Sent]:
    order, product = f"closing-{partition}", next(iter(PRODUCTS))
    for state, details in (("placed", {"product": product, "cents": 0}), ("paid", {"cents": 0})):
        event = {"order": order, "state": state, "at_ms": at_ms, **details}
        yield Sent(at_ms, order, state, at_ms, "closing", json.dumps(event), product, 0, partition)


def write(
    bootstrap: str, file: Path, stream: list[Sent], speed: float = SPEED, midday: Callable[[], object] | None = None
) -> None:
    """Send the stream at its pace, and write it to the file. On return everything is acknowledged; ClientError where not.

    In the middle the clock stands still for as long as `midday` takes.
    """
    waiting = deque[tuple[int, Any]]()
    began, first_ms = time.monotonic(), stream[0].sent_ms
    with Producer(bootstrap_servers=bootstrap, linger_ms=50) as producer, file.open("w") as written:
        for number, sent in enumerate(stream):
            if midday is not None and number == len(stream) // 2:
                producer.flush()
                stopped = time.monotonic()
                midday()
                began += time.monotonic() - stopped
            if sent.kind != "closing":
                # The shop is closed long before the closing events, and nobody waits for them.
                time.sleep(max(0.0, began + (sent.sent_ms - first_ms) / 1000 / speed - time.monotonic()))
            while waiting and waiting[0][0] < sent.sent_ms - UNACKNOWLEDGED_MS_MAX:
                waiting.popleft()[1].result(DELIVERY_TIMEOUT_S)
            delivery = producer.send(
                ORDERS,
                sent.value.encode("latin-1"),
                key=sent.order.encode(),
                partition=sent.partition,
                timestamp_ms=sent.sent_ms,
            )
            waiting.append((sent.sent_ms, delivery))
            written.write(json.dumps(asdict(sent)) + "\n")
        for _sent_ms, delivery in waiting:
            delivery.result(DELIVERY_TIMEOUT_S)


def read_file(file: Path) -> list[Sent]:
    """What was written, as the generator noted it."""
    with file.open() as lines:
        return [Sent(**json.loads(line)) for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the orders of a shop to a topic.")
    parser.add_argument("bootstrap")
    parser.add_argument("file", type=Path)
    parser.add_argument("--orders", type=int, default=3000)
    parser.add_argument("--minutes", type=int, default=40, help="of the shop's clock")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rest", action="store_true", help="in the middle, until there is a line of input")
    given = parser.parse_args()
    stream = plan(given.seed, given.orders, given.minutes)
    try:
        write(given.bootstrap, given.file, stream, midday=sys.stdin.readline if given.rest else None)
    except ClientError as error:
        sys.exit(f"an event could not be written: {error}")


if __name__ == "__main__":
    main()

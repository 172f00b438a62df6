"""Tells customers how their orders do: a plain consumer, one of several members of a group.

    python -m examples.orders_demo.notifications BOOTSTRAP NAME

It reads `orders` and writes `notifications`: for each state of each order one, in order, however often the event was sent and
whoever reads it. What it writes and how far it has read are one transaction. Which states a customer has been told is looked up
in its own output, when partitions come to it: the output has as many partitions as the input, and the same keys.

SIGTERM has it finish what it is at, and leave the group.
"""

from __future__ import annotations

import json
import signal
import sys
from collections import defaultdict
from collections.abc import Iterable

from examples.orders_demo.shop import NOTIFICATIONS, NOTIFICATIONS_GROUP, ORDERS, STATES
from tidelog import Consumer, Producer
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import TransactionAbortableError

POLL_MS = 200
FETCH_BYTES_MIN = 50_000
FETCH_WAIT_MS_MAX = 300
TEXTS = {
    "placed": "we have your order",
    "paid": "thank you for your payment",
    "shipped": "it is on its way",
    "delivered": "enjoy it",
}


class Told:
    """The last state that the customer of each order has been told, partition by partition."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._ranks: dict[int, dict[str, int]] = defaultdict(dict)

    def restore(self, partitions: Iterable[TopicPartition]) -> None:
        """Read the output of partitions to its end, as whoever had them before has left it."""
        mine = [(NOTIFICATIONS, each.partition) for each in partitions]
        with Consumer(
            bootstrap_servers=self._bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign(mine)
            ends = consumer.end_offsets(mine)
            for _topic, partition in mine:
                self._ranks[partition] = {}
            while any(consumer.position(partition) < end for partition, end in ends.items()):
                for record in consumer.poll(timeout_ms=POLL_MS):
                    self._ranks[record.partition][record.key.decode()] = STATES.index(json.loads(record.value)["state"])

    def is_news(self, partition: int, order: str, state: str) -> bool:
        """Whether the customer does not know it yet. From now on it counts as told."""
        rank, ranks = STATES.index(state), self._ranks[partition]
        if rank <= ranks.get(order, -1):
            return False
        ranks[order] = rank
        return True


def event_of(value: bytes | None) -> tuple[str, str] | None:
    """Order and state; None where the record is not about an order's state."""
    try:
        event = json.loads(value or b"")
        order, state = event["order"], event["state"]
    except (ValueError, TypeError, KeyError):
        return None
    return (order, state) if isinstance(order, str) and state in STATES else None


class Member:
    """One member of the group."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._is_asked_to_leave = False
        self._told = Told(bootstrap)
        self._producer = Producer(bootstrap_servers=bootstrap, transactional_id=f"notifications.{name}")
        self._consumer = Consumer(
            bootstrap_servers=bootstrap,
            group_id=NOTIFICATIONS_GROUP,
            group_protocol="consumer",
            client_id=name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            # A customer can wait for so long, and a transaction costs as much for one notification as for a hundred.
            fetch_min_bytes=FETCH_BYTES_MIN,
            fetch_max_wait_ms=FETCH_WAIT_MS_MAX,
        )

    def leave(self, _number: int, _frame: object) -> None:
        self._is_asked_to_leave = True

    def run(self) -> None:
        with self._producer, self._consumer:
            self._producer.init_transactions()
            self._consumer.subscribe([ORDERS], on_assigned=self._told.restore)
            while not self._is_asked_to_leave:
                self._step()

    def _step(self) -> None:
        records = self._consumer.poll(timeout_ms=POLL_MS)
        if not records:
            return
        try:
            with self._producer.transaction():
                for record in records:
                    event = event_of(record.value)
                    if event is not None and self._told.is_news(record.partition, *event):
                        order, state = event
                        text = {"order": order, "state": state, "text": TEXTS[state]}
                        self._producer.send(
                            NOTIFICATIONS, json.dumps(text).encode(), order.encode(), partition=record.partition
                        )
                self._producer.send_offsets_to_transaction(
                    self._consumer.consumed_offsets(), self._consumer.group_metadata()
                )
        except TransactionAbortableError:
            # Partitions have gone to others, or a node was away for too long. What is not committed is read again.
            for partition, committed in self._consumer.committed().items():
                self._consumer.seek(partition, committed.offset if committed else 0)
            self._told.restore(self._consumer.assignment())


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: python -m examples.orders_demo.notifications BOOTSTRAP NAME")
    member = Member(*sys.argv[1:])
    signal.signal(signal.SIGTERM, member.leave)
    member.run()


if __name__ == "__main__":
    main()

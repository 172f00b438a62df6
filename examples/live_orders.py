"""Run a node, stream orders through it, kill it in the middle, start it again, and account for every order.

    python examples/live_orders.py [DIRECTORY]

The node is a process: `tidelog broker`. The clients are not ours: librdkafka writes every state of every order (placed, paid,
shipped, delivered) with the order as the key, and follows the stream live; kafka-python reads all of it back in the end. The node
is killed with SIGKILL once half of the events are acknowledged, and started again on the same directory, while the clients go on.
Then: nothing acknowledged is lost, nothing stands twice, the states of each order are in their order, both readers saw the same,
the node stops cleanly, and `tidelog verify` finds every file consistent.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # it does export it
from kafka import KafkaConsumer, TopicPartition as AuditedPartition

TIDELOG = Path(sys.executable).with_name("tidelog")
TOPIC = "orders"
PARTITIONS = 3
ORDERS = 5_000
STATES = (b"placed", b"paid", b"shipped", b"delivered")
EVENTS = ORDERS * len(STATES)
# Orders that are under way at the same time: the states of one are spread over the stream.
UNDER_WAY = 200
DEADLINE_S = 120.0

# The clients would tell of every attempt to reach the node while it is dead.
QUIET = {"log_level": 0}

Stories = dict[bytes, list[bytes]]


class Node:
    """A `tidelog broker` on one directory and port, which can be killed and started again."""

    def __init__(self, directory: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free, socket.create_server(("127.0.0.1", 0)) as also_free:
            port, controller_port = free.getsockname()[1], also_free.getsockname()[1]
        self.bootstrap = f"127.0.0.1:{port}"
        settings = {
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": directory,
        }
        self._process: subprocess.Popen[str] | None = None
        self._command = [str(TIDELOG), "broker", "--log-level", "warning"]
        for key, value in settings.items():
            self._command += ["--set", f"{key}={value}"]

    def start(self) -> float:
        """Start it. How many seconds it took until it served."""
        began = time.monotonic()
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        if not self._process.stdout.readline().startswith("ready"):
            sys.exit("the node did not start; it says above why")
        return time.monotonic() - began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.end(signal.SIGKILL)

    def end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        with self._process:
            return self._process.wait()


class Writer:
    """Sends every state of every order, and knows what was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged = 0
        self.failed: list[KafkaError] = []
        self.half_done = threading.Event()
        settings = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 5,
        }
        self._producer = Producer({**QUIET, **settings, "message.timeout.ms": int(DEADLINE_S * 1000)})
        self._thread = threading.Thread(target=self._write, name="writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._thread.join(DEADLINE_S)
        if self.failed or self.acknowledged != EVENTS:
            sys.exit(f"{self.acknowledged} of {EVENTS} events were acknowledged; first error: {self.failed[:1]}")

    def _write(self) -> None:
        for first in range(0, ORDERS, UNDER_WAY):
            for state in STATES:
                for order in range(first, min(first + UNDER_WAY, ORDERS)):
                    self._producer.produce(TOPIC, key=b"order-%d" % order, value=state, on_delivery=self._delivered)
                # A stream, not a burst: it is still on its way when the node dies.
                self._producer.poll(0.005)
        self._producer.flush(DEADLINE_S)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.failed.append(error)
            return
        self.acknowledged += 1
        if self.acknowledged == EVENTS // 2:
            self.half_done.set()


def follow(bootstrap: str, told: dict[str, int]) -> Stories:
    """Read the stream live, through the death of the node, until every event was seen."""
    consumer = Consumer({**QUIET, "bootstrap.servers": bootstrap, "group.id": "demo", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    stories: Stories = defaultdict(list)
    deadline = time.monotonic() + DEADLINE_S
    while told["seen"] < EVENTS and time.monotonic() < deadline:
        for message in consumer.consume(1000, timeout=0.2):
            key, value = message.key(), message.value()
            if message.error() is None and key is not None and value is not None:
                stories[key].append(value)
                told["seen"] += 1
    consumer.close()
    return stories


def audit(bootstrap: str) -> Stories:
    """Read everything that the topic holds, with another client."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False)
    partitions = [AuditedPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    ends = consumer.end_offsets(partitions)
    stories: Stories = defaultdict(list)
    deadline = time.monotonic() + DEADLINE_S
    while any(consumer.position(each) < ends[each] for each in partitions) and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=1000).values():
            for record in records:
                stories[record.key].append(record.value)
    consumer.close()
    return stories


def check(stories: Stories, reader: str) -> None:
    wrong = [key for key, states in stories.items() if tuple(states) != STATES]
    if wrong:
        sys.exit(f"{reader}: {wrong[0].decode()} and {len(wrong) - 1} more are not whole: {stories[wrong[0]]}")
    missing = {b"order-%d" % order for order in range(ORDERS)} - set(stories)
    if missing or len(stories) != ORDERS:
        sys.exit(f"{reader}: {len(missing)} orders are missing of {ORDERS}")


def run(node: Node, directory: str) -> None:
    print(f"a node serves at {node.bootstrap}, {node.start():.2f} s after its start with an empty directory")
    admin = AdminClient({**QUIET, "bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(DEADLINE_S)
    writer, told = Writer(node.bootstrap), {"seen": 0}
    followed: list[Stories] = []
    follower = threading.Thread(
        target=lambda: followed.append(follow(node.bootstrap, told)), name="follower", daemon=True
    )
    follower.start()
    writer.start()
    if not writer.half_done.wait(DEADLINE_S):
        sys.exit("the orders did not get through")
    node.end(signal.SIGKILL)
    print(
        f"killed the node with {writer.acknowledged} of {EVENTS} events acknowledged and {told['seen']} seen by the reader"
    )
    print(f"the node serves again {node.start():.2f} s after its start, everything recovered")
    writer.finish()
    follower.join(DEADLINE_S)
    if not followed:
        sys.exit(f"the reader has seen only {told['seen']} of {EVENTS} events")
    check(followed[0], "librdkafka")
    print(f"librdkafka wrote and read {EVENTS} events live, through the kill: each order whole, once and in order")
    check(audit(node.bootstrap), "kafka-python")
    print("kafka-python reads the same back from the beginning")
    if node.end(signal.SIGTERM) != 0:
        sys.exit("the node did not stop cleanly")
    subprocess.run([str(TIDELOG), "verify", directory], check=True)
    print(f"demo passed: every one of {ORDERS} orders is accounted for")


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        directory = sys.argv[1] if len(sys.argv) > 1 else f"{temporary}/data"
        with Node(directory) as node:
            run(node, directory)


if __name__ == "__main__":
    main()

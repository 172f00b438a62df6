"""Stream orders through a node, crash a member of each group that reads them, kill the node, and account for every order.

    python examples/live_orders.py [DIRECTORY] [--orders N]

The node is a process: `tidelog broker`. Two producers write every state of every order (placed, paid, shipped, delivered), with
the order as the key: librdkafka one half, `tidelog.Producer` the other. Two groups read all of it, each with members of
librdkafka and of `tidelog.Consumer` in processes of their own (order_reader.py): `billing` by the classic protocol, `shipping` by
the new one. While records flow, a member of each group is killed and another one joins, and the node is killed with SIGKILL and
started again.

At the same time two processes write an invoice for each order that is delivered, in transactions with the offsets of the orders
that they have read (order_biller.py): one of librdkafka, one of `tidelog`. One of them is killed too, in the middle.

Then: nothing acknowledged is lost and nothing stands twice (kafka-python reads it all back), each group has seen each state of
each order, nothing that a group had committed was read again, the lag of both groups is zero, there is exactly one invoice for
each order, everybody leaves, the node stops cleanly, and `tidelog verify` finds every file consistent. If any of it is not so,
one sentence says what, with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import confluent_kafka
from kafka import KafkaConsumer, TopicPartition

import tidelog
from tidelog.client.admin import NewTopic

TIDELOG = Path(sys.executable).with_name("tidelog")
READER = Path(__file__).with_name("order_reader.py")
BILLER = Path(__file__).with_name("order_biller.py")
TOPIC = "orders"
INVOICES = "invoices"
PARTITIONS = 6
STATES = ("placed", "paid", "shipped", "delivered")
# How long the stream takes, were nothing to happen to the node.
STREAM_S = 5.0
DEADLINE_S = 60.0

# A crash is noticed within seconds, and no member waits for others. One node cannot keep three replicas.
SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}

Stories = dict[str, list[str]]
"""The states of each order, as they came."""


def until(condition: Callable[[], bool], what_is_wrong: Callable[[], str]) -> None:
    """Wait for something that others do; end the program with a sentence where it does not come."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(what_is_wrong())
        time.sleep(0.02)


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
            **SETTINGS,
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


class Writers:
    """Both producers, each with its half of the orders; knows what was acknowledged."""

    def __init__(self, bootstrap: str, orders: int) -> None:
        self.events = orders * len(STATES)
        self.failed: list[object] = []
        self._acknowledged = {"confluent": 0, "tidelog": 0}
        self._orders = orders
        # Orders that are under way at the same time: the states of one are spread over the stream.
        self._under_way = max(1, orders // 25)
        self._bootstrap = bootstrap
        self._threads = [
            threading.Thread(target=work, name=f"writer of {work.__name__}", daemon=True)
            for work in (self._write_with_confluent, self._write_with_tidelog)
        ]

    @property
    def acknowledged(self) -> int:
        return sum(self._acknowledged.values())

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wait_for(self, share: float) -> None:
        """Until this share of all events is acknowledged."""
        until(
            lambda: bool(self.failed) or self.acknowledged >= self.events * share,
            lambda: f"only {self.acknowledged} of {self.events} events were acknowledged",
        )
        if self.failed:
            sys.exit(f"an event could not be written: {self.failed[0]}")

    def _write_with_confluent(self) -> None:
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": self._bootstrap,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "message.timeout.ms": int(DEADLINE_S * 1000),
            "reconnect.backoff.max.ms": 500,
            # It would tell of every attempt to reach the node while it is dead.
            "log_level": 0,
        }
        producer = confluent_kafka.Producer(settings)
        delivered = self._told_of("confluent")
        for key, state in self._events(0):
            producer.produce(TOPIC, key=key, value=state, on_delivery=delivered)
            producer.poll(0)
        producer.flush(DEADLINE_S)

    def _write_with_tidelog(self) -> None:
        delivered = self._told_of("tidelog")
        with tidelog.Producer(
            bootstrap_servers=self._bootstrap,
            compression_type="lz4",
            linger_ms=5,
            delivery_timeout_ms=int(DEADLINE_S * 1000),
        ) as producer:
            for key, state in self._events(1):
                producer.send(TOPIC, state, key, on_delivery=delivered)

    def _events(self, first: int) -> Iterable[tuple[bytes, bytes]]:
        """Every state of every second order, at a pace: a stream, which is still on its way when things go wrong."""
        mine = range(first, self._orders, 2)
        step_s = STREAM_S * self._under_way / (len(mine) * len(STATES))
        for begin in range(0, len(mine), self._under_way):
            for state in STATES:
                for order in mine[begin : begin + self._under_way]:
                    yield b"order-%d" % order, state.encode()
                time.sleep(step_s)

    def _told_of(self, library: str) -> Callable[[object, object], None]:
        def delivered(error: object, _where: object) -> None:
            if error is not None:
                self.failed.append(error)
            else:
                self._acknowledged[library] += 1

        return delivered


class Reader:
    """A member of a group: a process of order_reader.py, which tells its group what it does."""

    def __init__(self, group: Group, library: str) -> None:
        self.library = library
        self.owns: list[int] = []
        self._group = group
        self._process = subprocess.Popen(
            [sys.executable, READER, library, group.protocol, group.bootstrap, group.name, TOPIC],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen, name=f"{group.name} {library}", daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                # The last words of one that was killed.
                break
            told = json.loads(line)
            self.owns = told.get("owns", self.owns)
            self._group.note_read(told.get("read", ()))
            self._group.note_committed(told.get("committed", {}))

    def end(self, number: signal.Signals) -> int:
        self._process.send_signal(number)
        with self._process:
            code = self._process.wait(DEADLINE_S)
            self._listener.join(DEADLINE_S)
        self.owns = []
        return code

    def __str__(self) -> str:
        return f"{self.library} {self.owns}"


class Group:
    """The members of one group, and all that they have read and committed."""

    def __init__(self, name: str, protocol: str, bootstrap: str) -> None:
        self.name = name
        self.protocol = protocol
        self.bootstrap = bootstrap
        self.members: list[Reader] = []
        self.read: dict[tuple[int, int], tuple[str, str]] = {}
        self.read_again = 0
        self.committed: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        self._lost: list[str] = []
        self._lock = threading.Lock()

    def join(self, library: str) -> Reader:
        self.members.append(Reader(self, library))
        return self.members[-1]

    def crash(self) -> Reader:
        """Kill the member that came first."""
        member = self.members.pop(0)
        member.end(signal.SIGKILL)
        return member

    def note_read(self, records: Iterable[tuple[int, int, str, str]]) -> None:
        with self._lock:
            for partition, offset, order, state in records:
                # What is read after a crash begins where the group stood, never before.
                if offset < self.committed[partition]:
                    self._lost.append(
                        f"{TOPIC}-{partition} at {offset}, though {self.committed[partition]} was committed"
                    )
                self.read_again += (partition, offset) in self.read
                self.read[partition, offset] = (order, state)

    def note_committed(self, offsets: dict[str, int]) -> None:
        with self._lock:
            for partition, offset in offsets.items():
                self.committed[int(partition)] = max(offset, self.committed[int(partition)])

    def wait_until_shared(self) -> None:
        """Until each member has partitions, and each partition one owner."""

        def is_shared() -> bool:
            owned = [partition for member in self.members for partition in member.owns]
            return sorted(owned) == list(range(PARTITIONS)) and all(member.owns for member in self.members)

        until(is_shared, lambda: f"{self.name} does not share its partitions: {self}")

    def wait_until_read(self, events: int) -> None:
        until(
            lambda: sum(self.committed.values()) >= events,
            lambda: f"{self.name} has read {len(self.read)} of {events} events and committed {self.committed}",
        )

    def check(self, orders: int) -> None:
        if self._lost:
            sys.exit(f"{self.name} read again what it had committed: {self._lost[0]}")
        stories: Stories = defaultdict(list)
        for _position, (order, state) in sorted(self.read.items()):
            stories[order].append(state)
        check(stories, orders, self.name)

    def end(self) -> None:
        while self.members:
            member = self.members.pop()
            if member.end(signal.SIGTERM) != 0:
                sys.exit(f"a member of {self.name} ({member.library}) did not leave in peace")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        for member in self.members:
            member.end(signal.SIGKILL)

    def __str__(self) -> str:
        return ", ".join(map(str, self.members))


class Billers:
    """The processes that write invoices, by their names."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, library: str, name: str, *, crash_after: int | None = None) -> None:
        command = [sys.executable, str(BILLER), library, self._bootstrap, name, TOPIC, INVOICES]
        self._processes[name] = subprocess.Popen(command + ([] if crash_after is None else [str(crash_after)]))

    def wait_for_crash(self, name: str) -> None:
        with self._processes.pop(name) as process:
            if process.wait(DEADLINE_S) != -signal.SIGKILL:
                sys.exit(f"{name} ended otherwise than by its crash")

    def end(self) -> None:
        for name in list(self._processes):
            if self._end(name, signal.SIGTERM) != 0:
                sys.exit(f"{name} did not end in peace")

    def _end(self, name: str, number: signal.Signals) -> int:
        process = self._processes.pop(name)
        process.send_signal(number)
        with process:
            return process.wait(DEADLINE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        for name in list(self._processes):
            self._end(name, signal.SIGKILL)


class Invoices:
    """Reads the invoices, as one who sees what is committed or as one who sees everything."""

    def __init__(self, bootstrap: str, isolation_level: str) -> None:
        self.read: dict[str, int] = defaultdict(int)
        self._consumer = tidelog.Consumer(
            bootstrap_servers=bootstrap, isolation_level=isolation_level, auto_offset_reset="earliest"
        )
        self._consumer.assign([(INVOICES, partition) for partition in range(PARTITIONS)])

    def __len__(self) -> int:
        return sum(self.read.values())

    def wait_for(self, orders: int) -> None:
        until(lambda: self._read_on() >= orders, lambda: f"there are invoices for {len(self.read)} of {orders} orders")

    def _read_on(self) -> int:
        for record in self._consumer.poll(timeout_ms=100):
            self.read[record.key.decode()] += 1
        return len(self.read)

    def read_to_end(self) -> None:
        partitions = self._consumer.assignment()
        ends = self._consumer.end_offsets(partitions)
        until(
            lambda: self._read_on() >= 0 and all(self._consumer.position(each) >= ends[each] for each in partitions),
            lambda: "the invoices cannot be read to their end",
        )
        self._consumer.close()


def check_invoices(bootstrap: str, orders: int) -> None:
    committed, all_written = Invoices(bootstrap, "read_committed"), Invoices(bootstrap, "read_uncommitted")
    committed.wait_for(orders)
    committed.read_to_end()
    all_written.read_to_end()
    twice = [order for order, count in committed.read.items() if count != 1]
    if twice or len(committed) != orders:
        sys.exit(f"there are {len(committed)} invoices for {orders} orders: {twice[:3]} have more than one")
    print(f"each of {orders} orders has one invoice", end="; ")
    print(f"{len(all_written) - len(committed)} more stand in transactions that were aborted, which nobody sees")


def audit(bootstrap: str) -> Stories:
    """Read everything that the topic holds, with a client that has had no part so far."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False)
    partitions = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    ends = consumer.end_offsets(partitions)
    stories: Stories = defaultdict(list)
    deadline = time.monotonic() + DEADLINE_S
    while any(consumer.position(each) < ends[each] for each in partitions) and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=1000).values():
            for record in records:
                stories[record.key.decode()].append(record.value.decode())
    consumer.close()
    return stories


def check(stories: Stories, orders: int, reader: str) -> None:
    missing = {f"order-{order}" for order in range(orders)} - set(stories)
    if missing or len(stories) != orders:
        sys.exit(f"{reader}: {len(missing)} orders are missing of {orders}")
    wrong = [order for order, states in stories.items() if tuple(states) != STATES]
    if wrong:
        sys.exit(f"{reader}: {wrong[0]} and {len(wrong) - 1} more are not whole: {stories[wrong[0]]}")


def check_lag(group: Group, events: int) -> None:
    """What `tidelog groups lag` says of a group, against what its members say."""
    command = [str(TIDELOG), "groups", "lag", group.name, "--bootstrap", group.bootstrap, "--json"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [json.loads(line) for line in said.splitlines()]
    if {row["partition"]: row["committed"] for row in rows} != group.committed:
        sys.exit(f"{group.name} has committed {group.committed}, and `tidelog groups lag` says {said}")
    if sum(row["committed"] for row in rows) != events or any(row["lag"] for row in rows):
        sys.exit(f"{group.name} has not come to the end of {events} events: {said}")


def run(node: Node, directory: str, orders: int, stack: ExitStack) -> None:
    began = time.monotonic()
    print(f"a node serves at {node.bootstrap}, {node.start():.2f} s after its start with an empty directory")
    with tidelog.Admin(bootstrap_servers=node.bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS), NewTopic(INVOICES, PARTITIONS)])
    billing = stack.enter_context(Group("billing", "classic", node.bootstrap))
    shipping = stack.enter_context(Group("shipping", "consumer", node.bootstrap))
    groups = (billing, shipping)
    for group in groups:
        for library in ("tidelog", "confluent"):
            group.join(library)
    for group in groups:
        group.wait_until_shared()
        print(f"{group.name} ({group.protocol} protocol) shares {PARTITIONS} partitions: {group}")

    billers = stack.enter_context(Billers(node.bootstrap))
    billers.start("confluent", "biller-1")
    billers.start("tidelog", "biller-2", crash_after=orders // 10)
    writers = Writers(node.bootstrap, orders)
    writers.start()
    writers.wait_for(0.2)
    print(
        f"{billing.crash().library} of billing crashes at {writers.acknowledged} of {writers.events} events;", end=" "
    )
    print(f"{billing.join('confluent').library} joins")
    billers.wait_for_crash("biller-2")
    billers.start("tidelog", "biller-2")
    print(f"one that writes invoices crashes in a transaction at {writers.acknowledged} events; another takes its name")
    writers.wait_for(0.5)
    before = {group.name: dict(group.committed) for group in groups}
    node.end(signal.SIGKILL)
    print(f"the node is killed at {writers.acknowledged} events;", end=" ", flush=True)
    print(f"it serves again {node.start():.2f} s after its start")
    for group in groups:
        check_kept(group, before[group.name])
    print("both groups' committed offsets are where they were")
    writers.wait_for(0.7)
    print(f"{shipping.crash().library} of shipping crashes at {writers.acknowledged} events;", end=" ")
    print(f"{shipping.join('tidelog').library} joins")
    writers.wait_for(1.0)

    for group in groups:
        group.wait_until_shared()
        group.wait_until_read(writers.events)
        check_lag(group, writers.events)
        group.check(orders)
        print(f"{group.name} saw every order whole and in order, its lag is 0: {group}", end="; ")
        print(f"{group.read_again} events came twice, none that was committed")
        group.end()
    check_invoices(node.bootstrap, orders)
    billers.end()
    check(audit(node.bootstrap), orders, "kafka-python")
    print("kafka-python reads each event back once, from the beginning")
    if node.end(signal.SIGTERM) != 0:
        sys.exit("the node did not stop cleanly")
    subprocess.run([str(TIDELOG), "verify", directory], check=True)
    print(f"demo passed: every one of {orders} orders is accounted for, after {time.monotonic() - began:.0f} s")


def check_kept(group: Group, before: dict[int, int]) -> None:
    """The coordinator that was killed has forgotten nothing that it said it had."""
    partitions = [(TOPIC, partition) for partition in before]
    with tidelog.Consumer(bootstrap_servers=group.bootstrap, group_id=group.name) as asking:
        kept = {each.partition: found.offset if found else 0 for each, found in asking.committed(partitions).items()}
    gone = {partition: offset for partition, offset in before.items() if kept[partition] < offset}
    if gone:
        sys.exit(f"{group.name} had committed {gone}, and the node that was killed knows {kept}")


def main() -> None:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    parser = argparse.ArgumentParser(description="Stream orders through a node while things go wrong.")
    parser.add_argument("directory", nargs="?", help="where the node keeps its data; removed at the end if not given")
    parser.add_argument("--orders", type=int, default=5_000)
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        directory = said.directory or f"{temporary}/data"
        run(stack.enter_context(Node(directory)), directory, said.orders, stack)


if __name__ == "__main__":
    main()

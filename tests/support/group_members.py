"""Members of a group in processes of their own, of any client library, to be watched, asked to leave, and killed.

    with MemberProcess("aiokafka", bootstrap, "payments", ["orders"]) as member:
        member.wait_until(lambda: member.assigned == {("orders", 0)}, "the partition is assigned")

Run as a module, it is that process. A member prints one line of JSON for each thing that happens to it: what it is assigned and
what is taken from it, each record, and each commit, which follows every poll that gave records. It leaves the group when its
standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CLIENTS = ("confluent", "aiokafka", "kafka-python", "tidelog")
DEADLINE_S = 60.0
SESSION_MS = 1_500
HEARTBEAT_MS = 100
POLL_MS = 50
LONG_POLL_MS = 10_000

_REPOSITORY = Path(__file__).resolve().parents[2]

Position = tuple[str, int]


class MemberError(Exception):
    """What was waited for did not happen; the message has what did."""


class MemberProcess:
    """A member that reads and commits from the `with` on. At its end it leaves, unless it was killed before.

    `session_ms` and `instance` are what each library calls them; `settings` are the library's own.
    """

    def __init__(
        self,
        client: str,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        *,
        instance: str | None = None,
        session_ms: int = SESSION_MS,
        reset: str = "earliest",
        settings: dict[str, object] | None = None,
    ) -> None:
        said = {
            "client": client,
            "bootstrap": bootstrap,
            "group": group,
            "topics": list(topics),
            "instance": instance,
            "session_ms": session_ms,
            "reset": reset,
            "settings": settings or {},
        }
        self.client = client
        self._arguments = [sys.executable, "-W", "ignore", "-m", "tests.support.group_members", json.dumps(said)]
        self._changed = threading.Condition()
        self.assigned: set[Position] = set()
        self.assignments: list[set[Position]] = []
        """What it had after each change."""
        self.revoked: list[Position] = []
        self.records: list[tuple[str, int, int, str]] = []
        self.committed: dict[Position, int] = {}
        self.member_ids: list[str] = []
        self.errors: list[str] = []

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._arguments,
            cwd=_REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._readers = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None and kind is None:
            self.leave()
        else:
            self.kill()

    def leave(self) -> None:
        """Have it leave the group, and wait for the end of the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise MemberError(f"{self} did not leave within {DEADLINE_S:.0f} s") from None
        self._end_reading()
        if code:
            raise MemberError(f"{self} ended with code {code}")

    def kill(self) -> None:
        """SIGKILL: the member is gone, and the group is not told."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._end_reading()

    def _end_reading(self) -> None:
        for reader in self._readers:
            reader.join(DEADLINE_S)
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    def wait_until(self, condition: Callable[[], bool], what: str, timeout_s: float = DEADLINE_S) -> None:
        """Until the condition holds; it is looked at whenever something happened to this member."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not condition():
                left_s = deadline - time.monotonic()
                if left_s <= 0 or self._process.poll() not in {None, 0}:
                    raise MemberError(f"{self}: waited in vain until {what}")
                self._changed.wait(min(left_s, 0.2))

    @property
    def values(self) -> list[str]:
        """What it has read."""
        return [value for _topic, _partition, _offset, value in self.records]

    def __str__(self) -> str:
        return (
            f"{self.client} with {sorted(self.assigned)}, {len(self.records)} records, committed {self.committed}, "
            f"after {[sorted(each) for each in self.assignments]}, {self.errors[-20:]}"
        )

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            happened = json.loads(line)
            with self._changed:
                self._note(**happened)
                self._changed.notify_all()

    def _note(self, event: str, partitions: list[list[Any]] | None = None, **more: Any) -> None:
        named = [(topic, partition) for topic, partition, *_ in partitions or ()]
        if event == "assigned":
            self.assigned |= set(named)
            self.assignments.append(set(self.assigned))
            if more.get("member_id"):
                self.member_ids.append(more["member_id"])
        elif event == "revoked":
            self.assigned -= set(named)
            self.revoked += named
            self.assignments.append(set(self.assigned))
        elif event == "records":
            self.records += [tuple(each) for each in more["records"]]
        elif event == "committed":
            self.committed.update({(topic, partition): offset for topic, partition, offset in partitions or ()})

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.errors.append(line.rstrip())


def wait_for_all(
    members: Sequence[MemberProcess], condition: Callable[[], bool], what: str, timeout_s: float = DEADLINE_S
) -> None:
    """Until a condition over several members holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise MemberError(f"waited in vain until {what}: {'; '.join(map(str, members))}")
        time.sleep(0.02)


def are_shared(members: Sequence[MemberProcess], positions: Iterable[Position]) -> bool:
    """Whether each of the partitions has one owner among the members, and each member has one."""
    owned = [position for member in members for position in member.assigned]
    return sorted(owned) == sorted(positions) and all(member.assigned for member in members)


# --- the process ----------------------------------------------------------------------------------------------------------


def _say(event: str, **more: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **more}) + "\n")
    sys.stdout.flush()


def _positions(partitions: Iterable[Any]) -> list[tuple[str, int]]:
    return [(each.topic, each.partition) for each in partitions]


def _say_read(rows: list[tuple[str, int, int, str]]) -> None:
    _say("records", records=rows)


def _say_committed(rows: list[tuple[str, int, int, str]]) -> None:
    ends: dict[tuple[str, int], int] = {}
    for topic, partition, offset, _value in rows:
        ends[topic, partition] = max(offset + 1, ends.get((topic, partition), 0))
    _say("committed", partitions=[(topic, partition, end) for (topic, partition), end in ends.items()])


def _confluent(said: dict[str, Any], asked: threading.Event) -> None:
    from confluent_kafka import Consumer, KafkaError, KafkaException

    settings = {
        "bootstrap.servers": said["bootstrap"],
        "group.id": said["group"],
        "enable.auto.commit": False,
        "auto.offset.reset": said["reset"],
        "reconnect.backoff.max.ms": 200,
        "topic.metadata.refresh.interval.ms": 500,
        **({"group.instance.id": said["instance"]} if said["instance"] else {}),
    }
    if said["settings"].get("group.protocol") != "consumer":
        settings |= {
            "session.timeout.ms": said["session_ms"],
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": "range",
        }
    consumer = Consumer(settings | said["settings"])
    consumer.subscribe(
        said["topics"],
        on_assign=lambda each, partitions: _say(
            "assigned", partitions=_positions(partitions), member_id=each.memberid()
        ),
        on_revoke=lambda _, partitions: _say("revoked", partitions=_positions(partitions)),
        on_lost=lambda _, partitions: _say("revoked", partitions=_positions(partitions), is_lost=True),
    )
    while not asked.is_set():
        rows: list[tuple[Any, Any, Any, str]] = []
        for message in consumer.consume(500, POLL_MS / 1000):
            error = message.error()
            if error is None:
                value = (message.value() or b"").decode()
                rows.append((message.topic(), message.partition(), message.offset(), value))
            elif error.code() != KafkaError._PARTITION_EOF:
                sys.stderr.write(f"{error}\n")
        if rows:
            _say_read(rows)
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:
                sys.stderr.write(f"commit: {error}\n")
            else:
                _say_committed(rows)
    consumer.close()


async def _aiokafka(said: dict[str, Any], asked: threading.Event) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import KafkaError

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            _say("assigned", partitions=_positions(assigned), member_id=consumer._coordinator.member_id)

        def on_partitions_revoked(self, revoked: Any) -> None:
            _say("revoked", partitions=_positions(revoked))

    while True:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=said["bootstrap"],
            group_id=said["group"],
            group_instance_id=said["instance"],
            session_timeout_ms=said["session_ms"],
            heartbeat_interval_ms=HEARTBEAT_MS,
            auto_offset_reset=said["reset"],
            enable_auto_commit=False,
            partition_assignment_strategy=[RangePartitionAssignor],
            metadata_max_age_ms=500,
            **said["settings"],
        )
        consumer.subscribe(said["topics"], listener=Listener())
        try:
            await consumer.start()
        except KafkaError as error:
            # The node may be away for a moment; this client does not try again by itself.
            sys.stderr.write(f"{error!r}\n")
            await consumer.stop()
        else:
            break
        if asked.is_set():
            return
    while not asked.is_set():
        try:
            found = await consumer.getmany(timeout_ms=POLL_MS)
            rows = [
                (each.topic, each.partition, each.offset, (each.value or b"").decode())
                for records in found.values()
                for each in records
            ]
            if rows:
                _say_read(rows)
                await consumer.commit()
                _say_committed(rows)
        except KafkaError as error:
            sys.stderr.write(f"{error!r}\n")
    await consumer.stop()


def _kafka_python(said: dict[str, Any], asked: threading.Event) -> None:
    from kafka import KafkaConsumer
    from kafka.consumer.subscription_state import ConsumerRebalanceListener
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import KafkaError

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            _say("assigned", partitions=_positions(assigned), member_id=consumer._coordinator._generation.member_id)

        def on_partitions_revoked(self, revoked: Any) -> None:
            _say("revoked", partitions=_positions(revoked))

    def connect() -> Any:
        try:
            return KafkaConsumer(
                bootstrap_servers=said["bootstrap"],
                group_id=said["group"],
                group_instance_id=said["instance"],
                session_timeout_ms=said["session_ms"],
                heartbeat_interval_ms=HEARTBEAT_MS,
                auto_offset_reset=said["reset"],
                enable_auto_commit=False,
                partition_assignment_strategy=[RangePartitionAssignor],
                metadata_max_age_ms=500,
                reconnect_backoff_max_ms=200,
                **said["settings"],
            )
        except KafkaError as error:
            sys.stderr.write(f"{error!r}\n")
            return None

    consumer = connect()
    while consumer is None:
        if asked.is_set():
            return
        consumer = connect()
    consumer.subscribe(topics=said["topics"], listener=Listener())
    # kafka-python 3.0 never takes up an assignment that arrives between two of its polls, so each has to outlast a rebalance.
    with suppress(KeyboardInterrupt):
        while not asked.is_set():
            try:
                rows = [
                    (each.topic, each.partition, each.offset, (each.value or b"").decode())
                    for records in consumer.poll(timeout_ms=LONG_POLL_MS).values()
                    for each in records
                ]
                if rows:
                    _say_read(rows)
                    consumer.commit()
                    _say_committed(rows)
            except KafkaError as error:
                sys.stderr.write(f"{error!r}\n")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    consumer.close(autocommit=False)


def _tidelog(said: dict[str, Any], asked: threading.Event) -> None:
    from tidelog import Consumer
    from tidelog.client.errors import ClientError

    class Listener:
        def on_partitions_assigned(self, assigned: Any) -> None:
            _say("assigned", partitions=_positions(assigned), member_id=consumer.group_metadata().member_id)

        def on_partitions_revoked(self, revoked: Any) -> None:
            _say("revoked", partitions=_positions(revoked))

        def on_partitions_lost(self, lost: Any) -> None:
            _say("revoked", partitions=_positions(lost), is_lost=True)

    options: dict[str, Any] = {
        "bootstrap_servers": said["bootstrap"],
        "group_id": said["group"],
        "group_instance_id": said["instance"],
        "auto_offset_reset": said["reset"],
        "enable_auto_commit": False,
        "metadata_max_age_ms": 500,
    }
    if said["settings"].get("group_protocol") != "consumer":
        options |= {
            "session_timeout_ms": said["session_ms"],
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "partition_assignment_strategy": "range",
        }
    consumer = Consumer(**options | said["settings"])
    consumer.subscribe(said["topics"], listener=Listener())
    while not asked.is_set():
        try:
            rows = [
                (each.topic, each.partition, each.offset, (each.value or b"").decode())
                for each in consumer.poll(POLL_MS)
            ]
            if rows:
                _say_read(rows)
                consumer.commit()
                _say_committed(rows)
        except ClientError as error:
            sys.stderr.write(f"{error!r}\n")
    consumer.close()


def _main(said: dict[str, Any]) -> None:
    asked = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        asked.set()
        if said["client"] == "kafka-python":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=listen, daemon=True).start()
    if said["client"] == "confluent":
        _confluent(said, asked)
    elif said["client"] == "tidelog":
        _tidelog(said, asked)
    elif said["client"] == "aiokafka":
        asyncio.run(_aiokafka(said, asked))
    else:
        # Whoever is asked to leave before it has joined, while it loads the library even, just ends.
        with suppress(KeyboardInterrupt):
            _kafka_python(said, asked)


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))

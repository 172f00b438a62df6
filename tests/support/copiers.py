"""Copiers in processes of their own: each reads a topic as a member of a group, and writes what it read to other topics, with how
far it has read, in transactions. To be killed, stopped for a while, and fenced by another one with the same transactional id.

    with CopierProcess("confluent", bootstrap, "copiers", "copier-1", "source", ["target"]) as copier:
        ...

Run as a module, it is that process. About every fourth transaction is aborted on purpose; the records of such a one say so. A
copier ends when its standard input does; one that is fenced ends by itself.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

CLIENTS = ("confluent", "tidelog")
DEADLINE_S = 60.0
ABORTED = "aborted "
FENCED = 3
SESSION_MS = 1_500
HEARTBEAT_MS = 100

_ABORT_ONE_IN = 4
_BATCH_MAX = 50
_POLL_S = 0.1

_REPOSITORY = Path(__file__).resolve().parents[2]


class CopierProcess:
    """A copier that runs from the `with` on, unless it was fenced or killed."""

    def __init__(
        self,
        client: str,
        bootstrap: str,
        group: str,
        transactional_id: str,
        source: str,
        targets: Sequence[str],
        *,
        timeout_ms: int = 3_000,
        seed: int = 0,
    ) -> None:
        said = {
            "client": client,
            "bootstrap": bootstrap,
            "group": group,
            "transactional_id": transactional_id,
            "source": source,
            "targets": list(targets),
            "timeout_ms": timeout_ms,
            "seed": seed,
        }
        self.transactional_id = transactional_id
        self._arguments = [sys.executable, "-W", "ignore", "-m", "tests.support.copiers", json.dumps(said)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._arguments, cwd=_REPOSITORY, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.errors: list[str] = []
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self.is_running:
            self.end()
        else:
            self.kill()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def was_fenced(self) -> bool:
        return self._process.poll() == FENCED

    def stall(self) -> None:
        """It does nothing until `go_on`, and knows nothing of it."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Have it end what it does and leave; AssertionError where it fails instead, or was fenced."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(DEADLINE_S)
        finally:
            self.kill()
        assert code == 0, str(self)

    def kill(self) -> None:
        """SIGKILL: whatever it has open stays open."""
        self._process.kill()
        self._process.wait()
        self._reader.join(DEADLINE_S)
        for stream in (self._process.stdin, self._process.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.errors.append(line)

    def __str__(self) -> str:
        return f"{self.transactional_id}: code {self._process.poll()}: {''.join(self.errors[-20:])}"


# The process


def _copy_with_confluent(said: dict[str, Any], is_over: Callable[[], bool]) -> int:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

    common: dict[str, Any] = {
        "bootstrap.servers": said["bootstrap"],
        "log_level": 0,
        "reconnect.backoff.max.ms": 200,
        # A producer of librdkafka that gives up its only broker waits for its coordinator for ever, also with Apache Kafka.
        "metadata.recovery.strategy": "none",
    }
    random = Random(said["seed"])
    producer = Producer(
        common
        | {
            "transactional.id": said["transactional_id"],
            "transaction.timeout.ms": said["timeout_ms"],
            "message.timeout.ms": said["timeout_ms"],
        }
    )
    consumer = Consumer(
        common
        | {
            "group.id": said["group"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
        }
    )

    def until_done(step: Callable[[], object]) -> None:
        """What may be tried again is."""
        while True:
            try:
                step()
            except KafkaException as failed:
                if not failed.args[0].retriable():
                    raise
            else:
                return

    def rewind() -> None:
        mine = consumer.assignment()
        if mine:
            for each in consumer.committed(mine, DEADLINE_S):
                start = max(each.offset, 0)
                with suppress(KafkaException):
                    # It may have been taken away meanwhile.
                    consumer.seek(TopicPartition(each.topic, each.partition, start))

    def copy(records: list[Any]) -> None:
        is_aborted = random.randrange(_ABORT_ONE_IN) == 0
        producer.begin_transaction()
        try:
            for record in records:
                value = (ABORTED if is_aborted else "") + record.value().decode()
                for target in said["targets"]:
                    producer.produce(target, value, partition=record.partition())
            ends: dict[int, int] = {}
            for record in records:
                ends[record.partition()] = record.offset() + 1
            offsets = [TopicPartition(said["source"], partition, end) for partition, end in ends.items()]
            metadata = consumer.consumer_group_metadata()
            until_done(lambda: producer.send_offsets_to_transaction(offsets, metadata))
            if not is_aborted:
                until_done(producer.commit_transaction)
                return
        except KafkaException as failed:
            if failed.args[0].fatal():
                raise
        until_done(producer.abort_transaction)
        rewind()

    try:
        until_done(lambda: producer.init_transactions(DEADLINE_S))
        consumer.subscribe([said["source"]])
        while not is_over():
            records = [each for each in consumer.consume(_BATCH_MAX, _POLL_S) if each.error() is None]
            if records:
                copy(records)
    except KafkaException as failed:
        sys.stderr.write(f"{failed}\n")
        fencing = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
        is_fenced = failed.args[0].fatal() or failed.args[0].code() in fencing
        return FENCED if is_fenced else 1
    finally:
        consumer.close()
    return 0


def _copy_with_tidelog(said: dict[str, Any], is_over: Callable[[], bool]) -> int:
    import tidelog
    from tidelog.client.errors import (
        ProducerFailedError,
        ProducerFencedError,
        RefusedError,
        TimedOutError,
        TransactionAbortableError,
    )

    random = Random(said["seed"])
    producer = tidelog.Producer(
        bootstrap_servers=said["bootstrap"],
        transactional_id=said["transactional_id"],
        transaction_timeout_ms=said["timeout_ms"],
    )
    consumer = tidelog.Consumer(
        bootstrap_servers=said["bootstrap"],
        group_id=said["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )

    def rewind() -> None:
        with suppress(RefusedError, TimedOutError):
            for partition, committed in consumer.committed().items():
                consumer.seek(partition, 0 if committed is None else committed.offset)

    def copy(records: list[Any]) -> None:
        is_aborted = random.randrange(_ABORT_ONE_IN) == 0
        producer.begin_transaction()
        try:
            ends: dict[tuple[str, int], int] = {}
            for record in records:
                value = (ABORTED.encode() if is_aborted else b"") + record.value
                for target in said["targets"]:
                    producer.send(target, value, partition=record.partition)
                ends[record.topic, record.partition] = record.offset + 1
            producer.send_offsets_to_transaction(ends, consumer.group_metadata())
            if not is_aborted:
                producer.commit_transaction()
                return
        except TransactionAbortableError:
            pass
        producer.abort_transaction()
        rewind()

    try:
        producer.init_transactions()
        consumer.subscribe([said["source"]])
        while not is_over():
            records = consumer.poll(_POLL_S * 1000, _BATCH_MAX)
            if records:
                copy(records)
    except (ProducerFencedError, ProducerFailedError) as failed:
        sys.stderr.write(f"{failed!r}\n")
        return FENCED
    finally:
        consumer.close()
        with suppress(TimedOutError):
            # One that was fenced may have records that nobody takes any more.
            producer.close(0)
    return 0


_COPY = {"confluent": _copy_with_confluent, "tidelog": _copy_with_tidelog}


def _main() -> int:
    said = json.loads(sys.argv[1])
    over = threading.Event()

    def watch() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=watch, daemon=True).start()
    return _COPY[said["client"]](said, over.is_set)


if __name__ == "__main__":
    sys.exit(_main())

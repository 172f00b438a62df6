"""The transactions of a worker's tasks: each attempt writes in one of its own, and leaves its end to the driver.

    attempt = open_attempt(options, identity, run, batch_id)
    attempt.write(batch)
    participant = attempt.hand_over()          # or attempt.abort()

A transaction is opened with an ordinary time-out, the longest that the cluster allows unless told otherwise: what nobody comes
back for ends by itself. Just before a batch is decided its driver takes the time-out away, where the cluster can do that.

The transactional id is made of the numbers of the attempt in its task's context, so that a run has as many ids as it has tasks,
however many batches it writes and however often Spark starts its workers anew:

    partition       the task's
    stage attempt   0: Python's context does not tell it (4.3). Where that id is taken, the number that this attempt has among all
                    of its application, plus 1: no other one has that
    task attempt    counted by Spark within a stage attempt

InitProducerId on an id aborts whatever is open under it. That this is never what a decision counts on:

- Batch N+1 of a run starts only after `commit` of batch N has returned, and that has ended all that batch N has decided. A run
  whose `commit` fails is over, and the next one has other ids.
- Whoever finds a transaction open under its id leaves it alone and takes the other id: an attempt of a retried stage beside one
  of the first; a zombie of batch N that wakes up while batch N+1 is written; a write that is tried again by hand while a
  decision is open; a task whose id an orphan holds, which the driver sweeps.
- Where nothing is open yet, the later of two that have the same id fences the earlier, which fails then: a task attempt failed,
  which Spark tries again or waits for no longer. Neither of the two has written anything by then.

What is left is a zombie that stops between looking and InitProducerId, for the length of a batch, and wakes in the milliseconds
between the decision about the next one and its end: then the query stops and says what is missing (`LostTransactionError`).

A worker has one task at a time. A producer is given up with its task, and its connections are kept for the next one, with the
coordinators of the ids that it has had: an id is looked up once in a worker, by the first task that has it there, and not again
with each batch. That first look-up stays: each id may have another coordinator, and a task knows no id but its own.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from typing import NamedTuple

import pyarrow as pa

from tidelog.client.errors import ClientError, TransactionStateError
from tidelog.client.producer.producer import Producer
from tidelog.spark.client_settings import common_settings
from tidelog.spark.errors import SinkError, UnwritableError
from tidelog.spark.sink.sink_options import SinkOptions
from tidelog.spark.sink.sink_participant import DecidingCluster, Participant, SinkIdentity, attempt_id
from tidelog.spark.sink.sink_task import ClientKey, RowWriting, client_key, producer_arguments

log = logging.getLogger(__name__)

# A worker serves one query after another; connections to clusters of long ago are not worth keeping.
_CLUSTERS_MAX = 8
# A task of a pipeline may write to a few clusters at once, to each in one transaction.
_IDLE_MAX = 2
# Kept short: the task has an error to report, perhaps that this cluster does not answer.
_ABORT_TIMEOUT_MS = 10_000
# Kafka's default of the broker's transaction.max.timeout.ms, where the cluster does not tell.
_DEFAULT_TIMEOUT_MAX_MS = 15 * 60_000
_TIMEOUT_MAX_KEY = "transaction.max.timeout.ms"


class TaskPlace(NamedTuple):
    """Which attempt of which task this is, by its own context."""

    partition: int
    task_attempt: int
    application_attempt: int
    """The number of this attempt among all of its application: no other one has it."""

    @staticmethod
    def here() -> TaskPlace:
        """Of the task that calls. SinkError outside of one."""
        from pyspark import TaskContext  # noqa: PLC0415 - what has no Spark brings its place along

        context = TaskContext.get()
        if context is None:
            raise SinkError("only a task of Spark's can write exactly once: there is none here")
        return TaskPlace(context.partitionId(), context.attemptNumber(), context.taskAttemptId())


class Attempt:
    """One attempt of a task, from its first row on. `hand_over` or `abort` ends it."""

    def __init__(self, options: SinkOptions, producer: Producer, *, is_summed: bool) -> None:
        self._key = client_key(options)
        self._producer = producer
        self._writing = RowWriting(producer, options, is_summed=is_summed)
        producer.begin_transaction()

    def write(self, batch: pa.RecordBatch) -> None:
        """Send rows. UnwritableError where they, or some before them, cannot be written."""
        self._writing.send(batch)

    def hand_over(self) -> Participant:
        """Wait until everything is written, and name the transaction for whoever ends it."""
        self._writing.settle()
        try:
            prepared = self._producer.hand_over_transaction()
        except ClientError as error:
            raise UnwritableError(f"rows were not written: {error}") from error
        _keep(self._key, self._producer)
        return Participant.of(
            prepared.transactional_id,
            prepared.producer_id,
            prepared.producer_epoch,
            records=self._writing.record_count,
            partitions=self._writing.partitions,
            checksum=self._writing.checksum,
        )

    def abort(self) -> None:
        """The attempt has failed: nothing of it is to be seen. What cannot be aborted now is the driver's to clean up."""
        try:
            self._producer.abort_transaction(_ABORT_TIMEOUT_MS)
        except ClientError as error:
            log.warning("the transaction of a failed task is not aborted, which its query does later: %s", error)
        self._producer.close(timeout_ms=0)


def open_attempt(
    options: SinkOptions,
    identity: SinkIdentity,
    run: str,
    batch_id: int,
    place: TaskPlace | None = None,
    *,
    decided_at: DecidingCluster | None = None,
    is_summed: bool = True,
) -> Attempt:
    """Begin the transaction of an attempt: the one that calls, or another. `decided_at` where the decisions lie on another
    cluster; not `is_summed` where whoever writes has a checksum of its own. UnwritableError where the cluster allows none."""
    place = place or TaskPlace.here()
    first = attempt_id(identity, run, place.partition, 0, place.task_attempt, decided_at)
    own = attempt_id(identity, run, place.partition, place.application_attempt + 1, place.task_attempt, decided_at)
    try:
        try:
            producer = _producer(options, first)
        except TransactionStateError as error:
            log.info("%s; this attempt at batch %d goes on as %s", error, batch_id, own)
            producer = _producer(options, own)
    except ClientError as error:
        raise UnwritableError(f"no transaction can be opened for batch {batch_id} of {identity}: {error}") from error
    return Attempt(options, producer, is_summed=is_summed)


def close_transactions() -> None:
    """Close the connections that no task uses. What was handed over stays as it is."""
    with _lock:
        idle = [each for producers in _idle.values() for each in producers]
        _idle.clear()
    for each in idle:
        each.close(timeout_ms=0)


def _producer(options: SinkOptions, transactional_id: str) -> Producer:
    """A producer that has the id to itself. TransactionStateError where a transaction is open under it."""
    with _lock:
        producers = _idle.get(client_key(options))
        earlier = producers.pop() if producers else None
    producer = _continued(earlier, transactional_id) or _new_producer(options, transactional_id)
    try:
        producer.init_transactions(unless_open=True)
    except TransactionStateError:
        _keep(client_key(options), producer)
        raise
    except BaseException:
        producer.close(timeout_ms=0)
        raise
    return producer


def _continued(earlier: Producer | None, transactional_id: str) -> Producer | None:
    if earlier is None:
        return None
    try:
        return earlier.continue_as(transactional_id)
    except ClientError as error:
        log.info("connections are made anew: %s", error)
        earlier.close(timeout_ms=0)
        return None


def _new_producer(options: SinkOptions, transactional_id: str) -> Producer:
    arguments = producer_arguments(options)
    arguments["transactional_id"] = transactional_id
    if "transaction_timeout_ms" not in arguments:
        arguments["transaction_timeout_ms"] = _timeout_max_ms(options)
    return Producer(**arguments)


def _timeout_max_ms(options: SinkOptions) -> int:
    """The longest that the cluster lets a transaction be open; asked for once."""
    key = client_key(options)
    with _lock:
        known = _timeouts_ms.get(key)
    if known is None:
        known = _ask_timeout_max_ms(options)
        with _lock:
            _timeouts_ms[key] = known
            while len(_timeouts_ms) > _CLUSTERS_MAX:
                del _timeouts_ms[next(iter(_timeouts_ms))]
    return known


def _ask_timeout_max_ms(options: SinkOptions) -> int:
    # Tasks that are given a time-out need not wait for it.
    from tidelog.client.admin import Admin, ConfigResource, ResourceKind  # noqa: PLC0415

    try:
        with Admin(**common_settings(options.client)) as admin:
            broker = ConfigResource(ResourceKind.BROKER, str(admin.describe_cluster().brokers[0].node_id))
            configs = admin.describe_configs([broker], keys=[_TIMEOUT_MAX_KEY])[broker]
        if isinstance(configs, ClientError):
            raise configs
        return int(configs[_TIMEOUT_MAX_KEY].value or "")
    except (ClientError, LookupError, ValueError) as error:
        log.info("the cluster does not tell its %s: %s", _TIMEOUT_MAX_KEY, error)
        return _DEFAULT_TIMEOUT_MAX_MS


# What the worker keeps.

_idle: OrderedDict[ClientKey, list[Producer]] = OrderedDict()
"""Producers that are done, for their connections."""
_timeouts_ms: dict[ClientKey, int] = {}
_lock = threading.Lock()


def _keep(key: ClientKey, producer: Producer) -> None:
    with _lock:
        idle = _idle.setdefault(key, [])
        _idle.move_to_end(key)
        idle.append(producer)
        surplus = [idle.pop(0)] if len(idle) > _IDLE_MAX else []
        while len(_idle) > _CLUSTERS_MAX:
            surplus += _idle.popitem(last=False)[1]
    for each in surplus:
        each.close(timeout_ms=0)


def _forked() -> None:
    global _lock  # noqa: PLW0603 - one for the process
    # The connections are the parent's; a thread that is not in the child may have held the lock.
    _lock = threading.Lock()
    _idle.clear()


os.register_at_fork(after_in_child=_forked)

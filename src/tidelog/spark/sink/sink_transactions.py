"""The transactions of a worker's tasks: each attempt writes in one of its own, and leaves its end to the driver.

    attempt = open_attempt(options, identity, run, batch_id)
    attempt.write(batch)
    participant = attempt.hand_over()          # or attempt.abort()

A producer stays open from batch to batch with its transactional id. The driver has ended its transaction by then, and the answer
that tells the next epoch went to the driver; so the producer asks the coordinator what became of it (`resume_transactions`), and
goes on only where the transaction has ended. InitProducerId is called for new ids alone, never for one that was handed over:
it would abort what may be decided.

Within a batch no id is used twice, whatever became of the first use. A worker keeps as many producers as it had tasks in its
busiest batch.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from uuid import uuid4

import pyarrow as pa

from tidelog.client.errors import ClientError, RefusedError, UnsupportedError
from tidelog.client.producer.producer import Producer
from tidelog.model.errors import ErrorCode
from tidelog.spark.client_settings import common_settings
from tidelog.spark.errors import UnwritableError
from tidelog.spark.sink.sink_options import SinkOptions
from tidelog.spark.sink.sink_participant import Participant, SinkIdentity, transactional_id
from tidelog.spark.sink.sink_task import ClientKey, RowWriting, client_key, producer_arguments

log = logging.getLogger(__name__)

# A worker serves one query after another; what earlier runs have left is not worth keeping.
_RUNS_MAX = 8
# Kept short: the task has an error to report, perhaps that this cluster does not answer.
_ABORT_TIMEOUT_MS = 10_000
# Kafka's default of the broker's transaction.max.timeout.ms, where the cluster does not tell.
_DEFAULT_TIMEOUT_MAX_MS = 15 * 60_000
_TIMEOUT_MAX_KEY = "transaction.max.timeout.ms"
# What a cluster answers that knows two-phase commit, and has it switched off or not allowed.
_NO_TWO_PHASE = frozenset({ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION})

_RunKey = tuple[ClientKey, SinkIdentity, str]


@dataclass(slots=True)
class _KeptProducer:
    """A producer whose last transaction was handed over in a batch."""

    producer: Producer
    batch_id: int


@dataclass(slots=True)
class _Run:
    """What this worker has of one run of a sink."""

    idle: list[_KeptProducer] = field(default_factory=list)


class Attempt:
    """One attempt of a task, from its first row on. `hand_over` or `abort` ends it."""

    def __init__(self, options: SinkOptions, run: _Run, producer: Producer, batch_id: int) -> None:
        self._run = run
        self._producer = producer
        self._batch_id = batch_id
        self._writing = RowWriting(producer, options)
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
        with _lock:
            self._run.idle.append(_KeptProducer(self._producer, self._batch_id))
        return Participant.of(
            prepared.transactional_id,
            prepared.producer_id,
            prepared.producer_epoch,
            records=self._writing.record_count,
            partitions=self._writing.partitions,
        )

    def abort(self) -> None:
        """The attempt has failed: nothing of it is to be seen. What cannot be aborted now is the driver's to clean up."""
        try:
            self._producer.abort_transaction(_ABORT_TIMEOUT_MS)
        except ClientError as error:
            log.warning("the transaction of a failed task is not aborted, which its query does later: %s", error)
        self._producer.close(timeout_ms=0)


def open_attempt(options: SinkOptions, identity: SinkIdentity, run: str, batch_id: int) -> Attempt:
    """Begin a transaction, under an id that nobody else has in this batch. UnwritableError where the cluster allows none."""
    kept = _run_of((client_key(options), identity, run))
    producer = _resumed(kept, batch_id)
    if producer is None:
        try:
            producer = _new_producer(options, transactional_id(identity, run, _worker_name(), next(_numbers)))
        except ClientError as error:
            raise UnwritableError(f"no transaction can be opened: {error}") from error
    return Attempt(options, kept, producer, batch_id)


def close_transactions() -> None:
    """Close the producers that no task uses. What they have handed over stays as it is."""
    with _lock:
        runs = list(_runs.values())
        _runs.clear()
    for run in runs:
        _close_all(run)


def _resumed(kept: _Run, batch_id: int) -> Producer | None:
    """A producer of an earlier batch, whose transaction has ended; None where there is none."""
    while True:
        with _lock:
            found = next((each for each in kept.idle if each.batch_id < batch_id), None)
            if found is None:
                return None
            kept.idle.remove(found)
        try:
            found.producer.resume_transactions()
        except ClientError as error:
            # Not ended yet, or by somebody who has taken the id: either way it is not for this attempt.
            log.info("a transactional id is not used again: %s", error)
            found.producer.close(timeout_ms=0)
        else:
            return found.producer


def _new_producer(options: SinkOptions, transactional_id: str) -> Producer:
    """Of two phases where the cluster has them, so that no time-out can end what is decided; else with the longest time-out."""
    key = client_key(options)
    arguments = producer_arguments(options)
    arguments["transactional_id"] = transactional_id
    if "transaction_timeout_ms" not in arguments:
        timeout_ms = _timeouts_ms.get(key)
        if timeout_ms is None:
            arguments["transaction_two_phase_commit_enable"] = True
            producer = Producer(**arguments)
            try:
                producer.init_transactions()
            except (UnsupportedError, RefusedError) as error:
                producer.close(timeout_ms=0)
                if error.code not in _NO_TWO_PHASE:
                    raise
            else:
                return producer
            arguments["transaction_two_phase_commit_enable"] = False
            timeout_ms = _timeouts_ms[key] = _timeout_max_ms(options)
        arguments["transaction_timeout_ms"] = timeout_ms
    producer = Producer(**arguments)
    try:
        producer.init_transactions()
    except BaseException:
        producer.close(timeout_ms=0)
        raise
    return producer


def _timeout_max_ms(options: SinkOptions) -> int:
    """The longest that the cluster lets a transaction be open."""
    # Only of clusters without two-phase commit; other workers need not wait for it.
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

_runs: OrderedDict[_RunKey, _Run] = OrderedDict()
_timeouts_ms: dict[ClientKey, int] = {}
"""Of clusters without two-phase commit."""
_names: list[str] = []
# One count for all runs: a run that was forgotten and comes again must not begin anew.
_numbers = itertools.count()
_lock = threading.Lock()


def _worker_name() -> str:
    """The name of this process, which no other one has."""
    with _lock:
        if not _names:
            _names.append(uuid4().hex)
        return _names[0]


def _run_of(key: _RunKey) -> _Run:
    gone: list[_Run] = []
    with _lock:
        run = _runs.setdefault(key, _Run())
        _runs.move_to_end(key)
        while len(_runs) > _RUNS_MAX:
            gone.append(_runs.popitem(last=False)[1])
    for each in gone:
        _close_all(each)
    return run


def _close_all(run: _Run) -> None:
    with _lock:
        idle, run.idle = run.idle, []
    for each in idle:
        each.producer.close(timeout_ms=0)


def _forked() -> None:
    global _lock  # noqa: PLW0603 - one for the process
    # The connections are the parent's, and so is its name; a thread that is not in the child may have held the lock.
    _lock = threading.Lock()
    _runs.clear()
    _names.clear()


os.register_at_fork(after_in_child=_forked)

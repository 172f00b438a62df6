"""The topic of decisions: the newest state of a sink, and who may write the next one.

A decider takes its transactional id, reads to the end, and writes in transactions of its own. Whoever comes later fences it, so
that between its reading and its writing nobody else has written for the same sink.

The end to read to is that of all records, not of the committed ones: a decider of another sink may have a transaction open before
the record that is looked for. It is waited for, and has a short time-out for that reason. Every record is whole, and a query that
runs has written lately: the search goes backwards from the end, in ever larger steps.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from typing import cast

import msgspec
import pyarrow as pa

from tidelog.client.admin import Admin, AsyncAdmin, ConfigResource, ResourceKind
from tidelog.client.admin.outcomes import value_of
from tidelog.client.admin.records import OffsetSpec
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError, ProducerFencedError, RefusedError
from tidelog.client.options import parse_options
from tidelog.client.producer.async_producer import AsyncProducer
from tidelog.client.producer.options import ProducerArguments
from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode
from tidelog.spark.errors import SinkError, UndecidedError
from tidelog.spark.sink.audit_entry import AuditEntry, encode_audit, encode_audit_key
from tidelog.spark.sink.open_transactions import admin_settings
from tidelog.spark.sink.sink_participant import DecidingCluster, SinkIdentity
from tidelog.spark.sink.sink_state import SinkState, decode_key, decode_state, encode_key, encode_state
from tidelog.spark.source.offset_ranges import OffsetRange
from tidelog.spark.source.range_reader import RangeReader

log = logging.getLogger(__name__)

TOPIC = "__tidelog_spark_sink"
AUDIT_TOPIC = "__tidelog_pipeline_audit"
# Long enough to ask about the last closing of the books.
AUDIT_RETENTION_MS = 30 * 24 * 60 * 60 * 1000
_PARTITION = TopicPartition(TOPIC, 0)
_REPLICAS_MAX = 3
# Some ten thousand tasks; compressed it is a tenth.
RECORD_BYTES_MAX = 16 * 1024 * 1024
# Small segments, since only what is not the active one is compacted.
_SEGMENT_BYTES = 32 * 1024 * 1024

# What a decider that dies while it writes keeps the others waiting for.
DECIDER_TIMEOUT_MS = 10_000
# Longer than that and the coordinator's round in which time-outs are found.
_READ_TIMEOUT_MS = 60_000

_FIRST_STEP = 64
_STEP_FACTOR = 16


class SinkDecisions:
    """The topic on the cluster of the decisions, for one sink. `settings` are those that all clients have."""

    def __init__(
        self, seams: ClientSeams, admin: AsyncAdmin, identity: SinkIdentity, settings: Mapping[str, object]
    ) -> None:
        self._seams = seams
        self._admin = admin
        self._identity = identity
        self._settings = settings
        self._decider: AsyncProducer | None = None
        self._state: SinkState | None = None
        self._knows_state = False
        self._audit_bytes_proven = -1
        """The topic of accounts takes entries of this size from this decider."""

    async def take_over(self, run: str, *, is_fresh: bool = False) -> SinkState | None:
        """Become the decider, and read what the last one has written. Where that was not `run`, look at the topic as well:
        SinkError where it does not keep what is written.

        A decider that still has its id knows what is written: it was the last to take it, all before it are fenced, and
        whoever takes it from now on fences this one. So asking the coordinator is as good as taking the id once more.
        """
        if await self._is_decider():
            return self._state
        await self.close()
        await ensure_topic(self._admin)
        self._decider = AsyncProducer.on(self._seams, **self._decider_arguments())
        await self._decider.init_transactions()
        state = None if is_fresh else await self._newest()
        if state is None or state.owner != run:
            await check_topic(self._admin)
        self._state, self._knows_state = state, True
        return state

    async def held_state(self) -> SinkState | None:
        """What this decider has written last; None where another one has taken over, or nobody knows."""
        return self._state if await self._is_decider() else None

    async def record(self, state: SinkState | None, audit: AuditEntry | None = None) -> bool:
        """Write a state, or that there is none any more; False where another decider has taken over. UndecidedError for a new
        decision whose account could not be written in the end."""
        decider = self._decider
        assert decider is not None, "only a decider writes"
        value = None if state is None else encode_state(state)
        account = self._new_account(state)
        # Nobody knows what is written, until it is.
        self._knows_state = False
        try:
            if account is not None:
                await self._prove(decider, account)
            elif audit is not None and self._audit_bytes_proven < 0:
                # Of a batch without rows, which has nothing to prove. A topic that brokers make by themselves has one replica.
                await ensure_audit_topic(self._admin)
                self._audit_bytes_proven = 0
            await decider.begin_transaction()
            await decider.send(TOPIC, value, key=encode_key(self._identity), partition=0)
            if audit is not None:
                await decider.send(AUDIT_TOPIC, encode_audit(audit), key=encode_audit_key(audit), partition=0)
            await decider.commit_transaction()
        except ProducerFencedError:
            return False
        self._state, self._knows_state = state, True
        return True

    def _new_account(self, state: SinkState | None) -> AuditEntry | None:
        """What will have to be written once a decision is finished that is about to be recorded for the first time, at its
        largest; None where there is no such decision."""
        decision = None if state is None else state.decision
        before = None if self._state is None else self._state.decision
        if decision is None or decision.audit is None or (before is not None and before.batch_id == decision.batch_id):
            return None
        return decision.audit.finished(decision.audit.decided_ms, frozenset(each.sink for each in decision.audit.sinks))

    async def _prove(self, decider: AsyncProducer, account: AuditEntry) -> None:
        """See that an account could be written, and have its topic: after the decision it is too late. UndecidedError where it
        could not: a right that is missing, or a topic of small records."""
        value = encode_audit(account)
        if len(value) <= self._audit_bytes_proven:
            return
        try:
            await ensure_audit_topic(self._admin)
            await decider.begin_transaction()
            written = await decider.send(AUDIT_TOPIC, value, key=encode_audit_key(account), partition=0)
            await decider.flush()
            await written
            await decider.abort_transaction()
        except ProducerFencedError:
            raise
        except ClientError as error:
            raise UndecidedError(
                f"batch {account.batch_id} of {self._identity} is not written, because its account could not be written to "
                f"{AUDIT_TOPIC}: {error}"
            ) from error
        self._audit_bytes_proven = len(value)

    async def _is_decider(self) -> bool:
        if self._decider is None or not self._knows_state:
            return False
        try:
            return await self._decider.holds_transactional_id()
        except ClientError as error:
            log.info("the decider of %s is made anew: %s", self._identity, error)
            return False

    async def close(self) -> None:
        decider, self._decider = self._decider, None
        self._knows_state = False
        if decider is not None:
            await decider.close(timeout_ms=0)

    async def _newest(self) -> SinkState | None:
        key = encode_key(self._identity)
        async with _reader(self._seams, self._settings) as reader:
            first, end = await _ends(self._admin)
            step = _FIRST_STEP
            while end > first:
                start = max(first, end - step)
                found: list[bytes | None] = []
                async for records in _records(reader, start, end):
                    found = _newest(records, key) or found
                if found:
                    return None if found[0] is None else decode_state(found[0])
                end, step = start, step * _STEP_FACTOR
        return None

    def _decider_arguments(self) -> ProducerArguments:
        return cast(
            "ProducerArguments",
            {
                **self._settings,
                "transactional_id": self._identity.decider_id,
                "transaction_timeout_ms": DECIDER_TIMEOUT_MS,
                "acks": "all",
                "linger_ms": 0,
                "compression_type": "zstd",
                "max_request_size": RECORD_BYTES_MAX,
            },
        )


class KnownSink(msgspec.Struct, frozen=True):
    """One key of the topic, and its newest state."""

    identity: SinkIdentity
    has_decision: bool
    """Whether a batch is decided and not finished."""
    written_ms: int
    """When it was last written."""


async def known_sinks(
    prefix: str, seams: ClientSeams, admin: AsyncAdmin, settings: Mapping[str, object], *, query: str | None = None
) -> list[KnownSink]:
    """All sinks under a prefix of which anything is recorded, or those of one query. SinkError for a state that cannot be read,
    where only one query is asked for; others are passed over."""
    found: dict[tuple[str, str], tuple[bytes, int] | None] = {}
    try:
        first, end = await _ends(admin)
    except RefusedError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return []
        raise
    async with _reader(seams, settings) as reader:
        async for records in _records(reader, first, end):
            columns = (records.column(name) for name in ("key", "value", "timestamp"))
            for key, value, timestamp in zip(*columns, strict=True):
                parsed = decode_key(key.as_py() or b"")
                if parsed is not None and query in (None, parsed[0]):
                    found[parsed] = (value.as_py(), timestamp.as_py()) if value.is_valid else None
    known: list[KnownSink] = []
    for (name, sink), newest in sorted(found.items()):
        if newest is None:
            continue
        try:
            state = decode_state(newest[0])
        except SinkError as error:
            if query is not None:
                raise
            log.warning("%s of %s is passed over: %s", sink or "the sink", name, error)
            continue
        if query is not None or state.prefix == prefix:
            known.append(KnownSink(SinkIdentity(name, sink, prefix), state.decision is not None, newest[1]))
    return known


def deciding_cluster(client_settings: Mapping[str, object]) -> DecidingCluster:
    """The cluster that these settings lead to, as ids of transactions on other clusters name it. ClientError where it does not
    answer."""
    servers = client_settings["bootstrap_servers"]
    with Admin(**admin_settings(client_settings)) as admin:
        cluster_id = admin.describe_cluster().cluster_id
    return DecidingCluster.at(cluster_id, servers if isinstance(servers, str) else ",".join(cast("list[str]", servers)))


async def ensure_topic(admin: AsyncAdmin) -> None:
    """Have the topic, made with the first batch that is ever written exactly once."""
    await _ensure(admin, TOPIC, {"cleanup.policy": "compact", "segment.bytes": str(_SEGMENT_BYTES)})


async def ensure_audit_topic(admin: AsyncAdmin) -> None:
    """Have the topic of audit entries. How long they stay is its `retention.ms`, which may be altered as with any topic."""
    await _ensure(admin, AUDIT_TOPIC, {"cleanup.policy": "delete", "retention.ms": str(AUDIT_RETENTION_MS)})


async def _ensure(admin: AsyncAdmin, name: str, configs: Mapping[str, str]) -> None:
    try:
        await admin.describe_topic(name)
    except RefusedError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    else:
        return
    replicas = min(_REPLICAS_MAX, len((await admin.describe_cluster()).brokers))
    durable = {
        "min.insync.replicas": str(max(1, replicas - 1)),
        "unclean.leader.election.enable": "false",
        "max.message.bytes": str(RECORD_BYTES_MAX),
    }
    try:
        await admin.create_topic(name, partitions=1, replication_factor=replicas, configs={**durable, **configs})
    except RefusedError as refused:
        # Another sink was quicker.
        if refused.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def check_topic(admin: AsyncAdmin) -> None:
    """SinkError where the topic does not keep the newest state of every query; what may lose it with a broker is told."""
    resource = ConfigResource(ResourceKind.TOPIC, TOPIC)
    try:
        configs = value_of(
            (await admin.describe_configs([resource], keys=["cleanup.policy", "min.insync.replicas"]))[resource]
        )
        replicas = min(len(each.replicas) for each in (await admin.describe_topic(TOPIC)).partitions)
        brokers = len((await admin.describe_cluster()).brokers)
    except ClientError as error:
        log.info("the topic %s cannot be looked at: %s", TOPIC, error)
        return
    problem, warnings = topic_problems(
        {name: each.value or "" for name, each in configs.items()}, replicas=replicas, brokers=brokers
    )
    if problem:
        raise SinkError(problem)
    for each in [*warnings, *await _audit_warnings(admin, brokers)]:
        log.warning("%s", each)


async def _audit_warnings(admin: AsyncAdmin, brokers: int) -> list[str]:
    """What is wrong with the topic of accounts, which an earlier release may have left to the brokers to make."""
    try:
        replicas = min(len(each.replicas) for each in (await admin.describe_topic(AUDIT_TOPIC)).partitions)
    except ClientError as error:
        # It is made with the first account.
        log.info("the topic %s cannot be looked at: %s", AUDIT_TOPIC, error)
        return []
    return audit_topic_warnings(replicas=replicas, brokers=brokers)


def audit_topic_warnings(*, replicas: int, brokers: int) -> list[str]:
    wanted = min(_REPLICAS_MAX, brokers)
    if replicas >= wanted:
        return []
    sentence = (
        f"the topic {AUDIT_TOPIC} has {replicas} of {wanted} replicas: while its broker is away no batch is decided"
    )
    return [f"{sentence}; reassign its partition to more brokers"]


def topic_problems(configs: Mapping[str, str], *, replicas: int, brokers: int) -> tuple[str, list[str]]:
    """Why the topic of decisions cannot be used, or an empty text; and what is wrong with it without that."""
    policy = configs.get("cleanup.policy", "compact")
    if {each.strip() for each in policy.split(",")} != {"compact"}:
        return (
            f"the topic {TOPIC} has cleanup.policy={policy}, so that decisions are deleted by their age, and batches may be "
            f"written twice: set it to compact, as by `tidelog configs set topic {TOPIC} cleanup.policy=compact`"
        ), []
    warnings = []
    wanted = min(_REPLICAS_MAX, brokers)
    if replicas < wanted:
        warnings.append(
            f"the topic {TOPIC} has {replicas} of {wanted} replicas: with its broker the decisions of all queries are lost"
        )
    if replicas > 1 and configs.get("min.insync.replicas", "1") == "1":
        warnings.append(
            f"the topic {TOPIC} has min.insync.replicas=1: a decision may be lost with one broker; set it to {replicas - 1}"
        )
    return "", warnings


async def _ends(admin: AsyncAdmin) -> tuple[int, int]:
    first = value_of((await admin.list_offsets({_PARTITION: OffsetSpec.EARLIEST}))[_PARTITION])
    last = value_of((await admin.list_offsets({_PARTITION: OffsetSpec.LATEST}))[_PARTITION])
    return first.offset or 0, last.offset or 0


@contextlib.asynccontextmanager
async def _reader(seams: ClientSeams, settings: Mapping[str, object]) -> AsyncIterator[RangeReader]:
    options = parse_options(
        ConsumerOptions,
        {
            **settings,
            "isolation_level": "read_committed",
            "auto_offset_reset": "none",
            "allow_auto_create_topics": False,
        },
    )
    reader = RangeReader(seams, options, poll_timeout_ms=_READ_TIMEOUT_MS, fail_on_data_loss=True)
    try:
        yield reader
    finally:
        reader.close()


async def _records(reader: RangeReader, start: int, end: int) -> AsyncIterator[pa.RecordBatch]:
    if start >= end:
        return
    reader.begin(OffsetRange(_PARTITION, start, end), headers=False)
    while (fetched := await reader.next_columns()) is not None:
        yield fetched.records


def _newest(records: pa.RecordBatch, key: bytes) -> list[bytes | None]:
    """The value of the last record with a key, None for a tombstone; empty where there is no such record."""
    keys, values = records.column("key"), records.column("value")
    for index in range(records.num_rows - 1, -1, -1):
        if keys[index].as_py() == key:
            return [values[index].as_py()]
    return []

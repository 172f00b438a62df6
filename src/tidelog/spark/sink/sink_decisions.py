"""The topic of decisions: the newest state of a sink, and who may write the next one.

A decider takes its transactional id, reads to the end, and writes in transactions of its own. Whoever comes later fences it, so
that between its reading and its writing nobody else has written for the same sink.

The end to read to is that of all records, not of the committed ones: a decider of another sink may have a transaction open before
the record that is looked for. It is waited for, and has a short time-out for that reason. Every record is whole, and a query that
runs has written lately: the search goes backwards from the end, in ever larger steps.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import cast

import pyarrow as pa

from tidelog.client.admin import AsyncAdmin
from tidelog.client.admin.outcomes import value_of
from tidelog.client.admin.records import OffsetSpec
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ProducerFencedError, RefusedError
from tidelog.client.options import parse_options
from tidelog.client.producer.async_producer import AsyncProducer
from tidelog.client.producer.options import ProducerArguments
from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode
from tidelog.spark.sink.sink_participant import SinkIdentity
from tidelog.spark.sink.sink_state import SinkState, decode_key, decode_state, encode_key, encode_state
from tidelog.spark.source.offset_ranges import OffsetRange
from tidelog.spark.source.range_reader import RangeReader

TOPIC = "__tidelog_spark_sink"
_PARTITION = TopicPartition(TOPIC, 0)
_REPLICAS_MAX = 3
# Some thousand tasks, each of which has written to some hundred partitions; compressed it is a tenth.
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
    """The topic on the output cluster, for one sink. `settings` are those that all clients have."""

    def __init__(
        self, seams: ClientSeams, admin: AsyncAdmin, identity: SinkIdentity, settings: Mapping[str, object]
    ) -> None:
        self._seams = seams
        self._admin = admin
        self._identity = identity
        self._settings = settings
        self._decider: AsyncProducer | None = None

    async def take_over(self) -> SinkState | None:
        """Become the decider, and read what the last one has written."""
        await self.close()
        await ensure_topic(self._admin)
        self._decider = AsyncProducer.on(self._seams, **self._decider_arguments())
        await self._decider.init_transactions()
        key = encode_key(self._identity)
        async with _reader(self._seams, self._settings) as reader:
            first, end = await _ends(self._admin)
            step = _FIRST_STEP
            while end > first:
                start = max(first, end - step)
                found: bytes | None = None
                async for records in _records(reader, start, end):
                    found = _newest(records, key) or found
                if found is not None:
                    return decode_state(found)
                end, step = start, step * _STEP_FACTOR
        return None

    async def record(self, state: SinkState) -> bool:
        """Write a state; False where another decider has taken over."""
        decider = self._decider
        assert decider is not None, "only a decider writes"
        try:
            await decider.begin_transaction()
            await decider.send(TOPIC, encode_state(state), key=encode_key(self._identity), partition=0)
            await decider.commit_transaction()
        except ProducerFencedError:
            return False
        return True

    async def close(self) -> None:
        decider, self._decider = self._decider, None
        if decider is not None:
            await decider.close(timeout_ms=0)

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


async def identities_of(
    query: str, prefix: str, seams: ClientSeams, admin: AsyncAdmin, settings: Mapping[str, object]
) -> list[SinkIdentity]:
    """All sinks of a query that have ever decided anything."""
    found: dict[str, None] = {}
    try:
        first, end = await _ends(admin)
    except RefusedError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return []
        raise
    async with _reader(seams, settings) as reader:
        async for records in _records(reader, first, end):
            for key in records.column("key"):
                parsed = decode_key(key.as_py() or b"")
                if parsed is not None and parsed[0] == query:
                    found[parsed[1]] = None
    return [SinkIdentity(query, sink, prefix) for sink in sorted(found)]


async def ensure_topic(admin: AsyncAdmin) -> None:
    """Have the topic, made with the first batch that is ever written exactly once."""
    try:
        await admin.describe_topic(TOPIC)
    except RefusedError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    else:
        return
    replicas = min(_REPLICAS_MAX, len((await admin.describe_cluster()).brokers))
    configs = {
        "cleanup.policy": "compact",
        "min.insync.replicas": str(max(1, replicas - 1)),
        "unclean.leader.election.enable": "false",
        "max.message.bytes": str(RECORD_BYTES_MAX),
        "segment.bytes": str(_SEGMENT_BYTES),
    }
    try:
        await admin.create_topic(TOPIC, partitions=1, replication_factor=replicas, configs=configs)
    except RefusedError as refused:
        # Another sink was quicker.
        if refused.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


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


def _newest(records: pa.RecordBatch, key: bytes) -> bytes | None:
    """The value of the last record with a key."""
    keys, values = records.column("key"), records.column("value")
    for index in range(records.num_rows - 1, -1, -1):
        if keys[index].as_py() == key:
            value: bytes | None = values[index].as_py()
            return value
    return None

"""What files and protocol tell of a record, whenever it was written: its batch, where that lies on each replica, who has passed.

the protocol       batch, leader, in-sync replicas, high watermark, committed offsets: any Kafka cluster
`/log` of a node   segment, position, checksum of what is on disk, index entries, epochs, ends of the replicas
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tidelog.cli.admin_session import RefusalError
from tidelog.cli.xray.node_pages import NodePages
from tidelog.client.admin import AsyncAdmin, ConfigResource, PartitionDescription, ResourceKind
from tidelog.client.admin.outcomes import each_of
from tidelog.client.admin.requests import OneBroker
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError, refusal
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData as FetchedPartition,
)
from tidelog.wire.record_batch import BatchHeader, each_batch
from tidelog.wire.records import decode_batch

Json = Any

HTTP_ADDRESS = "tidelog.http.address"
# A record lies in its first batch; a larger one comes whole all the same.
_FETCH_BYTES = 64 * 1024
# From 13 on a fetch names topics by id, and here they are known by name.
_FETCH_VERSION_MAX = 12
GROUPS_MAX = 200


async def describe_partition(admin: AsyncAdmin, partition: TopicPartition) -> PartitionDescription:
    """RefusalError where there is none, or none leads."""
    topic = await admin.describe_topic(partition.topic)
    found = next((each for each in topic.partitions if each.index == partition.partition), None)
    if found is None:
        raise RefusalError(f"topic {partition.topic} has no partition {partition.partition}")
    if found.leader is None:
        raise RefusalError(f"{partition} has no leader at the moment: try again once it has")
    return found


async def http_addresses(admin: AsyncAdmin, given: Mapping[int, str]) -> dict[int, str]:
    """Where nodes tell what happens in them: as they say, or as somebody says on the command line."""
    cluster = await admin.describe_cluster()
    asked = {ConfigResource(ResourceKind.BROKER, str(each.node_id)): each.node_id for each in cluster.brokers}
    try:
        configs = await admin.describe_configs(list(asked), keys=[HTTP_ADDRESS])
    except ClientError:
        # Whoever may not see configurations may be told by --trace.
        return dict(given)
    found: dict[int, str] = {}
    for resource, entries in configs.items():
        entry = None if isinstance(entries, ClientError) else entries.get(HTTP_ADDRESS)
        if entry is not None and entry.value:
            found[asked[resource]] = entry.value
    return {**found, **given}


async def fetch_batch(
    admin: AsyncAdmin, leader: int, partition: TopicPartition, offset: int
) -> tuple[FetchedPartition, BatchHeader, Json]:
    """The batch that holds an offset, and what may be told of the record: its time and its sizes. RefusalError."""
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_FETCH_BYTES,
        topics=[
            FetchTopic(
                topic=partition.topic,
                topic_id=ZERO_UUID,
                partitions=[
                    FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
                ],
            )
        ],
        forgotten_topics_data=[],
    )
    answer = await admin.requests.ask(OneBroker(leader), request, FetchResponse, version_max=lambda: _FETCH_VERSION_MAX)
    if answer.error_code:
        raise refusal(answer.error_code, None, about=str(partition))
    data = answer.responses[0].partitions[0]
    if data.error_code:
        raise refusal(data.error_code, None, about=f"{partition} at offset {offset}")
    records = data.records if isinstance(data.records, bytes | memoryview) else b""
    try:
        for position, header in each_batch(records):
            if header.last_offset < offset:
                continue
            if header.base_offset > offset:
                break
            return data, header, _record(records, position, header, offset)
    except CorruptBatchError as error:
        raise RefusalError(f"the batch at {partition} offset {offset} cannot be read: {error}") from None
    if offset >= data.high_watermark:
        raise RefusalError(f"{partition} has no offset {offset} yet: its high watermark is {data.high_watermark}")
    raise RefusalError(f"there is nothing at {partition} offset {offset}: it was compacted away")


def _record(records: bytes | memoryview, position: int, header: BatchHeader, offset: int) -> Json:
    record = next((each for each in decode_batch(records, header, position) if each.offset == offset), None)
    if record is None or header.is_control:
        return None
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key_bytes": None if record.key is None else len(record.key),
        "value_bytes": None if record.value is None else len(record.value),
        "headers": len(record.headers),
    }


async def committed(admin: AsyncAdmin, partition: TopicPartition, offset: int) -> list[Json]:
    """How far groups are in the partition, as far as one may see them."""
    try:
        listed = await admin.list_groups()
    except ClientError:
        return []
    groups = sorted(each.group_id for each in listed)[:GROUPS_MAX]
    commits = await each_of(groups, admin.list_group_offsets)
    rows: list[Json] = []
    for group, offsets in commits.items():
        known = None if isinstance(offsets, ClientError) else offsets.get(partition)
        if known is not None and known.offset >= 0:
            rows.append({"group": group, "committed": known.offset, "passed": known.offset > offset})
    return rows


async def logs_of(pages: NodePages, nodes: tuple[int, ...], partition: TopicPartition, offset: int) -> dict[int, Json]:
    """What `/log` says on each node that has it; a sentence where it says nothing."""

    async def ask(node: int) -> Json:
        return await asyncio.to_thread(pages.log, node, partition.topic, partition.partition, offset)

    traced = [node for node in nodes if node in pages.urls]
    return dict(zip(traced, await asyncio.gather(*map(ask, traced)), strict=True))


async def facts_of(admin: AsyncAdmin, pages: NodePages, partition: TopicPartition, offset: int) -> dict[str, Json]:
    """Everything that files and protocol tell."""
    described = await describe_partition(admin, partition)
    assert described.leader is not None
    data, header, record = await fetch_batch(admin, described.leader, partition, offset)
    logs = await logs_of(pages, described.replicas, partition, offset)
    leader_log = logs.get(described.leader)
    told = leader_log if isinstance(leader_log, dict) else None
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": offset,
        "leader": described.leader,
        "leader_epoch": described.leader_epoch,
        "in_sync": list(described.in_sync),
        "hw": data.high_watermark,
        "lso": data.last_stable_offset,
        "log_start": data.log_start_offset,
        "record": record,
        "batch": _batch(header, told),
        "segment": None if told is None else told["segment"],
        "segments": None if told is None else told["segments"],
        "index": None if told is None else told["index"],
        "epochs": None if told is None else told["epochs"],
        "replicas": [_replica(node, described, logs.get(node), told, pages) for node in described.replicas],
        "commits": await committed(admin, partition, offset),
    }


def _batch(header: BatchHeader, log: Json) -> Json:
    place = {} if log is None else log["batch"]
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "size": header.size_bytes,
        "position": place.get("position"),
        "is_valid": place.get("is_valid"),
        "partition_leader_epoch": header.partition_leader_epoch,
        "crc": header.crc,
        "codec": header.codec.name.lower(),
        "timestamp_type": "LogAppendTime" if header.timestamp_type else "CreateTime",
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
    }


def _replica(node: int, described: PartitionDescription, log: Json, leader_log: Json, pages: NodePages) -> Json:
    is_told = isinstance(log, dict)
    lag = None
    if is_told and leader_log is not None:
        lag = max(0, leader_log["leo"] - log["leo"])
    return {
        "node": node,
        "is_leader": node == described.leader,
        "in_sync": node in described.in_sync,
        "traced": node in pages.urls,
        "problem": None if is_told else log or "not traced",
        "file": log["segment"]["file"] if is_told else None,
        "position": log["batch"]["position"] if is_told else None,
        "crc": log["batch"]["crc"] if is_told else None,
        "leo": log["leo"] if is_told else None,
        "hw": log["hw"] if is_told else None,
        "lag": lag,
    }

"""Where a record lies, by what files and protocol tell: its batch, the segment and index, the replicas, who has passed it.

| told by | what |
|---|---|
| the protocol | the batch and its header, high watermark, last stable offset, leader, in-sync replicas, committed offsets |
| `/log` of nodes that have it | segment and position, index entries, epochs, the end of each replica |

Nothing is left from the moment at which an old record was written: how it moved is told only to those who listened then.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from tidelog.client.admin import PartitionDescription
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.console.cluster.bulk_requests import FetchedBytes, fetch_bytes
from tidelog.console.cluster.view import ClusterView
from tidelog.console.serving.answers import Json
from tidelog.console.serving.api_error import ApiError, not_there
from tidelog.console.xray.node_http import NodeHttp, NodeHttpError
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.record_batch import BatchHeader, each_batch
from tidelog.wire.records import Record, decode_batch

_FETCH_BYTES = 1024 * 1024
GROUPS_MAX = 200


class FoundBatch(NamedTuple):
    """A batch as its leader has it."""

    description: PartitionDescription
    leader: int
    fetched: FetchedBytes
    header: BatchHeader
    batch: bytes
    record: Record | None
    """The record at the offset; None for a marker, or where compaction has taken it."""
    is_valid: bool


async def find_batch(view: ClusterView, partition: TopicPartition, offset: int) -> FoundBatch:
    """The batch that holds an offset. ApiError, or the cluster's own refusal, where there is none."""
    topic = await view.admin.describe_topic(partition.topic)
    description = next((each for each in topic.partitions if each.index == partition.partition), None)
    if description is None:
        raise not_there(f"topic {partition.topic} has no partition {partition.partition}")
    if description.leader is None:
        raise ApiError(503, "LEADER_NOT_AVAILABLE", f"{partition} has no leader at the moment", "ask again")
    requests = view.admin.requests
    fetched = await fetch_bytes(requests, description.leader, partition, offset, bytes_max=_FETCH_BYTES)
    try:
        for position, header in each_batch(fetched.records):
            if header.last_offset < offset:
                continue
            if header.base_offset > offset:
                raise not_there(f"there is nothing at {partition} offset {offset}: it was compacted away")
            batch = fetched.records[position : position + header.size_bytes]
            records = decode_batch(fetched.records, header, position)
            record = None if header.is_control else next((each for each in records if each.offset == offset), None)
            return FoundBatch(description, description.leader, fetched, header, batch, record, is_valid=True)
    except CorruptBatchError as error:
        raise ApiError(
            502, "CORRUPT_MESSAGE", f"the batch at {partition} offset {offset} cannot be read: {error}"
        ) from None
    raise not_there(f"{partition} ends before offset {offset}: its high watermark is {fetched.high_watermark}")


async def logs_of(
    access: NodeHttp, view: ClusterView, nodes: tuple[int, ...], partition: TopicPartition, offset: int
) -> dict[int, Any]:
    """What `/log` of each node says; a sentence where it says nothing. Nodes that are not traced are left out."""

    async def ask(node_id: int) -> Any:
        query = {"topic": partition.topic, "partition": str(partition.partition), "offset": str(offset)}
        try:
            return await access.json(view.sampler.http[node_id], "/log", query)
        except NodeHttpError as error:
            return str(error)

    traced = [each for each in nodes if each in view.sampler.http]
    return dict(zip(traced, await asyncio.gather(*map(ask, traced)), strict=True))


def batch_json(found: FoundBatch, log: Any) -> Json:
    """The header by Kafka's names, and where it lies, if that is known."""
    header = found.header
    place = log["batch"] if isinstance(log, dict) else {}
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "batch_length": header.batch_length,
        "partition_leader_epoch": header.partition_leader_epoch,
        "magic": header.magic,
        "crc": header.crc,
        "attributes": header.attributes,
        "last_offset_delta": header.last_offset_delta,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "record_count": header.record_count,
        "codec": header.codec.name.lower(),
        "timestamp_type": header.timestamp_type.name.lower(),
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "size": header.size_bytes,
        "position": place.get("position"),
        "is_valid": place.get("is_valid", found.is_valid),
    }


def replicas_json(view: ClusterView, found: FoundBatch, logs: dict[int, Any]) -> list[Json]:
    leader_log = logs.get(found.leader)
    leo = leader_log["leo"] if isinstance(leader_log, dict) else None
    rows: list[Json] = []
    for node_id in found.description.replicas:
        log = logs.get(node_id)
        is_known = isinstance(log, dict)
        end = log["leo"] if isinstance(log, dict) else None
        rows.append(
            {
                "node": node_id,
                "is_leader": node_id == found.leader,
                "leo": end,
                "in_sync": node_id in found.description.in_sync,
                "lag": None if leo is None or end is None else max(0, leo - end),
                "traced": node_id in view.sampler.http,
                "problem": None if is_known or log is None else log,
                "where": f"{log['segment']['file']}@{log['batch']['position']}" if isinstance(log, dict) else None,
            }
        )
    return rows


def commits_json(view: ClusterView, partition: TopicPartition, offset: int) -> list[Json]:
    """Of the groups that this user may see, as they were sampled."""
    rows: list[Json] = []
    for group_id, group in sorted(view.sampler.groups.groups.items()):
        commit = group.commits.get(partition)
        if commit is not None:
            rows.append({"group": group_id, "committed": commit.offset, "passed": commit.offset > offset})
        if len(rows) >= GROUPS_MAX:
            break
    return rows


def story(
    partition: TopicPartition,
    offset: int,
    found: FoundBatch,
    logs: dict[int, Any],
    commits: list[Json],
    spark: list[Json],
) -> list[Json]:
    """Sentences, each with its source; `at_ms` only where the files or the protocol have a time."""
    header, told = found.header, []

    def tell(sentence: str, source: str, at_ms: float | None = None) -> None:
        told.append({"sentence": sentence, "source": source, "at_ms": at_ms})

    who = f"Producer {header.producer_id} (epoch {header.producer_epoch})" if header.producer_id >= 0 else "A producer"
    count = f"{header.record_count} record{'' if header.record_count == 1 else 's'}"
    number = "" if header.base_sequence < 0 else f" with sequence {header.base_sequence}"
    what = "A transaction ended here: a marker" if header.is_control else f"{who} sent a batch of {count}{number}"
    tell(f"{what}, {header.size_bytes} bytes, for {partition}.", "protocol", header.max_timestamp)
    tell(
        f"The leader of epoch {header.partition_leader_epoch} gave it the offsets {header.base_offset} to {header.last_offset}.",
        "protocol",
    )
    leader_log = logs.get(found.leader)
    if isinstance(leader_log, dict):
        batch = leader_log["batch"]
        state = "its checksum is right" if batch["is_valid"] else "its checksum is WRONG"
        tell(
            f"Leader {found.leader} has it in {leader_log['segment']['file']} at byte {batch['position']}; {state}.",
            "files",
        )
        entry = leader_log["index"].get("batch_entry") or leader_log["index"].get("offset_entry")
        if entry is not None:
            tell(f"The offset index leads there: offset {entry['offset']} is at byte {entry['position']}.", "files")
        else:
            tell("The offset index has no entry before it: a search begins at the start of the segment.", "files")
    for node_id, log in sorted(logs.items()):
        if node_id != found.leader and isinstance(log, dict):
            place = f"{log['segment']['file']} at byte {log['batch']['position']}"
            tell(f"Follower {node_id} has it in {place}; its log ends at {log['leo']}.", "files")
    in_sync = ", ".join(map(str, found.description.in_sync))
    if found.fetched.high_watermark > offset:
        tell(
            f"It is committed: the high watermark is {found.fetched.high_watermark}, in sync are {in_sync}.", "protocol"
        )
    else:
        tell(f"It is not committed yet: the high watermark is {found.fetched.high_watermark}.", "protocol")
    if 0 <= found.fetched.last_stable_offset <= offset:
        tell(
            f"Readers of committed records wait before it, at {found.fetched.last_stable_offset}: a transaction is open.",
            "protocol",
        )
    for each in commits:
        passed = "has passed it" if each["passed"] else "has still to come to it"
        tell(f"Group {each['group']} has committed {each['committed']}: it {passed}.", "protocol")
    for each in spark:
        verb = "read" if each["read"] else "wrote"
        sentence = f"Batch {each['batch']} of the pipeline {each['pipeline']} {verb} it."
        tell(sentence, "protocol", each["finished_ms"] or None)
    return told

"""The X-ray of one record: where it lies, its bytes, and how its partition lives."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.console.screens.pipelines import batches_with
from tidelog.console.serving.answers import Event, Json, whole
from tidelog.console.serving.api_error import wrong_question
from tidelog.console.serving.call import Call, change, get, stream
from tidelog.console.xray.byte_fields import fields_of
from tidelog.console.xray.partition_feed import PartitionFeeds, follow
from tidelog.console.xray.record_place import (
    FoundBatch,
    batch_json,
    commits_json,
    find_batch,
    logs_of,
    replicas_json,
    story,
)
from tidelog.console.xray.rights import check_rights
from tidelog.wire.record_batch import HEADER_BYTES

# Of a batch in hex; the front end draws no more.
BYTES_MAX = 64 * 1024
PROBE_KEY = b"tidelog-xray-probe"


def _place(call: Call) -> tuple[TopicPartition, int]:
    topic = call.query.get("topic", "")
    if not topic:
        raise wrong_question("topic is missing")
    return TopicPartition(topic, whole(call.query, "partition", 0, at_most=2**31 - 1)), whole(call.query, "offset", 0)


async def show_record(call: Call) -> Json:
    partition, offset = _place(call)
    await check_rights(call.view, partition.topic)
    await call.view.sampled()
    found = await find_batch(call.view, partition, offset)
    logs = await logs_of(call.console.nodes, call.view, found.description.replicas, partition, offset)
    leader_log = logs.get(found.leader)
    known = leader_log if isinstance(leader_log, dict) else {}
    commits = commits_json(call.view, partition, offset)
    spark = await batches_with(call.view, partition, offset)
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": offset,
        "leader": found.leader,
        "leader_epoch": found.description.leader_epoch,
        "isr": found.description.in_sync,
        "record": _record(found),
        "batch": batch_json(found, leader_log),
        "segment": known.get("segment"),
        "index": known.get("index"),
        "epochs": known.get("epochs"),
        "replicas": replicas_json(call.view, found, logs),
        "log_start": found.fetched.log_start_offset,
        "leo": known.get("leo"),
        "hw": found.fetched.high_watermark,
        "lso": found.fetched.last_stable_offset,
        "commits": commits,
        "spark": spark,
        "story": story(partition, offset, found, logs, commits, spark),
    }


def _record(found: FoundBatch) -> Json:
    """Without key and value, whose sizes alone are told."""
    record = found.record
    if record is None:
        return None
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp if record.timestamp >= 0 else None,
        "key_bytes": None if record.key is None else len(record.key),
        "value_bytes": None if record.value is None else len(record.value),
        "headers": len(record.headers),
        "number_in_batch": record.offset - found.header.base_offset,
    }


async def show_bytes(call: Call) -> Json:
    """The batch as it lies in the leader's file, every field named. It came by a fetch, and so only to one who may read."""
    partition, offset = _place(call)
    await check_rights(call.view, partition.topic)
    await call.view.sampled()
    found = await find_batch(call.view, partition, offset)
    logs = await logs_of(call.console.nodes, call.view, (found.leader,), partition, offset)
    log = logs.get(found.leader)
    known = log if isinstance(log, dict) else None
    shown = found.batch[:BYTES_MAX]
    entry = None if known is None else known["index"].get("batch_entry") or known["index"].get("offset_entry")
    return {
        "position": None if known is None else known["batch"]["position"],
        "file": None if known is None else known["segment"]["file"],
        "size": len(found.batch),
        "truncated": len(found.batch) > BYTES_MAX,
        "hex": shown.hex(),
        "fields": [each._asdict() for each in fields_of(shown) if each.end <= len(shown)],
        "record": None if found.record is None else found.record.offset - found.header.base_offset,
        "header_bytes": HEADER_BYTES,
        "index_entry": entry,
        "segment_place": None
        if known is None
        else {
            "segments": known["segments"],
            "segment_count": known.get("segment_count", len(known["segments"])),
            "file": known["segment"]["file"],
            "position": known["batch"]["position"],
            "size": known["segment"]["size"],
        },
    }


async def live(call: Call) -> AsyncGenerator[Event]:
    """First `state`, then `events` in causal order, `gap` where nobody knows, `source` where a node begins or ends to tell."""
    partition, _ = _place(call)
    await check_rights(call.view, partition.topic)
    await call.view.sampled()
    feeds: PartitionFeeds = call.view.notes.setdefault("feeds", PartitionFeeds())
    feed = feeds.of(call.view, call.console.nodes, partition)
    play = call.console.play
    if play is not None:
        play.window_opened(call.session)
    try:
        async for event in follow(feed):
            yield event
    finally:
        if play is not None:
            await play.window_closed(call.session)


async def probe(call: Call) -> Json:
    """A record of our own to follow."""
    body = await call.body()
    topic, index = body.get("topic"), body.get("partition")
    if not isinstance(topic, str) or not topic:
        raise wrong_question("topic is missing")
    if index is not None and (not isinstance(index, int) or isinstance(index, bool) or index < 0):
        raise wrong_question("partition is a number, or null")
    await check_rights(call.view, topic)
    call.details |= {"topic": topic, "partition": index}
    value = b"followed by the X-ray, %s" % os.urandom(4).hex().encode()
    delivery = await call.view.producer().send(topic, value, PROBE_KEY, partition=index)
    written = await delivery
    call.details["offset"] = written.offset
    return {"topic": topic, "partition": written.partition, "offset": written.offset}


ROUTES = [
    get("/xray/record", show_record),
    get("/xray/bytes", show_bytes),
    stream("/xray/live", live),
    change("POST", "/xray/probe", probe, "produce probe"),
]

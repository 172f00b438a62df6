"""Topics: the list of thousands, one of them, and changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from tidelog.client.admin import (
    BROKER_DEFAULT,
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
    ProducerState,
    ResourceKind,
    TopicDescription,
    value_of,
)
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError
from tidelog.console.cluster.sampler import Sampler
from tidelog.console.cluster.view import ClusterView
from tidelog.console.serving.answers import Json, choice, flag, page
from tidelog.console.serving.api_error import ApiError, not_there, wrong_question
from tidelog.console.serving.call import Call, change, get

# Of one topic's screen.
PARTITIONS_MAX = 2_000
PRODUCERS_MAX = 200
GROUPS_MAX = 200
_CONFIGS_MAX = 100
_COUNT_MAX = 100_000
_KNOWN_S = 3.0
_KNOWN_LOOK_S = 0.05

_SORTS = {
    "name": lambda row: row["name"],
    "bytes": lambda row: row["bytes"],
    "partitions": lambda row: row["partitions"],
    "records": lambda row: row["records"],
    "rate": lambda row: row["rate"],
}


async def list_topics(call: Call) -> Json:
    sampler = await call.view.sampled()
    if "topics" in sampler.problems and not sampler.topics:
        raise sampler.problems["topics"]
    search = call.query.get("search", "").lower()
    internal = flag(call.query, "internal")
    now_s = time.time()
    only = choice(call.query, "only", ("", "under_replicated", "offline"))
    rows = [
        row_of(sampler, topic, now_s)
        for topic in sampler.topics.values()
        if (internal or not topic.is_internal) and search in topic.name.lower()
    ]
    if only:
        rows = [row for row in rows if row[only]]
    total, shown = page(rows, call.query, sorts=_SORTS, default="name")
    return {"total": total, "rows": shown}


def row_of(sampler: Sampler, topic: TopicDescription, now_s: float) -> dict[str, Json]:
    partitions = [TopicPartition(topic.name, each.index) for each in topic.partitions]
    counts = [sampler.partitions.records(each) for each in partitions]
    rates = [sampler.partitions.rate(each, now_s) for each in partitions]
    known = [each for each in rates if each is not None]
    return {
        "name": topic.name,
        "id": topic.id,
        "internal": topic.is_internal,
        "partitions": len(partitions),
        "replication": topic.replication_factor,
        "bytes": sampler.topic_bytes.get(topic.name),
        "records": None if None in counts else sum(each or 0 for each in counts),
        "under_replicated": sum(len(each.in_sync) < len(each.replicas) for each in topic.partitions),
        "offline": sum(each.leader is None for each in topic.partitions),
        "rate": max(0.0, sum(known)) if known else None,
    }


async def show_topic(call: Call) -> Json:
    name = call.path("topic")
    view, sampler = call.view, await call.view.sampled()
    topic = await view.admin.describe_topic(name)
    shown = topic.partitions[:PARTITIONS_MAX]
    partitions = [TopicPartition(name, each.index) for each in shown if each.leader is not None]
    starts, ends, stable, configs, producers, sizes = await asyncio.gather(
        view.admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST)),
        view.admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST)),
        view.admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST), read_committed=True),
        _configs(view, name),
        _producers(view, partitions),
        _sizes(view, partitions),
    )
    now_s = time.time()

    def offset(found: Mapping[TopicPartition, Any], index: int) -> int | None:
        listed = found.get(TopicPartition(name, index))
        return None if listed is None or isinstance(listed, ClientError) else listed.offset

    return {
        "name": name,
        "id": topic.id,
        "internal": topic.is_internal,
        "partitions_total": len(topic.partitions),
        "partitions": [
            {
                "partition": each.index,
                "leader": each.leader,
                "leader_epoch": each.leader_epoch,
                "replicas": each.replicas,
                "isr": each.in_sync,
                "offline": each.offline,
                "log_start": offset(starts, each.index),
                "hw": offset(ends, each.index),
                "lso": offset(stable, each.index),
                "bytes": None if sizes is None else sizes.get(TopicPartition(name, each.index)),
                "rate": sampler.partitions.rate(TopicPartition(name, each.index), now_s),
            }
            for each in shown
        ],
        "configs": configs,
        "groups": _groups(sampler, name),
        "producers": producers,
    }


async def _configs(view: ClusterView, name: str) -> list[Json] | None:
    """None where the user may not see them."""
    try:
        resource = ConfigResource(ResourceKind.TOPIC, name)
        described = await view.admin.describe_configs([resource], include_synonyms=True, include_documentation=True)
        entries = value_of(described[resource])
    except ClientError as error:
        if error.code is not None and error.code.name.endswith("AUTHORIZATION_FAILED"):
            return None
        raise
    return [config_row(each) for _, each in sorted(entries.items())]


def config_row(entry: ConfigEntry) -> Json:
    default = next((each.value for each in entry.synonyms if each.source is ConfigSource.DEFAULT), None)
    if entry.source is ConfigSource.DEFAULT:
        default = entry.value
    return {
        "name": entry.name,
        "value": None if entry.is_sensitive else entry.value,
        "source": entry.source.name.lower(),
        "default": default,
        "sensitive": entry.is_sensitive,
        "read_only": entry.is_read_only,
        "type": entry.type.name.lower(),
        "doc": entry.documentation,
    }


async def _producers(view: ClusterView, partitions: list[TopicPartition]) -> list[Json]:
    rows: list[Json] = []
    for partition, found in (await view.admin.describe_producers(partitions)).items():
        if isinstance(found, ClientError):
            continue
        rows += [producer_row(partition, each) for each in found]
    rows.sort(key=lambda row: -row["last_timestamp"])
    return rows[:PRODUCERS_MAX]


def producer_row(partition: TopicPartition, state: ProducerState) -> Json:
    return {
        "partition": partition.partition,
        "producer_id": state.producer_id,
        "epoch": state.producer_epoch,
        "last_sequence": state.last_sequence,
        "last_timestamp": state.last_timestamp_ms,
        "transactional_open_since": state.transaction_start_offset,
    }


async def _sizes(view: ClusterView, partitions: list[TopicPartition]) -> dict[TopicPartition, int] | None:
    """The bytes of each partition's largest replica; None where the user may not see disks."""
    found: dict[TopicPartition, int] = {}
    described = await view.admin.describe_log_dirs(partitions=partitions)
    errors = 0
    for dirs in described.values():
        if isinstance(dirs, ClientError):
            errors += 1
            continue
        for each in dirs.values():
            for partition, replica in each.replicas.items():
                found[partition] = max(found.get(partition, 0), replica.size_bytes)
    return None if errors == len(described) else found


def _groups(sampler: Sampler, topic: str) -> list[Json]:
    rows: list[Json] = []
    now_s = time.time()
    for group_id, group in sampler.groups.groups.items():
        commits = {each: commit.offset for each, commit in group.commits.items() if each.topic == topic}
        if not commits:
            continue
        lags = [
            max(0, end - offset)
            for each, offset in commits.items()
            if (end := sampler.partitions.end(each)) is not None
        ]
        ages = [
            age
            for each, offset in commits.items()
            if (sampler.partitions.end(each) or 0) > offset
            and (age := sampler.times.seconds(each, offset, now_s)) is not None
        ]
        rows.append(
            {
                "group": group_id,
                "type": group.listed.type,
                "state": group.listed.state,
                "lag": sum(lags) if lags else None,
                "lag_seconds": max(ages) if ages else 0.0 if lags and not sum(lags) else None,
            }
        )
    rows.sort(key=lambda row: (-(row["lag"] or 0), row["group"]))
    return rows[:GROUPS_MAX]


async def create_topic(call: Call) -> Json:
    body = await call.body()
    name = _text(body, "name")
    configs = _texts(body.get("configs") or {})
    partitions = _count(body, "partitions")
    replication = _count(body, "replication")
    call.details |= {"topic": name, "partitions": partitions, "replication": replication, "configs": sorted(configs)}
    new = NewTopic(name, partitions or BROKER_DEFAULT, replication or BROKER_DEFAULT, configs)
    created = value_of((await call.view.admin.create_topics([new], validate_only=call.is_dry_run))[name])
    if not call.is_dry_run:
        await _until_known(call.view, name)
    call.view.sampler.sooner()
    return {
        "name": name,
        "partitions": created.partitions,
        "replication": created.replication_factor,
        "configs": {key: value for key, value in created.configs.items() if key in configs},
        "applied": not call.is_dry_run,
    }


async def _until_known(view: ClusterView, name: str) -> None:
    """Brokers hear of a topic a moment after the controller has made it, and its screen is what a person looks at next."""
    deadline_s = time.monotonic() + _KNOWN_S
    while time.monotonic() < deadline_s:
        found = (await view.admin.describe_topics([name]))[name]
        if not isinstance(found, ClientError) and all(each.leader is not None for each in found.partitions):
            return
        await asyncio.sleep(_KNOWN_LOOK_S)


async def delete_topic(call: Call) -> Json:
    name = call.path("topic")
    call.details["topic"] = name
    await call.view.admin.delete_topic(name)
    call.view.sampler.sooner()
    return {"name": name, "applied": True}


async def add_partitions(call: Call) -> Json:
    name, body = call.path("topic"), await call.body()
    count = _count(body, "count")
    if not count:
        raise wrong_question("count is missing: how many partitions the topic is to have")
    call.details |= {"topic": name, "count": count}
    before = len((await call.view.admin.describe_topic(name)).partitions)
    outcomes = await call.view.admin.create_partitions({name: count}, validate_only=call.is_dry_run)
    value_of(outcomes[name])
    call.view.sampler.sooner()
    return {"name": name, "from": before, "to": count, "applied": not call.is_dry_run}


async def alter_configs(call: Call) -> Json:
    """Each key to a value, or back to its default (null). What is not named stays."""
    name, body = call.path("topic"), await call.body()
    given = {key: value for key, value in body.items() if key != "dry_run"}
    if not 0 < len(given) <= _CONFIGS_MAX:
        raise wrong_question(f"name 1 to {_CONFIGS_MAX} configuration keys and their values")
    for key, value in given.items():
        if value is not None and not isinstance(value, str):
            raise wrong_question(f"{key} is given as text, or as null for its default")
    call.details |= {"topic": name, "keys": sorted(given)}
    before = await call.view.admin.describe_config(ResourceKind.TOPIC, name)
    resource = ConfigResource(ResourceKind.TOPIC, name)
    changes = [
        ConfigChange(key, ConfigOperation.DELETE if value is None else ConfigOperation.SET, value)
        for key, value in given.items()
    ]
    outcomes = await call.view.admin.incremental_alter_configs({resource: changes}, validate_only=call.is_dry_run)
    value_of(outcomes[resource])
    return {
        "plan": [
            {
                "name": key,
                "from": before[key].value if key in before and not before[key].is_sensitive else None,
                "to": value,
            }
            for key, value in given.items()
        ],
        "applied": not call.is_dry_run,
    }


def known_topic(sampler: Sampler, name: str) -> TopicDescription:
    topic = sampler.topics.get(name)
    if topic is None:
        raise not_there(f"there is no topic {name!r:.250}")
    return topic


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise wrong_question(f"{name} is missing")
    return value


def _texts(given: object) -> dict[str, str]:
    if not isinstance(given, dict) or len(given) > _CONFIGS_MAX:
        raise wrong_question(f"configs is an object of at most {_CONFIGS_MAX} keys")
    for key, value in given.items():
        if not isinstance(value, str):
            raise wrong_question(f"{key!s:.60} is given as text")
    return given


def _count(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _COUNT_MAX:
        raise ApiError(400, "BAD_REQUEST", f"{name} is a number from 1 to {_COUNT_MAX}")
    return value


ROUTES = [
    get("/topics", list_topics),
    change("POST", "/topics", create_topic, "create topic"),
    get("/topics/{topic}", show_topic),
    change("DELETE", "/topics/{topic}", delete_topic, "delete topic"),
    change("POST", "/topics/{topic}/partitions", add_partitions, "add partitions"),
    change("PUT", "/topics/{topic}/configs", alter_configs, "alter topic configuration"),
]

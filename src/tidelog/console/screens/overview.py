"""The cluster as a whole: its nodes, its quorum, how much comes in; and the same over time."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from tidelog.client.admin import QuorumReplica
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.console.cluster.sample_ring import SampleRing, grid
from tidelog.console.cluster.sampler import SERIES, Sampler
from tidelog.console.serving.answers import Event, Json, whole
from tidelog.console.serving.api_error import not_there, wrong_question
from tidelog.console.serving.call import Call, get, stream

_POINTS = 180
_MINUTES_MAX = 24 * 60
_EVENT_S = 2.0
# What changed, named one by one; more is told as a number.
_NAMES_MAX = 100
_LAGS_MAX = 50


async def show_overview(call: Call) -> Json:
    return overview_of(await call.view.sampled())


def overview_of(sampler: Sampler) -> Json:
    cluster, quorum = sampler.cluster, sampler.quorum
    topics = sampler.topics.values()
    now_ms = time.time() * 1000
    nodes: dict[int, dict[str, Any]] = {}
    for broker in () if cluster is None else cluster.brokers:
        dirs = sampler.log_dirs.get(broker.node_id)
        nodes[broker.node_id] = {
            "id": broker.node_id,
            "host": broker.host,
            "port": broker.port,
            "rack": broker.rack,
            "fenced": broker.is_fenced,
            "is_controller": cluster is not None and cluster.controller_id == broker.node_id,
            "leaders": 0,
            "replicas": 0,
            "under_replicated": 0,
            "log_bytes": None
            if dirs is None
            else sum(replica.size_bytes for each in dirs.values() for replica in each.replicas.values()),
            "traced": broker.node_id in sampler.http,
            "http": sampler.http.get(broker.node_id),
        }
    for topic in topics:
        for partition in topic.partitions:
            for replica in partition.replicas:
                node = nodes.get(replica)
                if node is not None:
                    node["replicas"] += 1
                    node["leaders"] += replica == partition.leader
                    node["under_replicated"] += replica not in partition.in_sync
    return {
        "cluster_id": None if cluster is None else cluster.cluster_id,
        "controller_id": None if cluster is None else cluster.controller_id,
        # Kafka's protocol names no software; nodes of Tidelog have a key that no others have.
        "software": "Tidelog" if sampler.is_tidelog else None,
        "nodes": [nodes[node_id] for node_id in sorted(nodes)],
        "quorum": None
        if quorum is None
        else {
            "leader_id": quorum.leader_id,
            "leader_epoch": quorum.leader_epoch,
            "high_watermark": quorum.high_watermark,
            "voters": _replicas(quorum.voters, quorum.leader_id, now_ms),
            "observers": _replicas(quorum.observers, quorum.leader_id, now_ms),
        },
        "counts": {
            "topics": len(sampler.topics),
            "partitions": sum(len(each.partitions) for each in topics),
            "under_replicated": sampler.under_replicated(),
            "offline": sampler.offline(),
            "under_min_isr": sampler.under_min_isr(),
            "groups": len(sampler.groups.groups),
        },
        "rates": {"bytes_in": sampler.series["bytes_in"].last, "records_in": sampler.series["records_in"].last},
        "problems": {name: each.as_json()["error"] for name, each in sampler.problems.items()},
    }


def _replicas(replicas: Sequence[QuorumReplica], leader_id: int, now_ms: float) -> list[Json]:
    end = next((each.log_end_offset for each in replicas if each.node_id == leader_id), None)
    if end is None:
        end = max((each.log_end_offset for each in replicas), default=0)
    return [
        {
            "id": each.node_id,
            "log_end_offset": each.log_end_offset,
            "lag": max(0, end - each.log_end_offset) if each.log_end_offset >= 0 else None,
            "last_caught_up_ms_ago": 0
            if each.node_id == leader_id
            else None
            if each.last_caught_up_ms is None or each.last_caught_up_ms < 0
            else max(0, round(now_ms - each.last_caught_up_ms)),
        }
        for each in replicas
    ]


async def show_quorum(call: Call) -> Json:
    quorum = await call.view.admin.describe_quorum()
    now_ms = time.time() * 1000
    return {
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "voters": _replicas(quorum.voters, quorum.leader_id, now_ms),
        "observers": _replicas(quorum.observers, quorum.leader_id, now_ms),
    }


async def show_history(call: Call) -> Json:
    """The console's own samples: of the cluster, of one topic, or of one group. What was not seen is null."""
    sampler = await call.view.sampled()
    # Each once, however often it is named: that of a topic is counted over all of its partitions.
    wanted = dict.fromkeys(each for each in call.query.get("series", "records_in").split(",") if each)
    minutes = whole(call.query, "minutes", 60, at_least=1, at_most=_MINUTES_MAX)
    now_s = time.time()
    first_s = max(now_s - minutes * 60, sampler.partitions.first_s or now_s)
    times_s = grid(first_s, now_s, _POINTS)
    topic, group = call.query.get("topic"), call.query.get("group")
    series: dict[str, list[float | None]] = {}
    for name in wanted:
        if topic is not None:
            series[name] = _of_topic(sampler, topic, name, times_s)
        else:
            series[name] = _ring(sampler, group, name).series(times_s)
    return {"t": times_s, "series": series}


def _of_topic(sampler: Sampler, topic: str, name: str, times_s: list[float]) -> list[float | None]:
    found = sampler.topics.get(topic)
    if found is None:
        raise not_there(f"there is no topic {topic!r:.250}")
    if name != "records_in":
        raise wrong_question(f"a topic has the series records_in, not {name!r:.60}")
    return sampler.partitions.records_in((TopicPartition(topic, each.index) for each in found.partitions), times_s)


def _ring(sampler: Sampler, group: str | None, name: str) -> SampleRing:
    if group is None:
        if name not in SERIES:
            raise wrong_question(f"there is no series {name!r:.60}: {', '.join(SERIES)}")
        return sampler.series[name]
    found = sampler.groups.groups.get(group)
    if found is None:
        raise not_there(f"there is no group {group!r:.250}")
    rings = {"lag": found.lags, "lag_seconds": found.ages}
    if name not in rings:
        raise wrong_question(f"a group has the series lag and lag_seconds, not {name!r:.60}")
    return rings[name]


async def follow(call: Call) -> AsyncGenerator[Event]:
    """The overview at every round of samples, topics that come and go, groups whose lag has changed most."""
    sampler = await call.view.sampled()
    known = set(sampler.topics)
    lags: dict[str, int | None] = {}
    last = 0
    while True:
        yield "overview", overview_of(sampler)
        names = set(sampler.topics)
        if names != known:
            come, gone = sorted(names - known), sorted(known - names)
            known = names
            yield "topics", {"come": come[:_NAMES_MAX], "gone": gone[:_NAMES_MAX], "total": len(names)}
        news = _lag_news(sampler, lags)
        if news:
            yield "group", {"groups": news}
        sampler.asked()
        last = await sampler.next_round(max(last, sampler.round), 10 * _EVENT_S)


def _lag_news(sampler: Sampler, known: dict[str, int | None]) -> list[Json]:
    changed = [
        (abs((each.lag or 0) - (known.get(group_id) or 0)), group_id)
        for group_id, each in sampler.groups.groups.items()
        if each.lag is not None and known.get(group_id) != each.lag
    ]
    changed.sort(key=lambda each: (-each[0], each[1]))
    known.clear()
    known.update({group_id: each.lag for group_id, each in sampler.groups.groups.items()})
    return [
        {
            "group": group_id,
            "lag": sampler.groups.groups[group_id].lag,
            "lag_seconds": sampler.groups.groups[group_id].lag_seconds,
            "state": sampler.groups.groups[group_id].listed.state,
        }
        for _, group_id in changed[:_LAGS_MAX]
    ]


ROUTES = [
    get("/overview", show_overview),
    get("/quorum", show_quorum),
    get("/history", show_history),
    stream("/events", follow),
]

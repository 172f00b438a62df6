"""Groups of all kinds: the list of thousands, one of them with why it lags, its lag over time, and changes of its offsets."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from tidelog.client.admin import (
    GroupDescription,
    GroupMember,
    GroupType,
    ListedOffset,
    OffsetSpec,
    TopicDescription,
    value_of,
)
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError, RefusedError
from tidelog.console.cluster.sample_ring import grid
from tidelog.console.groups.group_facts import PartitionFacts, gather_facts
from tidelog.console.groups.lag_reasons import reasons_of_group, reasons_of_partition
from tidelog.console.serving.answers import Json, choice, page, whole
from tidelog.console.serving.api_error import ApiError, not_there, wrong_question
from tidelog.console.serving.call import Call, change, get
from tidelog.model.errors import ErrorCode

_SORTS = {
    "group": lambda row: row["group"],
    "type": lambda row: row["type"],
    "state": lambda row: row["state"],
    "protocol": lambda row: row["protocol"],
    "members": lambda row: row["members"],
    "lag": lambda row: row["lag"],
    "lag_seconds": lambda row: row["lag_seconds"],
    "coordinator": lambda row: row["coordinator"],
}
_POINTS = 180
_MINUTES_MAX = 24 * 60
PLAN_MAX = 10_000
_TO = ("earliest", "latest", "offset", "time", "shift")


async def list_groups(call: Call) -> Json:
    sampler = await call.view.sampled()
    if "groups" in sampler.problems and not sampler.groups.groups:
        raise sampler.problems["groups"]
    search = call.query.get("search", "").lower()
    kind, state = call.query.get("type", "").lower(), call.query.get("state", "").lower()
    rows = [
        {
            "group": group_id,
            "type": each.listed.type,
            "protocol": each.listed.protocol_type,
            "state": each.listed.state,
            "members": each.members,
            "lag": each.lag,
            "lag_seconds": each.lag_seconds,
            "coordinator": each.listed.coordinator,
        }
        for group_id, each in sampler.groups.groups.items()
        if search in group_id.lower()
        and (not kind or each.listed.type == kind)
        and (not state or each.listed.state.lower() == state)
    ]
    total, shown = page(rows, call.query, sorts=_SORTS, default="group")
    return {"total": total, "rows": shown}


async def show_group(call: Call) -> Json:
    group_id = call.path("group")
    sampler = await call.view.sampled()
    sampler.groups.watch(group_id)
    group = await call.view.admin.describe_group(group_id)
    facts = await gather_facts(call.view, group, time.time())
    return {
        "group": group_id,
        "type": str(group.type),
        "state": str(group.state),
        "protocol": group.protocol_type,
        "epoch": group.epoch,
        "coordinator": group.coordinator,
        "assignor": group.assignor,
        "members": [_member(each) for each in group.members],
        "partitions": [_partition(each) for each in facts.partitions],
        "lag": facts.lag,
        "lag_seconds": facts.lag_seconds,
        "why": reasons_of_group(facts),
    }


def _member(member: GroupMember) -> Json:
    assignment: dict[str, list[int]] = {}
    for topic, index in member.assignment:
        assignment.setdefault(topic, []).append(index)
    return {
        "id": member.member_id,
        "instance": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "epoch": member.epoch,
        "assignment": assignment,
    }


def _partition(facts: PartitionFacts) -> Json:
    return {
        "topic": facts.partition.topic,
        "partition": facts.partition.partition,
        "committed": facts.committed,
        "end": facts.end,
        "lso": facts.lso,
        "lag": facts.lag,
        "lag_seconds": facts.lag_seconds,
        "member": None if facts.member is None else facts.member.member_id,
        "rate": facts.commit_rate,
        "in_rate": facts.in_rate,
        "why": reasons_of_partition(facts),
    }


async def show_lag(call: Call) -> Json:
    """Over time, as this console has seen it. The partitions of a group have a history once somebody has looked at it."""
    group_id = call.path("group")
    sampler = await call.view.sampled()
    sampler.groups.watch(group_id)
    group = sampler.groups.groups.get(group_id)
    if group is None:
        raise not_there(f"there is no group {group_id!r:.250}")
    minutes = whole(call.query, "minutes", 60, at_least=1, at_most=_MINUTES_MAX)
    now_s = time.time()
    first_s = max(now_s - minutes * 60, group.lags.first_s or now_s)
    times_s = grid(first_s, now_s, _POINTS)
    partitions: dict[str, list[float | None]] = {}
    for partition, commits in sampler.groups.watched(group_id).items():
        ends = sampler.partitions.ring(partition)
        if ends is not None:
            partitions[str(partition)] = [
                None if end is None or committed is None else max(0.0, end - committed)
                for end, committed in zip(ends.series(times_s), commits.series(times_s), strict=True)
            ]
    return {
        "t": times_s,
        "lag": group.lags.series(times_s),
        "lag_seconds": group.ages.series(times_s),
        "partitions": partitions,
    }


async def change_offsets(call: Call) -> Json:
    """The plan: from where to where, by partition. Applied unless it is a dry run."""
    group_id, body = call.path("group"), await call.body()
    to = choice(body, "to", _TO)
    value = body.get("value")
    topic = body.get("topic")
    if not isinstance(topic, str) or not topic:
        raise wrong_question("topic is missing: whose offsets are to change")
    if to in {"offset", "time", "shift"} and (not isinstance(value, int) or isinstance(value, bool)):
        raise wrong_question(f"value is missing: a number for {to!r}")
    described = await call.view.admin.describe_topic(topic)
    partitions = _chosen(described, body.get("partitions"))
    call.details |= {"group": group_id, "topic": topic, "to": to, "value": value, "partitions": len(partitions)}
    group = await _group(call, group_id)
    is_share = group is not None and group.type is GroupType.SHARE
    committed = await _committed(call, group_id, is_share=is_share)
    targets = await _targets(call, partitions, committed, to, value)
    plan = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "from": committed.get(each),
            "to": targets[each],
        }
        for each in partitions
    ]
    if not call.is_dry_run:
        if group is not None and group.members:
            raise ApiError(
                409,
                "NON_EMPTY_GROUP",
                f"group {group_id} has {len(group.members)} members, which go on by themselves",
                "stop its consumers first",
            )
        await _apply(call, group_id, targets, is_share=is_share)
        call.view.sampler.sooner()
    return {"plan": plan, "applied": not call.is_dry_run}


async def _group(call: Call, group_id: str) -> GroupDescription | None:
    """None where there is none yet: its offsets may be set before its first member comes."""
    try:
        return await call.view.admin.describe_group(group_id)
    except RefusedError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return None


async def _committed(call: Call, group_id: str, *, is_share: bool) -> dict[TopicPartition, int]:
    if is_share:
        positions = await call.view.admin.list_share_group_offsets(group_id)
        return {each: position.start_offset for each, position in positions.items()}
    return {each: found.offset for each, found in (await call.view.admin.list_group_offsets(group_id)).items()}


async def _apply(call: Call, group_id: str, targets: Mapping[TopicPartition, int], *, is_share: bool) -> None:
    wanted: dict[tuple[str, int], int] = {(each.topic, each.partition): offset for each, offset in targets.items()}
    outcomes = await (
        call.view.admin.alter_share_group_offsets(group_id, wanted)
        if is_share
        else call.view.admin.alter_group_offsets(group_id, dict(wanted))
    )
    for error in outcomes.values():
        if error is not None:
            raise error


def _chosen(topic: TopicDescription, given: Any) -> list[TopicPartition]:
    there = {each.index for each in topic.partitions}
    if given is None:
        chosen = sorted(there)
    elif isinstance(given, list) and all(type(each) is int and each in there for each in given):
        chosen = sorted(set(given))
    else:
        raise wrong_question(f"partitions are numbers of topic {topic.name}, which has {len(there)}, or null for all")
    if not 0 < len(chosen) <= PLAN_MAX:
        raise wrong_question(f"a plan is of 1 to {PLAN_MAX} partitions")
    return [TopicPartition(topic.name, each) for each in chosen]


async def _targets(
    call: Call, partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, int], to: str, value: Any
) -> dict[TopicPartition, int]:
    wanted = list(partitions)
    starts = await _listed(call, wanted, OffsetSpec.EARLIEST)
    ends = await _listed(call, wanted, OffsetSpec.LATEST)
    if to == "earliest":
        return starts
    if to == "latest":
        return ends
    if to == "time":
        found = await call.view.admin.list_offsets(dict.fromkeys(wanted, max(0, value)))
        times = {each: value_of(found[each]).offset for each in wanted}
        # Nothing so new: the end.
        return {each: ends[each] if times[each] is None else int(times[each] or 0) for each in wanted}
    if to == "offset":
        return {each: min(max(value, starts[each]), ends[each]) for each in wanted}
    return {each: min(max(committed.get(each, starts[each]) + value, starts[each]), ends[each]) for each in wanted}


async def _listed(call: Call, partitions: list[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
    found: Mapping[TopicPartition, ListedOffset | ClientError] = await call.view.admin.list_offsets(
        dict.fromkeys(partitions, spec)
    )
    return {each: value_of(found[each]).offset or 0 for each in partitions}


async def delete_group(call: Call) -> Json:
    group_id = call.path("group")
    call.details["group"] = group_id
    await call.view.admin.delete_group(group_id)
    call.view.sampler.sooner()
    return {"group": group_id, "applied": True}


ROUTES = [
    get("/groups", list_groups),
    # Names of groups may hold slashes.
    get("/groups/{group:path}/lag", show_lag),
    change("POST", "/groups/{group:path}/offsets", change_offsets, "change offsets"),
    get("/groups/{group:path}", show_group),
    change("DELETE", "/groups/{group:path}", delete_group, "delete group"),
]

"""`tidelog topics`: list, describe, create, delete topics, and give them more partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.cli.admin_session import (
    QuestionError,
    administer,
    comma_separated,
    parse_pairs,
    print_json,
    print_line,
    print_table,
)
from tidelog.cli.rendering import Json
from tidelog.cli.topic_names import with_nearest_settings
from tidelog.client.admin import (
    BROKER_DEFAULT,
    AsyncAdmin,
    ConfigSource,
    ResourceKind,
    TopicDescription,
    TopicListing,
    value_of,
)
from tidelog.client.errors import RefusedError
from tidelog.model.errors import ErrorCode

_COMMAND = "topics"


def list_topics(bootstrap: str, *, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        topics = await admin.list_topics()
        if as_json:
            print_json(_summary(topic) for topic in topics)
            return
        if not topics:
            print_line("there are no topics")
            return
        rows = [
            (topic.name, topic.partitions, topic.replication_factor, "yes" if topic.is_internal else "no")
            for topic in topics
        ]
        print_table(["topic", "partitions", "replicas", "internal"], rows)

    return administer(_COMMAND, bootstrap, work)


def describe_topics(bootstrap: str, names: Sequence[str], *, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        described = await admin.describe_topics(sorted(set(names)))
        for topic in [value_of(each) for each in described.values()]:
            entries = await admin.describe_config(ResourceKind.TOPIC, topic.name)
            changed = {entry.name: entry.value for entry in entries.values() if entry.source is ConfigSource.TOPIC}
            if as_json:
                print_json([{**_summary(topic), "configs": changed, "partition_list": _partitions(topic)}])
            else:
                _print_topic(topic, changed)

    return administer(_COMMAND, bootstrap, work)


def create_topic(
    bootstrap: str,
    name: str,
    *,
    partitions: int | None,
    replication_factor: int | None,
    settings: Sequence[str],
    if_not_exists: bool,
) -> int:
    async def work(admin: AsyncAdmin) -> None:
        configs = parse_pairs(settings)
        try:
            await admin.create_topic(
                name,
                partitions=partitions or BROKER_DEFAULT,
                replication_factor=replication_factor or BROKER_DEFAULT,
                configs=configs,
            )
        except RefusedError as error:
            if not if_not_exists or error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise with_nearest_settings(error, configs) from None
            print_line(f"topic {name} exists already")
            return
        print_line(f"created topic {name}")

    return administer(_COMMAND, bootstrap, work)


def delete_topics(bootstrap: str, names: Sequence[str], *, if_exists: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        for name in names:
            try:
                await admin.delete_topic(name)
            except RefusedError as error:
                if not if_exists or error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                print_line(f"there is no topic {name}")
                continue
            print_line(f"deleted topic {name}")

    return administer(_COMMAND, bootstrap, work)


def add_partitions(bootstrap: str, name: str, *, total: int) -> int:
    async def work(admin: AsyncAdmin) -> None:
        topic = await admin.describe_topic(name)
        if total <= len(topic.partitions):
            raise QuestionError(f"topic {name} has {len(topic.partitions)} partitions, and can only get more")
        value_of((await admin.create_partitions({name: total}))[name])
        print_line(f"topic {name} has {total} partitions now")

    return administer(_COMMAND, bootstrap, work)


def _summary(topic: TopicDescription | TopicListing) -> dict[str, Json]:
    return {
        "topic": topic.name,
        "id": topic.id,
        "partitions": topic.partitions if isinstance(topic, TopicListing) else len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "internal": topic.is_internal,
    }


def _partitions(topic: TopicDescription) -> list[Mapping[str, Json]]:
    return [
        {
            "partition": each.index,
            "leader": each.leader,
            "leader_epoch": each.leader_epoch,
            "replicas": each.replicas,
            "in_sync": each.in_sync,
            "offline": each.offline,
        }
        for each in topic.partitions
    ]


def _print_topic(topic: TopicDescription, changed: Mapping[str, str | None]) -> None:
    print_line(f"topic {topic.name}, id {topic.id or 'none'}{', internal' if topic.is_internal else ''}")
    for name, value in changed.items():
        print_line(f"{name}={value}")
    rows = [
        (
            each.index,
            "none" if each.leader is None else each.leader,
            each.leader_epoch,
            comma_separated(each.replicas),
            comma_separated(each.in_sync),
            comma_separated(each.offline),
        )
        for each in topic.partitions
    ]
    print_table(["partition", "leader", "epoch", "replicas", "in sync", "offline"], rows)

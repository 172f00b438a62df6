"""`tidelog groups`: list and describe groups, how far they are, delete them or what they have of topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tidelog.cli.admin_session import (
    QuestionError,
    administer,
    complain_later,
    print_json,
    print_line,
    print_table,
)
from tidelog.cli.rendering import Json
from tidelog.client.admin import (
    AsyncAdmin,
    GroupDescription,
    GroupMember,
    GroupState,
    GroupType,
    PartitionLag,
)
from tidelog.client.consumer.topic_partition import by_topic
from tidelog.client.errors import ClientError, RefusedError
from tidelog.model.errors import ErrorCode

_COMMAND = "groups"

W = TypeVar("W", GroupState, GroupType)


def list_groups(bootstrap: str, *, states: Sequence[str], types: Sequence[str], as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        groups = await admin.list_groups(
            states=[_word(GroupState, each) for each in states], types=[_word(GroupType, each) for each in types]
        )
        if as_json:
            print_json(
                {"group": each.group_id, "type": each.type, "protocol": each.protocol_type, "state": each.state}
                for each in groups
            )
        elif not groups:
            print_line("there are no such groups" if states or types else "there are no groups")
        else:
            rows = [(each.group_id, each.type, each.protocol_type or "-", each.state) for each in groups]
            print_table(["group", "type", "protocol", "state"], rows)

    return administer(_COMMAND, bootstrap, work)


def describe_groups(bootstrap: str, group_ids: Sequence[str], *, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        described = await admin.describe_groups(sorted(set(group_ids)))
        for group in described.values():
            if isinstance(group, ClientError):
                continue
            if as_json:
                print_json([_as_json(group)])
            else:
                _print_group(group)
        complain_later([error for error in described.values() if isinstance(error, ClientError)])

    return administer(_COMMAND, bootstrap, work)


def show_lag(bootstrap: str, group_ids: Sequence[str], *, all_groups: bool, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        if bool(group_ids) == all_groups:
            raise QuestionError("name one or more groups, or all of them with --all")
        # Of a later release's groups nothing is known here.
        types = set(GroupType) - {GroupType.UNKNOWN}
        names = [each.group_id for each in await admin.list_groups() if each.type in types] if all_groups else group_ids
        if not names:
            print_line("there are no groups")
        for index, name in enumerate(sorted(set(names))):
            lags = await admin.group_lag(name)
            if as_json:
                print_json(_lag_as_json(name, each) for each in lags)
                continue
            if index:
                print_line("")
            _print_lag(name, lags)

    return administer(_COMMAND, bootstrap, work)


def delete_groups(bootstrap: str, group_ids: Sequence[str]) -> int:
    async def work(admin: AsyncAdmin) -> None:
        outcomes = await admin.delete_groups(group_ids)
        for name, error in outcomes.items():
            if error is None:
                print_line(f"deleted group {name}")
        complain_later([error for error in outcomes.values() if isinstance(error, ClientError)])

    return administer(_COMMAND, bootstrap, work)


def delete_offsets(bootstrap: str, group_id: str, topics: Sequence[str]) -> int:
    async def work(admin: AsyncAdmin) -> None:
        if (await admin.describe_group(group_id)).type is GroupType.SHARE:
            outcomes = await admin.delete_share_group_offsets(group_id, topics)
        else:
            outcomes = await _delete_committed(admin, group_id, topics)
        for name, error in outcomes.items():
            if error is None:
                print_line(f"group {group_id} has forgotten where it was in {name}")
        complain_later([error for error in outcomes.values() if isinstance(error, ClientError)])

    return administer(_COMMAND, bootstrap, work)


async def _delete_committed(admin: AsyncAdmin, group_id: str, topics: Sequence[str]) -> dict[str, ClientError | None]:
    """What a group of another kind has committed. By topic the first error of its partitions."""
    committed = by_topic(await admin.list_group_offsets(group_id))
    outcomes: dict[str, ClientError | None] = {}
    for name in dict.fromkeys(topics):
        if name not in committed:
            message = f"group {group_id} has committed nothing for topic {name}"
            outcomes[name] = RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
            continue
        deleted = await admin.delete_group_offsets(group_id, [(name, index) for index in committed[name]])
        outcomes[name] = next((error for error in deleted.values() if error is not None), None)
    return outcomes


def _word(words: type[W], text: str) -> W:
    for word in words:
        if word.value.lower() == text.lower():
            return word
    raise QuestionError(f"{text!r} is none of {', '.join(words)}")


def _as_json(group: GroupDescription) -> dict[str, Json]:
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "protocol": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "members": [_member_as_json(each) for each in group.members],
    }


def _member_as_json(member: GroupMember) -> dict[str, Json]:
    return {
        "member": member.member_id,
        "instance": member.group_instance_id,
        "client": member.client_id,
        "host": member.host,
        "rack": member.rack_id,
        "epoch": member.epoch,
        "classic": member.is_classic,
        "topics": member.subscribed_topics,
        "regex": member.subscribed_topic_regex,
        "assignment": by_topic(member.assignment),
        "target_assignment": None if member.target_assignment is None else by_topic(member.target_assignment),
    }


def _print_group(group: GroupDescription) -> None:
    details = [
        f"group {group.group_id}",
        group.type,
        group.state,
        *([f"assignor {group.assignor}"] if group.assignor else []),
        *([f"epoch {group.epoch}"] if group.epoch is not None else []),
        f"coordinator {group.coordinator}",
    ]
    print_line(", ".join(details))
    if not group.members:
        print_line("no members")
        return
    rows = [
        (
            each.member_id,
            each.client_id,
            each.host,
            each.group_instance_id or "-",
            " ".join(f"{topic}:{','.join(map(str, some))}" for topic, some in by_topic(each.assignment).items()) or "-",
        )
        for each in group.members
    ]
    print_table(["member", "client", "host", "instance", "partitions"], rows)


def _lag_as_json(group_id: str, each: PartitionLag) -> dict[str, Json]:
    return {
        "group": group_id,
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "committed": each.committed,
        "end": each.log_end_offset,
        "lag": each.lag,
        "member": each.member_id,
        "client": each.client_id,
        "host": each.host,
    }


def _print_lag(group_id: str, lags: Sequence[PartitionLag]) -> None:
    if not lags:
        print_line(f"group {group_id} is nowhere yet")
        return
    print_line(f"group {group_id}, {sum(each.lag or 0 for each in lags)} records behind")
    rows = [
        (
            each.partition.topic,
            each.partition.partition,
            _or_dash(each.committed),
            _or_dash(each.log_end_offset),
            _or_dash(each.lag),
            each.member_id or "-",
            each.host or "-",
        )
        for each in lags
    ]
    print_table(["topic", "partition", "committed", "end", "lag", "member", "host"], rows)


def _or_dash(number: int | None) -> int | str:
    return "-" if number is None else number

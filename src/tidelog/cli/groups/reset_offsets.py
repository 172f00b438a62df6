"""`tidelog groups reset-offsets`: have a group go on elsewhere. Shows the plan; carries it out only when told to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.cli.admin_session import (
    QuestionError,
    RefusalError,
    administer,
    complain_later,
    print_json,
    print_line,
    print_table,
)
from tidelog.cli.groups.offset_plan import (
    LogRange,
    PlannedOffset,
    parse_offset_file,
    parse_topics,
    plan_offsets,
    shifted,
)
from tidelog.cli.moments import parse_duration_ms, parse_time
from tidelog.client.admin import AsyncAdmin, GroupType, ListedOffset, OffsetSpec, value_of
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError, RefusedError
from tidelog.model.clock import SystemClock
from tidelog.model.errors import ErrorCode

_COMMAND = "groups"


@dataclass(frozen=True, slots=True)
class ResetOptions:
    """What was typed. Of the ways to choose an offset exactly one has to be there."""

    topics: Sequence[str] = ()
    all_topics: bool = False
    to_earliest: bool = False
    to_latest: bool = False
    to_time: str | None = None
    by_duration: str | None = None
    shift_by: int | None = None
    to_offset: int | None = None
    from_file: str | None = None
    share: bool = False
    execute: bool = False
    as_json: bool = False


def reset_offsets(bootstrap: str, group_id: str, options: ResetOptions) -> int:
    async def work(admin: AsyncAdmin) -> None:
        check_options(options)
        # Read before anything is asked: a mistake in it should not take a cluster to find.
        given = _read_file(options.from_file, group_id) if options.from_file is not None else None
        parse_topics(options.topics)
        spec = _spec(options)
        is_share = await _check_group(admin, group_id, may_share=options.share)
        committed = await _positions(admin, group_id, is_share=is_share)
        partitions = list(given) if given is not None else await _partitions(admin, group_id, options, committed)
        ranges = await _ranges(admin, partitions)
        if given is not None:
            wanted: Mapping[TopicPartition, int | None] = given
        elif options.shift_by is not None:
            wanted = shifted(partitions, committed, options.shift_by)
        elif options.to_offset is not None:
            wanted = dict.fromkeys(partitions, options.to_offset)
        else:
            assert spec is not None
            found = await admin.list_offsets(dict.fromkeys(partitions, spec))
            wanted = {each: value_of(listed).offset for each, listed in found.items()}
        plan = plan_offsets(wanted, committed, ranges)
        if options.execute:
            await _execute(admin, group_id, plan, is_share=is_share, as_json=options.as_json)
        else:
            _print_plan(group_id, plan, as_json=options.as_json)
            if not options.as_json:
                print_line("nothing was changed: --execute does it")

    return administer(_COMMAND, bootstrap, work)


def check_options(options: ResetOptions) -> None:
    """QuestionError where not exactly one way to choose offsets is there, or nothing says which partitions."""
    ways = {
        "--to-earliest": options.to_earliest,
        "--to-latest": options.to_latest,
        "--to-time": options.to_time is not None,
        "--by-duration": options.by_duration is not None,
        "--shift-by": options.shift_by is not None,
        "--to-offset": options.to_offset is not None,
        "--from-file": options.from_file is not None,
    }
    chosen = [name for name, is_there in ways.items() if is_there]
    if len(chosen) != 1:
        raise QuestionError(
            f"{' and '.join(chosen)} contradict each other" if chosen else f"say where to: {', '.join(ways)}"
        )
    if options.from_file is not None:
        if options.topics or options.all_topics:
            raise QuestionError("the file names the partitions: leave out topics and --all-topics")
    elif bool(options.topics) == options.all_topics:
        raise QuestionError("name topics, as in orders or orders:0,1, or take all that the group has with --all-topics")


def _spec(options: ResetOptions) -> OffsetSpec | int | None:
    if options.to_earliest:
        return OffsetSpec.EARLIEST
    if options.to_latest:
        return OffsetSpec.LATEST
    if options.to_time is not None:
        return parse_time(options.to_time)
    if options.by_duration is not None:
        return max(0, SystemClock().now_ms() - parse_duration_ms(options.by_duration))
    return None


def _read_file(path: str, group_id: str) -> dict[TopicPartition, int]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise QuestionError(f"{path} cannot be read: {reason}") from error
    return parse_offset_file(text, group_id)


async def _check_group(admin: AsyncAdmin, group_id: str, *, may_share: bool) -> bool:
    """Whether it is a share group. One that is not there yet gets its first offsets; one with members would go on as before."""
    try:
        group = await admin.describe_group(group_id)
    except RefusedError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return may_share
    is_share = group.type is GroupType.SHARE
    if may_share and not is_share:
        raise RefusalError(f"group {group_id} is a {group.type} group, not a share group")
    if group.members:
        count = len(group.members)
        members = "a member" if count == 1 else f"{count} members"
        raise RefusalError(f"group {group_id} has {members}: stop its consumers first")
    return is_share


async def _positions(admin: AsyncAdmin, group_id: str, *, is_share: bool) -> dict[TopicPartition, int]:
    """Where the group would go on."""
    if is_share:
        return {each: where.start_offset for each, where in (await admin.list_share_group_offsets(group_id)).items()}
    return {each: offset.offset for each, offset in (await admin.list_group_offsets(group_id)).items()}


async def _partitions(
    admin: AsyncAdmin, group_id: str, options: ResetOptions, committed: Iterable[TopicPartition]
) -> list[TopicPartition]:
    if options.all_topics:
        known = sorted(committed)
        if not known:
            raise RefusalError(f"group {group_id} has committed nothing: name the topics")
        return known
    topics = parse_topics(options.topics)
    described = await admin.describe_topics(topics)
    partitions = []
    for name, indexes in topics.items():
        topic = value_of(described[name])
        there = [each.index for each in topic.partitions]
        for index in there if indexes is None else indexes:
            if index not in there:
                raise RefusalError(f"topic {name} has no partition {index}")
            partitions.append(TopicPartition(name, index))
    return partitions


async def _ranges(admin: AsyncAdmin, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, LogRange]:
    starts = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    return {each: LogRange(_offset(starts[each]), _offset(ends[each])) for each in partitions}


def _offset(listed: ListedOffset | ClientError) -> int:
    return value_of(listed).offset or 0


async def _execute(
    admin: AsyncAdmin, group_id: str, plan: Sequence[PlannedOffset], *, is_share: bool, as_json: bool
) -> None:
    offsets: dict[tuple[str, int], int] = {each.partition: each.new for each in plan}
    alter = admin.alter_share_group_offsets if is_share else admin.alter_group_offsets
    outcomes = await alter(group_id, offsets)
    done = [each for each in plan if outcomes.get(each.partition) is None]
    if done:
        _print_plan(group_id, done, as_json=as_json)
    if done and not as_json:
        print_line(f"group {group_id} goes on there")
    complain_later([error for error in outcomes.values() if isinstance(error, ClientError)])


def _print_plan(group_id: str, plan: Sequence[PlannedOffset], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "group": group_id,
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "current_offset": each.current,
                "new_offset": each.new,
                "note": each.note or None,
            }
            for each in plan
        )
        return
    has_notes = any(each.note for each in plan)
    rows = [
        (
            each.partition.topic,
            each.partition.partition,
            "-" if each.current is None else each.current,
            each.new,
            "-" if each.current is None else f"{each.new - each.current:+d}",
            *([each.note or "-"] if has_notes else []),
        )
        for each in plan
    ]
    print_table(["topic", "partition", "current", "new", "change", *(["note"] if has_notes else [])], rows)

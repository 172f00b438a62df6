"""What resetting a group's offsets would do, before anything is done.

    earliest, latest     either end of the log
    time, duration       the first record that is not older; the end where all are
    shift                so many records on, or back, from what is committed
    offset, file         as given

Whatever comes of it is kept within the log: an offset before its start or after its end would lead to another reset.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidelog.cli.admin_session import QuestionError, RefusalError
from tidelog.cli.topic_names import check_topic_name
from tidelog.client.consumer.topic_partition import TopicPartition

_OFFSET_KEYS = ("new_offset", "offset")
_OFFSET_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class PlannedOffset:
    """A partition's offset as it is and as it would be. `note` says where that is not what was asked for."""

    partition: TopicPartition
    current: int | None
    new: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class LogRange:
    """The offsets of a partition: the first that there is, and the next that will be written."""

    start: int
    end: int


def plan_offsets(
    wanted: Mapping[TopicPartition, int | None],
    current: Mapping[TopicPartition, int],
    ranges: Mapping[TopicPartition, LogRange],
) -> list[PlannedOffset]:
    """The plan for offsets that are given or were looked up; None for the end, as of a time after the last record."""
    planned = []
    for partition in sorted(wanted):
        asked, there = wanted[partition], ranges[partition]
        new = there.end if asked is None else min(max(asked, there.start), there.end)
        note = ""
        if asked is not None and new != asked:
            note = f"{asked} is before the first offset" if new > asked else f"{asked} is beyond the end"
        planned.append(PlannedOffset(partition, current.get(partition), new, note))
    return planned


def shifted(
    partitions: Iterable[TopicPartition], current: Mapping[TopicPartition, int], by: int
) -> dict[TopicPartition, int | None]:
    """Where a shift leads. RefusalError where there is nothing to shift."""
    wanted: dict[TopicPartition, int | None] = {}
    for partition in partitions:
        if partition not in current:
            raise RefusalError(f"nothing is committed for {partition}, so there is nothing to shift")
        wanted[partition] = current[partition] + by
    return wanted


def parse_topics(texts: Iterable[str]) -> dict[str, list[int] | None]:
    """`topic` or `topic:0,1,2`; None stands for all partitions."""
    topics: dict[str, list[int] | None] = {}
    for text in texts:
        name, colon, listed = text.partition(":")
        numbers = listed.split(",")
        is_list = all(each.isascii() and each.isdigit() and len(each) <= 9 for each in numbers)
        if not name or (colon and not is_list):
            raise QuestionError(f"{text!r} is not a topic: expected its name, or as in orders:0,1 with partitions")
        check_topic_name(name)
        known = topics.setdefault(name, [] if colon else None)
        if not colon or known is None:
            topics[name] = None
        else:
            topics[name] = sorted({*known, *map(int, numbers)})
    return topics


def parse_offset_file(text: str, group_id: str) -> dict[TopicPartition, int]:
    """Offsets of a group, one a line: `topic,partition,offset` or `group,topic,partition,offset`, as Kafka's tools write
    and read them; or JSON, an array or one object a line, as `reset-offsets --json` prints it. QuestionError names a bad line."""
    stripped = text.lstrip()
    if stripped.startswith(("{", "[")):
        return _parse_json(stripped, group_id)
    offsets: dict[TopicPartition, int] = {}
    try:
        rows = list(csv.reader(text.splitlines(), strict=True))
    except csv.Error as error:
        raise QuestionError(f"the file is not CSV: {error}") from error
    for number, cells in enumerate(rows, 1):
        row = [cell.strip() for cell in cells]
        if not any(row) or row[0].startswith("#"):
            continue
        if len(row) == 4:
            if row[0] != group_id:
                continue
            row = row[1:]
        if len(row) != 3 or not row[0]:
            raise QuestionError(
                f"line {number} of the file is not topic,partition,offset or group,topic,partition,offset"
            )
        offsets[TopicPartition(row[0], _number(row[1], number))] = _number(row[2], number)
    return _some(offsets)


def _parse_json(text: str, group_id: str) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for number, each in enumerate(_json_rows(text), 1):
        if not isinstance(each, dict):
            raise QuestionError(f"row {number} of the file is not an object with topic, partition and offset")
        if each.get("group", group_id) != group_id:
            continue
        topic = each.get("topic")
        offset = next((each[key] for key in _OFFSET_KEYS if key in each), None)
        if not isinstance(topic, str) or not topic:
            raise QuestionError(f"row {number} of the file names no topic")
        offsets[TopicPartition(topic, _number(each.get("partition"), number))] = _number(offset, number)
    return _some(offsets)


def _json_rows(text: str) -> Sequence[object]:
    try:
        if text.startswith("["):
            rows = json.loads(text)
            return rows if isinstance(rows, list) else [rows]
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise QuestionError(f"the file is not JSON: {error}") from error


def _number(value: object, row: int) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _OFFSET_MAX:
        raise QuestionError(f"row {row} of the file has {value!r} where a partition or an offset is expected")
    return value


def _some(offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    if not offsets:
        raise QuestionError("the file holds no offset of the group")
    return offsets

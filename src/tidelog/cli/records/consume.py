"""`tidelog consume`: the records of topics on standard output.

Without --follow it ends where the topics ended when it began. A group goes on where it has committed, and commits what was
printed and nothing else; a share group is given what it has not settled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from tidelog.cli.admin_session import QuestionError, RefusalError, remark
from tidelog.cli.cluster_login import login_settings
from tidelog.cli.groups.offset_plan import parse_topics
from tidelog.cli.interrupts import forget_what_was_interrupted
from tidelog.cli.moments import parse_time
from tidelog.cli.records.client_session import with_cluster
from tidelog.cli.records.output_records import OutputFormat, Row, renderer
from tidelog.cli.records.shared_reading import SharedReading
from tidelog.client.admin import Admin, GroupState, OffsetSpec, value_of
from tidelog.client.consumer.consumer import Consumer
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import RefusedError
from tidelog.model.clock import SystemClock

_COMMAND = "consume"
BEGINNING, END = "beginning", "end"

_POLL_MS = 200
# More than these would make the error message unreadable.
_PARTITIONS_NAMED_MAX = 3
_POLL_RECORDS = 2000


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """What was typed. `start`: beginning, end, an offset, or -N for the last N records of each partition."""

    start: str | None = None
    start_time: str | None = None
    follow: bool = False
    count: int | None = None
    timeout_s: float | None = None
    group: str | None = None
    share: str | None = None
    group_protocol: str = "classic"
    read_committed: bool = False
    form: OutputFormat = field(default_factory=OutputFormat)
    grep: str | None = None
    expression: str | None = None
    """Both say which records are shown; the others are read, and committed, all the same."""
    output: str | None = None
    """A file instead of standard output: a new one, unless `overwrites`."""
    overwrites: bool = False


def consume(bootstrap: str, topics: Sequence[str], options: ConsumeOptions) -> int:
    def work(admin: Admin) -> int:
        check_options(topics, options)
        chosen = _partitions(admin, topics)
        with _output(options) as out:
            return _consume_chosen(admin, bootstrap, chosen, options, out)

    return with_cluster(_COMMAND, bootstrap, work)


def _consume_chosen(
    admin: Admin, bootstrap: str, chosen: Sequence[TopicPartition], options: ConsumeOptions, out: BinaryIO
) -> int:
    if options.share is not None:
        return _consume_shared(admin, bootstrap, chosen, options.share, options, out)
    own: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "group_id": options.group,
        "group_protocol": options.group_protocol,
        "enable_auto_commit": False,
        "allow_auto_create_topics": False,
        "auto_offset_reset": "latest" if options.start == END else "earliest",
        "isolation_level": "read_committed" if options.read_committed else "read_uncommitted",
    }
    with Consumer(**{"client_id": "tidelog-consume", **login_settings(ConsumerOptions), **own}) as consumer:
        commit = None if options.group is None else consumer.commit
        reading = _Reading(consumer.poll, commit, options, out)
        with _until_interrupted(out):
            if options.group is None:
                _assign(admin, consumer, chosen, options)
                ends = consumer.end_offsets(chosen)
                reading.run(lambda: _is_read(consumer, ends))
            else:
                consumer.subscribe(sorted({each.topic for each in chosen}))
                reading.run(_GroupEnd(admin, consumer, options.group))
    return 0


def _consume_shared(
    admin: Admin, bootstrap: str, chosen: Sequence[TopicPartition], group: str, options: ConsumeOptions, out: BinaryIO
) -> int:
    at_once_max = _POLL_RECORDS if options.count is None else max(1, min(_POLL_RECORDS, options.count))
    shared = SharedReading(admin, bootstrap, group, chosen, at_once_max=at_once_max, is_exact=options.count is not None)
    with shared.consumer, _until_interrupted(out):
        shared.begin()
        _Reading(shared.poll, shared.commit, options, out).run(shared.is_over)
    return 0


@contextmanager
def _output(options: ConsumeOptions) -> Iterator[BinaryIO]:
    """Where records go. A file is made once it is known what to read, and complete once each record that is committed is in."""
    if options.output is None:
        yield sys.stdout.buffer
        return
    path = Path(options.output)
    # A device or a pipe is there already, and loses nothing.
    writes_over = options.overwrites or (path.exists() and not path.is_file())
    try:
        with path.open("wb" if writes_over else "xb") as file:
            yield file
    except FileExistsError:
        raise QuestionError(f"{path} exists: give another --output, or --force to write over it") from None
    except OSError as error:
        raise RefusalError(f"{path} cannot be written: {error.strerror or error}") from error


@contextmanager
def _until_interrupted(out: BinaryIO) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        # Ctrl-C is how a person ends a command that follows a topic.
        forget_what_was_interrupted()
    finally:
        # Raises where the reader of standard output has gone; then nothing more is committed.
        out.flush()


def check_options(topics: Iterable[str], options: ConsumeOptions) -> None:
    """QuestionError where options contradict each other."""
    names, patterns = _told_apart(topics)
    if not names and not patterns:
        raise QuestionError("no topic is given")
    _topic_patterns(patterns)
    has_partitions = any(indexes is not None for indexes in parse_topics(names).values())
    _filter(options)
    renderer(options.form)
    _check_output(options)
    if options.start is not None and options.start_time is not None:
        raise QuestionError("--from and --from-time contradict each other")
    _offset(options.start)
    if options.start_time is not None:
        parse_time(options.start_time)
    if options.share is not None:
        _check_shared(options, has_partitions=has_partitions)
    if options.group is None:
        return
    if has_partitions:
        raise QuestionError("the members of a group share partitions: leave out --group, or the partitions")
    if options.start_time is not None or options.start not in {None, BEGINNING, END}:
        raise QuestionError(
            "a group goes on where it has committed: change that with `tidelog groups reset-offsets`, or leave out --group"
        )


def _check_output(options: ConsumeOptions) -> None:
    form = options.form
    if form.text is not None and (form.as_json or form.keys or form.headers or form.times or form.offsets):
        raise QuestionError(
            "--format says all that is shown: leave out --json, --keys, --headers, --times and --offsets"
        )
    if options.overwrites and options.output is None:
        raise QuestionError("--force is about the file of --output, which is not given")
    if options.output is not None and not options.overwrites and Path(options.output).is_file():
        raise QuestionError(f"{options.output} exists: give another --output, or --force to write over it")


def _filter(options: ConsumeOptions) -> Callable[[Row], bool] | None:
    """Whether a record is shown; None where all are."""
    if options.grep is None and options.expression is None:
        return None
    # Only for those who look for something.
    from tidelog.cli.records.record_expression import grep, record_filter  # noqa: PLC0415

    if options.expression is None:
        return grep(options.grep or "")
    takes = record_filter(options.expression)
    if options.grep is None:
        return takes
    occurs = grep(options.grep)
    return lambda record: occurs(record) and takes(record)


def _told_apart(topics: Iterable[str]) -> tuple[list[str], list[str]]:
    """Names with their partitions, and patterns: as to kcat and librdkafka, what begins with ^ is one."""
    names = [each for each in topics if not each.startswith("^")]
    return names, [each for each in topics if each.startswith("^")]


def _check_shared(options: ConsumeOptions, *, has_partitions: bool) -> None:
    if options.group is not None:
        raise QuestionError("--group and --share exclude each other: a group is either of consumers or a share group")
    if has_partitions:
        raise QuestionError("the members of a share group are given partitions: leave out --share, or the partitions")
    if options.start is not None or options.start_time is not None:
        raise QuestionError(
            "a share group goes on where it is: change that with `tidelog groups reset-offsets`, or leave out --share"
        )
    if options.read_committed:
        raise QuestionError(
            "what a share group reads is its own setting share.isolation.level: leave out --share, or --read-committed"
        )
    if options.group_protocol != "classic":
        raise QuestionError("share groups have one protocol: leave out --share, or --group-protocol")


class _Reading:
    """Polls, prints and commits until the end."""

    def __init__(
        self,
        poll: Callable[[float, int], Sequence[Row]],
        commit: Callable[[], object] | None,
        options: ConsumeOptions,
        out: BinaryIO,
    ) -> None:
        self._poll = poll
        self._commit = commit
        self._options = options
        self._out = out
        self._render = renderer(options.form)
        self._takes = _filter(options)
        self._remaining = options.count
        self._clock = SystemClock()

    def run(self, is_over: Callable[[], bool]) -> None:
        # Nothing lies after the end yet: whoever begins there waits for what comes.
        follows = self._options.follow or self._options.start == END
        last_ms = self._clock.monotonic_ms()
        while self._remaining is None or self._remaining > 0:
            # What is read for a group is committed: not more than can be shown.
            is_bounded = self._remaining is not None and (self._takes is None or self._commit is not None)
            limit = min(_POLL_RECORDS, self._remaining or 0) if is_bounded else _POLL_RECORDS
            rows = self._poll(_POLL_MS, limit)
            now_ms = self._clock.monotonic_ms()
            if rows:
                self._print(rows)
                last_ms = now_ms
            elif self._options.timeout_s is not None and now_ms - last_ms >= self._options.timeout_s * 1000:
                return
            # A full poll says that there is more.
            if not follows and len(rows) < limit and is_over():
                return

    def _print(self, rows: Sequence[Row]) -> None:
        shown = rows if self._takes is None else [row for row in rows if self._takes(row)][: self._remaining]
        self._out.writelines(map(self._render, shown))
        self._out.flush()
        if self._remaining is not None:
            self._remaining -= len(shown)
        if self._commit is not None:
            self._commit()


class _GroupEnd:
    """Whether a member has read what its partitions held when it got them, and is to get no others."""

    def __init__(self, admin: Admin, consumer: Consumer, group_id: str) -> None:
        self._admin = admin
        self._consumer = consumer
        self._group_id = group_id
        self._ends: dict[TopicPartition, int] = {}

    def __call__(self) -> bool:
        assignment = self._consumer.assignment()
        new = [each for each in assignment if each not in self._ends]
        if new:
            self._ends.update(self._consumer.end_offsets(new))
        is_read = _is_read(self._consumer, {each: self._ends[each] for each in assignment})
        return is_read and self._is_all(assignment)

    def _is_all(self, assignment: AbstractSet[TopicPartition]) -> bool:
        """Only the coordinator knows whether more is to come: another member may have yet to give it up."""
        member_id = self._consumer.group_metadata().member_id
        try:
            group = self._admin.describe_group(self._group_id)
        except RefusedError:
            # Not joined yet.
            return False
        mine = next((each for each in group.members if each.member_id == member_id), None)
        if mine is None or group.state is not GroupState.STABLE:
            return False
        return assignment == set(mine.assignment) and mine.target_assignment in {None, mine.assignment}


def _is_read(consumer: Consumer, ends: dict[TopicPartition, int]) -> bool:
    return all(consumer.position(partition) >= end for partition, end in ends.items())


def _partitions(admin: Admin, texts: Iterable[str]) -> list[TopicPartition]:
    names, patterns = _told_apart(texts)
    topics = parse_topics([*names, *_matching(admin, patterns)])
    described = admin.describe_topics(topics)
    chosen = []
    for name, indexes in topics.items():
        there = [each.index for each in value_of(described[name]).partitions]
        for index in there if indexes is None else indexes:
            if index not in there:
                raise RefusalError(f"topic {name} has no partition {index}")
            chosen.append(TopicPartition(name, index))
    return chosen


def _matching(admin: Admin, patterns: Sequence[str]) -> list[str]:
    """The topics of these patterns, as they are now. RefusalError where there is none of one."""
    found: list[str] = []
    there = [each.name for each in admin.list_topics() if not each.is_internal] if patterns else []
    for pattern, matches in _topic_patterns(patterns).items():
        matching = [name for name in there if matches(name)]
        if not matching:
            raise RefusalError(f"no topic matches {pattern}")
        found += matching
    return found


def _topic_patterns(patterns: Sequence[str]) -> dict[str, Callable[[str], bool]]:
    if not patterns:
        return {}
    from tidelog.cli.records.record_expression import topic_pattern  # noqa: PLC0415 - as above

    return {pattern: topic_pattern(pattern) for pattern in patterns}


def _assign(admin: Admin, consumer: Consumer, partitions: Sequence[TopicPartition], options: ConsumeOptions) -> None:
    consumer.assign(partitions)
    offset = _offset(options.start)
    if options.start_time is not None:
        consumer.seek_to_time(parse_time(options.start_time))
    elif options.start == END:
        consumer.seek_to_end()
    elif offset is None:
        consumer.seek_to_beginning()
    else:
        starts = _listed(admin, partitions, OffsetSpec.EARLIEST)
        ends = _listed(admin, partitions, OffsetSpec.LATEST)
        if offset > max(ends.values(), default=0):
            _past_the_end(offset, ends, options)
        for partition, end in ends.items():
            # Before the first record is where it begins; beyond the end is where it will go on.
            consumer.seek(partition, max(starts[partition], min(end, offset if offset >= 0 else end + offset)))


def _listed(admin: Admin, partitions: Sequence[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
    listed = admin.list_offsets(dict.fromkeys(partitions, spec))
    return {partition: value_of(listed[partition]).offset or 0 for partition in partitions}


def _past_the_end(offset: int, ends: dict[TopicPartition, int], options: ConsumeOptions) -> None:
    """No partition goes as far. RefusalError, unless what comes next is waited for."""
    shown = [f"{partition} ends at {end}" for partition, end in list(ends.items())[:_PARTITIONS_NAMED_MAX]]
    if len(ends) > len(shown):
        shown.append(f"{len(ends) - len(shown)} more end before it too")
    sentence = f"offset {offset} is past the end: {', '.join(shown)}"
    if not options.follow:
        raise RefusalError(sentence)
    remark(_COMMAND, f"{sentence}; following from there")


def _offset(start: str | None) -> int | None:
    if start is None or start in {BEGINNING, END}:
        return None
    digits = start.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise QuestionError(
            f"{start!r} is no place to begin: expected beginning, end, an offset, or -N for the last N records"
        )
    return int(start)

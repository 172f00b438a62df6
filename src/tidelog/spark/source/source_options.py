"""The options of the source: those of Spark's own Kafka connector by the same names, and a few of its own.

    subscribe | subscribePattern | assign         which topics
    startingOffsets | startingOffsetsByTimestamp | startingTimestamp, startingOffsetsByTimestampStrategy
    endingOffsets | endingOffsetsByTimestamp | endingTimestamp            (a batch only)
    minPartitions, maxRecordsPerPartition         how the read is divided
    maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay           (a stream only)
    failOnDataLoss, includeHeaders
    fetchOffset.numRetries, fetchOffset.retryIntervalMs, kafkaConsumer.pollTimeoutMs
    groupIdPrefix, kafka.*                        the client

    columns               only these columns, as in value,timestamp
    path                  a data directory instead of a cluster

Spark hands options over in lower case. Everything is checked here, before a job starts: an unknown name, a value that cannot
be, two options that contradict each other. OptionError says which.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.client.consumer.options import ConsumerOptions
from tidelog.spark.client_settings import PREFIX, client_settings, parse_duration_ms, parse_flag, parse_whole
from tidelog.spark.errors import OptionError
from tidelog.spark.source.chosen_topics import NAMES as TOPIC_NAMES, ChosenTopics, chosen_topics
from tidelog.spark.source.offset_bounds import (
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    Latest,
    OffsetBound,
    OnNoMatch,
    check_bounds,
)
from tidelog.spark.source.partition_offsets import EARLIEST, LATEST, parse_offsets, parse_timestamps
from tidelog.spark.source.record_schema import ALL_COLUMNS, chosen_columns

log = logging.getLogger(__name__)

_STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_ENDS = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_STARTS = ("startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp")
_OTHERS = (
    "startingOffsetsByTimestampStrategy",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "groupIdPrefix",
    "columns",
    "path",
)
NAMES = (*TOPIC_NAMES, *_STARTS, *_ENDS, *_STREAM_ONLY, *_OTHERS)
_BY_LOWER = {name.lower(): name for name in NAMES}
# With files there is no cluster to ask, nothing to wait for and nobody to commit to.
_CLUSTER_ONLY = (
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "groupIdPrefix",
)

DEFAULT_TRIGGER_DELAY_MS = 15 * 60_000
DEFAULT_POLL_TIMEOUT_MS = 120_000
DEFAULT_FETCH_OFFSET_RETRIES = 3
DEFAULT_FETCH_OFFSET_RETRY_INTERVAL_MS = 1_000
# A fetch that fills two or three batches of what Spark takes best; a reader of one partition has nobody to share with.
DEFAULT_PARTITION_FETCH_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What was asked for, checked. It travels to the workers."""

    topics: ChosenTopics | None
    """None only with a path: all that are there."""
    path: str | None
    starting: OffsetBound | None
    """None for the default, which a batch and a stream have different ones of."""
    ending: OffsetBound | None
    on_no_match: OnNoMatch
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    fetch_offset_retries: int
    fetch_offset_retry_interval_ms: int
    poll_timeout_ms: int
    group_id: str | None
    reads_committed: bool
    client: Mapping[str, object]
    """Keyword arguments of a consumer. Empty with a path."""


def parse_source_options(given: Mapping[str, str]) -> SourceOptions:
    """Options as Spark hands them over. OptionError for the first that is wrong, or that contradicts another one."""
    options = {name.lower(): text for name, text in given.items()}
    for name in options:
        if name == "topic":
            raise OptionError("the option topic is for writing: subscribe names the topics that are read")
        if name not in _BY_LOWER and not name.startswith(PREFIX):
            nearest = difflib.get_close_matches(name, _BY_LOWER, n=1)
            raise OptionError(
                f"there is no option {name}" + (f"; did you mean {_BY_LOWER[nearest[0]]}?" if nearest else "")
            )
    path = options.get("path")
    topics = chosen_topics(options)
    if path is None:
        if topics is None:
            raise OptionError(f"no topics are chosen: give one of the options {', '.join(TOPIC_NAMES)}")
        client = _client(options)
        reads_committed = client.get("isolation_level") == "read_committed"
    else:
        client = {}
        reads_committed = _path_isolation(options)
    min_offsets = _positive(options, "minOffsetsPerTrigger")
    max_offsets = _positive(options, "maxOffsetsPerTrigger")
    if min_offsets is not None and max_offsets is not None and min_offsets > max_offsets:
        raise OptionError(f"minOffsetsPerTrigger {min_offsets} is greater than maxOffsetsPerTrigger {max_offsets}")
    starting = _bound(options, _STARTS)
    if starting is None and _STRATEGY in options:
        raise OptionError("startingOffsetsByTimestampStrategy needs a starting time, and none is given")
    group_id = client.pop("group_id", None)
    return SourceOptions(
        topics=topics,
        path=path,
        starting=starting,
        ending=_bound(options, _ENDS),
        on_no_match=_on_no_match(options),
        min_partitions=_positive(options, "minPartitions"),
        max_records_per_partition=_positive(options, "maxRecordsPerPartition"),
        max_offsets_per_trigger=max_offsets,
        min_offsets_per_trigger=min_offsets,
        max_trigger_delay_ms=_duration_ms(options, "maxTriggerDelay", DEFAULT_TRIGGER_DELAY_MS),
        fail_on_data_loss=_flag(options, "failOnDataLoss", default=True),
        columns=_columns(options),
        fetch_offset_retries=_positive(options, "fetchOffset.numRetries") or DEFAULT_FETCH_OFFSET_RETRIES,
        fetch_offset_retry_interval_ms=_whole(
            options, "fetchOffset.retryIntervalMs", DEFAULT_FETCH_OFFSET_RETRY_INTERVAL_MS
        ),
        poll_timeout_ms=_whole(options, "kafkaConsumer.pollTimeoutMs", DEFAULT_POLL_TIMEOUT_MS),
        group_id=group_id if isinstance(group_id, str) else None,
        reads_committed=reads_committed,
        client=client,
    )


def batch_bounds(options: SourceOptions) -> tuple[OffsetBound, OffsetBound]:
    """Where a batch begins and ends. OptionError for what only a stream can do."""
    starting, ending = options.starting or Earliest(), options.ending or Latest()
    match starting:
        case Latest():
            raise OptionError("startingOffsets is latest: a batch has nothing to read from there")
        case AtOffsets(offsets) if LATEST in offsets.values():
            raise OptionError("startingOffsets is -1, latest, for a partition: a batch has nothing to read from there")
    match ending:
        case Earliest():
            raise OptionError("endingOffsets is earliest: a batch has nothing to read up to there")
        case AtOffsets(offsets) if EARLIEST in offsets.values():
            raise OptionError("endingOffsets is -2, earliest, for a partition: a batch has nothing to read up to there")
    check_bounds(starting, ending)
    if (
        options.max_offsets_per_trigger is not None
        or options.min_offsets_per_trigger is not None
        or options.max_trigger_delay_ms != DEFAULT_TRIGGER_DELAY_MS
    ):
        log.warning("%s have no effect on a batch", ", ".join(_STREAM_ONLY))
    return starting, ending


def stream_start(options: SourceOptions) -> OffsetBound:
    """Where a new query begins. OptionError for what only a batch can do."""
    if options.path is not None:
        raise OptionError("a path can be read as a batch only: its files do not grow")
    if options.ending is not None:
        raise OptionError("a stream has no end: leave out endingOffsets, endingOffsetsByTimestamp and endingTimestamp")
    return options.starting or Latest()


_STRATEGY = "startingoffsetsbytimestampstrategy"


def _client(options: Mapping[str, str]) -> dict[str, object]:
    client = client_settings(ConsumerOptions, options)
    prefix = options.get("groupidprefix", "").strip()
    if "groupidprefix" in options and not prefix:
        raise OptionError("groupIdPrefix is empty")
    if prefix and "group_id" in client:
        raise OptionError("groupIdPrefix and kafka.group.id are both given: a group has one name")
    if client.get("group_id") == "":
        raise OptionError("kafka.group.id is empty")
    # No group is joined: the prefix names the clients, as it would name their group.
    client.setdefault("client_id", prefix or "tidelog-spark")
    client.setdefault("max_partition_fetch_bytes", DEFAULT_PARTITION_FETCH_BYTES)
    return client


def _path_isolation(options: Mapping[str, str]) -> bool:
    for name in options:
        if name.startswith(PREFIX) and name != "kafka.isolation.level":
            raise OptionError(f"the option {name} is for a cluster, and a path is given")
    for name in (*_CLUSTER_ONLY, *_STREAM_ONLY):
        if name.lower() in options:
            raise OptionError(f"the option {name} is for a cluster, and a path is given")
    level = options.get("kafka.isolation.level", "read_uncommitted").strip().lower()
    if level not in {"read_uncommitted", "read_committed"}:
        raise OptionError(f"kafka.isolation.level is {level!r}; it can be read_uncommitted or read_committed")
    return level == "read_committed"


def _bound(options: Mapping[str, str], names: tuple[str, str, str]) -> OffsetBound | None:
    present = [name for name in names if name.lower() in options]
    if len(present) > 1:
        raise OptionError(f"{present[0]} and {present[1]} are both given: one of them says where")
    if not present:
        return None
    name, text = present[0], options[present[0].lower()].strip()
    if name.endswith("Timestamp") and "By" not in name:
        timestamp_ms = parse_whole(name, text)
        if timestamp_ms < 0:
            raise OptionError(f"{name} is {timestamp_ms}; it is a time in milliseconds since 1970")
        return AtTimestamp(timestamp_ms)
    if name.endswith("ByTimestamp"):
        return AtTimestamps(parse_timestamps(name, text))
    match text.lower():
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
    return AtOffsets(parse_offsets(name, text))


def _on_no_match(options: Mapping[str, str]) -> OnNoMatch:
    text = options.get(_STRATEGY, "error").strip().lower()
    try:
        return OnNoMatch(text)
    except ValueError:
        raise OptionError(f"startingOffsetsByTimestampStrategy is {text!r}; it can be error or latest") from None


def _columns(options: Mapping[str, str]) -> tuple[str, ...]:
    includes_headers = _flag(options, "includeHeaders", default=False)
    if "columns" in options:
        columns = chosen_columns(options["columns"])
        if "includeheaders" in options and includes_headers != ("headers" in columns):
            raise OptionError("includeHeaders and columns contradict each other about headers")
        return columns
    return ALL_COLUMNS if includes_headers else ALL_COLUMNS[:-1]


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name.lower())
    return default if text is None else parse_flag(name, text)


def _whole(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name.lower())
    number = default if text is None else parse_whole(name, text)
    if number < 0:
        raise OptionError(f"{name} is {number}; it can be 0 or more")
    return number


def _positive(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    number = parse_whole(name, text)
    if number <= 0:
        raise OptionError(f"{name} is {number}; it can be 1 or more")
    return number


def _duration_ms(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name.lower())
    if text is None:
        return default
    return parse_duration_ms(name, text)

"""The options of a consumer. Names, defaults and meanings are Kafka's, in Python's spelling."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidelog.client.consumer.assignors import ASSIGNORS, Assignor
from tidelog.client.consumer.subscription import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from tidelog.client.errors import ConfigError
from tidelog.client.option_kinds import choice, flag, function, objects, option, optional_text, text, whole
from tidelog.client.options import ClientOptions

_INT32_MAX = 2**31 - 1
# ISO 8601 durations in days, hours, minutes and seconds, as Java's Duration reads them.
_DURATION = re.compile(r"PT?(?=.)(?:(\d+)D)?T?(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?", re.ASCII)


class OffsetReset(NamedTuple):
    """Where to begin without a position: `timestamp` of ListOffsets, or `duration_ms` before now; neither is an error."""

    timestamp: int | None = None
    duration_ms: int | None = None

    def at(self, now_ms: int) -> int | None:
        """The timestamp to look up; None where the application has to decide."""
        return now_ms - self.duration_ms if self.duration_ms is not None else self.timestamp


def parse_offset_reset(name: str, value: object) -> OffsetReset:
    match value:
        case OffsetReset():
            return value
        case "earliest":
            return OffsetReset(EARLIEST_TIMESTAMP)
        case "latest":
            return OffsetReset(LATEST_TIMESTAMP)
        case "none":
            return OffsetReset()
        case str() if value.startswith("by_duration:"):
            parsed = _DURATION.fullmatch(value.removeprefix("by_duration:"))
            if parsed is not None and any(parsed.groups()):
                days, hours, minutes, seconds = (float(each or 0) for each in parsed.groups())
                return OffsetReset(None, int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000))
    raise ConfigError(f"{name} is {value!r}; it can be 'earliest', 'latest', 'none' or as in 'by_duration:PT1H'")


def _check_assignors(name: str, value: object) -> tuple[Assignor, ...]:
    listed = [value] if isinstance(value, (str, Assignor)) else value
    if not isinstance(listed, Sequence) or not listed:
        raise ConfigError(f"{name} is {value!r}; it is a list of {', '.join(map(repr, ASSIGNORS))}")
    chosen = []
    for each in listed:
        assignor = each if isinstance(each, Assignor) else ASSIGNORS.get(each)
        if assignor is None:
            raise ConfigError(f"{name} names {each!r}; there are {', '.join(map(repr, ASSIGNORS))}")
        chosen.append(assignor)
    return tuple(chosen)


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(ClientOptions):
    """What consumers of both kinds of groups take as keywords."""

    max_poll_interval_ms: int = whole(
        300_000, at_least=1, at_most=_INT32_MAX, doc="An application that does not poll for so long leaves the group."
    )
    max_poll_records: int = whole(500, at_least=1, at_most=_INT32_MAX, doc="The most records that one poll returns.")
    fetch_min_bytes: int = whole(1, at_most=_INT32_MAX, doc="A broker waits until it has so much to send,")
    fetch_max_wait_ms: int = whole(500, at_most=_INT32_MAX, doc="but no longer than this.")
    fetch_max_bytes: int = whole(52_428_800, at_most=_INT32_MAX, doc="The most that one fetch brings.")
    check_crcs: bool = flag(True, doc="Whether the checksum of every batch is looked at.")
    client_rack: str = text("", doc="Where this client is: partitions are read from a replica in the same rack.")
    allow_auto_create_topics: bool = flag(True, doc="Whether subscribing may create a topic, where brokers allow that.")
    default_api_timeout_ms: int = whole(60_000, at_least=1, doc="How long calls without a time-out of their own take.")
    key_deserializer: Callable[[bytes | None], Any] | None = function(  # noqa: RUF009
        doc="Makes the key of a record from its bytes."
    )
    value_deserializer: Callable[[bytes | None], Any] | None = function(  # noqa: RUF009
        doc="Makes the value of a record from its bytes."
    )


@dataclass(frozen=True, kw_only=True)
class ConsumerOptions(ReadingOptions):
    """What `Consumer` and `AsyncConsumer` take as keywords."""

    group_id: str | None = optional_text(doc="The group whose members share the partitions and the committed offsets.")
    group_instance_id: str | None = optional_text(
        doc="A name that survives restarts: the group does not rebalance while this member is away for a short time."
    )
    group_protocol: str = choice(
        "classic", ("classic", "consumer"), doc="Who shares out: a member (classic), or the coordinator (consumer)."
    )
    group_remote_assignor: str | None = optional_text(
        doc="The coordinator's assignor, for group_protocol='consumer'; None leaves the choice to it."
    )
    partition_assignment_strategy: tuple[Assignor, ...] = option(
        (ASSIGNORS["range"], ASSIGNORS["cooperative-sticky"]),
        _check_assignors,
        doc="Names of assignors in the order of preference, for group_protocol='classic'.",
    )
    session_timeout_ms: int = whole(45_000, at_least=1, doc="A member that is silent for so long is out (classic).")
    heartbeat_interval_ms: int = whole(3_000, at_least=1, doc="How often a member says that it is there (classic).")
    enable_auto_commit: bool = flag(True, doc="Whether polls commit what earlier polls returned.")
    auto_commit_interval_ms: int = whole(5_000, doc="How often that is done.")
    auto_offset_reset: OffsetReset = option(  # noqa: RUF009
        OffsetReset(LATEST_TIMESTAMP),
        parse_offset_reset,
        doc="Where to begin without a committed offset: earliest, latest, none (an error) or by_duration:PT1H.",
    )
    isolation_level: str = choice(
        "read_uncommitted",
        ("read_uncommitted", "read_committed"),
        doc="Whether records of open and aborted transactions are seen.",
    )
    max_partition_fetch_bytes: int = whole(
        1_048_576,
        at_most=_INT32_MAX,
        doc="The most that one fetch brings of one partition; a larger batch comes alone.",
    )
    max_buffered_bytes: int = whole(
        67_108_864, at_least=1, doc="Nothing more is fetched while so much waits to be polled."
    )
    exclude_internal_topics: bool = flag(
        True, doc="Whether patterns leave out internal topics, those of Kafka and of Tidelog."
    )
    interceptors: Sequence[Any] = objects(doc="Objects with on_consume(records) and on_commit(offsets).")

    @property
    def reads_committed(self) -> bool:
        return self.isolation_level == "read_committed"

    def check_together(self) -> None:
        """ConfigError where two options contradict each other."""
        if self.group_protocol == "classic" and self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms is {self.heartbeat_interval_ms}; it has to be less than session_timeout_ms, "
                f"which is {self.session_timeout_ms}"
            )
        if self.group_id == "":
            raise ConfigError("group_id is empty; leave it out to read without a group")

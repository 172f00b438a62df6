"""The options of the sink: those of Spark's own Kafka connector by the same names, and what exactly once needs.

    topic                         where all rows go; without it a column of that name says it for each row
    includeTimestamp              whether the column timestamp is the records' time
    delivery                      exactly_once (a stream, unless told otherwise) or at_least_once (a batch)
    transactionalIdPrefix         the beginning of all transactional ids
    transactionTimeout            after what time a cluster ends what nobody comes back for; else the longest that it allows
    txnAppId, txnVersion          a batch that may be written again: which work, and which step of it
    replayCheck                   by what such a batch is known again: checksum, count or none
    kafka.*                       the producer

Spark hands options over in lower case, and some of its own among them. Everything is checked here, before a job starts.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import cast

from tidelog.client.errors import ConfigError
from tidelog.client.producer.options import ProducerArguments, ProducerOptions, parse_producer_options
from tidelog.spark.client_settings import PREFIX, client_settings, parse_duration_ms, parse_flag, parse_whole
from tidelog.spark.errors import OptionError
from tidelog.spark.sink.sink_batch import ReplayCheck
from tidelog.spark.source.source_options import NAMES as SOURCE_NAMES

NAMES = (
    "topic",
    "includeTimestamp",
    "delivery",
    "transactionalIdPrefix",
    "transactionTimeout",
    "txnAppId",
    "txnVersion",
    "replayCheck",
)
_BY_LOWER = {name.lower(): name for name in NAMES}
_FOR_READING = {name.lower(): name for name in SOURCE_NAMES}
# What a stream's writer is told beside its options.
CHECKPOINT, QUERY_NAME = "checkpointlocation", "queryname"
_SPARKS_OWN = frozenset({CHECKPOINT, QUERY_NAME})
# How Spark's options for progress that is written later begin.
_ASYNCHRONOUS = ("asyncprogresstracking", "_asyncprogresstracking")

DEFAULT_PREFIX = "tidelog-spark"
# A task has its rows at once: batches are as large as a request may be, and few requests fill a connection.
DEFAULT_BATCH_BYTES = 512 * 1024
# Kafka's own limit is 32767; what is put behind prefix and name takes about a hundred.
_NAME_CHARACTERS_MAX = 1000
_TOPIC_CHARACTERS_MAX = 249
# What the protocol has room for.
_TIMEOUT_MS_MAX = 2**31 - 1


class Delivery(Enum):
    """How often a row is seen by those who read what is committed."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """What was asked for, checked. It travels to the workers."""

    topic: str | None
    """None where each row says it."""
    includes_timestamp: bool
    delivery: Delivery
    prefix: str
    txn_app_id: str | None
    """None for a stream, which Spark gives an id, and for a batch that is not written again."""
    txn_version: int | None
    replay_check: ReplayCheck
    checkpoint: str | None
    """Where Spark keeps the query's progress, as it was given; None for a batch, or where the session says it."""
    query_name: str | None
    client: Mapping[str, object]
    """Keyword arguments of a producer; neither its transactional id nor what belongs to it."""

    @property
    def is_exactly_once(self) -> bool:
        return self.delivery is Delivery.EXACTLY_ONCE


def parse_sink_options(given: Mapping[str, str], *, is_stream: bool) -> SinkOptions:
    """Options as Spark hands them over. OptionError for the first that is wrong, or that contradicts another one."""
    options = {name.lower(): text for name, text in given.items()}
    for name in options:
        _check_known(name)
    txn_app_id, txn_version = _transaction(options, is_stream=is_stream)
    delivery = _delivery(options, default_is_once=is_stream or txn_app_id is not None)
    if delivery is Delivery.AT_LEAST_ONCE:
        for name in ("txnAppId", "transactionalIdPrefix", "transactionTimeout"):
            if name.lower() in options:
                raise OptionError(f"{name} needs delivery exactly_once: at_least_once has no transactions")
    client = client_settings(ProducerOptions, options)
    if (timeout_ms := _timeout_ms(options, client)) is not None:
        client["transaction_timeout_ms"] = timeout_ms
    client.setdefault("client_id", DEFAULT_PREFIX)
    client.setdefault("batch_size", DEFAULT_BATCH_BYTES)
    _check_client(client, is_transactional=delivery is Delivery.EXACTLY_ONCE)
    return SinkOptions(
        topic=_topic(options),
        includes_timestamp=parse_flag("includeTimestamp", options.get("includetimestamp", "false")),
        delivery=delivery,
        prefix=_name(options, "transactionalIdPrefix") or DEFAULT_PREFIX,
        txn_app_id=txn_app_id,
        txn_version=txn_version,
        replay_check=_replay_check(options, is_known_again=txn_app_id is not None),
        checkpoint=options.get(CHECKPOINT),
        query_name=options.get(QUERY_NAME),
        client=client,
    )


def _check_known(name: str) -> None:
    if name in _BY_LOWER or name in _SPARKS_OWN or name.startswith(PREFIX):
        return
    if name == "path":
        raise OptionError("a topic has no path: name it by the option topic, and call save or start without one")
    if name.startswith(_ASYNCHRONOUS):
        raise OptionError(
            f"{name} is not possible here: with progress that Spark writes later, a batch may come again with other rows"
        )
    if name in _FOR_READING:
        raise OptionError(f"the option {_FOR_READING[name]} is for reading: leave it out")
    nearest = difflib.get_close_matches(name, _BY_LOWER, n=1)
    raise OptionError(f"there is no option {name}" + (f"; did you mean {_BY_LOWER[nearest[0]]}?" if nearest else ""))


def _transaction(options: Mapping[str, str], *, is_stream: bool) -> tuple[str | None, int | None]:
    txn_app_id = _name(options, "txnAppId")
    text = options.get("txnversion")
    if (txn_app_id is None) != (text is None):
        raise OptionError("txnAppId and txnVersion belong together: one says which work it is, the other which step")
    if text is None:
        return None, None
    if is_stream:
        raise OptionError(
            "txnAppId and txnVersion are for batches: a stream has its query's id and its batches' numbers"
        )
    txn_version = parse_whole("txnVersion", text)
    if txn_version < 0:
        raise OptionError(f"txnVersion is {txn_version}; it can be 0 or more")
    return txn_app_id, txn_version


def _timeout_ms(options: Mapping[str, str], client: Mapping[str, object]) -> int | None:
    text = options.get("transactiontimeout")
    if text is None:
        return None
    if "transaction_timeout_ms" in client:
        raise OptionError("transactionTimeout and kafka.transaction.timeout.ms say the same: give one of them")
    timeout_ms = parse_duration_ms("transactionTimeout", text)
    if not 1 <= timeout_ms <= _TIMEOUT_MS_MAX:
        raise OptionError(f"transactionTimeout is {text!r}; it can be 1 ms to {_TIMEOUT_MS_MAX} ms")
    return timeout_ms


def _replay_check(options: Mapping[str, str], *, is_known_again: bool) -> ReplayCheck:
    text = options.get("replaycheck")
    if text is None:
        return ReplayCheck.CHECKSUM
    if not is_known_again:
        raise OptionError(
            "replayCheck needs txnAppId and txnVersion: a stream's batches are known by their input, others do not come again"
        )
    try:
        return ReplayCheck(text.strip().lower())
    except ValueError:
        raise OptionError(f"replayCheck is {text!r}; it can be checksum, count or none") from None


def _delivery(options: Mapping[str, str], *, default_is_once: bool) -> Delivery:
    text = options.get("delivery")
    if text is None:
        return Delivery.EXACTLY_ONCE if default_is_once else Delivery.AT_LEAST_ONCE
    try:
        return Delivery(text.strip().lower())
    except ValueError:
        raise OptionError(f"delivery is {text!r}; it can be exactly_once or at_least_once") from None


def _name(options: Mapping[str, str], name: str) -> str | None:
    text = options.get(name.lower())
    if text is None:
        return None
    text = text.strip()
    if not text or len(text) > _NAME_CHARACTERS_MAX or not text.isprintable():
        raise OptionError(f"{name} is {text!r:.60}; it is a name of 1 to {_NAME_CHARACTERS_MAX} characters")
    return text


def _topic(options: Mapping[str, str]) -> str | None:
    text = options.get("topic")
    if text is None:
        return None
    text = text.strip()
    if not text or len(text) > _TOPIC_CHARACTERS_MAX:
        raise OptionError(f"topic is {text!r:.60}; it is the name of one topic")
    return text


def _check_client(client: Mapping[str, object], *, is_transactional: bool) -> None:
    asked = {**client, "transactional_id": DEFAULT_PREFIX} if is_transactional else dict(client)
    if not is_transactional and "transaction_timeout_ms" in client:
        raise OptionError("kafka.transaction.timeout.ms needs delivery exactly_once: at_least_once has no transactions")
    try:
        parse_producer_options(cast("ProducerArguments", asked))
    except ConfigError as error:
        raise OptionError(f"an option that begins with {PREFIX} is wrong: {error}") from None

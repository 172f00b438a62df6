"""The options of a producer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.client.errors import ConfigError
from tidelog.client.option_kinds import choice, flag, function, number, objects, option, optional_text, whole
from tidelog.client.options import ClientArguments, ClientOptions, parse_options
from tidelog.client.producer.partitioners import Partitioner
from tidelog.wire.compression import DEFAULT_LEVELS, LEVELS, Compression

INT_MAX = 2**31 - 1

# Brokers remember this many batches of a producer for each partition, to know a repeated one when they see it.
IDEMPOTENT_IN_FLIGHT_MAX = 5

_CODECS = tuple(codec.name.lower() for codec in Compression)


def _check_acks(name: str, value: object) -> int:
    acks = (
        {"all": -1, "-1": -1, "0": 0, "1": 1, -1: -1, 0: 0, 1: 1}.get(value) if isinstance(value, (int, str)) else None
    )
    if acks is None or isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}; it can be 'all' (or -1), 1 or 0")
    return acks


def _check_idempotence(name: str, value: object) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}; it is True or False")
    return value


def _check_level(name: str, value: object) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise ConfigError(f"{name} is {value!r}; it is a whole number")
    return value


def _check_partitioner(name: str, value: object) -> Any:
    if value in {"default", "sticky", "round_robin"} or callable(value):
        return value
    raise ConfigError(f"{name} is {value!r}; it can be 'default', 'sticky', 'round_robin' or something to call")


@dataclass(frozen=True, kw_only=True)
class ProducerOptions(ClientOptions):
    """Names and defaults are Kafka's; `compression_level` and `partitioner` are in Python's manner."""

    acks: int = option(
        -1, _check_acks, doc="Who must have a record before it counts: 'all' in sync, 1 the leader, 0 nobody."
    )
    enable_idempotence: bool | None = option(
        None, _check_idempotence, doc="Write each record once and in order; on unless another option excludes it."
    )
    batch_size: int = whole(16_384, at_most=INT_MAX, doc="The bytes of a partition's batch, at which it is sent.")
    linger_ms: float = number(5, doc="How long a batch that is not full waits for more records.")
    buffer_memory: int = whole(33_554_432, doc="The bytes of all batches that are not acknowledged yet.")
    max_block_ms: int = whole(60_000, doc="How long `send` may wait for room in the buffer or for a topic's metadata.")
    max_request_size: int = whole(1_048_576, at_most=INT_MAX, doc="The largest request, and so the largest record.")
    delivery_timeout_ms: int = whole(120_000, doc="How long after `send` a record may still be delivered.")
    retries: int = whole(
        INT_MAX, at_most=INT_MAX, doc="How often a batch is sent again; delivery_timeout_ms is the better limit."
    )
    max_in_flight_requests_per_connection: int = whole(
        5, at_least=1, doc="Requests to a broker that may be unanswered."
    )
    transactional_id: str | None = optional_text(
        doc="A name that survives restarts, for transactions; a producer that takes it fences whoever had it before."
    )
    transaction_timeout_ms: int = whole(
        60_000, at_least=1, at_most=INT_MAX, doc="A transaction that is open for so long is aborted by its coordinator."
    )
    transaction_two_phase_commit_enable: bool = flag(
        False,
        doc="Whether transactions can be prepared (KIP-939): they have no time-out, and another process may end them.",
    )
    compression_type: str = choice("none", _CODECS, doc="The codec of batches.")
    compression_level: int | None = option(None, _check_level, doc="The codec's level; None for its default.")
    partitioner: str | Partitioner = option(  # noqa: RUF009 - a field, as all of them
        "default",
        _check_partitioner,
        doc="'default' (by key, else sticky), 'sticky', 'round_robin', or f(topic, key, value, partition_count).",
    )
    partitioner_adaptive_partitioning_enable: bool = flag(
        True, doc="Whether records without a key rather go to partitions with few batches waiting."
    )
    key_serializer: Callable[[Any], bytes | None] | None = function(  # noqa: RUF009
        doc="Turns what is given as a key into bytes."
    )
    value_serializer: Callable[[Any], bytes | None] | None = function(  # noqa: RUF009
        doc="Turns what is given as a value into bytes."
    )
    interceptors: Sequence[Any] = objects(
        doc="Objects with `on_send(record)` and `on_acknowledgement(metadata, error)`."
    )
    observers: Sequence[Any] = objects(
        doc="Objects with `on_batch(report)`, called for every batch: see ProducerObserver."
    )

    @property
    def is_idempotent(self) -> bool:
        return bool(self.enable_idempotence)

    @property
    def codec(self) -> Compression:
        return Compression[self.compression_type.upper()]


class ProducerArguments(ClientArguments, total=False):
    """The keyword arguments of a producer, as type checkers see them."""

    acks: int | str
    enable_idempotence: bool
    batch_size: int
    linger_ms: float
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    delivery_timeout_ms: int
    retries: int
    max_in_flight_requests_per_connection: int
    transactional_id: str | None
    transaction_timeout_ms: int
    transaction_two_phase_commit_enable: bool
    compression_type: str
    compression_level: int | None
    partitioner: str | Partitioner
    partitioner_adaptive_partitioning_enable: bool
    key_serializer: Callable[[Any], bytes | None] | None
    value_serializer: Callable[[Any], bytes | None] | None
    interceptors: Sequence[Any]
    observers: Sequence[Any]


def parse_producer_options(given: ProducerArguments) -> ProducerOptions:
    """The options, checked one by one and against each other. ConfigError for the first that is wrong."""
    options = parse_options(ProducerOptions, given)
    clash = _idempotence_clash(options)
    if options.enable_idempotence and clash:
        raise ConfigError(f"enable_idempotence needs {clash}")
    if options.enable_idempotence is None:
        options = parse_options(ProducerOptions, {**given, "enable_idempotence": not clash})
    if "delivery_timeout_ms" not in given:
        longest_ms = int(options.linger_ms) + options.request_timeout_ms
        if longest_ms > options.delivery_timeout_ms:
            options = parse_options(
                ProducerOptions,
                {**given, "enable_idempotence": options.is_idempotent, "delivery_timeout_ms": longest_ms},
            )
    elif options.delivery_timeout_ms < options.linger_ms + options.request_timeout_ms:
        raise ConfigError(
            f"delivery_timeout_ms is {options.delivery_timeout_ms}; "
            f"it can be linger_ms + request_timeout_ms ({options.linger_ms + options.request_timeout_ms:g}) or more"
        )
    _check_compression(options)
    _check_transactions(options, given)
    return options


def _check_transactions(options: ProducerOptions, given: ProducerArguments) -> None:
    if options.transactional_id is None:
        if options.transaction_two_phase_commit_enable:
            raise ConfigError("transaction_two_phase_commit_enable needs a transactional_id")
        return
    if not options.transactional_id:
        raise ConfigError("transactional_id is empty; it is a name of one's own choice")
    if not options.is_idempotent:
        clash = _idempotence_clash(options) or "to be on as well"
        raise ConfigError(f"transactional_id needs idempotence, and that needs {clash}")
    if options.transaction_two_phase_commit_enable and "transaction_timeout_ms" in given:
        raise ConfigError(
            "transaction_timeout_ms has no meaning with transaction_two_phase_commit_enable: leave it out"
        )


def _idempotence_clash(options: ProducerOptions) -> str | None:
    """What idempotence would need to be otherwise, as half a sentence."""
    if options.acks != -1:
        return f"acks='all', and acks is {options.acks}"
    if options.retries == 0:
        return "retries, and there are none"
    if options.max_in_flight_requests_per_connection > IDEMPOTENT_IN_FLIGHT_MAX:
        return f"max_in_flight_requests_per_connection to be at most {IDEMPOTENT_IN_FLIGHT_MAX}"
    return None


def _check_compression(options: ProducerOptions) -> None:
    level = options.compression_level
    if level is None:
        return
    levels = LEVELS.get(options.codec)
    if levels is None:
        raise ConfigError(f"compression_level is {level}, and compression {options.compression_type} has no levels")
    if level not in levels and level != DEFAULT_LEVELS[options.codec]:
        raise ConfigError(
            f"compression_level is {level}; {options.compression_type} has {levels.start} to {levels.stop - 1}"
        )

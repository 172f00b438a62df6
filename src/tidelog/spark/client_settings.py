"""Options that begin with `kafka.`: what Spark's connector hands to Kafka's Java clients, here for Tidelog's.

`kafka.fetch.min.bytes` is the client's `fetch_min_bytes`. What the client does not have is refused, with the reason where it is
one that people ask for. The sink takes the same options, for a producer. Secrets may be references, which stay references until a
client is made (`client_arguments`, `common_settings`); no secret is in what settings look like when printed.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping
from typing import Any

from tidelog.client.errors import ConfigError
from tidelog.client.kafka_properties import in_kafka_names, is_understood_class, read_value
from tidelog.client.options import ClientOptions, parse_options
from tidelog.client.security_options import secret_names
from tidelog.spark.errors import OptionError
from tidelog.spark.secret_references import has_reference, resolved

PREFIX = "kafka."

_SPARK_DECIDES = "Spark decides what is read and when: use startingOffsets"
_BYTES = "keys and values are columns of bytes: decode them with column functions"
_REFUSED = {
    "auto.offset.reset": _SPARK_DECIDES,
    "enable.auto.commit": "progress is committed to kafka.group.id as Spark makes it",
    "auto.commit.interval.ms": "progress is committed to kafka.group.id as Spark makes it",
    "interceptor.classes": "an interceptor could change what is read or written",
    "interceptors": "an interceptor could change what is read or written",
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    "group.instance.id": "Spark assigns the partitions, no member of a group does",
    "group.protocol": "Spark assigns the partitions, no member of a group does",
    "group.remote.assignor": "Spark assigns the partitions, no member of a group does",
    "partition.assignment.strategy": "Spark assigns the partitions, no member of a group does",
    "transactional.id": "each task has one of its own; the option transactionalIdPrefix says how they begin",
    "transaction.two.phase.commit.enable": "the driver uses it where the cluster has it; tasks have a time-out",
    "partitioner.class": "give kafka.partitioner as default, sticky or round_robin",
    "observers": "an observer is an object, and options are text",
    "sasl.oauthbearer.token.callback": "a function is no text: use kafka.sasl.oauthbearer.token.endpoint.url",
}
_DURATION = re.compile(r"(\d{1,15})\s*([a-z]*)", re.ASCII)
# Spark's own words for units of time; a number alone is of milliseconds.
_UNITS_MS = {
    "us": 0.001,
    "ms": 1,
    "": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
HIDDEN = "[hidden]"
_SECRETS = secret_names()
_COMMON = frozenset(each.name for each in dataclasses.fields(ClientOptions))


class ClientSettings(dict[str, object]):
    """Keyword arguments of a client, which travel to the workers. Printed, they show no secret."""

    def __repr__(self) -> str:
        return repr({name: HIDDEN if name in _SECRETS else value for name, value in self.items()})


def client_settings(kind: type[ClientOptions], given: Mapping[str, str]) -> ClientSettings:
    """Keyword arguments for a client from options by their lower-case names. OptionError for the first that is wrong."""
    fields = {each.name: each for each in dataclasses.fields(kind)}
    settings = ClientSettings()
    for option, text in given.items():
        if not option.startswith(PREFIX):
            continue
        key = option.removeprefix(PREFIX)
        if key in _REFUSED:
            raise OptionError(f"the option {option} is not supported: {_REFUSED[key]}")
        name = key.replace(".", "_")
        try:
            if is_understood_class(key, text):
                continue
            if name not in fields:
                raise OptionError(f"there is no option {option}{_hint(key, fields)}")
            settings[name] = read_value(option, text, fields[name])
        except ConfigError as error:
            raise OptionError(str(error)) from None
    if "bootstrap_servers" not in settings:
        raise OptionError(
            "the option kafka.bootstrap.servers is missing: name a node of the cluster, as in 127.0.0.1:9092"
        )
    _check_shown(settings)
    try:
        parse_options(kind, settings)
    except ConfigError as error:
        raise OptionError(f"an option that begins with {PREFIX} is wrong: {in_kafka_names(str(error))}") from None
    return settings


def parse_whole(option: str, text: str) -> int:
    """A whole number, of 64 bits as Spark's own are."""
    digits = text.strip()
    bare = digits.removeprefix("-")
    if not (bare.isascii() and bare.isdigit() and len(bare) <= 19 and -(2**63) <= int(digits) < 2**63):
        raise OptionError(f"{option} is {text!r}; it is a whole number")
    return int(digits)


def parse_duration_ms(option: str, text: str) -> int:
    """A time in Spark's words."""
    parsed = _DURATION.fullmatch(text.strip().lower())
    if parsed is None or parsed[2] not in _UNITS_MS:
        raise OptionError(f"{option} is {text!r}; it is a time such as 500ms, 30s, 15m or 1h")
    return int(int(parsed[1]) * _UNITS_MS[parsed[2]])


def parse_flag(option: str, text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise OptionError(f"{option} is {text!r}; it is true or false")


def _hint(key: str, fields: Mapping[str, object]) -> str:
    nearest = difflib.get_close_matches(key.replace(".", "_"), fields, n=1)
    return f"; did you mean {PREFIX}{nearest[0].replace('_', '.')}?" if nearest else ""


def _check_shown(settings: Mapping[str, object]) -> None:
    """A key in itself is in every plan: Spark hides options by words such as password, and this has none of them."""
    key = settings.get("ssl_keystore_key")
    if key is not None and not has_reference(key):
        raise OptionError(
            "the option kafka.ssl.keystore.key holds the key itself, which Spark would show in its plans: "
            "refer to it, as in ${directory:/run/secrets:client.key}, or give kafka.ssl.keystore.location"
        )


def is_secret(option: str) -> bool:
    """Whether an option of Spark's is shown to nobody."""
    name = option.lower()
    return name.startswith(PREFIX) and name.removeprefix(PREFIX).replace(".", "_") in _SECRETS


def client_arguments(settings: Mapping[str, object]) -> dict[str, Any]:
    """The settings for a client that is made here and now: with the secrets that they refer to. OptionError without those."""
    return resolved(settings)


def common_settings(settings: Mapping[str, object]) -> dict[str, Any]:
    """Those that every client has, from those of one kind, for a client that is made here and now."""
    return resolved({name: each for name, each in settings.items() if name in _COMMON})

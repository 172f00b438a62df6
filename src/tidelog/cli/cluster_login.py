"""What `--command-config` (or a profile in its place) and `-X` say of the clients that a command makes.

One command runs in a process, and has one of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidelog.cli import profiles

# A file of keys has some hundred bytes; whatever has this many is another one.
FILE_BYTES_MAX = 1_048_576

_EXIT_WRONG_QUESTION = 2

# Commands whose users log in one by one, later: what is given may leave out who it is for.
_LOG_IN_LATER = frozenset({"console"})

_properties: dict[str, str] = {}


def take(command: str, file: str | None, pairs: Sequence[str], *, takes_profile: bool = False) -> int:
    """Read what was given, for the command that is about to run. The exit code, with a sentence on stderr if it is not 0.

    `takes_profile`: the profile in use, if there is one, stands for the file.
    """
    _properties.clear()
    profile = profiles.name_in_use() if takes_profile else None
    if file is None and not pairs and profile is None:
        return 0
    # Only for those who log in.
    from tidelog.cli.admin_session import QuestionError, complain, remark  # noqa: PLC0415

    try:
        if profile is not None:
            file = _file_of(profile)
        _properties.update({} if file is None else read_properties_file(file))
        _properties.update(_pairs(pairs))
        unknown = _checked(_properties, logs_in_later=command in _LOG_IN_LATER)
    except QuestionError as error:
        return complain(command, str(error), _EXIT_WRONG_QUESTION)
    for key in unknown:
        remark(command, f"no client has {key}, which is ignored")
    return 0


def _file_of(profile: str) -> str:
    from tidelog.cli.admin_session import QuestionError  # noqa: PLC0415
    from tidelog.model.config import did_you_mean  # noqa: PLC0415

    there = profiles.names()
    if profile not in there:
        advice = did_you_mean(profile, there) or f", which is in use by {profiles.VARIABLE} or `tidelog profile use`"
        raise QuestionError(f"there is no profile {profile}{advice}")
    return profiles.path_of(profile)


def bootstrap_servers() -> str | None:
    return _properties.get("bootstrap.servers")


def login_settings(kind: type[Any]) -> dict[str, Any]:
    """Keyword arguments for a client with this kind of options, without its servers. ConfigError for a value that cannot be."""
    from tidelog.client.kafka_properties import read_properties  # noqa: PLC0415 - as above

    settings = read_properties(kind, _properties).settings
    settings.pop("bootstrap_servers", None)
    return settings


def login_properties() -> Mapping[str, str]:
    """What of it is about TLS and SASL, under Kafka's names: for clients that are made elsewhere."""
    return {key: value for key, value in _properties.items() if key.startswith(("security.", "ssl.", "sasl."))}


def given_properties() -> Mapping[str, str]:
    """All of it, under Kafka's names."""
    return _properties


def read_properties_file(file: str) -> dict[str, str]:
    """A client.properties. QuestionError where it cannot be read."""
    from pathlib import Path  # noqa: PLC0415

    from tidelog.cli.admin_session import QuestionError  # noqa: PLC0415
    from tidelog.storage.properties import parse_properties  # noqa: PLC0415

    try:
        with Path(file).open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise QuestionError(f"{file} cannot be read: {error.strerror or error}") from error
    if len(content) > FILE_BYTES_MAX:
        raise QuestionError(f"{file} has more than {FILE_BYTES_MAX} bytes: it is no client.properties")
    return parse_properties(content)


def _pairs(pairs: Sequence[str]) -> dict[str, str]:
    from tidelog.cli.admin_session import QuestionError  # noqa: PLC0415

    read = {}
    for number, each in enumerate(pairs, 1):
        key, equals, value = each.partition("=")
        if not equals or not key.strip():
            # Not repeated: it may be a password.
            raise QuestionError(f"the value of -X number {number} is no KEY=VALUE, as in security.protocol=SSL")
        read[key.strip()] = value
    return read


def _checked(given: Mapping[str, str], *, logs_in_later: bool) -> list[str]:
    """The keys that no client has: a file may be shared by producers, consumers and admins. QuestionError for wrong values."""
    from tidelog.cli.admin_session import QuestionError  # noqa: PLC0415
    from tidelog.client.admin.options import AdminOptions  # noqa: PLC0415
    from tidelog.client.consumer.options import ConsumerOptions  # noqa: PLC0415
    from tidelog.client.errors import ConfigError  # noqa: PLC0415
    from tidelog.client.kafka_properties import in_kafka_names, read_properties  # noqa: PLC0415
    from tidelog.client.options import parse_options  # noqa: PLC0415
    from tidelog.client.producer.options import ProducerOptions  # noqa: PLC0415

    unknown = dict.fromkeys(given)
    try:
        for kind in (AdminOptions, ConsumerOptions, ProducerOptions):
            missing = read_properties(kind, given).unknown
            unknown = {key: None for key in unknown if key in missing}
        settings = {"bootstrap_servers": "any", **login_settings(AdminOptions)}
        if not logs_in_later:
            parse_options(AdminOptions, settings)
    except ConfigError as error:
        raise QuestionError(in_kafka_names(str(error))) from error
    return list(unknown)

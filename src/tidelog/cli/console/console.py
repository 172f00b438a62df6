"""`tidelog console`: what was typed, checked; then the server until Ctrl-C."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tidelog.cli.admin_session import EXIT_REFUSED, EXIT_WRONG_QUESTION, QuestionError, complain
from tidelog.cli.cluster_login import given_properties, read_properties_file
from tidelog.client.admin.options import AdminOptions
from tidelog.client.errors import ConfigError
from tidelog.client.kafka_properties import in_kafka_names, read_properties
from tidelog.client.options import parse_options
from tidelog.client.security_options import SecurityOptions

_COMMAND = "console"
_NAME_MAX = 60


@dataclass(frozen=True, slots=True)
class ConsoleArguments:
    """What was typed. `bootstrap`: None where --cluster names all clusters."""

    bootstrap: str | None
    name: str
    clusters: Sequence[str]
    cluster_configs: Sequence[str]
    host: str
    port: int
    allowed_hosts: Sequence[str]
    is_read_only: bool
    user: str | None
    traces: Sequence[str]
    trace_token_file: str | None
    trace_authorities: str | None
    registry: str | None
    audit_file: str | None
    tls_certificate: str | None
    tls_key: str | None
    play_fd: int | None


def start_console(arguments: ConsoleArguments) -> int:
    """The exit code."""
    try:
        from tidelog.console.options import ConsoleOptions  # noqa: PLC0415 - the extra `console`
        from tidelog.console.server import ServerError, run_console  # noqa: PLC0415
    except ImportError as error:
        if error.name is None or error.name.startswith("tidelog"):
            raise
        return complain(
            _COMMAND,
            f"{error.name} is not installed: `pip install 'tidelog[console]'` brings what the console needs",
            EXIT_REFUSED,
        )
    try:
        options = ConsoleOptions(
            _clusters(arguments),
            arguments.host,
            arguments.port,
            arguments.is_read_only,
            tuple(arguments.allowed_hosts),
            arguments.audit_file,
            arguments.tls_certificate,
            arguments.tls_key,
            arguments.play_fd,
            _token(arguments.trace_token_file),
            arguments.trace_authorities,
        )
        # What the clients warn of, such as a node that is down, again and again: the screens say it.
        logging.getLogger("tidelog.client").addHandler(logging.NullHandler())
        logging.getLogger("tidelog.net").addHandler(logging.NullHandler())
        return run_console(options)
    except QuestionError as error:
        return complain(_COMMAND, str(error), EXIT_WRONG_QUESTION)
    except ConfigError as error:
        return complain(_COMMAND, in_kafka_names(str(error)), EXIT_WRONG_QUESTION)
    except ServerError as error:
        return complain(_COMMAND, str(error), EXIT_REFUSED)


def _clusters(arguments: ConsoleArguments) -> list[Any]:
    from tidelog.console.options import ClusterOptions  # noqa: PLC0415

    if arguments.tls_key is not None and arguments.tls_certificate is None:
        raise QuestionError("--tls-key is given, and --tls-cert is not: a key is of no use without its certificate")

    addresses: dict[str, str] = {}
    if arguments.bootstrap is not None:
        addresses[_checked_name(arguments.name)] = arguments.bootstrap
    for written in arguments.clusters:
        name, address = _pair(written, "--cluster", "east=127.0.0.1:9092")
        if name in addresses:
            raise QuestionError(f"two clusters are called {name}: --name calls the one of --bootstrap otherwise")
        addresses[_checked_name(name)] = address
    files = dict(_pair(each, "--cluster-config", "east=client.properties") for each in arguments.cluster_configs)
    for name in files:
        if name not in addresses:
            raise QuestionError(f"--cluster-config names {name}, which no --cluster does")
    traces = _traces(arguments.traces)
    if arguments.registry is not None:
        _check_registry(arguments.registry)
    clusters = []
    for index, (name, address) in enumerate(addresses.items()):
        given = read_properties_file(files[name]) if name in files else given_properties()
        settings = read_properties(SecurityOptions, given).settings
        user = _fixed_user(name, settings, arguments.user)
        parse_options(AdminOptions, {"bootstrap_servers": address, **_complete(settings)})
        clusters.append(ClusterOptions(name, address, settings, user, traces if index == 0 else {}, arguments.registry))
    return clusters


def _checked_name(name: str) -> str:
    if not 0 < len(name) <= _NAME_MAX or not all(each.isalnum() or each in "-_." for each in name):
        raise QuestionError(f"{name!r:.80} is no name of a cluster: letters, digits, -, _ and dots")
    return name


def _pair(written: str, option: str, example: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not equals or not name or not value:
        raise QuestionError(f"{option} {written!r:.100} is no pair, as in {option} {example}")
    return name, value


def _traces(written: Sequence[str]) -> dict[int, str]:
    found = {}
    for each in written:
        node, url = _pair(each, "--trace", "1=http://127.0.0.1:9644")
        parts = urlsplit(url)
        if (
            not (node.isascii() and node.isdigit() and len(node) < 10)
            or parts.scheme not in {"http", "https"}
            or not parts.netloc
        ):
            raise QuestionError(
                f"--trace {each!r:.100} is no node and its endpoint, as in --trace 1=http://127.0.0.1:9644"
            )
        found[int(node)] = url.rstrip("/")
    return found


def _token(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        token = Path(file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise QuestionError(f"{file} has no token: {getattr(error, 'strerror', None) or 'it is no text'}") from error
    if not token or not token.isprintable():
        raise QuestionError(f"{file} has no token: expected one line of text")
    return token


def _check_registry(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise QuestionError(f"--registry {url!r:.100} is no address of a schema registry: expected http://host:port")


def _fixed_user(name: str, settings: Mapping[str, Any], user: str | None) -> str | None:
    """Who everybody is to a cluster. QuestionError where a login is given and nobody has said that all may use it."""
    owner = _owner(settings)
    has_login = owner is not None or any(each.startswith(("ssl_keystore", "sasl_oauthbearer")) for each in settings)
    if has_login and user is None:
        whose = "a login" if owner is None else f"the login of {owner}"
        raise QuestionError(
            f"the keys for {name} hold {whose}, which everybody would use who opens the console: say so with --as "
            f"{owner or 'USER'}, or leave it out and let each person log in"
        )
    if user is None:
        return None
    if not has_login:
        raise QuestionError(f"--as {user} needs the login of {user}, in the file of --command-config")
    if owner is not None and owner != user:
        raise QuestionError(f"--as {user} and the login of {owner} contradict each other")
    return user


def _owner(settings: Mapping[str, Any]) -> str | None:
    if settings.get("sasl_username") is not None:
        return str(settings["sasl_username"])
    if settings.get("sasl_jaas_config") is None:
        return None
    from tidelog.security import jaas  # noqa: PLC0415 - for those alone who log in so

    try:
        entry = jaas.jaas_entry(settings["sasl_jaas_config"])
    except jaas.JaasError as error:
        raise QuestionError(f"sasl.jaas.config cannot be read: {error}") from None
    return entry.options.get("username", "the holder of sasl.jaas.config")


def _complete(settings: Mapping[str, Any]) -> dict[str, Any]:
    """With a login, where people are to log in: to check what else is set."""
    protocol = str(settings.get("security_protocol", "")).upper()
    if not protocol.startswith("SASL_") or _owner(settings) is not None:
        return dict(settings)
    mechanism = str(settings.get("sasl_mechanism") or "PLAIN").upper()
    if mechanism == "OAUTHBEARER":
        has_source = any(each.startswith("sasl_oauthbearer") for each in settings)
        return {**settings, "sasl_mechanism": mechanism, **({} if has_source else {"sasl_oauthbearer_token": "any"})}
    if mechanism == "GSSAPI":
        return dict(settings)
    return {**settings, "sasl_mechanism": mechanism, "sasl_username": "any", "sasl_password": "any"}

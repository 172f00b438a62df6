"""`tidelog configs`: what a topic or broker is configured to do, and changes to it.

A broker is named by its number; `default` stands for what all brokers have that say nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tidelog.cli.admin_session import QuestionError, administer, parse_pairs, print_json, print_line, print_table
from tidelog.cli.topic_names import with_nearest_settings
from tidelog.client.admin import AsyncAdmin, ConfigEntry, ConfigSource, ResourceKind
from tidelog.client.errors import RefusedError

_COMMAND = "configs"
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_DEFAULT_BROKER = "default"
_SOURCES = {
    ConfigSource.TOPIC: "topic",
    ConfigSource.BROKER: "broker",
    ConfigSource.CLUSTER_DEFAULT: "all brokers",
    ConfigSource.STATIC_BROKER: "server.properties",
    ConfigSource.DEFAULT: "default",
}


def show_configs(bootstrap: str, kind: str, name: str, *, shows_all: bool, documented: bool, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        resource, resource_name = _resource(kind, name)
        entries = await admin.describe_config(resource, resource_name, include_documentation=documented)
        shown = [entry for entry in entries.values() if shows_all or entry.source is not ConfigSource.DEFAULT]
        if as_json:
            print_json(
                {
                    "name": entry.name,
                    "value": entry.value,
                    "source": _SOURCES.get(entry.source, entry.source.name.lower()),
                    "read_only": entry.is_read_only,
                    "sensitive": entry.is_sensitive,
                    **({"documentation": entry.documentation} if documented else {}),
                }
                for entry in shown
            )
        elif not shown:
            print_line(f"{kind} {name} has only defaults; --all shows them")
        else:
            _print_entries(shown, documented=documented)

    return administer(_COMMAND, bootstrap, work)


def change_configs(
    bootstrap: str, kind: str, name: str, *, settings: Sequence[str] = (), removed: Sequence[str] = ()
) -> int:
    async def work(admin: AsyncAdmin) -> None:
        resource, resource_name = _resource(kind, name)
        pairs = parse_pairs(settings)
        if resource is ResourceKind.TOPIC:
            # Clusters answer a change to a topic that does not exist in several ways; this is one sentence for all.
            await admin.describe_topic(name)
        try:
            await admin.alter_config(resource, resource_name, set=pairs, delete=removed)
        except RefusedError as error:
            raise (
                with_nearest_settings(error, [*pairs, *removed]) if resource is ResourceKind.TOPIC else error
            ) from None
        for key, value in pairs.items():
            print_line(f"{kind} {name}: {key}={value}")
        for key in removed:
            print_line(f"{kind} {name}: {key} has its default again")

    return administer(_COMMAND, bootstrap, work)


def _resource(kind: str, name: str) -> tuple[ResourceKind, str]:
    if kind == "topic":
        return ResourceKind.TOPIC, name
    if name == _DEFAULT_BROKER:
        return ResourceKind.BROKER, ""
    if not (name.isascii() and name.isdigit() and len(name) <= 9):
        raise QuestionError(f"{name!r} is not a broker: expected its number, or `{_DEFAULT_BROKER}` for all of them")
    return ResourceKind.BROKER, str(int(name))


def _print_entries(entries: Sequence[ConfigEntry], *, documented: bool) -> None:
    if not documented:
        rows = [(entry.name, _value(entry), _SOURCES.get(entry.source, "other")) for entry in entries]
        print_table(["key", "value", "from"], rows)
        return
    for entry in entries:
        print_line(f"{entry.name}={_value(entry)}")
        # Apache Kafka's documentation is HTML.
        words = _TAG.sub("", entry.documentation or "no documentation").split()
        print_line(f"    {' '.join(words)}")


def _value(entry: ConfigEntry) -> str:
    return "(hidden)" if entry.is_sensitive else "(none)" if entry.value is None else entry.value

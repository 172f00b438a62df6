"""`tidelog format`: make the log directories of a node ready, as `kafka-storage format --standalone` does.

A node formats what is not formatted when it starts; this does it apart, with a cluster id of one's own choice.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from random import SystemRandom

from tidelog.broker.hosting import START_ERRORS
from tidelog.broker.listeners import listener_specs
from tidelog.cli.broker import EXIT_FAILED, EXIT_WRONG_QUESTION, complain, read_server_properties
from tidelog.cli.rendering import Json, json_line, printable
from tidelog.controller.formatting import FormatError, check_identity, format_directories, new_cluster_id
from tidelog.model import broker_config as keys
from tidelog.model.clock import SystemClock
from tidelog.model.config import ConfigError, ConfigValues
from tidelog.model.ids import NodeId, uuid_to_text
from tidelog.model.slow_work import InlineSlowWork
from tidelog.raft.voter_set import Endpoint
from tidelog.storage.files import OsFiles
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.meta_properties import MetaProperties
from tidelog.storage.seams import Seams


@dataclass(frozen=True, slots=True)
class FormatOptions:
    config_path: str | None
    settings: Sequence[str] = ()
    cluster_id: str | None = None
    ignores_formatted: bool = False
    as_json: bool = False


def run_format(options: FormatOptions) -> int:
    """Format the directories of a configuration. The exit code."""
    try:
        config = read_server_properties(options.config_path, options.settings).values
        rows = _format(config, options)
    except ConfigError as error:
        return complain("format", error, EXIT_WRONG_QUESTION)
    except START_ERRORS as error:
        return complain("format", error, EXIT_FAILED)
    for row in rows:
        text = f"{row['state']} {printable(str(row['dir']))}: node {row['node']} of cluster {row['cluster']}"
        sys.stdout.write((json_line(row) if options.as_json else text) + "\n")
    return 0


def log_directory_paths(config: ConfigValues) -> list[str]:
    """The directories of a node, that of the metadata log first."""
    paths = config[keys.LOG_DIRS] or config[keys.LOG_DIR]
    first = config[keys.METADATA_LOG_DIR]
    return [first, *(path for path in paths if path != first)] if first else list(paths)


def _format(config: ConfigValues, options: FormatOptions) -> list[dict[str, Json]]:
    node_id = NodeId(config[keys.NODE_ID])
    if node_id < 0:
        raise ConfigError("node.id is not set: give the node a number, for example --set node.id=1")
    if options.cluster_id is not None and not options.cluster_id.strip():
        raise ConfigError("the cluster id is empty: leave --cluster-id out for a new one")
    endpoints = _controller_endpoints(config)
    paths = log_directory_paths(config)
    seams = Seams(OsFiles(), SystemClock(), InlineSlowWork(), SystemRandom())
    opened: list[LogDirectory] = []
    try:
        for path in paths:
            opened.append(LogDirectory.open(seams, path, config_of=lambda _topic: LogConfig()))  # noqa: PERF401 - `finally`
        before = [check_identity(seams.files, path, options.cluster_id, node_id) for path in paths]
        _check_unformatted(before, paths, options)
        known = next((each.cluster_id for each in before if each is not None and each.cluster_id), None)
        after = format_directories(
            seams.files,
            paths,
            cluster_id=options.cluster_id or known or new_cluster_id(seams.random),
            node_id=node_id,
            controller_endpoints=endpoints,
            random=seams.random,
            clock=seams.clock,
            is_static_quorum=bool(config[keys.CONTROLLER_QUORUM_VOTERS]),
        )
    finally:
        for directory in opened:
            directory.abandon()
    return [_row(path, identity, is_new=was is None) for path, was, identity in zip(paths, before, after, strict=True)]


def _check_unformatted(before: Sequence[MetaProperties | None], paths: Sequence[str], options: FormatOptions) -> None:
    if options.ignores_formatted:
        return
    for path, identity in zip(paths, before, strict=True):
        if identity is not None:
            raise FormatError(
                f"{path} is formatted already, for node {identity.node_id} of cluster {identity.cluster_id}: "
                "--ignore-formatted leaves it as it is"
            )


def _controller_endpoints(config: ConfigValues) -> tuple[Endpoint, ...]:
    if not config[keys.CONTROLLER_LISTENER_NAMES]:
        raise ConfigError("controller.listener.names is not set: name one of the listeners, for example CONTROLLER")
    endpoints = []
    for spec in listener_specs(config):
        if not spec.is_controller:
            continue
        told = spec.endpoint(spec.port, "localhost")
        if told.port == 0:
            raise ConfigError(f"listener {spec.name} has port 0: a directory is formatted for a port that stays")
        endpoints.append(Endpoint(told.name, told.host, told.port))
    return tuple(endpoints)


def _row(path: str, identity: MetaProperties, *, is_new: bool) -> dict[str, Json]:
    return {
        "state": "formatted" if is_new else "left",
        "dir": path,
        "node": identity.node_id,
        "cluster": identity.cluster_id,
        "directory_id": None if identity.directory_id is None else uuid_to_text(identity.directory_id),
    }

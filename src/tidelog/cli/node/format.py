"""`tidelog format`: make the log directories of a node ready, as `kafka-storage format` does.

    --standalone                    the node is the only voter, which is also what happens when nothing is said
    --initial-controllers LIST      these are the voters: the same list, and the same --cluster-id, for every node
    --no-initial-controllers        the node joins a cluster that has its voters
    controller.quorum.voters        in the configuration: the voters are those, and none are written down
    --release-version, --feature    the feature levels to begin with; without them those of Apache Kafka 4.3
    --add-scram                     users to begin with, which brokers need that log in to each other by SCRAM

A node that is a cluster of its own formats what is not formatted when it starts; this does it apart, with a cluster id of one's
own choice. Nodes of one cluster are always formatted by hand: each alone would become a cluster of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import SystemRandom

from tidelog.broker.config.listeners import listener_specs
from tidelog.broker.config.node_config import CONTROLLER, is_of_several, log_directories
from tidelog.broker.config.quorum_voters import initial_voters
from tidelog.broker.node.hosting import START_ERRORS
from tidelog.cli.node.broker import EXIT_FAILED, EXIT_WRONG_QUESTION, complain, read_server_properties
from tidelog.cli.node.first_levels import first_levels
from tidelog.cli.node.first_users import first_users
from tidelog.cli.rendering import Json, json_line, printable
from tidelog.controller.features import METADATA_VERSION
from tidelog.controller.formatting import FormatError, check_identity, format_directories, new_cluster_id
from tidelog.model import broker_config as keys
from tidelog.model.clock import SystemClock
from tidelog.model.config import ConfigError, ConfigValues
from tidelog.model.ids import NodeId, uuid_to_text
from tidelog.model.slow_work import InlineSlowWork
from tidelog.raft.voter_set import Endpoint, Endpoints, VoterSet
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.meta_properties import MetaProperties
from tidelog.storage.os_files import OsFiles
from tidelog.storage.seams import Seams

_NO_LISTENER = "controller.listener.names is not set: name one of the listeners, for example CONTROLLER"


@dataclass(frozen=True, slots=True)
class FormatOptions:
    config_path: str | None
    settings: Sequence[str] = ()
    cluster_id: str | None = None
    ignores_formatted: bool = False
    as_json: bool = False
    is_standalone: bool = False
    initial_controllers: str | None = None
    no_initial_controllers: bool = False
    release_version: str | None = None
    features: Sequence[str] = ()
    scram_users: Sequence[str] = field(default=(), repr=False)


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


def _format(config: ConfigValues, options: FormatOptions) -> list[dict[str, Json]]:
    node_id = NodeId(config[keys.NODE_ID])
    if node_id < 0:
        raise ConfigError("node.id is not set: give the node a number, for example --set node.id=1")
    if options.cluster_id is not None and not options.cluster_id.strip():
        raise ConfigError("the cluster id is empty: leave --cluster-id out for a new one")
    is_controller = CONTROLLER in config[keys.PROCESS_ROLES]
    endpoints = controller_endpoints(config) if is_controller else ()
    voters = _initial_voters(config, options, endpoints)
    is_static_quorum = bool(config[keys.CONTROLLER_QUORUM_VOTERS])
    levels = first_levels(options.release_version, options.features, is_static_quorum=is_static_quorum)
    paths = log_directories(config)
    seams = Seams(OsFiles(), SystemClock(), InlineSlowWork(), SystemRandom())
    users = first_users(options.scram_users, levels[METADATA_VERSION], seams.random)
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
            voters=voters,
            is_static_quorum=_writes_no_voters(config, options),
            levels=levels,
            further=users,
        )
    finally:
        for directory in opened:
            directory.abandon()
    return [_row(path, identity, is_new=was is None) for path, was, identity in zip(paths, before, after, strict=True)]


def _writes_no_voters(config: ConfigValues, options: FormatOptions) -> bool:
    if options.is_standalone or options.initial_controllers is not None:
        return False
    is_controller = CONTROLLER in config[keys.PROCESS_ROLES]
    return options.no_initial_controllers or bool(config[keys.CONTROLLER_QUORUM_VOTERS]) or not is_controller


def _initial_voters(config: ConfigValues, options: FormatOptions, endpoints: Endpoints) -> VoterSet | None:
    """The voters that the command line names; None where it names none. ConfigError for what makes no sense."""
    ways = {
        "--standalone": options.is_standalone,
        "--initial-controllers": options.initial_controllers is not None,
        "--no-initial-controllers": options.no_initial_controllers,
    }
    given = [name for name, is_given in ways.items() if is_given]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} exclude each other: choose one")
    is_static = bool(config[keys.CONTROLLER_QUORUM_VOTERS])
    if given and is_static:
        raise ConfigError(f"{given[0]} is for a quorum that can change: remove controller.quorum.voters")
    if options.is_standalone and not endpoints:
        raise ConfigError("--standalone is for a controller: see process.roles")
    if options.initial_controllers is None:
        if not given and endpoints and is_of_several(config) and not is_static:
            # Alone it would be a cluster of its own under the same name as the others.
            raise ConfigError(
                "controller.quorum.bootstrap.servers names several controllers: say who votes with --initial-controllers, "
                "--no-initial-controllers or --standalone"
            )
        return None
    if options.cluster_id is None:
        raise ConfigError("--initial-controllers needs --cluster-id: the same for every node of the cluster")
    listeners: tuple[str, ...] = config[keys.CONTROLLER_LISTENER_NAMES]
    if not listeners:
        raise ConfigError(_NO_LISTENER)
    voters = initial_voters(options.initial_controllers.split(","), listeners[0])
    mine = voters.get(NodeId(config[keys.NODE_ID]))
    if mine is not None and not endpoints:
        raise ConfigError("--initial-controllers names this node, which is no controller: see process.roles")
    return voters


def _check_unformatted(before: Sequence[MetaProperties | None], paths: Sequence[str], options: FormatOptions) -> None:
    if options.ignores_formatted:
        return
    for path, identity in zip(paths, before, strict=True):
        if identity is not None:
            raise FormatError(
                f"{path} is formatted already, for node {identity.node_id} of cluster {identity.cluster_id}: "
                "--ignore-formatted leaves it as it is"
            )


def controller_endpoints(config: ConfigValues) -> tuple[Endpoint, ...]:
    """Where a node's controller listens; nowhere if it has none. ConfigError where others could not find it there."""
    if not config[keys.CONTROLLER_LISTENER_NAMES]:
        raise ConfigError(_NO_LISTENER)
    endpoints: list[Endpoint] = []
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

"""What a node's configuration must say before the node starts. Each problem is one sentence with what to do."""

from __future__ import annotations

from pathlib import Path

from tidelog.broker.config.quorum_voters import bootstrap_nodes, static_voters
from tidelog.model import broker_config as keys
from tidelog.model.authorizer_config import (
    ALLOW_EVERYONE_IF_NO_ACL_FOUND,
    AUTHORIZER_CLASS_NAME,
    EARLY_START_LISTENERS,
    STANDARD_AUTHORIZER,
    SUPER_USERS,
)
from tidelog.model.cluster_config import CONTROLLER_QUORUM_BOOTSTRAP_SERVERS
from tidelog.model.config import ConfigError, ConfigValues
from tidelog.raft.voter_set import Node, VoterSet
from tidelog.security.authorizer import StandardAuthorizer, super_users_of

CONTROLLER = "controller"


def check_config(config: ConfigValues) -> None:
    """ConfigError for what no node can start with."""
    node_id = config[keys.NODE_ID]
    if node_id < 0:
        raise ConfigError("node.id is not set: give the node a number, for example --set node.id=1")
    check_authorizer(config)
    if not config[keys.PROCESS_ROLES]:
        raise ConfigError("process.roles is empty: a node is a broker, a controller, or both")
    if not config[keys.CONTROLLER_LISTENER_NAMES]:
        raise ConfigError("controller.listener.names is not set: name one of the listeners, for example CONTROLLER")
    is_controller = CONTROLLER in config[keys.PROCESS_ROLES]
    voters, servers = voters_of(config), bootstrap_servers(config)
    is_named = node_id in voters.ids
    if len(voters) and is_controller and not is_named:
        raise ConfigError(f"controller.quorum.voters does not name this node: expected {node_id}@host:port")
    if is_named and not is_controller:
        raise ConfigError("controller.quorum.voters names this node, which is no controller: see process.roles")
    if not is_controller and not len(voters) and not servers:
        raise ConfigError(
            "a broker that is no controller must be told where the controllers are: set controller.quorum.bootstrap.servers"
        )


def check_authorizer(config: ConfigValues) -> None:
    """ConfigError for an authoriser that is not there, or not as it is told."""
    name = config[AUTHORIZER_CLASS_NAME]
    if name not in ("", STANDARD_AUTHORIZER):
        raise ConfigError(
            f"authorizer.class.name is {name}, which is not supported: set it to {STANDARD_AUTHORIZER}, or remove it"
        )
    super_users_of(config[SUPER_USERS])
    early: tuple[str, ...] = config[EARLY_START_LISTENERS]
    listeners: tuple[str, ...] = config[keys.LISTENERS]
    controllers: tuple[str, ...] = config[keys.CONTROLLER_LISTENER_NAMES]
    known = {listener.partition("://")[0].upper() for listener in listeners} | {name.upper() for name in controllers}
    for listener in filter(None, early):
        if listener.upper() not in known:
            raise ConfigError(
                f"early.start.listeners contains listener {listener}, but this is not contained in listeners or "
                "controller.listener.names"
            )


def authorizer_of(config: ConfigValues) -> StandardAuthorizer | None:
    """The authoriser that a node is configured with; None where everybody may do everything."""
    if not config[AUTHORIZER_CLASS_NAME]:
        return None
    return StandardAuthorizer(
        super_users_of(config[SUPER_USERS]), allow_everyone=config[ALLOW_EVERYONE_IF_NO_ACL_FOUND]
    )


def starts_early(config: ConfigValues, listener_name: str) -> bool:
    """Whether a listener serves before the ACLs are there: those for controllers, unless it is said otherwise."""
    if EARLY_START_LISTENERS.name not in config.given:
        return listener_name in config[keys.CONTROLLER_LISTENER_NAMES]
    early: tuple[str, ...] = config[EARLY_START_LISTENERS]
    return listener_name.upper() in {name.upper() for name in early}


def voters_of(config: ConfigValues) -> VoterSet:
    """The voters of a static quorum, as far as the configuration names them."""
    voters, listeners = config[keys.CONTROLLER_QUORUM_VOTERS], config[keys.CONTROLLER_LISTENER_NAMES]
    return static_voters(voters, listeners[0])


def bootstrap_servers(config: ConfigValues) -> tuple[Node, ...]:
    """Where to ask for the leader of the quorum."""
    servers: tuple[str, ...] = config[CONTROLLER_QUORUM_BOOTSTRAP_SERVERS]
    return bootstrap_nodes(servers)


def log_directories(config: ConfigValues) -> tuple[str, ...]:
    """The absolute paths of the log directories, that of the metadata log first: what is told of them must hold anywhere."""
    paths = config[keys.LOG_DIRS] or config[keys.LOG_DIR]
    first = config[keys.METADATA_LOG_DIR]
    return tuple(dict.fromkeys(str(Path(path).absolute()) for path in ((first, *paths) if first else paths)))


def is_of_several(config: ConfigValues) -> bool:
    """Whether the node belongs to a cluster of more nodes than itself, which must agree on its id and its first voters."""
    is_controller = CONTROLLER in config[keys.PROCESS_ROLES]
    return not is_controller or len(voters_of(config)) > 1 or len(bootstrap_servers(config)) > 1


def voters_problem(voters: VoterSet, config: ConfigValues) -> str | None:
    """Why a node can never find the quorum of its metadata log, and would wait for ever."""
    if len(voters) or bootstrap_servers(config):
        return None
    return (
        "the directory was formatted for a static quorum: set controller.quorum.voters="
        f"{config[keys.NODE_ID]}@host:port, as when it was written"
    )

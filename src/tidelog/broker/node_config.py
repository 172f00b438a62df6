"""What a node's configuration must say before the node starts. Each problem is one sentence with what to do."""

from __future__ import annotations

from tidelog.broker.quorum_voters import static_voters
from tidelog.model import broker_config as keys
from tidelog.model.config import ConfigError, ConfigValues
from tidelog.raft.voter_set import ReplicaKey, VoterSet


def check_config(config: ConfigValues) -> None:
    """ConfigError for what no node can start with."""
    node_id = config[keys.NODE_ID]
    if node_id < 0:
        raise ConfigError("node.id is not set: give the node a number, for example --set node.id=1")
    authorizer = config[keys.AUTHORIZER_CLASS_NAME]
    if authorizer:
        raise ConfigError(f"authorizer.class.name is {authorizer}, but authorisation is not supported yet: remove it")
    roles = config[keys.PROCESS_ROLES]
    if set(roles) != {"broker", "controller"}:
        raise ConfigError("process.roles must be broker,controller: a node is both, as long as it is a cluster of one")
    if not config[keys.CONTROLLER_LISTENER_NAMES]:
        raise ConfigError("controller.listener.names is not set: name one of the listeners, for example CONTROLLER")
    voters = voters_of(config)
    if len(voters) > 1:
        raise ConfigError("controller.quorum.voters names several nodes, but only a quorum of one is supported yet")
    if voters.ids not in {(), (node_id,)}:
        raise ConfigError(f"controller.quorum.voters does not name this node: expected {node_id}@host:port")


def voters_of(config: ConfigValues) -> VoterSet:
    """The voters of a static quorum, as far as the configuration names them."""
    voters, listeners = config[keys.CONTROLLER_QUORUM_VOTERS], config[keys.CONTROLLER_LISTENER_NAMES]
    return static_voters(voters, listeners[0])


def voters_problem(voters: VoterSet, local: ReplicaKey) -> str | None:
    """Why a node can never lead the quorum of its metadata log, and would wait for ever."""
    if voters.is_only_voter(local):
        return None
    if not len(voters):
        return (
            "the directory was formatted for a static quorum: set controller.quorum.voters="
            f"{local.id}@host:port, as when it was written"
        )
    names = ", ".join(map(str, voters.ids))
    return f"the metadata log belongs to the voters {names}, but only a quorum of this node is supported yet"

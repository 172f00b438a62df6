"""Where the controllers are, as the configuration says.

`controller.quorum.voters` are the voters of a static quorum (kraft.version 0), which count as long as the log names none.
`controller.quorum.bootstrap.servers` are addresses to ask for the leader, whoever listens there.
Initial controllers are the first voters of a quorum that can change (kraft.version 1); directories are formatted with them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tidelog.model.broker_config import CONTROLLER_QUORUM_VOTERS
from tidelog.model.cluster_config import CONTROLLER_QUORUM_BOOTSTRAP_SERVERS
from tidelog.model.config import ConfigError
from tidelog.model.ids import DirectoryId, NodeId, uuid_from_text
from tidelog.raft.voter_set import Endpoint, Node, ReplicaKey, Voter, VoterSet

_ADDRESS = r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^:\[\]@]+):(?P<port>\d{1,5})"
_VOTER = re.compile(r"(?P<id>\d{1,10})@" + _ADDRESS)
_INITIAL = re.compile(r"(?P<id>\d{1,10})@" + _ADDRESS + r":(?P<directory>[\w-]{1,24})")
_SERVER = re.compile(_ADDRESS)
_PORT_MAX = 65535
_NODE_ID_MAX = 2**31 - 1
# Kafka gives servers whose id is not known ids from here on downwards.
_FIRST_SERVER_ID = -2


def static_voters(values: Sequence[str], listener: str) -> VoterSet:
    """The voters that the configuration names, reached by the given listener. ConfigError for what names none."""
    return VoterSet([_voter(value, listener) for value in values])


def _voter(value: str, listener: str) -> Voter:
    match = _VOTER.fullmatch(value)
    if match is None:
        raise ConfigError(
            f"Invalid value {value} for configuration {CONTROLLER_QUORUM_VOTERS.name}: expected id@host:port"
        )
    # The configuration of a static quorum has no directory ids.
    key = ReplicaKey(NodeId(int(match["id"])), None)
    return Voter(key, (Endpoint(listener, match["host"].strip("[]"), int(match["port"])),))


def initial_voters(values: Sequence[str], listener: str) -> VoterSet:
    """The first voters of a quorum that can change, reached by the given listener. ConfigError for what names none."""
    voters = [_initial_voter(value.strip(), listener) for value in values]
    for what, seen in (
        ("node", [each.key.id for each in voters]),
        ("directory", [each.key.directory_id for each in voters]),
    ):
        if len(set(seen)) < len(seen):
            raise ConfigError(f"Invalid initial controllers: a {what} is named twice")
    return VoterSet(voters)


def _initial_voter(value: str, listener: str) -> Voter:
    match = _INITIAL.fullmatch(value)
    port = 0 if match is None else int(match["port"])
    try:
        directory_id = b"" if match is None else uuid_from_text(match["directory"])
    except ValueError:
        directory_id = b""
    # Kafka keeps the ids of few ones and zeros for itself.
    if match is None or not any(directory_id[:-1]) or not 0 < port <= _PORT_MAX or int(match["id"]) > _NODE_ID_MAX:
        raise ConfigError(
            f"Invalid initial controller {value}: expected id@host:port:directory-id, as in "
            "1@localhost:9093:F6Q5sCdKR3mLmpUTYTnHrQ"
        )
    key = ReplicaKey(NodeId(int(match["id"])), DirectoryId(directory_id))
    return Voter(key, (Endpoint(listener, match["host"].strip("[]"), port),))


def bootstrap_nodes(values: Sequence[str]) -> tuple[Node, ...]:
    """The servers that the configuration names. ConfigError for what names none."""
    return tuple(_server(value, number) for number, value in enumerate(values))


def _server(value: str, number: int) -> Node:
    match = _SERVER.fullmatch(value)
    if match is None:
        raise ConfigError(
            f"Invalid value {value} for configuration {CONTROLLER_QUORUM_BOOTSTRAP_SERVERS.name}: expected host:port"
        )
    return Node(NodeId(_FIRST_SERVER_ID - number), match["host"].strip("[]"), int(match["port"]))

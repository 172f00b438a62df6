"""`controller.quorum.voters`: the voters of a static quorum (kraft.version 0), which count as long as the log names none."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tidelog.model.broker_config import CONTROLLER_QUORUM_VOTERS
from tidelog.model.config import ConfigError
from tidelog.model.ids import NodeId
from tidelog.raft.voter_set import Endpoint, ReplicaKey, Voter, VoterSet

_VOTER = re.compile(r"(?P<id>\d{1,10})@(?P<host>\[[0-9A-Fa-f:.%]+\]|[^:\[\]@]+):(?P<port>\d{1,5})")


def static_voters(values: Sequence[str], listener: str) -> VoterSet:
    """The voters that the configuration names, reached by the given listener. ConfigError for what names none."""
    return VoterSet([_voter(value, listener) for value in values])


def _voter(value: str, listener: str) -> Voter:
    match = _VOTER.fullmatch(value)
    if match is None:
        raise ConfigError(
            f"Invalid value {value} for configuration {CONTROLLER_QUORUM_VOTERS.name}: expected id@host:port"
        )
    # Which directory a static voter keeps its log in, nobody has written down.
    key = ReplicaKey(NodeId(int(match["id"])), None)
    return Voter(key, (Endpoint(listener, match["host"].strip("[]"), int(match["port"])),))

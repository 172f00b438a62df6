"""The roles of a replica, each with only the fields that it has. Which leads to which is `tidelog.raft.quorum`'s business."""

from __future__ import annotations

from tidelog.raft.roles.candidate import Candidate
from tidelog.raft.roles.follower import Follower, SnapshotDownload
from tidelog.raft.roles.leader import Leader
from tidelog.raft.roles.prospective import Prospective
from tidelog.raft.roles.resigned import Resigned
from tidelog.raft.roles.unattached import Unattached

Role = Unattached | Prospective | Candidate | Follower | Leader | Resigned
Nominee = Prospective | Candidate

__all__ = [
    "Candidate",
    "Follower",
    "Leader",
    "Nominee",
    "Prospective",
    "Resigned",
    "Role",
    "SnapshotDownload",
    "Unattached",
]

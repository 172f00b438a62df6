"""The file `quorum-state` of a voter, which holds this as JSON: epoch, leader and vote.

v1 has directory ids and no voters.
"""

from tidelog.wire.schema import Array, Int32, Int64, Message, String, Struct, Uuid, since, until


class Voter(Struct):
    voter_id: Int32


class QuorumStateData(Message, versions="0-1", flexible="0+"):
    cluster_id: String = until(0, default="")
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    voted_id: Int32 = -1
    voted_directory_id: Uuid = since(1)
    applied_offset: Int64 = until(0, default=0)
    current_voters: Array[Voter] | None = until(0, default=[])

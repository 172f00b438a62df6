"""AddRaftVoter (80), RemoveRaftVoter (81), UpdateRaftVoter (82): change the voters of the metadata log (KIP-853).

AddRaftVoter: v1 whether to answer only once the change is committed
"""

from tidelog.wire.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Struct,
    UInt16,
    Uuid,
    since,
    tagged,
)


class Listener(Struct):
    name: String
    host: String
    port: UInt16


class AddRaftVoterRequest(Request, api_key=80, versions="0-1", flexible="0+", listeners="controller broker"):
    cluster_id: String | None
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: Array[Listener]
    ack_when_committed: Bool = since(1, default=True)


class AddRaftVoterResponse(Response, api_key=80, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None


class RemoveRaftVoterRequest(Request, api_key=81, versions="0", flexible="0+", listeners="controller broker"):
    cluster_id: String | None
    voter_id: Int32
    voter_directory_id: Uuid


class RemoveRaftVoterResponse(Response, api_key=81, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None


class KRaftVersionFeature(Struct):
    min_supported_version: Int16
    max_supported_version: Int16


class UpdateRaftVoterRequest(Request, api_key=82, versions="0", flexible="0+", listeners="controller"):
    cluster_id: String | None
    current_leader_epoch: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: Array[Listener]
    kraft_version_feature: KRaftVersionFeature


class CurrentLeader(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    host: String
    port: Int32


class UpdateRaftVoterResponse(Response, api_key=82, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    current_leader: CurrentLeader = tagged(0, 0, default_factory=CurrentLeader)

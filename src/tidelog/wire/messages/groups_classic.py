"""JoinGroup (11), Heartbeat (12), LeaveGroup (13), SyncGroup (14): the classic protocol, in which a member assigns.

JoinGroup: v1 rebalance time-out · v4 the first answer only assigns a member id · v5 static members · v7 protocol type
v8 reason · v9 the leader may skip the assignment
Heartbeat: v3 static members
LeaveGroup: v3 several members · v5 reason
SyncGroup: v3 static members · v5 protocol type and name
"""

from tidelog.wire.schema import Array, Bool, Bytes, Int16, Int32, Request, Response, String, Struct, field, since, until


class JoinGroupRequestProtocol(Struct):
    name: String
    metadata: Bytes


class JoinGroupRequest(Request, api_key=11, versions="0-9", flexible="6+", listeners="broker"):
    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = since(1, default=-1, ignorable=True)
    member_id: String
    group_instance_id: String | None = since(5, default=None)
    protocol_type: String
    protocols: Array[JoinGroupRequestProtocol]
    reason: String | None = since(8, default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    member_id: String
    group_instance_id: String | None = since(5, default=None, ignorable=True)
    metadata: Bytes


class JoinGroupResponse(Response, api_key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: Int32 = since(2, ignorable=True)
    error_code: Int16
    generation_id: Int32 = -1
    protocol_type: String | None = since(7, default=None, ignorable=True)
    protocol_name: String | None = field(nullable="7+")
    leader: String
    skip_assignment: Bool = since(9, default=False)
    member_id: String
    members: Array[JoinGroupResponseMember]


class HeartbeatRequest(Request, api_key=12, versions="0-4", flexible="4+", listeners="broker"):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = since(3, default=None)


class HeartbeatResponse(Response, api_key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16


class MemberIdentity(Struct):
    member_id: String
    group_instance_id: String | None = None
    reason: String | None = since(5, default=None, ignorable=True)


class LeaveGroupRequest(Request, api_key=13, versions="0-5", flexible="4+", listeners="broker"):
    group_id: String
    member_id: String = until(2, default="")
    members: Array[MemberIdentity] = since(3)


class MemberResponse(Struct):
    member_id: String
    group_instance_id: String | None
    error_code: Int16


class LeaveGroupResponse(Response, api_key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16
    members: Array[MemberResponse] = since(3)


class SyncGroupRequestAssignment(Struct):
    member_id: String
    assignment: Bytes


class SyncGroupRequest(Request, api_key=14, versions="0-5", flexible="4+", listeners="broker"):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = since(3, default=None)
    protocol_type: String | None = since(5, default=None, ignorable=True)
    protocol_name: String | None = since(5, default=None, ignorable=True)
    assignments: Array[SyncGroupRequestAssignment]


class SyncGroupResponse(Response, api_key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16
    protocol_type: String | None = since(5, default=None, ignorable=True)
    protocol_name: String | None = since(5, default=None, ignorable=True)
    assignment: Bytes

"""ShareGroupHeartbeat (76), ShareGroupDescribe (77): members of a share group (KIP-932).

v1 is the first stable version.
"""

from tidelog.wire.schema import Array, Bool, Int16, Int32, Request, Response, String, Struct, Uuid


class ShareGroupHeartbeatRequest(Request, api_key=76, versions="1", flexible="1+", listeners="broker"):
    group_id: String
    member_id: String
    member_epoch: Int32
    rack_id: String | None = None
    subscribed_topic_names: Array[String] | None = None


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: Array[Int32]


class Assignment(Struct):
    topic_partitions: Array[TopicPartitions]


class ShareGroupHeartbeatResponse(Response, api_key=76, versions="1", flexible="1+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None


class ShareGroupDescribeRequest(Request, api_key=77, versions="1", flexible="1+", listeners="broker"):
    group_ids: Array[String]
    include_authorized_operations: Bool


class ShareGroupDescribeTopicPartitions(Struct):
    topic_id: Uuid
    topic_name: String
    partitions: Array[Int32]


class ShareGroupDescribeAssignment(Struct):
    topic_partitions: Array[ShareGroupDescribeTopicPartitions]


class Member(Struct):
    member_id: String
    rack_id: String | None = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]
    assignment: ShareGroupDescribeAssignment


class DescribedGroup(Struct):
    error_code: Int16
    error_message: String | None = None
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: Array[Member]
    authorized_operations: Int32 = -2147483648


class ShareGroupDescribeResponse(Response, api_key=77, versions="1", flexible="1+"):
    throttle_time_ms: Int32
    groups: Array[DescribedGroup]

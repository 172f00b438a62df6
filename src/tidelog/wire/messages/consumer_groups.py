"""ConsumerGroupHeartbeat (68), ConsumerGroupDescribe (69): groups that the coordinator assigns (KIP-848).

A member sends only what changed; null and -1 stand for "as before".
ConsumerGroupHeartbeat: v1 subscription by regular expression, member ids are the client's own (KIP-1082)
ConsumerGroupDescribe: v1 whether a member is classic (KIP-1099)
"""

from tidelog.wire.schema import Array, Bool, Int8, Int16, Int32, Request, Response, String, Struct, Uuid, since


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: Array[Int32]


class ConsumerGroupHeartbeatRequest(Request, api_key=68, versions="0-1", flexible="0+", listeners="broker"):
    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: Array[String] | None = None
    subscribed_topic_regex: String | None = since(1, default=None)
    server_assignor: String | None = None
    topic_partitions: Array[TopicPartitions] | None = None


class Assignment(Struct):
    topic_partitions: Array[TopicPartitions]


class ConsumerGroupHeartbeatResponse(Response, api_key=68, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None


class ConsumerGroupDescribeRequest(Request, api_key=69, versions="0-1", flexible="0+", listeners="broker"):
    group_ids: Array[String]
    include_authorized_operations: Bool


class ConsumerGroupDescribeTopicPartitions(Struct):
    topic_id: Uuid
    topic_name: String
    partitions: Array[Int32]


class ConsumerGroupDescribeAssignment(Struct):
    topic_partitions: Array[ConsumerGroupDescribeTopicPartitions]


class Member(Struct):
    member_id: String
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]
    subscribed_topic_regex: String | None = None
    assignment: ConsumerGroupDescribeAssignment
    target_assignment: ConsumerGroupDescribeAssignment
    member_type: Int8 = since(1, default=-1, ignorable=True)


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


class ConsumerGroupDescribeResponse(Response, api_key=69, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32
    groups: Array[DescribedGroup]

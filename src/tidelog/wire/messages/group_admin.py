"""DescribeGroups (15), ListGroups (16), DeleteGroups (42): groups of any kind, for administrators.

DescribeGroups: v3 authorized operations · v4 static members · v6 a group that is not there is an error (KIP-1043)
ListGroups: v4 by state (KIP-518) · v5 by type (KIP-848)
"""

from tidelog.wire.schema import Array, Bool, Bytes, Int16, Int32, Request, Response, String, Struct, since


class DescribeGroupsRequest(Request, api_key=15, versions="0-6", flexible="5+", listeners="broker"):
    groups: Array[String]
    include_authorized_operations: Bool = since(3)


class DescribedGroupMember(Struct):
    member_id: String
    group_instance_id: String | None = since(4, default=None, ignorable=True)
    client_id: String
    client_host: String
    member_metadata: Bytes
    member_assignment: Bytes


class DescribedGroup(Struct):
    error_code: Int16
    error_message: String | None = since(6, default=None)
    group_id: String
    group_state: String
    protocol_type: String
    protocol_data: String
    members: Array[DescribedGroupMember]
    authorized_operations: Int32 = since(3, default=-2147483648)


class DescribeGroupsResponse(Response, api_key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: Int32 = since(1, ignorable=True)
    groups: Array[DescribedGroup]


class ListGroupsRequest(Request, api_key=16, versions="0-5", flexible="3+", listeners="broker"):
    states_filter: Array[String] = since(4)
    types_filter: Array[String] = since(5)


class ListedGroup(Struct):
    group_id: String
    protocol_type: String
    group_state: String = since(4, ignorable=True)
    group_type: String = since(5, ignorable=True)


class ListGroupsResponse(Response, api_key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16
    groups: Array[ListedGroup]


class DeleteGroupsRequest(Request, api_key=42, versions="0-2", flexible="2+", listeners="broker"):
    groups_names: Array[String]


class DeletableGroupResult(Struct):
    group_id: String
    error_code: Int16


class DeleteGroupsResponse(Response, api_key=42, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32
    results: Array[DeletableGroupResult]

"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31): who may do what.

v1 prefixed and literal patterns (KIP-290) · v3 users as a resource
"""

from tidelog.wire.schema import Array, Int8, Int16, Int32, Request, Response, String, Struct


class DescribeAclsRequest(Request, api_key=29, versions="1-3", flexible="2+", listeners="broker controller"):
    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = 3
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


class AclDescription(Struct):
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class DescribeAclsResource(Struct):
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = 3
    acls: Array[AclDescription]


class DescribeAclsResponse(Response, api_key=29, versions="1-3", flexible="2+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None
    resources: Array[DescribeAclsResource]


class AclCreation(Struct):
    resource_type: Int8
    resource_name: String
    resource_pattern_type: Int8 = 3
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class CreateAclsRequest(Request, api_key=30, versions="1-3", flexible="2+", listeners="broker controller"):
    creations: Array[AclCreation]


class AclCreationResult(Struct):
    error_code: Int16
    error_message: String | None


class CreateAclsResponse(Response, api_key=30, versions="1-3", flexible="2+"):
    throttle_time_ms: Int32
    results: Array[AclCreationResult]


class DeleteAclsFilter(Struct):
    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = 3
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


class DeleteAclsRequest(Request, api_key=31, versions="1-3", flexible="2+", listeners="broker controller"):
    filters: Array[DeleteAclsFilter]


class DeleteAclsMatchingAcl(Struct):
    error_code: Int16
    error_message: String | None
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = 3
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class DeleteAclsFilterResult(Struct):
    error_code: Int16
    error_message: String | None
    matching_acls: Array[DeleteAclsMatchingAcl]


class DeleteAclsResponse(Response, api_key=31, versions="1-3", flexible="2+"):
    throttle_time_ms: Int32
    filter_results: Array[DeleteAclsFilterResult]

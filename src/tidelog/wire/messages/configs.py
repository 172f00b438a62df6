"""DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44), ListConfigResources (74): configuration.

DescribeConfigs: v1 where a value comes from, synonyms · v3 type and documentation
AlterConfigs replaces all values of a resource, IncrementalAlterConfigs single ones.
ListConfigResources: v0 client metrics only · v1 any type (KIP-1142)
"""

from tidelog.wire.schema import Array, Bool, Int8, Int16, Int32, Request, Response, String, Struct, since


class DescribeConfigsResource(Struct):
    resource_type: Int8
    resource_name: String
    configuration_keys: Array[String] | None


class DescribeConfigsRequest(Request, api_key=32, versions="1-4", flexible="4+", listeners="broker controller"):
    resources: Array[DescribeConfigsResource]
    include_synonyms: Bool = False
    include_documentation: Bool = since(3, default=False)


class DescribeConfigsSynonym(Struct):
    name: String
    value: String | None
    source: Int8


class DescribeConfigsResourceResult(Struct):
    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = -1
    is_sensitive: Bool
    synonyms: Array[DescribeConfigsSynonym]
    config_type: Int8 = since(3, default=0, ignorable=True)
    documentation: String | None = since(3, ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: Int16
    error_message: String | None
    resource_type: Int8
    resource_name: String
    configs: Array[DescribeConfigsResourceResult]


class DescribeConfigsResponse(Response, api_key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: Int32
    results: Array[DescribeConfigsResult]


class AlterableConfig(Struct):
    name: String
    value: String | None


class AlterConfigsResource(Struct):
    resource_type: Int8
    resource_name: String
    configs: Array[AlterableConfig]


class AlterConfigsRequest(Request, api_key=33, versions="0-2", flexible="2+", listeners="broker controller"):
    resources: Array[AlterConfigsResource]
    validate_only: Bool


class AlterConfigsResourceResponse(Struct):
    error_code: Int16
    error_message: String | None
    resource_type: Int8
    resource_name: String


class AlterConfigsResponse(Response, api_key=33, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32
    responses: Array[AlterConfigsResourceResponse]


class IncrementalAlterConfigsAlterableConfig(Struct):
    name: String
    config_operation: Int8
    value: String | None


class IncrementalAlterConfigsAlterConfigsResource(Struct):
    resource_type: Int8
    resource_name: String
    configs: Array[IncrementalAlterConfigsAlterableConfig]


class IncrementalAlterConfigsRequest(Request, api_key=44, versions="0-1", flexible="1+", listeners="broker controller"):
    resources: Array[IncrementalAlterConfigsAlterConfigsResource]
    validate_only: Bool


class IncrementalAlterConfigsResponse(Response, api_key=44, versions="0-1", flexible="1+"):
    throttle_time_ms: Int32
    responses: Array[AlterConfigsResourceResponse]


class ListConfigResourcesRequest(Request, api_key=74, versions="0-1", flexible="0+", listeners="broker"):
    resource_types: Array[Int8] = since(1)


class ConfigResource(Struct):
    resource_name: String
    resource_type: Int8 = since(1, default=16, ignorable=True)


class ListConfigResourcesResponse(Response, api_key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    config_resources: Array[ConfigResource]

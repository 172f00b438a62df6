"""DescribeClientQuotas (48), AlterClientQuotas (49): limits by user, client id and address (KIP-546)."""

from tidelog.wire.schema import Array, Bool, Float64, Int8, Int16, Int32, Request, Response, String, Struct


class ComponentData(Struct):
    entity_type: String
    match_type: Int8
    match: String | None


class DescribeClientQuotasRequest(Request, api_key=48, versions="0-1", flexible="1+", listeners="broker"):
    components: Array[ComponentData]
    strict: Bool


class EntityData(Struct):
    entity_type: String
    entity_name: String | None


class ValueData(Struct):
    key: String
    value: Float64


class EntryData(Struct):
    entity: Array[EntityData]
    values: Array[ValueData]


class DescribeClientQuotasResponse(Response, api_key=48, versions="0-1", flexible="1+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None
    entries: Array[EntryData] | None


class OpData(Struct):
    key: String
    value: Float64
    remove: Bool


class AlterClientQuotasEntryData(Struct):
    entity: Array[EntityData]
    ops: Array[OpData]


class AlterClientQuotasRequest(Request, api_key=49, versions="0-1", flexible="1+", listeners="broker controller"):
    entries: Array[AlterClientQuotasEntryData]
    validate_only: Bool


class AlterClientQuotasResponseEntryData(Struct):
    error_code: Int16
    error_message: String | None
    entity: Array[EntityData]


class AlterClientQuotasResponse(Response, api_key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: Int32
    entries: Array[AlterClientQuotasResponseEntryData]

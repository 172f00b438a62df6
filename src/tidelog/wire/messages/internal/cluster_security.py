"""Records of `__cluster_metadata`: access control, credentials, delegation tokens, quotas."""

from tidelog.wire.schema import Array, Bool, Bytes, Float64, Int8, Int32, Int64, MetadataRecord, String, Struct, Uuid


class AccessControlEntryRecord(MetadataRecord, api_key=18, versions="0", flexible="0+"):
    id: Uuid
    resource_type: Int8
    resource_name: String
    pattern_type: Int8
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class RemoveAccessControlEntryRecord(MetadataRecord, api_key=19, versions="0", flexible="0+"):
    id: Uuid


class UserScramCredentialRecord(MetadataRecord, api_key=11, versions="0", flexible="0+"):
    name: String
    mechanism: Int8
    salt: Bytes
    stored_key: Bytes
    server_key: Bytes
    iterations: Int32


class RemoveUserScramCredentialRecord(MetadataRecord, api_key=22, versions="0", flexible="0+"):
    name: String
    mechanism: Int8


class DelegationTokenRecord(MetadataRecord, api_key=10, versions="0", flexible="0+"):
    owner: String
    requester: String
    renewers: Array[String]
    issue_timestamp: Int64
    max_timestamp: Int64
    expiration_timestamp: Int64
    token_id: String


class RemoveDelegationTokenRecord(MetadataRecord, api_key=26, versions="0", flexible="0+"):
    token_id: String


class EntityData(Struct):
    entity_type: String
    entity_name: String | None


class ClientQuotaRecord(MetadataRecord, api_key=14, versions="0", flexible="0+"):
    entity: Array[EntityData]
    key: String
    value: Float64
    remove: Bool

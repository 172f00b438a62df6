"""CreateDelegationToken (38), RenewDelegationToken (39), ExpireDelegationToken (40), DescribeDelegationToken (41).

CreateDelegationToken: v3 on behalf of another owner (KIP-373)
DescribeDelegationToken: v3 who asked for a token (KIP-373)
"""

from tidelog.wire.schema import Array, Bytes, Int16, Int32, Int64, Request, Response, String, Struct, since


class CreatableRenewers(Struct):
    principal_type: String
    principal_name: String


class CreateDelegationTokenRequest(Request, api_key=38, versions="1-3", flexible="2+", listeners="broker controller"):
    owner_principal_type: String | None = since(3)
    owner_principal_name: String | None = since(3)
    renewers: Array[CreatableRenewers]
    max_lifetime_ms: Int64


class CreateDelegationTokenResponse(Response, api_key=38, versions="1-3", flexible="2+"):
    error_code: Int16
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = since(3)
    token_requester_principal_name: String = since(3)
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: String
    hmac: Bytes
    throttle_time_ms: Int32


class RenewDelegationTokenRequest(Request, api_key=39, versions="1-2", flexible="2+", listeners="broker controller"):
    hmac: Bytes
    renew_period_ms: Int64


class RenewDelegationTokenResponse(Response, api_key=39, versions="1-2", flexible="2+"):
    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32


class ExpireDelegationTokenRequest(Request, api_key=40, versions="1-2", flexible="2+", listeners="broker controller"):
    hmac: Bytes
    expiry_time_period_ms: Int64


class ExpireDelegationTokenResponse(Response, api_key=40, versions="1-2", flexible="2+"):
    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32


class DescribeDelegationTokenOwner(Struct):
    principal_type: String
    principal_name: String


class DescribeDelegationTokenRequest(Request, api_key=41, versions="1-3", flexible="2+", listeners="broker controller"):
    owners: Array[DescribeDelegationTokenOwner] | None


class DescribedDelegationTokenRenewer(Struct):
    principal_type: String
    principal_name: String


class DescribedDelegationToken(Struct):
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = since(3)
    token_requester_principal_name: String = since(3)
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: String
    hmac: Bytes
    renewers: Array[DescribedDelegationTokenRenewer]


class DescribeDelegationTokenResponse(Response, api_key=41, versions="1-3", flexible="2+"):
    error_code: Int16
    tokens: Array[DescribedDelegationToken]
    throttle_time_ms: Int32

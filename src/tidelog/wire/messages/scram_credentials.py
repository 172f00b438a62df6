"""DescribeUserScramCredentials (50), AlterUserScramCredentials (51): passwords for SASL/SCRAM (KIP-554)."""

from tidelog.wire.schema import Array, Bytes, Int8, Int16, Int32, Request, Response, String, Struct


class UserName(Struct):
    name: String


class DescribeUserScramCredentialsRequest(
    Request, api_key=50, versions="0", flexible="0+", listeners="broker controller"
):
    users: Array[UserName] | None


class CredentialInfo(Struct):
    mechanism: Int8
    iterations: Int32


class DescribeUserScramCredentialsResult(Struct):
    user: String
    error_code: Int16
    error_message: String | None
    credential_infos: Array[CredentialInfo]


class DescribeUserScramCredentialsResponse(Response, api_key=50, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None
    results: Array[DescribeUserScramCredentialsResult]


class ScramCredentialDeletion(Struct):
    name: String
    mechanism: Int8


class ScramCredentialUpsertion(Struct):
    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes
    salted_password: Bytes


class AlterUserScramCredentialsRequest(Request, api_key=51, versions="0", flexible="0+", listeners="broker controller"):
    deletions: Array[ScramCredentialDeletion]
    upsertions: Array[ScramCredentialUpsertion]


class AlterUserScramCredentialsResult(Struct):
    user: String
    error_code: Int16
    error_message: String | None


class AlterUserScramCredentialsResponse(Response, api_key=51, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    results: Array[AlterUserScramCredentialsResult]

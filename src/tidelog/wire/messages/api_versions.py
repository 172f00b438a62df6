"""ApiVersions (18): which APIs a node answers, in which versions, and the features of the cluster.

The first request on a connection. A version that the node does not have is answered in v0 with UNSUPPORTED_VERSION
(KIP-511), and the answer's header is never flexible, so that any client can read it.
v3 the client names itself, features · v4 features may start at 0 (KAFKA-17011)
"""

from tidelog.wire.schema import Array, Bool, Int16, Int32, Int64, Request, Response, String, Struct, since, tagged


class ApiVersionsRequest(Request, api_key=18, versions="0-4", flexible="3+", listeners="broker controller"):
    client_software_name: String = since(3, ignorable=True)
    client_software_version: String = since(3, ignorable=True)


class ApiVersion(Struct):
    api_key: Int16
    min_version: Int16
    max_version: Int16


class SupportedFeatureKey(Struct):
    name: String
    min_version: Int16
    max_version: Int16


class FinalizedFeatureKey(Struct):
    name: String
    max_version_level: Int16
    min_version_level: Int16


class ApiVersionsResponse(Response, api_key=18, versions="0-4", flexible="3+"):
    error_code: Int16
    api_keys: Array[ApiVersion]
    throttle_time_ms: Int32 = since(1, ignorable=True)
    supported_features: Array[SupportedFeatureKey] = tagged(0, 3, default=[], ignorable=True)
    finalized_features_epoch: Int64 = tagged(1, 3, default=-1, ignorable=True)
    finalized_features: Array[FinalizedFeatureKey] = tagged(2, 3, default=[], ignorable=True)
    zk_migration_ready: Bool = tagged(3, 3, default=False, ignorable=True)

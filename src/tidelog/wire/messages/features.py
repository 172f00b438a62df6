"""UpdateFeatures (57): raise or lower the level of the cluster's features (KIP-584).

v1 dry run, kinds of downgrade · v2 no result for each feature any more
"""

from tidelog.wire.schema import Array, Bool, Int8, Int16, Int32, Request, Response, String, Struct, since, until


class FeatureUpdateKey(Struct):
    feature: String
    max_version_level: Int16
    allow_downgrade: Bool = until(0, default=False)
    upgrade_type: Int8 = since(1, default=1)


class UpdateFeaturesRequest(Request, api_key=57, versions="0-2", flexible="0+", listeners="broker controller"):
    timeout_ms: Int32 = 60000
    feature_updates: Array[FeatureUpdateKey]
    validate_only: Bool = since(1, default=False)


class UpdatableFeatureResult(Struct):
    feature: String
    error_code: Int16
    error_message: String | None


class UpdateFeaturesResponse(Response, api_key=57, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None
    results: Array[UpdatableFeatureResult] = until(1, default=[], ignorable=True)

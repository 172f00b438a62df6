"""ApiVersions (18), v0-4: what this node answers, and which features the cluster has agreed on.

v1 throttle time · v3 the client says what it is, features · v4 features whose lowest level is 0 are told of too

Only APIs with a handler are announced, and only on the kind of listener that they belong to. The first request of a client comes
in whatever version that client likes; where that is not one of ours, `wire.frames` has the answer (KIP-511).
"""

from __future__ import annotations

from functools import cache

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import HANDLERS, Handler, handles
from tidelog.broker.requests.node_view import Node
from tidelog.controller.features import SUPPORTED
from tidelog.model.errors import ErrorCode
from tidelog.model.transaction_config import TRANSACTION_TWO_PHASE_COMMIT_ENABLE
from tidelog.net.connection import ClientSoftware
from tidelog.wire.apis import ApiKey, api
from tidelog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

KRAFT_VERSION = "kraft.version"

# Announced where somebody receives what clients push, as in Kafka.
_OF_TELEMETRY = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})


@handles(ApiVersionsRequest)
def api_versions(request: ApiVersionsRequest, caller: Caller, node: Node) -> ApiVersionsResponse:
    if caller.api_version >= 3:
        software = ClientSoftware(request.client_software_name, request.client_software_version)
        if not software.is_valid:
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[], throttle_time_ms=0)
        caller.connection.client_software = software
    kind = "controller" if node.is_controller_listener(caller.listener_name) else "broker"
    image = node.image
    levels = {name: level for name, level in image.features.items() if level != 0}
    if node.quorum.kraft_version:
        # The quorum's own version is in the control records of its log, not among the cluster's features.
        levels[KRAFT_VERSION] = node.quorum.kraft_version
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=announced(
            kind,
            two_phase_commit=node.static_config[TRANSACTION_TWO_PHASE_COMMIT_ENABLE],
            telemetry=node.telemetry.is_on,
        ),
        throttle_time_ms=0,
        supported_features=[
            SupportedFeatureKey(name=name, min_version=levels.lowest, max_version=levels.highest)
            for name, levels in SUPPORTED.items()
            # Some older clients cannot read a lowest level of 0.
            if levels.lowest > 0 or caller.api_version >= 4
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in levels.items()
        ],
    )


@cache
def announced(kind: str, *, two_phase_commit: bool = False, telemetry: bool = False) -> list[ApiVersion]:
    """The APIs that a `broker` or `controller` listener answers, by key. Made once: every connection begins by asking for it."""
    return [
        announced_versions(handler, two_phase_commit=two_phase_commit)
        for _, handler in sorted(HANDLERS.items())
        if kind in handler.listener_kinds and (telemetry or handler.key not in _OF_TELEMETRY)
    ]


def announced_versions(handler: Handler, *, two_phase_commit: bool = False) -> ApiVersion:
    """What is said of one API. It may begin below what is taken: see `PRODUCE_ANNOUNCED_VERSION_MIN`.

    The one version that Kafka may still change, and that is taken here, is that of transactions in two phases (KIP-939).
    """
    known = api(handler.key)
    lowest = known.announced_versions.lowest if handler.lowest == known.stable_versions.lowest else handler.lowest
    highest = handler.highest if two_phase_commit else min(handler.highest, known.stable_versions.highest)
    return ApiVersion(api_key=handler.key, min_version=lowest, max_version=highest)

"""UpdateFeatures (57), v0-2: raise or lower the levels of the cluster's features (KIP-584).

v0 `allow_downgrade` · v1 the kind of upgrade instead, `validate_only` (KIP-778) · v2 no result of each feature: all or none

The controller decides; here it is decided who may ask.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.features import UpdateFeaturesRequest, UpdateFeaturesResponse


@handles(UpdateFeaturesRequest)
def update_features(request: UpdateFeaturesRequest, caller: Caller, node: Node) -> Answer[UpdateFeaturesResponse]:
    if not caller.may(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UpdateFeaturesResponse(throttle_time_ms=0, error_code=error, error_message=error.message, results=[])
    return node.forward(request, UpdateFeaturesResponse, caller)

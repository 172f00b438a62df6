from __future__ import annotations

import pytest

from tests.unit.broker.admin_node import AdminNode, Denies, ask
from tidelog.broker.handlers import controller_apis
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

HANDLED = controller_apis


def request_of(version: int) -> UpdateFeaturesRequest:
    if version == 0:
        update = FeatureUpdateKey(feature="group.version", max_version_level=0, allow_downgrade=True)
    else:
        update = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)
    return UpdateFeaturesRequest(timeout_ms=500, feature_updates=[update], validate_only=version >= 1)


def updated(_request: object) -> UpdateFeaturesResponse:
    result = UpdatableFeatureResult(feature="group.version", error_code=ErrorCode.NONE, error_message=None)
    return UpdateFeaturesResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, error_message=None, results=[result])


@pytest.mark.parametrize("version", range(3))
def test_the_controller_decides(version: int) -> None:
    node = AdminNode()
    node.controller = updated

    answer = ask(node, request_of(version), UpdateFeaturesResponse, version)

    assert node.forwarded == [request_of(version)]
    assert answer.error_code == ErrorCode.NONE
    assert [result.feature for result in answer.results] == (["group.version"] if version < 2 else [])


@pytest.mark.parametrize("version", range(3))
def test_it_takes_permission_to_alter_the_cluster(version: int) -> None:
    node = AdminNode()
    denies = Denies((AclOperation.ALTER, ResourceType.CLUSTER, None))

    answer = ask(node, request_of(version), UpdateFeaturesResponse, version, authorizer=denies)

    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert node.forwarded == []

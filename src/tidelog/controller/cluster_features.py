"""Decisions about feature levels: UpdateFeatures, and what goes with a level that is raised."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from tidelog.controller.cluster_view import BROKER_RESOURCE, CLUSTER_DEFAULT, TopicDefaults
from tidelog.controller.decision import Decision, Refusal, RefusedError
from tidelog.controller.features import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_NAMES,
    SUPPORTED,
)
from tidelog.controller.image import ClusterImage, SupportedFeature
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.model.topic_config import MIN_INSYNC_REPLICAS
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tidelog.wire.messages.internal.cluster_metadata import ConfigRecord, FeatureLevelRecord

# The levels of metadata.version that brought new records or fields: below them the log could not say what it says.
_CHANGING_LEVELS = (23, 30)
# What a feature's level asks of metadata.version.
_NEEDED_METADATA_VERSION: Mapping[tuple[str, int], int] = {(ELIGIBLE_LEADER_REPLICAS_VERSION, 1): 23}
KRAFT_VERSION = "kraft.version"


class UpgradeType(IntEnum):
    """How far an update may go."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def decide_update_features(
    image: ClusterImage, request: UpdateFeaturesRequest, node_id: NodeId, defaults: TopicDefaults
) -> Decision[UpdateFeaturesResponse]:
    """All updates or none."""
    proposed = dict(image.features) | {update.feature: update.max_version_level for update in request.feature_updates}
    records: list[FramedRecord] = []
    for update in request.feature_updates:
        problem = _problem(image, update, node_id, proposed)
        if problem is not None:
            raise RefusedError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Invalid update version {update.max_version_level} for feature {update.feature}. {problem}",
            )
        if update.max_version_level == image.features.get(update.feature, 0):
            continue
        level = FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)
        records.append(FramedRecord(level, 0))
        if update.feature == ELIGIBLE_LEADER_REPLICAS_VERSION and update.max_version_level > 0:
            records += eligible_leader_replicas_records(image, defaults)
    answer = UpdateFeaturesResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        error_message=None,
        results=[_updated(update) for update in request.feature_updates],
    )
    return Decision(answer, () if request.validate_only else tuple(records))


def refuse_update_features(_request: UpdateFeaturesRequest, refusal: Refusal) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(
        throttle_time_ms=0, error_code=refusal.error, error_message=refusal.message, results=[]
    )


def eligible_leader_replicas_records(image: ClusterImage, defaults: TopicDefaults) -> list[FramedRecord]:
    """With KIP-966 there is one min.insync.replicas for the cluster, and none of single brokers: the controller must know it."""
    records = []
    if MIN_INSYNC_REPLICAS.name not in image.config_of(CLUSTER_DEFAULT):
        value = defaults.values.get(MIN_INSYNC_REPLICAS.name, str(MIN_INSYNC_REPLICAS.default))
        records.append(_min_insync("", value))
    for resource, values in image.configs.items():
        if resource.type == BROKER_RESOURCE and resource.name and MIN_INSYNC_REPLICAS.name in values:
            records.append(_min_insync(resource.name, None))
    return records


def _min_insync(broker: str, value: str | None) -> FramedRecord:
    record = ConfigRecord(
        resource_type=BROKER_RESOURCE, resource_name=broker, name=MIN_INSYNC_REPLICAS.name, value=value
    )
    return FramedRecord(record, 0)


def _updated(update: FeatureUpdateKey) -> UpdatableFeatureResult:
    return UpdatableFeatureResult(feature=update.feature, error_code=ErrorCode.NONE, error_message=None)


def _problem(image: ClusterImage, update: FeatureUpdateKey, node_id: NodeId, proposed: Mapping[str, int]) -> str | None:
    name, level, current = update.feature, update.max_version_level, image.features.get(update.feature, 0)
    kind = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
    if kind not in UpgradeType.__members__.values():
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    problem = _support_problem(image, name, level, node_id)
    if problem is not None:
        return problem
    if name == KRAFT_VERSION:
        return "The level of kraft.version is decided by the quorum; this release cannot change it."
    if level < current and kind == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if level > current and kind != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    needed = _NEEDED_METADATA_VERSION.get((name, level), 0)
    if proposed.get(METADATA_VERSION, 0) < needed:
        return f"{name} {level} depends on metadata.version {METADATA_VERSION_NAMES[needed]} or later."
    is_losing = name == METADATA_VERSION and any(level < changing <= current for changing in _CHANGING_LEVELS)
    if is_losing and kind == UpgradeType.UNSAFE_DOWNGRADE:
        return "Unsafe metadata downgrade is not supported in this version."
    if is_losing:
        return "Refusing to perform the requested downgrade because it might delete metadata information."
    return None


def _support_problem(image: ClusterImage, name: str, level: int, node_id: NodeId) -> str | None:
    """Whether every node of the cluster can work at a level."""
    if level == 0 and name != METADATA_VERSION:
        return None if name in SUPPORTED or name in image.features else _unsupported(f"Local controller {node_id}")
    own = SUPPORTED.get(name)
    if own is None:
        return _unsupported(f"Local controller {node_id}")
    if not own.lowest <= level <= own.highest:
        return _unsupported(f"Local controller {node_id}", own.lowest, own.highest)
    for broker in image.brokers.values():
        problem = _node_problem(f"Broker {broker.node_id}", broker.features, name, level)
        if problem is not None:
            return problem
    for controller in image.controllers.values():
        if controller.node_id != node_id:
            problem = _node_problem(f"Controller {controller.node_id}", controller.features, name, level)
            if problem is not None:
                return problem
    return None


def _node_problem(who: str, features: tuple[SupportedFeature, ...], name: str, level: int) -> str | None:
    supported = next((feature for feature in features if feature.name == name), None)
    if supported is None:
        return _unsupported(who)
    if not supported.lowest <= level <= supported.highest:
        return _unsupported(who, supported.lowest, supported.highest)
    return None


def _unsupported(who: str, lowest: int | None = None, highest: int | None = None) -> str:
    if lowest is None:
        return f"{who} does not support this feature."
    return f"{who} only supports versions {lowest}-{highest}"

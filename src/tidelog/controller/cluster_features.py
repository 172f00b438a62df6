"""Decisions about feature levels: UpdateFeatures, and what goes with a level that is raised."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct

from tidelog.controller.cluster_view import BROKER_RESOURCE, CLUSTER_DEFAULT, TopicDefaults
from tidelog.controller.decision import Decision, Refusal, RefusedError
from tidelog.controller.features import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED,
    dependency_problem,
)
from tidelog.controller.image import ClusterImage, SupportedFeature
from tidelog.controller.metadata_version import METADATA_VERSIONS
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
from tidelog.wire.messages.internal.cluster_metadata import ConfigRecord, FeatureLevelRecord, NoOpRecord

FAILED = "The update failed for all features since the following feature had an error: "


class QuorumFacts(Struct, frozen=True):
    """What a decision has to know of the quorum."""

    node_id: NodeId
    """The controller that decides."""
    kraft_version: int = 1
    static_voters: tuple[NodeId, ...] = ()
    """The voters of a quorum that is in the configuration: all of them must have said what they support."""


class UpgradeType(IntEnum):
    """How far an update may go."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def decide_update_features(
    image: ClusterImage, request: UpdateFeaturesRequest, quorum: QuorumFacts, defaults: TopicDefaults
) -> Decision[UpdateFeaturesResponse]:
    """All updates or none. A change of kraft.version is only checked here: the quorum makes it."""
    current = dict(image.features) | {KRAFT_VERSION: quorum.kraft_version}
    proposed = current | {update.feature: update.max_version_level for update in request.feature_updates}
    records: list[FramedRecord] = []
    for update in request.feature_updates:
        name, level = update.feature, update.max_version_level
        problem = _problem(image, update, quorum, current, proposed)
        if problem is not None:
            raise RefusedError(ErrorCode.INVALID_UPDATE_VERSION, FAILED + problem)
        if level == current.get(name, 0):
            continue
        if name == KRAFT_VERSION:
            # The quorum writes the change itself. A no-op record, as in Kafka, is what this request's answer waits for.
            records.append(FramedRecord(NoOpRecord(), 0))
            continue
        records.append(FramedRecord(FeatureLevelRecord(name=name, feature_level=level), 0))
        if name == ELIGIBLE_LEADER_REPLICAS_VERSION and level > 0:
            records += eligible_leader_replicas_records(image, defaults)
    answer = UpdateFeaturesResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        error_message=None,
        results=[_updated(update) for update in request.feature_updates],
    )
    return Decision(answer, () if request.validate_only else tuple(records))


def wanted_kraft_version(request: UpdateFeaturesRequest) -> int | None:
    """The level of kraft.version that an update asks for, if it does."""
    wanted = (update.max_version_level for update in request.feature_updates if update.feature == KRAFT_VERSION)
    return next(wanted, None)


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


def _problem(
    image: ClusterImage,
    update: FeatureUpdateKey,
    quorum: QuorumFacts,
    current: Mapping[str, int],
    proposed: Mapping[str, int],
) -> str | None:
    name, level = update.feature, update.max_version_level
    kind = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
    reason = _reason(image, name, level, kind, quorum, current.get(name, 0))
    if reason is None and name not in {METADATA_VERSION, KRAFT_VERSION}:
        reason = dependency_problem(name, level, proposed)
    if reason is not None:
        return f"Invalid update version {level} for feature {name}. {reason}"
    return _downgrade_problem(image, level, kind) if name == METADATA_VERSION else None


def _reason(image: ClusterImage, name: str, level: int, kind: int, quorum: QuorumFacts, current: int) -> str | None:
    if kind not in UpgradeType.__members__.values():
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    reason = _support_problem(image, name, level, quorum)
    if reason is not None:
        return reason
    if level < current and kind == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if level > current and kind != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    if name == KRAFT_VERSION and level < current:
        return "Can't downgrade the version of this feature."
    return None


def _downgrade_problem(image: ClusterImage, level: int, kind: int) -> str | None:
    """A level that adds metadata is never left again."""
    current = image.metadata_version
    if not current.loses_metadata(METADATA_VERSIONS[level]):
        return None
    reason = "Refusing to perform the requested downgrade because it might delete metadata information."
    if kind == UpgradeType.UNSAFE_DOWNGRADE:
        reason = "Unsafe metadata downgrade is not supported in this version."
    return f"Unsupported metadata.version downgrade from {current.level} to {level}. {reason}"


def _support_problem(image: ClusterImage, name: str, level: int, quorum: QuorumFacts) -> str | None:
    """Whether every node of the cluster can work at a level."""
    if level == 0 and name != METADATA_VERSION:
        return None if name in SUPPORTED or name in image.features else f"Feature {name} not found."
    own = SUPPORTED.get(name)
    local = f"Local controller {quorum.node_id}"
    if own is None:
        return _unsupported(local)
    if not own.lowest <= level <= own.highest:
        return _unsupported(local, own.lowest, own.highest)
    for broker in image.brokers.values():
        problem = _node_problem(f"Broker {broker.node_id}", broker.features, name, level)
        if problem is not None:
            return problem
    if not image.metadata_version.has_controller_registration:
        # The other controllers have not said what they support, and cannot.
        return None
    for controller in image.controllers.values():
        if controller.node_id != quorum.node_id:
            problem = _node_problem(f"Controller {controller.node_id}", controller.features, name, level)
            if problem is not None:
                return problem
    for voter in quorum.static_voters:
        if voter not in image.controllers and voter != quorum.node_id:
            return f"controller {voter} has not registered, and may not support this feature"
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

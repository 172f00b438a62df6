"""Decisions about nodes: a broker registers, reports that it lives, stops, falls silent, is forgotten; a controller registers.

    registered, fenced -> active                  it has seen its own registration, and wants to
    active -> fenced                              it wants to, or is silent for longer than its session
    active -> stopping -> fenced, may stop        others lead what it led, and all of them have seen so
    (none of these) -> gone                       unregistered by an administrator

A fenced broker gets no clients and leads nothing. The epoch of a broker is the offset of its registration: by it a request of
an earlier life is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TypeVar

from tidelog.controller.broker_sessions import BrokerSession, BrokerSessions
from tidelog.controller.cluster_view import (
    TopicDefaults,
    checked_broker,
    has_eligible_leader_replicas,
    is_active,
    leads_any,
)
from tidelog.controller.decision import Decision, Refusal, RefusedError, framed
from tidelog.controller.features import METADATA_VERSION
from tidelog.controller.image import BrokerRegistration, ClusterImage
from tidelog.controller.partition_changes import (
    directories_lost,
    leaders_found,
    replicas_forgotten,
    replicas_lost,
)
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import DirectoryId, NodeId, Offset, is_reserved, uuid_to_text
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages import broker_lifecycle as wire
from tidelog.wire.messages.internal import cluster_metadata as records

T = TypeVar("T")

_FENCE, _UNFENCE = 1, -1
_STOP = 1


# --- registration ----------------------------------------------------------------------------------------------------------


def decide_register_broker(
    image: ClusterImage,
    request: wire.BrokerRegistrationRequest,
    sessions: BrokerSessions,
    defaults: TopicDefaults,
    *,
    cluster_id: str,
    next_offset: Offset,
    now_ms: int,
) -> Decision[wire.BrokerRegistrationResponse]:
    """A broker comes up, or tells again what has changed about it. `next_offset` is where the decision's records begin."""
    if request.cluster_id != cluster_id:
        raise RefusedError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {cluster_id}, but got cluster ID {request.cluster_id}",
        )
    node = NodeId(request.broker_id)
    existing = image.brokers.get(node)
    is_same_life = existing is not None and existing.incarnation_id == request.incarnation_id
    is_other_serving = existing is not None and not is_same_life and not existing.fenced
    if is_other_serving and existing is not None and sessions.is_alive(node, existing.epoch, now_ms):
        raise RefusedError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id. If the broker was restarted just now, this ends when the "
            "session of its former life does.",
        )
    if request.is_migrating_zk_broker:
        raise RefusedError(ErrorCode.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers.")
    _check_directories(image, request)
    _check_features(image, {feature.name: feature for feature in request.features})
    cleanup: tuple[FramedRecord, ...] = ()
    if existing is not None and not is_same_life:
        is_clean = existing.epoch == request.previous_broker_epoch
        forget = has_eligible_leader_replicas(image) and not is_clean
        cleanup = tuple((replicas_forgotten if forget else replicas_lost)(image, node, defaults))
    epoch = existing.epoch if existing is not None and is_same_life else next_offset + len(cleanup)
    record = records.RegisterBrokerRecord(
        broker_id=node,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=_end_points(records.BrokerEndpoint, request.listeners),
        features=_features(records.BrokerFeature, request.features),
        rack=request.rack,
        fenced=existing.fenced if existing is not None and is_same_life else True,
        in_controlled_shutdown=existing is not None and is_same_life and existing.in_controlled_shutdown,
        log_dirs=list(request.log_dirs) if image.metadata_version.has_directories else [],
    )
    answer = wire.BrokerRegistrationResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, broker_epoch=epoch)
    return Decision(answer, (*cleanup, framed(image, record)))


# A broker's and a controller's registration name the same things, in structs of their own.


def _end_points(kind: Callable[..., T], listeners: Sequence[wire.Listener]) -> list[T]:
    return [
        kind(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
        for each in listeners
    ]


def _features(kind: Callable[..., T], features: Sequence[wire.Feature]) -> list[T]:
    return [
        kind(
            name=each.name,
            min_supported_version=each.min_supported_version,
            max_supported_version=each.max_supported_version,
        )
        for each in features
    ]


def refuse_register_broker(
    _request: wire.BrokerRegistrationRequest, refusal: Refusal
) -> wire.BrokerRegistrationResponse:
    return wire.BrokerRegistrationResponse(throttle_time_ms=0, error_code=refusal.error)


def _check_directories(image: ClusterImage, request: wire.BrokerRegistrationRequest) -> None:
    if not image.metadata_version.has_directories:
        return
    if not request.log_dirs:
        raise RefusedError(ErrorCode.INVALID_REGISTRATION, "No directories specified in request")
    if any(map(is_reserved, request.log_dirs)):
        raise RefusedError(ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request")
    if len(set(request.log_dirs)) != len(request.log_dirs):
        raise RefusedError(ErrorCode.INVALID_REGISTRATION, "Duplicate directory ID in request")
    for other in image.brokers.values():
        for directory in other.log_directories:
            if other.node_id != request.broker_id and directory in request.log_dirs:
                raise RefusedError(
                    ErrorCode.INVALID_REGISTRATION,
                    f"Broker {other.node_id} is already registered with directory {uuid_to_text(directory)}",
                )


def _check_features(image: ClusterImage, supported: Mapping[str, wire.Feature]) -> None:
    """A broker joins only if it can work at every level that the cluster has agreed on."""
    if METADATA_VERSION not in supported:
        raise RefusedError(ErrorCode.INVALID_REGISTRATION, "Request features do not contain 'metadata.version'")
    for name in {**supported, **image.features}:
        level = image.features.get(name, 0)
        feature = supported.get(name)
        lowest, highest = (0, 0) if feature is None else (feature.min_supported_version, feature.max_supported_version)
        if not lowest <= level <= highest:
            raise RefusedError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {lowest} and {highest}, inclusive.",
            )


# --- heartbeats ------------------------------------------------------------------------------------------------------------


class _Next(Enum):
    FENCED = "fenced"
    ACTIVE = "active"
    STOPPING = "stopping"
    STOPPED = "may stop"


def decide_heartbeat(
    image: ClusterImage, request: wire.BrokerHeartbeatRequest, sessions: BrokerSessions, defaults: TopicDefaults
) -> Decision[wire.BrokerHeartbeatResponse]:
    """A broker lives. What it asks for (to be active, to be fenced, to stop) is granted when it is safe."""
    broker = checked_broker(image, request.broker_id, request.broker_epoch)
    session = sessions.get(broker.node_id)
    present = _present(broker)
    following = _following(image, broker, request, session, sessions)
    changes: tuple[FramedRecord, ...] = ()
    if following is not present:
        match following:
            case _Next.FENCED | _Next.STOPPED if not broker.fenced:
                changes = fence_records(image, broker, defaults)
            case _Next.ACTIVE:
                changes = (
                    _registration_change(broker, 0, fenced=_UNFENCE),
                    *leaders_found(image, broker.node_id, defaults),
                )
            case _Next.STOPPING:
                changes = (
                    _registration_change(broker, 1, in_controlled_shutdown=_STOP),
                    *replicas_lost(image, broker.node_id, defaults),
                )
            case _:
                pass
    changes += _directory_changes(image, broker, request, defaults)
    answer = wire.BrokerHeartbeatResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        is_caught_up=_is_caught_up(broker, request),
        is_fenced=following in {_Next.FENCED, _Next.STOPPED},
        should_shut_down=following is _Next.STOPPED,
    )
    return Decision(answer, changes)


def refuse_heartbeat(_request: wire.BrokerHeartbeatRequest, refusal: Refusal) -> wire.BrokerHeartbeatResponse:
    return wire.BrokerHeartbeatResponse(throttle_time_ms=0, error_code=refusal.error, should_shut_down=False)


def fence_records(image: ClusterImage, broker: BrokerRegistration, defaults: TopicDefaults) -> tuple[FramedRecord, ...]:
    """A broker that is not to serve any longer: others take over what it led, then it is fenced."""
    return (
        *replicas_lost(image, broker.node_id, defaults),
        _registration_change(broker, 0, fenced=_FENCE),
    )


def _present(broker: BrokerRegistration) -> _Next:
    if broker.fenced:
        return _Next.FENCED
    return _Next.STOPPING if broker.in_controlled_shutdown else _Next.ACTIVE


def _following(
    image: ClusterImage,
    broker: BrokerRegistration,
    request: wire.BrokerHeartbeatRequest,
    session: BrokerSession | None,
    sessions: BrokerSessions,
) -> _Next:
    match _present(broker):
        case _Next.FENCED:
            if request.want_shut_down:
                return _Next.STOPPED
            is_ready = not request.want_fence and _is_caught_up(broker, request)
            return _Next.ACTIVE if is_ready else _Next.FENCED
        case _Next.ACTIVE:
            if request.want_fence:
                return _Next.STOPPED if request.want_shut_down else _Next.FENCED
            if request.want_shut_down:
                return _Next.STOPPING if leads_any(image, broker.node_id) else _Next.STOPPED
            return _Next.ACTIVE
        case _:
            if leads_any(image, broker.node_id):
                return _Next.STOPPING
            active = [other.node_id for other in image.brokers.values() if is_active(other)]
            lowest = sessions.lowest_offset(active)
            to_reach = None if session is None else session.shutdown_offset
            has_been_seen = lowest is None or to_reach is None or to_reach <= lowest
            return _Next.STOPPED if has_been_seen else _Next.STOPPING


def _is_caught_up(broker: BrokerRegistration, request: wire.BrokerHeartbeatRequest) -> bool:
    """Whether a broker has seen its own registration, whose offset is its epoch."""
    return request.current_metadata_offset >= broker.epoch


def _directory_changes(
    image: ClusterImage,
    broker: BrokerRegistration,
    request: wire.BrokerHeartbeatRequest,
    defaults: TopicDefaults,
) -> tuple[FramedRecord, ...]:
    changes: list[FramedRecord] = []
    # Below the level that has directories a registration names none.
    lost = [directory for directory in broker.log_directories if directory in request.offline_log_dirs]
    if lost:
        changes += directories_lost(image, broker.node_id, lost, defaults)
        online = [directory for directory in broker.log_directories if directory not in lost]
        changes.append(_registration_change(broker, 2, log_dirs=list(online)))
    if request.cordoned_log_dirs is not None and image.metadata_version.has_cordoned_directories:
        cordoned = tuple(map(DirectoryId, request.cordoned_log_dirs))
        if cordoned != broker.cordoned_directories:
            changes.append(_registration_change(broker, 3, cordoned_log_dirs=list(cordoned)))
    return tuple(changes)


def _registration_change(
    broker: BrokerRegistration,
    version: int,
    *,
    fenced: int = 0,
    in_controlled_shutdown: int = 0,
    log_dirs: list[bytes] | list[DirectoryId] | None = None,
    cordoned_log_dirs: list[bytes] | list[DirectoryId] | None = None,
) -> FramedRecord:
    """In the first version that can say it, as Kafka writes it."""
    record = records.BrokerRegistrationChangeRecord(
        broker_id=broker.node_id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        log_dirs=[] if log_dirs is None else list(log_dirs),
        cordoned_log_dirs=None if cordoned_log_dirs is None else list(cordoned_log_dirs),
    )
    return FramedRecord(record, version)


# --- the end of a registration, and controllers ----------------------------------------------------------------------------


def decide_unregister_broker(
    image: ClusterImage, request: wire.UnregisterBrokerRequest, defaults: TopicDefaults
) -> Decision[wire.UnregisterBrokerResponse]:
    """Forget a broker that is not coming back."""
    broker = image.brokers.get(NodeId(request.broker_id))
    if broker is None:
        raise RefusedError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {request.broker_id} is not currently registered"
        )
    forgotten = FramedRecord(records.UnregisterBrokerRecord(broker_id=broker.node_id, broker_epoch=broker.epoch), 0)
    answer = wire.UnregisterBrokerResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, error_message=None)
    return Decision(answer, (*replicas_forgotten(image, broker.node_id, defaults), forgotten))


def refuse_unregister_broker(_request: wire.UnregisterBrokerRequest, refusal: Refusal) -> wire.UnregisterBrokerResponse:
    return wire.UnregisterBrokerResponse(throttle_time_ms=0, error_code=refusal.error, error_message=refusal.message)


def decide_register_controller(
    image: ClusterImage, request: wire.ControllerRegistrationRequest
) -> Decision[wire.ControllerRegistrationResponse]:
    """A controller tells where it listens and what it supports."""
    if not image.metadata_version.has_controller_registration:
        raise RefusedError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller registrations.",
        )
    record = records.RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=_end_points(records.ControllerEndpoint, request.listeners),
        features=_features(records.ControllerFeature, request.features),
    )
    answer = wire.ControllerRegistrationResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, error_message=None)
    return Decision(answer, (FramedRecord(record, 0),))


def refuse_register_controller(
    _request: wire.ControllerRegistrationRequest, refusal: Refusal
) -> wire.ControllerRegistrationResponse:
    return wire.ControllerRegistrationResponse(
        throttle_time_ms=0, error_code=refusal.error, error_message=refusal.message
    )

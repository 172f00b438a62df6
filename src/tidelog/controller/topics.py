"""Decisions about topics: CreateTopics and DeleteTopics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

from msgspec import Struct, field

from tidelog.controller.cluster_view import default_directory, is_active
from tidelog.controller.configs import ConfigChange, Operation, config_records, effective_topic_configs
from tidelog.controller.decision import RECORDS_PER_REQUEST_MAX, Decision, Refusal, RefusedError, framed
from tidelog.controller.image import ClusterImage, ConfigResource
from tidelog.controller.image_delta import TOPIC_RESOURCE
from tidelog.controller.mutation_quota import NO_LIMIT, TOO_MUCH, MutationQuota
from tidelog.controller.placement import place_replicas, usable_brokers
from tidelog.controller.settings import ControllerSettings
from tidelog.controller.topic_names import collision_form, name_problem
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, NodeId, TopicId, TopicName, random_uuid
from tidelog.storage.log_directory import METADATA_TOPIC
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.internal.cluster_metadata import PartitionRecord, RemoveTopicRecord, TopicRecord
from tidelog.wire.messages.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_UNSET = -1


# --- CreateTopics ----------------------------------------------------------------------------------------------------------


def decide_create_topics(
    image: ClusterImage,
    request: CreateTopicsRequest,
    settings: ControllerSettings,
    random: Random,
    mutations: MutationQuota = NO_LIMIT,
) -> Decision[CreateTopicsResponse]:
    """Each topic is created or not by itself; those that are, are created together."""
    partitions = sum(len(topic.assignments) or max(0, topic.num_partitions) for topic in request.topics)
    if partitions > RECORDS_PER_REQUEST_MAX:
        raise RefusedError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    counts = Counter(topic.name for topic in request.topics)
    creation = _Creation(image, settings, random, mutations)
    results: dict[str, CreatableTopicResult] = {}
    for topic in request.topics:
        if topic.name in results:
            continue
        outcome: CreatableTopicResult | Refusal
        if counts[topic.name] > 1:
            outcome = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        else:
            outcome = creation.create(topic)
        results[topic.name] = _failed(topic.name, outcome) if isinstance(outcome, Refusal) else outcome
    answer = CreateTopicsResponse(throttle_time_ms=mutations.throttle_ms, topics=list(results.values()))
    return Decision(answer, () if request.validate_only else tuple(creation.records))


def refuse_create_topics(request: CreateTopicsRequest, refusal: Refusal) -> CreateTopicsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreateTopicsResponse(throttle_time_ms=0, topics=[_failed(name, refusal) for name in names])


def _failed(name: str, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        topic_id=ZERO_UUID,
        error_code=refusal.error,
        error_message=refusal.message,
        configs=[],
    )


class _Creation(Struct):
    """The topics of one request."""

    image: ClusterImage
    settings: ControllerSettings
    random: Random
    mutations: MutationQuota
    records: list[FramedRecord] = field(default_factory=list)
    _taken_forms: dict[str, TopicName] | None = None

    def create(self, topic: CreatableTopic) -> CreatableTopicResult | Refusal:
        refusal = self._name_problem(topic.name)
        if refusal is not None:
            return refusal
        nulls = [config.name for config in topic.configs if config.value is None]
        if nulls:
            return Refusal(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
        resource = ConfigResource(TOPIC_RESOURCE, topic.name)
        changes = [ConfigChange(config.name, Operation.SET, config.value) for config in topic.configs]
        configs = config_records(self.image, resource, changes, self.settings)
        if isinstance(configs, Refusal):
            return configs
        assigned = self._manual_assignment(topic) if topic.assignments else self._placement(topic)
        if isinstance(assigned, Refusal):
            return assigned
        if not self.mutations.take(len(assigned)):
            return TOO_MUCH
        topic_id = TopicId(random_uuid(self.random))
        self.records.append(FramedRecord(TopicRecord(name=topic.name, topic_id=topic_id), 0))
        self.records += configs
        self.records += (
            new_partition(self.image, topic_id, index, replicas) for index, replicas in enumerate(assigned)
        )
        overrides = {config.name: config.value or "" for config in topic.configs}
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_code=ErrorCode.NONE,
            error_message=None,
            num_partitions=len(assigned),
            replication_factor=len(assigned[0]),
            configs=effective_topic_configs(self.image, overrides, self.settings),
        )

    def _name_problem(self, name: str) -> Refusal | None:
        problem = name_problem(name)
        if problem is not None:
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        if name == METADATA_TOPIC:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        if TopicName(name) in self.image.topic_ids:
            return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        form = collision_form(name)
        if form is not None and form in self._collision_forms():
            other = self._collision_forms()[form]
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
        return None

    def _collision_forms(self) -> dict[str, TopicName]:
        if self._taken_forms is None:
            forms = ((collision_form(name), name) for name in self.image.topic_ids)
            self._taken_forms = {form: name for form, name in forms if form is not None}
        return self._taken_forms

    def _manual_assignment(self, topic: CreatableTopic) -> list[list[NodeId]] | Refusal:
        if topic.replication_factor != _UNSET:
            return Refusal(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            )
        if topic.num_partitions != _UNSET:
            return Refusal(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            )
        assigned: dict[int, list[NodeId]] = {}
        for assignment in topic.assignments:
            index = assignment.partition_index
            if index in assigned:
                return Refusal(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"Found multiple manual partition assignments for partition {index}",
                )
            replicas = list(map(NodeId, assignment.broker_ids))
            expected = len(next(iter(assigned.values()))) if assigned else None
            refusal = assignment_problem(self.image, index, replicas, expected)
            if refusal is not None:
                return refusal
            assigned[index] = replicas
        if sorted(assigned) != list(range(len(assigned))):
            return Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
            )
        return [assigned[index] for index in range(len(assigned))]

    def _placement(self, topic: CreatableTopic) -> list[list[NodeId]] | Refusal:
        if topic.replication_factor < _UNSET or topic.replication_factor == 0:
            return Refusal(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.num_partitions < _UNSET or topic.num_partitions == 0:
            return Refusal(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        partitions = self.settings.num_partitions if topic.num_partitions == _UNSET else topic.num_partitions
        replicas = topic.replication_factor
        if replicas == _UNSET:
            replicas = self.settings.default_replication_factor
        return placed(self.image, partitions, replicas, self.random)


def placed(image: ClusterImage, partitions: int, replicas: int, random: Random) -> list[list[NodeId]] | Refusal:
    """The replicas of new partitions, of which each has one that can lead."""
    found = place_replicas(usable_brokers(image), partitions=partitions, replicas=replicas, random=random)
    if isinstance(found, Refusal):
        return Refusal(found.error, f"Unable to replicate the partition {replicas} time(s): {found.message}")
    return found


def replicas_problem(image: ClusterImage, replicas: Sequence[NodeId]) -> Refusal | None:
    """What is wrong with a list of brokers that are to have a partition, whoever of them serves at the moment."""
    if not replicas:
        reason = "The manual partition assignment includes an empty replica list."
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    for replica in sorted(replicas):
        if replica not in image.brokers:
            reason = f"The manual partition assignment includes broker {replica}, but no such broker is registered."
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
        if replicas.count(replica) > 1:
            reason = f"The manual partition assignment includes the broker {replica} more than once."
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    return None


def assignment_problem(
    image: ClusterImage, index: int, replicas: Sequence[NodeId], replication_factor: int | None
) -> Refusal | None:
    """What is wrong with replicas that somebody chose by hand for a new partition."""
    problem = replicas_problem(image, replicas)
    if problem is not None:
        return problem
    if replication_factor is not None and len(replicas) != replication_factor:
        reason = (
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s)."
        )
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    if not any(is_active(image.brokers[replica]) for replica in replicas):
        reason = (
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
            "controlled shutdown."
        )
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    return None


def new_partition(image: ClusterImage, topic_id: TopicId, index: int, replicas: Sequence[NodeId]) -> FramedRecord:
    """The record of a partition whose first active replica leads."""
    isr = [replica for replica in replicas if is_active(image.brokers.get(replica))]
    return framed(
        image,
        PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=list(replicas),
            isr=list(isr),
            removing_replicas=[],
            adding_replicas=[],
            leader=isr[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=_first_directories(image, replicas),
        ),
    )


def _first_directories(image: ClusterImage, replicas: Sequence[NodeId]) -> list[bytes]:
    if not image.metadata_version.has_directories:
        return []
    return [default_directory(image, replica) for replica in replicas]


# --- DeleteTopics ----------------------------------------------------------------------------------------------------------


def decide_delete_topics(
    image: ClusterImage,
    request: DeleteTopicsRequest,
    settings: ControllerSettings,
    mutations: MutationQuota = NO_LIMIT,
) -> Decision[DeleteTopicsResponse]:
    """By name or by id; a topic that is named in both ways is not deleted, since somebody is confused."""
    if not settings.delete_topic_enable:
        raise RefusedError(ErrorCode.TOPIC_DELETION_DISABLED)
    wanted = _wanted(request)
    names = Counter(state.name for state in wanted if state.name is not None and state.topic_id == ZERO_UUID)
    ids = Counter(state.topic_id for state in wanted if state.name is None)
    doomed: dict[TopicId, None] = {}
    results: dict[tuple[str | None, bytes], DeletableTopicResult] = {}
    for state in wanted:
        found = _found(image, state, names, ids)
        if not isinstance(found, Refusal) and not mutations.take(len(image.topics[found].partitions)):
            found = TOO_MUCH
        if isinstance(found, Refusal):
            results[state.name, state.topic_id] = _not_deleted(state, found)
            continue
        doomed[found] = None
        results[state.name, state.topic_id] = DeletableTopicResult(
            name=image.topics[found].name, topic_id=found, error_code=ErrorCode.NONE
        )
    records = tuple(FramedRecord(RemoveTopicRecord(topic_id=topic_id), 0) for topic_id in doomed)
    return Decision(
        DeleteTopicsResponse(throttle_time_ms=mutations.throttle_ms, responses=list(results.values())), records
    )


def refuse_delete_topics(request: DeleteTopicsRequest, refusal: Refusal) -> DeleteTopicsResponse:
    responses = [_not_deleted(state, refusal) for state in _wanted(request)]
    return DeleteTopicsResponse(throttle_time_ms=0, responses=responses)


def _wanted(request: DeleteTopicsRequest) -> Iterable[DeleteTopicState]:
    """The topics of a request, whichever way its version names them."""
    return [*(DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names), *request.topics]


def _found(image: ClusterImage, state: DeleteTopicState, names: Counter[str], ids: Counter[bytes]) -> TopicId | Refusal:
    if state.name is None:
        if state.topic_id == ZERO_UUID:
            return Refusal(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        if ids[state.topic_id] > 1:
            return Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
        topic_id = TopicId(state.topic_id)
        topic = image.topics.get(topic_id)
        if topic is None:
            return Refusal.of(ErrorCode.UNKNOWN_TOPIC_ID)
        if names[topic.name]:
            return Refusal(
                ErrorCode.INVALID_REQUEST, "The provided topic id is that of a topic which is named as well."
            )
        return topic_id
    if state.topic_id != ZERO_UUID:
        return Refusal(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if names[state.name] > 1:
        return Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    named = image.topic_ids.get(TopicName(state.name))
    if named is None:
        return Refusal.of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if ids[named]:
        reason = "The provided topic name maps to an ID that was already supplied."
        return Refusal(ErrorCode.INVALID_REQUEST, reason)
    return named


def _not_deleted(state: DeleteTopicState, refusal: Refusal) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=state.name, topic_id=state.topic_id, error_code=refusal.error, error_message=refusal.message
    )

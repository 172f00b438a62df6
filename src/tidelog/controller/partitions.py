"""Decisions about partitions: CreatePartitions, AlterPartition, ElectLeaders, AssignReplicasToDirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

from tidelog.controller.cluster_view import TopicDefaults, checked_broker, each_partition, is_active
from tidelog.controller.decision import RECORDS_PER_REQUEST_MAX, Decision, Refusal, RefusedError
from tidelog.controller.image import NO_LEADER, ClusterImage, LeaderRecovery, Partition, Topic
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.mutation_quota import NO_LIMIT, TOO_MUCH, MutationQuota
from tidelog.controller.partition_changes import Election, change_partition
from tidelog.controller.topics import assignment_problem, new_partition, placed
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import DirectoryId, NodeId, PartitionIndex, TopicId, TopicName
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages import alter_partition as alter, log_dirs, reassignments as elections
from tidelog.wire.messages.internal.cluster_metadata import PartitionChangeRecord
from tidelog.wire.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

_NO_LEADER_CHANGE = -2
_ANY_EPOCH = -1
# As in Kafka: a cluster that comes up has more than enough to do.
ELECTIONS_MAX = 1000


# --- CreatePartitions ------------------------------------------------------------------------------------------------------


def decide_create_partitions(
    image: ClusterImage, request: CreatePartitionsRequest, random: Random, mutations: MutationQuota = NO_LIMIT
) -> Decision[CreatePartitionsResponse]:
    """Each topic grows or not by itself."""
    counts = Counter(topic.name for topic in request.topics)
    records: list[FramedRecord] = []
    results: dict[str, CreatePartitionsTopicResult] = {}
    for topic in request.topics:
        if topic.name in results:
            continue
        outcome: list[FramedRecord] | Refusal
        if counts[topic.name] > 1:
            outcome = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        else:
            outcome = _new_partitions(image, topic, random, mutations)
        if isinstance(outcome, Refusal):
            results[topic.name] = _not_grown(topic.name, outcome)
        else:
            records += outcome
            results[topic.name] = CreatePartitionsTopicResult(name=topic.name, error_code=ErrorCode.NONE)
    answer = CreatePartitionsResponse(throttle_time_ms=mutations.throttle_ms, results=list(results.values()))
    return Decision(answer, () if request.validate_only else tuple(records))


def refuse_create_partitions(request: CreatePartitionsRequest, refusal: Refusal) -> CreatePartitionsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreatePartitionsResponse(throttle_time_ms=0, results=[_not_grown(name, refusal) for name in names])


def _not_grown(name: str, refusal: Refusal) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=refusal.error, error_message=refusal.message)


def _new_partitions(
    image: ClusterImage, wanted: CreatePartitionsTopic, random: Random, mutations: MutationQuota
) -> list[FramedRecord] | Refusal:
    topic = image.topic(TopicName(wanted.name))
    if topic is None:
        return Refusal.of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(topic.partitions)
    if wanted.count == present:
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if wanted.count < present:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {wanted.name} currently has {present} partition(s); {wanted.count} would not be an increase.",
        )
    additional = wanted.count - present
    if additional > RECORDS_PER_REQUEST_MAX:
        return Refusal(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    if wanted.assignments is not None and len(wanted.assignments) != additional:
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(wanted.assignments)} assignment(s) "
            "were specified.",
        )
    # Before the brokers are looked at, as in Kafka.
    if not mutations.take(additional):
        return TOO_MUCH
    factor = len(topic.partitions[PartitionIndex(0)].replicas)
    assigned: list[list[NodeId]] | Refusal
    if wanted.assignments is None:
        assigned = placed(image, additional, factor, random)
    else:
        assigned = [list(map(NodeId, assignment.broker_ids)) for assignment in wanted.assignments]
        for number, replicas in enumerate(assigned):
            refusal = assignment_problem(image, present + number, replicas, factor)
            if refusal is not None:
                return refusal
    if isinstance(assigned, Refusal):
        return assigned
    return [
        new_partition(image, topic.topic_id, present + number, replicas) for number, replicas in enumerate(assigned)
    ]


# --- AlterPartition --------------------------------------------------------------------------------------------------------


def decide_alter_partition(
    image: ClusterImage, request: alter.AlterPartitionRequest, defaults: TopicDefaults
) -> Decision[alter.AlterPartitionResponse]:
    """A leader wants another in-sync set for partitions that it leads."""
    checked_broker(image, request.broker_id, request.broker_epoch)
    records: list[FramedRecord] = []
    topics = []
    for topic_data in request.topics:
        topic = image.topics.get(TopicId(topic_data.topic_id))
        answers = []
        for wanted in topic_data.partitions:
            if topic is None:
                answers.append(_not_altered(wanted, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            altered, record = _alter_one(image, topic, wanted, NodeId(request.broker_id), defaults)
            answers.append(altered)
            if record is not None:
                records.append(record)
        topics.append(alter.AlterPartitionTopicData(topic_id=topic_data.topic_id, partitions=answers))
    answer = alter.AlterPartitionResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, topics=topics)
    return Decision(answer, tuple(records))


def refuse_alter_partition(_request: alter.AlterPartitionRequest, refusal: Refusal) -> alter.AlterPartitionResponse:
    return alter.AlterPartitionResponse(throttle_time_ms=0, error_code=refusal.error, topics=[])


def _not_altered(wanted: alter.PartitionData, error: ErrorCode) -> alter.AlterPartitionPartitionData:
    return alter.AlterPartitionPartitionData(
        partition_index=wanted.partition_index,
        error_code=error,
        leader_id=0,
        leader_epoch=0,
        isr=[],
        partition_epoch=0,
    )


def _alter_one(
    image: ClusterImage, topic: Topic, wanted: alter.PartitionData, asking: NodeId, defaults: TopicDefaults
) -> tuple[alter.AlterPartitionPartitionData, FramedRecord | None]:
    index = PartitionIndex(wanted.partition_index)
    partition = topic.partitions.get(index)
    if partition is None:
        return _not_altered(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), None
    # Version 2 names no epochs.
    isr = wanted.new_isr_with_epochs or [alter.BrokerState(broker_id=node) for node in wanted.new_isr]
    error = _alteration_error(image, partition, wanted, isr, asking)
    if error is not ErrorCode.NONE:
        return _not_altered(wanted, error), None
    record = change_partition(
        image,
        topic,
        index,
        defaults,
        isr=[NodeId(state.broker_id) for state in isr],
        recovery=LeaderRecovery(wanted.leader_recovery_state),
    )
    if record is not None:
        change = record.message
        assert isinstance(change, PartitionChangeRecord)
        partition = after_change(image, topic, index, change)
        if change.leader not in {_NO_LEADER_CHANGE, asking}:
            # The change completed a reassignment, and the asker leads no longer: it has to look at the metadata first.
            return _not_altered(wanted, ErrorCode.NEW_LEADER_ELECTED), record
    return (
        alter.AlterPartitionPartitionData(
            partition_index=index,
            error_code=ErrorCode.NONE,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            isr=list(partition.isr),
            leader_recovery_state=partition.leader_recovery,
            partition_epoch=partition.partition_epoch,
        ),
        record,
    )


def after_change(image: ClusterImage, topic: Topic, index: PartitionIndex, change: PartitionChangeRecord) -> Partition:
    """A partition as a change leaves it."""
    delta = ImageDelta(image)
    delta.apply(change, image.offset)
    changed = delta.image(image.offset, image.epoch, image.timestamp_ms).partition(topic.topic_id, index)
    assert changed is not None
    return changed


def _alteration_error(
    image: ClusterImage,
    partition: Partition,
    wanted: alter.PartitionData,
    isr: list[alter.BrokerState],
    asking: NodeId,
) -> ErrorCode:
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        # The asker knows more than this controller, which then is likely no longer the active one.
        return ErrorCode.NOT_CONTROLLER
    if wanted.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if asking != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if wanted.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    nodes = [state.broker_id for state in isr]
    is_valid = len(set(nodes)) == len(nodes) and all(node in partition.replicas for node in nodes)
    if not is_valid or partition.leader not in nodes:
        return ErrorCode.INVALID_REQUEST
    if wanted.leader_recovery_state not in LeaderRecovery.__members__.values():
        return ErrorCode.INVALID_REQUEST
    is_recovering = wanted.leader_recovery_state == LeaderRecovery.RECOVERING
    if is_recovering and (len(nodes) > 1 or partition.leader_recovery is LeaderRecovery.RECOVERED):
        return ErrorCode.INVALID_REQUEST
    for state in isr:
        broker = image.brokers.get(NodeId(state.broker_id))
        if broker is None or not is_active(broker) or state.broker_epoch not in {_ANY_EPOCH, broker.epoch}:
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


# --- ElectLeaders ----------------------------------------------------------------------------------------------------------

_ELECTIONS = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def decide_elect_leaders(
    image: ClusterImage, request: elections.ElectLeadersRequest, defaults: TopicDefaults
) -> Decision[elections.ElectLeadersResponse]:
    """Another leader for some partitions, or for all that need one."""
    election = _ELECTIONS.get(request.election_type)
    if election is None:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    records: list[FramedRecord] = []
    results: list[elections.ReplicaElectionResult] = []
    if request.topic_partitions is None:
        asked = [(topic.name, list(topic.partitions)) for topic in image.topics.values()]
    else:
        asked = [
            (TopicName(each.topic), list(map(PartitionIndex, each.partitions))) for each in request.topic_partitions
        ]
    for name, indexes in asked:
        outcomes = []
        for index in indexes:
            outcome = _elect(image, name, index, election, defaults)
            if isinstance(outcome, FramedRecord):
                records.append(outcome)
            # Asked for all, only those that needed an election are told of.
            elif request.topic_partitions is None and outcome.error is ErrorCode.ELECTION_NOT_NEEDED:
                continue
            refusal = outcome if isinstance(outcome, Refusal) else None
            outcomes.append(
                elections.PartitionResult(
                    partition_id=index,
                    error_code=ErrorCode.NONE if refusal is None else refusal.error,
                    error_message=None if refusal is None else refusal.message,
                )
            )
        if outcomes or request.topic_partitions is not None:
            results.append(elections.ReplicaElectionResult(topic=name, partition_result=outcomes))
    answer = elections.ElectLeadersResponse(
        throttle_time_ms=0, error_code=ErrorCode.NONE, replica_election_results=results
    )
    return Decision(answer, tuple(records))


def refuse_elect_leaders(request: elections.ElectLeadersRequest, refusal: Refusal) -> elections.ElectLeadersResponse:
    """Said of each partition too: v0 has no other place for it."""
    return elections.ElectLeadersResponse(
        throttle_time_ms=0,
        error_code=refusal.error,
        replica_election_results=[
            elections.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    elections.PartitionResult(
                        partition_id=index, error_code=refusal.error, error_message=refusal.message
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def cut_elect_leaders(answer: elections.ElectLeadersResponse, version: int) -> None:
    """An error of the whole request came with v1 (KIP-460)."""
    if version < 1:
        answer.error_code = ErrorCode.NONE


def _elect(
    image: ClusterImage, name: TopicName, index: PartitionIndex, election: Election, defaults: TopicDefaults
) -> FramedRecord | Refusal:
    topic = image.topic(name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(index)
    if partition is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    is_led = partition.leader == partition.replicas[0] or (
        election is Election.UNCLEAN and partition.leader != NO_LEADER
    )
    if is_led:
        return Refusal.of(ErrorCode.ELECTION_NOT_NEEDED)
    record = change_partition(image, topic, index, defaults, election=election)
    if record is not None:
        return record
    if election is Election.PREFERRED:
        return Refusal.of(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    return Refusal.of(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)


def leadership_repairs(image: ClusterImage, defaults: TopicDefaults, *, rebalance: bool) -> Iterator[FramedRecord]:
    """Leaders for partitions that have none and may have one by now; with `rebalance` also first replicas for those that are led
    by another although the first is in sync again. As many as may be held at once."""
    count = 0
    for topic, index, partition in each_partition(image):
        if partition.leader == NO_LEADER:
            record = change_partition(image, topic, index, defaults)
        elif rebalance and partition.leader != partition.replicas[0]:
            record = change_partition(image, topic, index, defaults, election=Election.PREFERRED)
        else:
            continue
        if record is not None:
            yield record
            count += 1
            if count == ELECTIONS_MAX:
                return


# --- AssignReplicasToDirs --------------------------------------------------------------------------------------------------


def decide_assign_directories(
    image: ClusterImage, request: log_dirs.AssignReplicasToDirsRequest, defaults: TopicDefaults
) -> Decision[log_dirs.AssignReplicasToDirsResponse]:
    """A broker has chosen directories for its replicas."""
    if not image.metadata_version.has_directories:
        raise RefusedError(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    broker = checked_broker(image, request.broker_id, request.broker_epoch)
    records: list[FramedRecord] = []
    directories = []
    for directory in request.directories:
        topics = []
        for topic_data in directory.topics:
            topic = image.topics.get(TopicId(topic_data.topic_id))
            answers = []
            for wanted in topic_data.partitions:
                index = PartitionIndex(wanted.partition_index)
                outcome = _assign(image, topic, index, broker.node_id, DirectoryId(directory.id), defaults)
                if isinstance(outcome, FramedRecord):
                    records.append(outcome)
                error = outcome if isinstance(outcome, ErrorCode) else ErrorCode.NONE
                answers.append(log_dirs.AssignReplicasToDirsPartitionData(partition_index=index, error_code=error))
            topics.append(log_dirs.AssignReplicasToDirsTopicData(topic_id=topic_data.topic_id, partitions=answers))
        directories.append(log_dirs.AssignReplicasToDirsDirectoryData(id=directory.id, topics=topics))
    answer = log_dirs.AssignReplicasToDirsResponse(
        throttle_time_ms=0, error_code=ErrorCode.NONE, directories=directories
    )
    return Decision(answer, tuple(records))


def refuse_assign_directories(
    _request: log_dirs.AssignReplicasToDirsRequest, refusal: Refusal
) -> log_dirs.AssignReplicasToDirsResponse:
    return log_dirs.AssignReplicasToDirsResponse(throttle_time_ms=0, error_code=refusal.error, directories=[])


def _assign(
    image: ClusterImage,
    topic: Topic | None,
    index: PartitionIndex,
    node: NodeId,
    directory: DirectoryId,
    defaults: TopicDefaults,
) -> FramedRecord | ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if node not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    isr = None
    broker = image.brokers[node]
    if broker.log_directories and directory not in broker.log_directories:
        # It is offline already: the replica goes with it.
        isr = [replica for replica in partition.isr if replica != node]
    record = change_partition(
        image,
        topic,
        index,
        defaults,
        isr=isr,
        directories={node: directory},
        may_lead=lambda replica: is_active(image.brokers.get(replica)) and (isr is None or replica != node),
    )
    return ErrorCode.NONE if record is None else record

"""Decisions about where partitions that exist have their replicas: AlterPartitionReassignments, ListPartitionReassignments.

    asked for      the partition gets all replicas, those to come and those to go, and notes which are which
    under way      the new replicas follow; each that has caught up joins the in-sync set (AlterPartition)
    done           the new ones are in sync: `partition_changes` drops those that are to go with the same record
    taken back     the new ones are dropped, those that were to go stay

Where nothing has to be waited for (only the order changes, or all are in sync already) one record does it all.

A new request for a partition that is being reassigned replaces the old one. It starts from all replicas that the partition has at
that moment, as in Kafka; so what is taken back later leads to those, not to the ones at the very beginning.

Deviations from Kafka 4.3.1: a new request that adds or removes nothing beyond the old one takes the place of that one too (Kafka
keeps what the old one was adding or removing, and a way back to the first replicas is never completed). A partition may be named
once in a request.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.controller.cluster_view import TopicDefaults, allows_unclean_election
from tidelog.controller.decision import RECORDS_PER_REQUEST_MAX, Decision, Refusal, RefusedError
from tidelog.controller.image import ClusterImage, Partition, Topic
from tidelog.controller.partition_changes import Assignment, Election, change_partition
from tidelog.controller.topics import replicas_problem
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, PartitionIndex, TopicName
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages import reassignments as wire


def is_reassigned(partition: Partition) -> bool:
    """Whether a partition is on its way to other replicas."""
    return bool(partition.adding_replicas or partition.removing_replicas)


# --- AlterPartitionReassignments -------------------------------------------------------------------------------------------


def decide_alter_reassignments(
    image: ClusterImage, request: wire.AlterPartitionReassignmentsRequest, defaults: TopicDefaults
) -> Decision[wire.AlterPartitionReassignmentsResponse]:
    """Each partition is reassigned, or not, by itself; those that are, are together."""
    if sum(len(topic.partitions) for topic in request.topics) > RECORDS_PER_REQUEST_MAX:
        raise RefusedError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    records: list[FramedRecord] = []
    seen: set[tuple[str, int]] = set()
    responses = []
    for topic in request.topics:
        answers = []
        for wanted in topic.partitions:
            place = (topic.name, wanted.partition_index)
            outcome: FramedRecord | Refusal | None
            if place in seen:
                reason = f"The partition {topic.name}:{wanted.partition_index} is named more than once."
                outcome = Refusal(ErrorCode.INVALID_REQUEST, reason)
            else:
                outcome = _reassign(
                    image,
                    TopicName(topic.name),
                    wanted,
                    defaults,
                    keep_factor=not request.allow_replication_factor_change,
                )
            seen.add(place)
            if isinstance(outcome, FramedRecord):
                records.append(outcome)
            answers.append(_answer(wanted, outcome if isinstance(outcome, Refusal) else None))
        responses.append(wire.ReassignableTopicResponse(name=topic.name, partitions=answers))
    answer = wire.AlterPartitionReassignmentsResponse(
        throttle_time_ms=0,
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=responses,
    )
    return Decision(answer, tuple(records))


def refuse_alter_reassignments(
    request: wire.AlterPartitionReassignmentsRequest, refusal: Refusal
) -> wire.AlterPartitionReassignmentsResponse:
    return wire.AlterPartitionReassignmentsResponse(
        throttle_time_ms=0,
        error_code=refusal.error,
        error_message=refusal.message,
        responses=[
            wire.ReassignableTopicResponse(
                name=topic.name, partitions=[_answer(wanted, refusal) for wanted in topic.partitions]
            )
            for topic in request.topics
        ],
    )


def _answer(wanted: wire.ReassignablePartition, refusal: Refusal | None) -> wire.ReassignablePartitionResponse:
    return wire.ReassignablePartitionResponse(
        partition_index=wanted.partition_index,
        error_code=ErrorCode.NONE if refusal is None else refusal.error,
        error_message=None if refusal is None else refusal.message,
    )


def _reassign(
    image: ClusterImage,
    name: TopicName,
    wanted: wire.ReassignablePartition,
    defaults: TopicDefaults,
    *,
    keep_factor: bool,
) -> FramedRecord | Refusal | None:
    """The record that begins or takes back a reassignment; None where all is as wanted."""
    topic = image.topic(name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    index = PartitionIndex(wanted.partition_index)
    partition = topic.partitions.get(index)
    if partition is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    if wanted.replicas is None:
        return _take_back(image, topic, index, partition, defaults)
    target = tuple(map(NodeId, wanted.replicas))
    problem = replicas_problem(image, target)
    if problem is None and keep_factor:
        problem = _factor_problem(partition, target)
    if problem is not None:
        return problem
    # Whoever is in sync leads as before, or the first of the new ones that is: never anybody else, whatever the topic allows.
    return change_partition(
        image, topic, index, defaults, assignment=_on_the_way(partition, target), election=Election.ONLINE
    )


def _on_the_way(partition: Partition, target: tuple[NodeId, ...]) -> Assignment:
    present = partition.replicas
    removing = tuple(sorted(replica for replica in present if replica not in target))
    adding = tuple(sorted(replica for replica in target if replica not in present))
    if not adding:
        # What was on its way to be added, and still is wanted, has not arrived yet.
        adding = tuple(replica for replica in partition.adding_replicas if replica in target)
    return Assignment((*target, *removing), adding, removing)


def _factor_problem(partition: Partition, target: tuple[NodeId, ...]) -> Refusal | None:
    present = {*partition.replicas, *partition.adding_replicas}
    if is_reassigned(partition):
        present -= {*partition.removing_replicas}
    if len(present) == len(target):
        return None
    return Refusal(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"The replication factor is changed from {len(present)} to {len(target)}",
    )


def _take_back(
    image: ClusterImage, topic: Topic, index: PartitionIndex, partition: Partition, defaults: TopicDefaults
) -> FramedRecord | Refusal | None:
    if not is_reassigned(partition):
        return Refusal.of(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = tuple(replica for replica in partition.replicas if replica not in partition.adding_replicas)
    if not replicas:
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "All replicas of the partition are only being added.")
    isr = [replica for replica in partition.isr if replica not in partition.adding_replicas]
    if not isr:
        # Only new replicas have everything. To do without them is an unclean election.
        if not allows_unclean_election(image, topic.name, defaults):
            return Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}:{index} because it would require an unclean "
                "leader election.",
            )
        isr = [replicas[0]]
    return change_partition(image, topic, index, defaults, isr=isr, assignment=Assignment(replicas))


# --- ListPartitionReassignments --------------------------------------------------------------------------------------------


def list_reassignments(
    image: ClusterImage, request: wire.ListPartitionReassignmentsRequest
) -> wire.ListPartitionReassignmentsResponse:
    """What is on its way, of some partitions or of all. What is not, or not there, is left out."""
    asked: Iterable[tuple[Topic | None, Iterable[int]]]
    if request.topics is None:
        asked = [(topic, topic.partitions) for topic in image.topics.values()]
    else:
        asked = [(image.topic(TopicName(each.name)), each.partition_indexes) for each in request.topics]
    topics = []
    for topic, indexes in asked:
        if topic is None:
            continue
        ongoing = [
            wire.OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
            for index in indexes
            if (partition := topic.partitions.get(PartitionIndex(index))) is not None and is_reassigned(partition)
        ]
        if ongoing:
            topics.append(wire.OngoingTopicReassignment(name=topic.name, partitions=ongoing))
    return wire.ListPartitionReassignmentsResponse(
        throttle_time_ms=0, error_code=ErrorCode.NONE, error_message=None, topics=topics
    )


def refuse_list_reassignments(
    _request: wire.ListPartitionReassignmentsRequest, refusal: Refusal
) -> wire.ListPartitionReassignmentsResponse:
    return wire.ListPartitionReassignmentsResponse(
        throttle_time_ms=0, error_code=refusal.error, error_message=refusal.message, topics=[]
    )

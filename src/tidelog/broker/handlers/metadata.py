"""Metadata (3), v0-13: where the brokers are, and who leads and holds the partitions of which topics.

v0 no topics means all · v1 null means all, and none means none; the controller, racks
v4 the client says whether a topic may be created · v5 offline replicas · v6 LISTENER_NOT_FOUND in place of LEADER_NOT_AVAILABLE
v7 leader epochs · v8 authorized operations · v10 topic ids in the answer · v11 no more of the cluster's operations
v12 topics by id · v13 an error for all

A topic that is created because somebody asked for it is there for the next request, not for this one: see `auto_topics`.
Answers keep the order of the request. A topic with neither name nor id is an INVALID_REQUEST; Kafka fails at it.

Where every broker is fenced, as is the only one that is just stopping, the node that answers names itself; Kafka names nobody.
librdkafka gives up all brokers that an answer leaves out, and would have none left to come back to. What it tells of a broker
that has just died, and when, is up to `doubted_brokers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.broker.cluster.endpoints import ListenerView, any_alive_broker
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.controller.image import Partition, Topic
from tidelog.controller.topic_names import name_problem
from tidelog.model import metadata_config as keys
from tidelog.model.acl import CLUSTER_NAME, OPERATIONS_NOT_ASKED, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, NodeId, PartitionIndex, TopicId, TopicName
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.model.pending import Pending
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_NO_LEADER = -1


@handles(MetadataRequest)
def metadata(request: MetadataRequest, caller: Caller, node: Node) -> Answer[MetadataResponse]:
    if node.doubted_brokers:
        settled = node.doubted_brokers.settled(_leaders(request, caller, node))
        if settled is not None:
            answered: Pending[MetadataResponse] = Pending()
            settled.then(lambda _: answered.complete(_answer(request, caller, node)))
            return answered
    return _answer(request, caller, node)


def _leaders(request: MetadataRequest, caller: Caller, node: Node) -> set[NodeId]:
    """The leaders of all partitions asked for that the caller may know of: how long it waits tells nothing of the others."""
    image, asked = node.image, request.topics
    if asked is None or (caller.api_version == 0 and not asked):
        topics: Iterable[Topic | None] = image.topics.values()
    else:
        ids = (image.topic_ids.get(TopicName(each.name)) if each.name else TopicId(each.topic_id) for each in asked)
        topics = (image.topics.get(each) for each in ids if each is not None)
    return {
        partition.leader
        for topic in topics
        if topic is not None and caller.might(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name)
        for partition in topic.partitions.values()
    }


def _answer(request: MetadataRequest, caller: Caller, node: Node) -> MetadataResponse:
    asked = request.topics
    if asked is None or (caller.api_version == 0 and not asked):
        names = [name for name in node.image.topic_ids if caller.may_describe(name)]
        return _response(request, caller, node, _described(names, request, caller, node))
    if not _is_well_formed(asked, caller.api_version):
        return _refused(asked)
    ids = dict.fromkeys(TopicId(topic.topic_id) for topic in asked if topic.topic_id != ZERO_UUID)
    if ids:
        return _response(request, caller, node, _topics_by_id(list(ids), request, caller, node))
    wanted = dict.fromkeys(TopicName(topic.name) for topic in asked if topic.name is not None)
    return _response(request, caller, node, _topics_by_name(list(wanted), request, caller, node))


def _is_well_formed(asked: Sequence[MetadataRequestTopic], version: int) -> bool:
    if version < 12:
        return all(topic.name is not None and topic.topic_id == ZERO_UUID for topic in asked)
    return all(topic.name is not None or topic.topic_id != ZERO_UUID for topic in asked)


def _refused(asked: Sequence[MetadataRequestTopic]) -> MetadataResponse:
    error = ErrorCode.INVALID_REQUEST
    topics = [_topic_error(error, TopicName(topic.name or ""), TopicId(topic.topic_id)) for topic in asked]
    return MetadataResponse(throttle_time_ms=0, brokers=[], topics=topics, error_code=ErrorCode.NONE)


def _response(
    request: MetadataRequest, caller: Caller, node: Node, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    view = ListenerView(node.image, caller.listener_name)
    operations = OPERATIONS_NOT_ASKED
    if request.include_cluster_authorized_operations:
        may = caller.may(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
        operations = caller.authorized_operations(ResourceType.CLUSTER, CLUSTER_NAME) if may else 0
    reachable = (view.alive.keys() | node.doubted_brokers.fenced.keys()) or {node.node_id}
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=[
            MetadataResponseBroker(node_id=broker.node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in view.brokers
            if broker.node_id in reachable
        ],
        cluster_id=node.cluster_id,
        controller_id=any_alive_broker(node.image, node.random),
        topics=topics,
        cluster_authorized_operations=operations,
        error_code=ErrorCode.NONE,
    )


# Topics


def _topics_by_id(
    ids: Sequence[TopicId], request: MetadataRequest, caller: Caller, node: Node
) -> list[MetadataResponseTopic]:
    image = node.image
    unknown = [_topic_error(ErrorCode.UNKNOWN_TOPIC_ID, None, each) for each in ids if each not in image.topics]
    known = [image.topics[each] for each in ids if each in image.topics]
    allowed = [topic.name for topic in known if _may_describe(caller, topic.name)]
    # Ids are not secret, names are.
    denied = [
        _topic_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic.topic_id)
        for topic in known
        if topic.name not in allowed
    ]
    return unknown + _described(allowed, request, caller, node) + denied


def _topics_by_name(
    names: Sequence[TopicName], request: MetadataRequest, caller: Caller, node: Node
) -> list[MetadataResponseTopic]:
    allowed = [name for name in names if _may_describe(caller, name)]
    # Whether these exist is not looked at: the answer must not tell.
    denied = [_topic_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name) for name in names if name not in allowed]
    missing = [name for name in allowed if name not in node.image.topic_ids]
    creates = request.allow_auto_topic_creation and node.config[keys.AUTO_CREATE_TOPICS_ENABLE]
    not_creatable = _not_creatable(missing, caller) if creates and missing else []
    refused = [
        _topic_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, is_internal=name in INTERNAL_TOPICS)
        for name in not_creatable
    ]
    described = _described(
        [name for name in allowed if name not in not_creatable], request, caller, node, creates=creates
    )
    return described + refused + denied


def _described(
    names: Sequence[TopicName], request: MetadataRequest, caller: Caller, node: Node, *, creates: bool = False
) -> list[MetadataResponseTopic]:
    image = node.image
    errors: dict[TopicName, ErrorCode] = {}
    missing = [name for name in names if name not in image.topic_ids]
    if creates and missing:
        errors = node.auto_topics.create(missing, caller)
    else:
        for name in missing:
            is_legal = name_problem(name) is None
            errors[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal else ErrorCode.INVALID_TOPIC_EXCEPTION
    view = ListenerView(image, caller.listener_name)
    topics = []
    for name in names:
        if name in errors:
            topic = _topic_error(errors[name], name, is_internal=name in INTERNAL_TOPICS)
        else:
            topic = _topic(image.topics[image.topic_ids[name]], view, caller.api_version)
        if request.include_topic_authorized_operations:
            topic.topic_authorized_operations = caller.authorized_operations(ResourceType.TOPIC, name)
        topics.append(topic)
    return topics


def _topic(topic: Topic, view: ListenerView, version: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(index, partition, view, version) for index, partition in topic.partitions.items()],
    )


def _topic_error(
    error: ErrorCode, name: TopicName | None, topic_id: TopicId | None = None, *, is_internal: bool = False
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error, name=name, topic_id=topic_id or ZERO_UUID, is_internal=is_internal, partitions=[]
    )


def _partition(
    index: PartitionIndex, partition: Partition, view: ListenerView, version: int
) -> MetadataResponsePartition:
    replicas, isr = list[int](partition.replicas), list[int](partition.isr)
    error = ErrorCode.NONE
    leader = partition.leader if partition.leader in view.endpoints else _NO_LEADER
    if version == 0:
        # The oldest clients expect only replicas that are among the brokers, and an error where some are not.
        replicas = [each for each in partition.replicas if each in view.alive]
        isr = [each for each in partition.isr if each in view.alive]
    if leader == _NO_LEADER:
        has_listener_elsewhere = version >= 6 and view.is_registered(partition.leader)
        error = ErrorCode.LISTENER_NOT_FOUND if has_listener_elsewhere else ErrorCode.LEADER_NOT_AVAILABLE
    elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=view.offline_replicas(partition),
    )


def _may_describe(caller: Caller, name: TopicName) -> bool:
    return caller.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name)


def _not_creatable(names: Sequence[TopicName], caller: Caller) -> list[TopicName]:
    if caller.may(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=False):
        return []
    return [name for name in names if not caller.may(AclOperation.CREATE, ResourceType.TOPIC, name)]

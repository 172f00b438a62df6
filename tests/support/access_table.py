"""Which request takes which right, as data: Kafka's table of authorisation, to be asked of any cluster over the wire.

    for row in TABLE:
        assert row.judge(ask, world) == row.expected

`ask(user, listener, request, version)` sends a request as the user `admin`, who is a super user, or `alice`, who has the rights
that the row gives her, to a `broker` or a `controller`, and returns the response. Each row is asked three times: without the
right, with the right and a DENY of it, and with exactly the right. Nothing here knows whose cluster it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

from tidelog.model.acl import AclOperation as Op, PatternType, PermissionType, ResourceType as On
from tidelog.wire.apis import ApiKey, api
from tidelog.wire.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from tidelog.wire.schema import ArrayOf, Request, Response, Struct, StructOf, fields_of

Ask: TypeAlias = Callable[[str, str, Request, int], Response]
S = TypeVar("S", bound=Struct)

ADMIN, ALICE = "admin", "alice"
BROKER, CONTROLLER = "broker", "controller"
TOPIC, GROUP, ID = "orders", "readers", "payments"
CLUSTER_NAME = "kafka-cluster"
OTHER = "nobodys"

TOPIC_REFUSED, GROUP_REFUSED, CLUSTER_REFUSED, ID_REFUSED = 29, 30, 31, 53
REFUSALS = frozenset({TOPIC_REFUSED, GROUP_REFUSED, CLUSTER_REFUSED, ID_REFUSED})
# A coordinator that is being loaded or looked for.
NOT_YET = frozenset({14, 15, 16})
ATTEMPTS_MAX = 300


@dataclass
class World:
    """What rows name besides constants, once it is known."""

    topic_id: bytes = bytes(16)
    producer_id: int = 0
    pause: Callable[[], None] = field(default=lambda: None)
    """Between two attempts, where a cluster takes a moment."""


class Right(NamedTuple):
    operation: Op
    resource_type: On
    name: str


def topic(operation: Op, name: str = TOPIC) -> Right:
    return Right(operation, On.TOPIC, name)


def group(operation: Op, name: str = GROUP) -> Right:
    return Right(operation, On.GROUP, name)


def transactional_id(operation: Op, name: str = ID) -> Right:
    return Right(operation, On.TRANSACTIONAL_ID, name)


def cluster(operation: Op) -> Right:
    return Right(operation, On.CLUSTER, CLUSTER_NAME)


class Verdict(NamedTuple):
    without: object
    denied: object
    is_allowed: bool


class Row(NamedTuple):
    """One right that an API takes. `beside` are others that it takes too, and that are given throughout."""

    api: ApiKey
    version: int
    fields: Callable[[World], Mapping[str, Any]]
    right: Right
    path: str
    """Where the answer tells: names of fields and indexes between dots; a last `#` is the count of a list."""
    refused: object
    """What is told there without the right. With it, something else: no refusal, and not this."""
    beside: tuple[Right, ...] = ()
    listener: str = BROKER

    @property
    def name(self) -> str:
        where = "" if self.listener == BROKER else " of a controller"
        return f"{self.api.name}-{self.right.operation.name}-{self.right.resource_type.name}{where}-{self.path}"

    @property
    def expected(self) -> Verdict:
        return Verdict(self.refused, self.refused, True)

    def judge(self, ask: Ask, world: World) -> Verdict:
        """What alice is told without the right, with a DENY of it, and whether she gets what she asks for with exactly it."""
        set_acls(ask, world, [creation(right) for right in self.beside])
        without = self._told(ask, world)
        given = [creation(right) for right in (*self.beside, self.right)]
        set_acls(ask, world, [*given, creation(self.right, PermissionType.DENY)])
        denied = self._told(ask, world)
        set_acls(ask, world, given)
        allowed = self._told(ask, world)
        is_allowed = allowed != self.refused and (self.path.endswith("#") or allowed not in REFUSALS)
        return Verdict(without, denied, is_allowed)

    def _told(self, ask: Ask, world: World) -> object:
        request = build(api(self.api).request, self.fields(world))
        return told(ask(ALICE, self.listener, request, self.version), self.path)


def build(struct: type[S], given: Mapping[str, Any]) -> S:
    """A message of plain dicts and lists. What is not given has its default."""
    made = struct()
    types = {each.name: each.wire_type for each in fields_of(struct)}
    for name, value in given.items():
        setattr(made, name, _value(types[name], value))
    return made


def _value(wire_type: object, value: Any) -> Any:
    match wire_type:
        case StructOf(struct) if value is not None:
            return build(struct, value)
        case ArrayOf(element) if value is not None:
            return [_value(element, each) for each in value]
        case _:
            return value


def told(response: Response, path: str) -> object:
    """What a response says at a path."""
    found: Any = response
    for step in path.split("."):
        if step.isdigit():
            found = found[int(step)]
            continue
        found = len(found) if step == "#" else getattr(found, step)
    return int(found) if isinstance(found, int) else found


# --- ACLs --------------------------------------------------------------------------------------------------------------------


def creation(right: Right, permission: PermissionType = PermissionType.ALLOW, user: str = ALICE) -> AclCreation:
    return AclCreation(
        resource_type=right.resource_type,
        resource_name=right.name,
        resource_pattern_type=PatternType.LITERAL,
        principal=f"User:{user}",
        host="*",
        operation=right.operation,
        permission_type=permission,
    )


def set_acls(ask: Ask, world: World, acls: Sequence[AclCreation]) -> None:
    """Have exactly these ACLs, on brokers and on controllers."""
    everything = DeleteAclsFilter(
        resource_type_filter=On.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=Op.ANY,
        permission_type=PermissionType.ANY,
    )
    ask(ADMIN, BROKER, DeleteAclsRequest(filters=[everything]), 3)
    if acls:
        created = ask(ADMIN, BROKER, CreateAclsRequest(creations=list(acls)), 3)
        assert isinstance(created, CreateAclsResponse)
        assert not any(each.error_code for each in created.results), created
    wanted = {(each.resource_name, each.principal, each.operation, each.permission_type) for each in acls}
    for listener in (BROKER, CONTROLLER):
        for _ in range(ATTEMPTS_MAX):
            if _acls(ask, listener) == wanted:
                break
            world.pause()
        else:
            raise AssertionError(f"the ACLs of a {listener} are {_acls(ask, listener)}, not {wanted}")


def _acls(ask: Ask, listener: str) -> set[tuple[str, str, int, int]]:
    everything = DescribeAclsRequest(
        resource_type_filter=On.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=Op.ANY,
        permission_type=PermissionType.ANY,
    )
    answer = ask(ADMIN, listener, everything, 3)
    assert isinstance(answer, DescribeAclsResponse)
    assert answer.error_code == 0, answer
    return {
        (resource.resource_name, acl.principal, acl.operation, acl.permission_type)
        for resource in answer.resources
        for acl in resource.acls
    }


# --- the table ---------------------------------------------------------------------------------------------------------------


def _fixed(**fields: Any) -> Callable[[World], Mapping[str, Any]]:
    return lambda _world: fields


PARTITION = {"partition_index": 0}
ONE_TOPIC = [{"name": TOPIC, "partitions": [PARTITION]}]
OFFSET = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
FETCHED = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
CONFIG = {"name": "retention.ms", "value": "86400000"}
METADATA_LOG = "__cluster_metadata"
WRONG_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
NODE_ASKS = cluster(Op.CLUSTER_ACTION)
ON_ONE = "topics.0.partitions.0.error_code"


def _described(kind: int, name: str) -> Callable[[World], Mapping[str, Any]]:
    return _fixed(resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": None}])


def _altered(kind: int, name: str, *configs: Mapping[str, Any]) -> Callable[[World], Mapping[str, Any]]:
    return _fixed(resources=[{"resource_type": kind, "resource_name": name, "configs": configs}], validate_only=True)


def _quorum_topic(**partition: Any) -> list[dict[str, Any]]:
    return [{"topic_name": METADATA_LOG, "partitions": [{"partition_index": 0, **partition}]}]


def _txn(**more: Any) -> Callable[[World], Mapping[str, Any]]:
    return lambda world: {
        "transactional_id": ID,
        "producer_id": world.producer_id,
        "producer_epoch": 0,
        **more,
    }


def _partitions_added(world: World) -> Mapping[str, Any]:
    return {
        "v3_and_below_transactional_id": ID,
        "v3_and_below_producer_id": world.producer_id,
        "v3_and_below_producer_epoch": 0,
        "v3_and_below_topics": [{"name": TOPIC, "partitions": [0]}],
    }


def _offsets_in_transaction(world: World) -> Mapping[str, Any]:
    return _txn(group_id=GROUP, topics=[{"name": TOPIC, "partitions": [OFFSET]}])(world)


def _produced(**more: Any) -> Callable[[World], Mapping[str, Any]]:
    data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": b""}]}]
    return _fixed(acks=-1, timeout_ms=1000, topic_data=data, **more)


def _topics_by_id(world: World) -> Mapping[str, Any]:
    return {"topics": [{"topic_id": world.topic_id, "name": None}], "allow_auto_topic_creation": False}


def _streams_member(_world: World) -> Mapping[str, Any]:
    """In no epoch that a topology may come with, so that nothing comes of it."""
    part = {"subtopology_id": "0", "source_topics": [TOPIC]}
    return {"group_id": OTHER, "member_id": "m", "member_epoch": 7, "topology": {"epoch": 0, "subtopologies": [part]}}


def _share_fetched(world: World) -> Mapping[str, Any]:
    partitions = {"topic_id": world.topic_id, "partitions": [PARTITION]}
    return {"group_id": GROUP, "member_id": "m", "max_bytes": 1, "max_records": 1, "topics": [partitions]}


def _share_state(world: World) -> Mapping[str, Any]:
    return {"group_id": OTHER, "topics": [{"topic_id": world.topic_id, "partitions": [{"partition": 0}]}]}


def _created(name: str, *, validate_only: bool = True) -> Callable[[World], Mapping[str, Any]]:
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}]
    return _fixed(topics=topics, timeout_ms=5000, validate_only=validate_only)


DATA_ROWS = (
    Row(
        ApiKey.PRODUCE,
        9,
        _produced(),
        topic(Op.WRITE),
        "responses.0.partition_responses.0.error_code",
        TOPIC_REFUSED,
    ),
    Row(
        ApiKey.FETCH,
        12,
        _fixed(max_wait_ms=0, min_bytes=0, topics=[{"topic": TOPIC, "partitions": [FETCHED]}]),
        topic(Op.READ),
        "responses.0.partitions.0.error_code",
        TOPIC_REFUSED,
    ),
    # Of a replica: told on the partitions, and not as the cluster's.
    Row(
        ApiKey.FETCH,
        12,
        _fixed(replica_id=7, max_wait_ms=0, min_bytes=0, topics=[{"topic": TOPIC, "partitions": [FETCHED]}]),
        NODE_ASKS,
        "responses.0.partitions.0.error_code",
        TOPIC_REFUSED,
    ),
    Row(
        ApiKey.LIST_OFFSETS,
        7,
        _fixed(replica_id=-1, topics=[{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}]),
        topic(Op.DESCRIBE),
        ON_ONE,
        TOPIC_REFUSED,
    ),
    Row(
        ApiKey.METADATA,
        12,
        _fixed(topics=[{"name": TOPIC}], allow_auto_topic_creation=False),
        topic(Op.DESCRIBE),
        "topics.0.error_code",
        TOPIC_REFUSED,
    ),
    Row(ApiKey.METADATA, 12, _topics_by_id, topic(Op.DESCRIBE), "topics.0.error_code", TOPIC_REFUSED),
    Row(ApiKey.METADATA, 12, _fixed(topics=None), topic(Op.DESCRIBE), "topics.#", 0),
    Row(
        ApiKey.METADATA,
        12,
        _fixed(topics=[{"name": OTHER}], allow_auto_topic_creation=True),
        topic(Op.CREATE, OTHER),
        "topics.0.error_code",
        TOPIC_REFUSED,
        beside=(topic(Op.DESCRIBE, OTHER),),
    ),
    Row(
        ApiKey.METADATA,
        8,
        _fixed(topics=[], include_cluster_authorized_operations=True),
        cluster(Op.DESCRIBE),
        "cluster_authorized_operations",
        0,
    ),
    Row(
        ApiKey.DELETE_RECORDS,
        2,
        _fixed(topics=[{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 0}]}], timeout_ms=1000),
        topic(Op.DELETE),
        ON_ONE,
        TOPIC_REFUSED,
    ),
    Row(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        _fixed(topics=[{"topic": TOPIC, "partitions": [{"partition": 0, "leader_epoch": 0}]}]),
        topic(Op.DESCRIBE),
        ON_ONE,
        TOPIC_REFUSED,
    ),
    Row(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        _fixed(topics=[{"topic": TOPIC, "partitions": [{"partition": 0, "leader_epoch": 0}]}]),
        NODE_ASKS,
        ON_ONE,
        TOPIC_REFUSED,
    ),
    Row(
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        _fixed(topics=[{"name": TOPIC, "partition_indexes": [0]}]),
        topic(Op.READ),
        ON_ONE,
        TOPIC_REFUSED,
    ),
    Row(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        _fixed(topics=[{"name": TOPIC}]),
        topic(Op.DESCRIBE),
        "topics.0.error_code",
        TOPIC_REFUSED,
    ),
    Row(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, _fixed(topics=[]), topic(Op.DESCRIBE), "topics.#", 0),
)

COORDINATED_ROWS = (
    Row(
        ApiKey.OFFSET_COMMIT,
        9,
        _fixed(group_id=GROUP, topics=[{"name": TOPIC, "partitions": [OFFSET]}]),
        group(Op.READ),
        ON_ONE,
        GROUP_REFUSED,
        beside=(topic(Op.READ),),
    ),
    Row(
        ApiKey.OFFSET_COMMIT,
        9,
        _fixed(group_id=GROUP, topics=[{"name": TOPIC, "partitions": [OFFSET]}]),
        topic(Op.READ),
        ON_ONE,
        TOPIC_REFUSED,
        beside=(group(Op.READ),),
    ),
    Row(
        ApiKey.OFFSET_FETCH,
        8,
        _fixed(groups=[{"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}]),
        group(Op.DESCRIBE),
        "groups.0.error_code",
        GROUP_REFUSED,
    ),
    Row(
        ApiKey.OFFSET_FETCH,
        8,
        _fixed(groups=[{"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}]),
        topic(Op.DESCRIBE),
        "groups.0.topics.0.partitions.0.error_code",
        TOPIC_REFUSED,
        beside=(group(Op.DESCRIBE),),
    ),
    Row(
        ApiKey.OFFSET_FETCH,
        8,
        _fixed(groups=[{"group_id": GROUP, "topics": None}]),
        topic(Op.DESCRIBE),
        "groups.0.topics.#",
        0,
        beside=(group(Op.DESCRIBE),),
    ),
    Row(
        ApiKey.FIND_COORDINATOR,
        4,
        _fixed(key_type=0, coordinator_keys=[GROUP]),
        group(Op.DESCRIBE),
        "coordinators.0.error_code",
        GROUP_REFUSED,
    ),
    Row(ApiKey.FIND_COORDINATOR, 3, _fixed(key=GROUP), group(Op.DESCRIBE), "error_code", GROUP_REFUSED),
    Row(
        ApiKey.FIND_COORDINATOR,
        4,
        _fixed(key_type=1, coordinator_keys=[ID]),
        transactional_id(Op.DESCRIBE),
        "coordinators.0.error_code",
        ID_REFUSED,
    ),
    Row(
        ApiKey.FIND_COORDINATOR,
        6,
        _fixed(key_type=2, coordinator_keys=[f"{GROUP}:AAAAAAAAAAAAAAAAAAAAAQ:0"]),
        NODE_ASKS,
        "coordinators.0.error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.JOIN_GROUP,
        5,
        _fixed(group_id=OTHER, session_timeout_ms=10_000, rebalance_timeout_ms=10_000, protocol_type="consumer"),
        group(Op.READ, OTHER),
        "error_code",
        GROUP_REFUSED,
    ),
    Row(ApiKey.HEARTBEAT, 4, _fixed(group_id=GROUP, member_id="m"), group(Op.READ), "error_code", GROUP_REFUSED),
    Row(
        ApiKey.LEAVE_GROUP,
        4,
        _fixed(group_id=GROUP, members=[{"member_id": "m"}]),
        group(Op.READ),
        "error_code",
        GROUP_REFUSED,
    ),
    Row(ApiKey.SYNC_GROUP, 4, _fixed(group_id=GROUP, member_id="m"), group(Op.READ), "error_code", GROUP_REFUSED),
    Row(ApiKey.DESCRIBE_GROUPS, 5, _fixed(groups=[GROUP]), group(Op.DESCRIBE), "groups.0.error_code", GROUP_REFUSED),
    Row(ApiKey.LIST_GROUPS, 4, _fixed(), group(Op.DESCRIBE), "groups.#", 0),
    Row(ApiKey.LIST_GROUPS, 4, _fixed(), cluster(Op.DESCRIBE), "groups.#", 0),
    Row(
        ApiKey.DELETE_GROUPS,
        2,
        _fixed(groups_names=[OTHER]),
        group(Op.DELETE, OTHER),
        "results.0.error_code",
        GROUP_REFUSED,
    ),
    Row(
        ApiKey.OFFSET_DELETE, 0, _fixed(group_id=OTHER, topics=[]), group(Op.DELETE, OTHER), "error_code", GROUP_REFUSED
    ),
    Row(
        ApiKey.OFFSET_DELETE,
        0,
        _fixed(group_id=GROUP, topics=ONE_TOPIC),
        topic(Op.READ),
        ON_ONE,
        TOPIC_REFUSED,
        beside=(group(Op.DELETE),),
    ),
    Row(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        0,
        _fixed(group_id=OTHER, member_id="m", member_epoch=7, subscribed_topic_names=[TOPIC]),
        group(Op.READ, OTHER),
        "error_code",
        GROUP_REFUSED,
        beside=(topic(Op.DESCRIBE),),
    ),
    Row(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        0,
        _fixed(group_id=OTHER, member_id="m", member_epoch=7, subscribed_topic_names=[TOPIC]),
        topic(Op.DESCRIBE),
        "error_code",
        TOPIC_REFUSED,
        beside=(group(Op.READ, OTHER),),
    ),
    Row(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        0,
        _fixed(group_ids=[GROUP]),
        group(Op.DESCRIBE),
        "groups.0.error_code",
        GROUP_REFUSED,
    ),
    Row(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        1,
        _fixed(group_id=OTHER, member_id="m", member_epoch=7, subscribed_topic_names=[TOPIC]),
        group(Op.READ, OTHER),
        "error_code",
        GROUP_REFUSED,
        beside=(topic(Op.DESCRIBE),),
    ),
    Row(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        1,
        _fixed(group_id=OTHER, member_id="m", member_epoch=7, subscribed_topic_names=[TOPIC]),
        topic(Op.DESCRIBE),
        "error_code",
        TOPIC_REFUSED,
        beside=(group(Op.READ, OTHER),),
    ),
    Row(
        ApiKey.SHARE_GROUP_DESCRIBE,
        1,
        _fixed(group_ids=[GROUP]),
        group(Op.DESCRIBE),
        "groups.0.error_code",
        GROUP_REFUSED,
    ),
    Row(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        0,
        _streams_member,
        group(Op.READ, OTHER),
        "error_code",
        GROUP_REFUSED,
        beside=(topic(Op.DESCRIBE),),
    ),
    Row(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        0,
        _streams_member,
        topic(Op.DESCRIBE),
        "error_code",
        TOPIC_REFUSED,
        beside=(group(Op.READ, OTHER),),
    ),
    Row(
        ApiKey.STREAMS_GROUP_DESCRIBE,
        0,
        _fixed(group_ids=[GROUP]),
        group(Op.DESCRIBE),
        "groups.0.error_code",
        GROUP_REFUSED,
    ),
    Row(
        ApiKey.SHARE_FETCH,
        1,
        _share_fetched,
        group(Op.READ),
        "error_code",
        GROUP_REFUSED,
    ),
    Row(
        ApiKey.SHARE_FETCH,
        1,
        _share_fetched,
        topic(Op.READ),
        "responses.0.partitions.0.error_code",
        TOPIC_REFUSED,
        beside=(group(Op.READ),),
    ),
    Row(
        ApiKey.SHARE_ACKNOWLEDGE,
        1,
        _fixed(group_id=GROUP, member_id="nobody", share_session_epoch=1),
        group(Op.READ),
        "error_code",
        GROUP_REFUSED,
    ),
    Row(
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        0,
        _share_state,
        NODE_ASKS,
        "results.0.partitions.0.error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.READ_SHARE_GROUP_STATE,
        0,
        _share_state,
        NODE_ASKS,
        "results.0.partitions.0.error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.WRITE_SHARE_GROUP_STATE,
        0,
        _share_state,
        NODE_ASKS,
        "results.0.partitions.0.error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.DELETE_SHARE_GROUP_STATE,
        0,
        _share_state,
        NODE_ASKS,
        "results.0.partitions.0.error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        0,
        _share_state,
        NODE_ASKS,
        "results.0.partitions.0.error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        0,
        _fixed(groups=[{"group_id": OTHER, "topics": [{"topic_name": TOPIC, "partitions": [0]}]}]),
        group(Op.DESCRIBE, OTHER),
        "groups.0.error_code",
        GROUP_REFUSED,
    ),
    Row(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        0,
        _fixed(groups=[{"group_id": OTHER, "topics": [{"topic_name": TOPIC, "partitions": [0]}]}]),
        topic(Op.DESCRIBE),
        "groups.0.topics.0.partitions.0.error_code",
        TOPIC_REFUSED,
        beside=(group(Op.DESCRIBE, OTHER),),
    ),
    Row(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        0,
        _fixed(group_id=OTHER, topics=[]),
        group(Op.READ, OTHER),
        "error_code",
        GROUP_REFUSED,
    ),
    Row(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        0,
        _fixed(group_id=OTHER, topics=[]),
        group(Op.DELETE, OTHER),
        "error_code",
        GROUP_REFUSED,
    ),
    Row(
        ApiKey.INIT_PRODUCER_ID,
        4,
        _fixed(transactional_id=None, transaction_timeout_ms=1000),
        cluster(Op.IDEMPOTENT_WRITE),
        "error_code",
        CLUSTER_REFUSED,
    ),
    # Whoever may write to some topic may do so idempotently.
    Row(
        ApiKey.INIT_PRODUCER_ID,
        4,
        _fixed(transactional_id=None, transaction_timeout_ms=1000),
        topic(Op.WRITE),
        "error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.INIT_PRODUCER_ID,
        4,
        _fixed(transactional_id=OTHER, transaction_timeout_ms=1000),
        transactional_id(Op.WRITE, OTHER),
        "error_code",
        ID_REFUSED,
    ),
    Row(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        _partitions_added,
        transactional_id(Op.WRITE),
        "results_by_topic_v3_and_below.0.results_by_partition.0.partition_error_code",
        ID_REFUSED,
        beside=(topic(Op.WRITE),),
    ),
    Row(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        _partitions_added,
        topic(Op.WRITE),
        "results_by_topic_v3_and_below.0.results_by_partition.0.partition_error_code",
        TOPIC_REFUSED,
        beside=(transactional_id(Op.WRITE),),
    ),
    Row(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        4,
        _fixed(transactions=[{"transactional_id": ID, "topics": [{"name": TOPIC, "partitions": [0]}]}]),
        NODE_ASKS,
        "error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.ADD_OFFSETS_TO_TXN,
        3,
        _txn(group_id=GROUP),
        transactional_id(Op.WRITE),
        "error_code",
        ID_REFUSED,
        beside=(group(Op.READ),),
    ),
    Row(
        ApiKey.ADD_OFFSETS_TO_TXN,
        3,
        _txn(group_id=GROUP),
        group(Op.READ),
        "error_code",
        GROUP_REFUSED,
        beside=(transactional_id(Op.WRITE),),
    ),
    Row(ApiKey.END_TXN, 3, _txn(committed=False), transactional_id(Op.WRITE), "error_code", ID_REFUSED),
    Row(
        ApiKey.WRITE_TXN_MARKERS,
        1,
        _fixed(markers=[{"producer_id": -1, "topics": [{"name": OTHER, "partition_indexes": [0]}]}]),
        NODE_ASKS,
        "markers.0.topics.0.partitions.0.error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.WRITE_TXN_MARKERS,
        1,
        _fixed(markers=[{"producer_id": -1, "topics": [{"name": OTHER, "partition_indexes": [0]}]}]),
        cluster(Op.ALTER),
        "markers.0.topics.0.partitions.0.error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.TXN_OFFSET_COMMIT,
        3,
        _offsets_in_transaction,
        transactional_id(Op.WRITE),
        ON_ONE,
        ID_REFUSED,
        beside=(group(Op.READ), topic(Op.READ)),
    ),
    Row(
        ApiKey.TXN_OFFSET_COMMIT,
        3,
        _offsets_in_transaction,
        group(Op.READ),
        ON_ONE,
        GROUP_REFUSED,
        beside=(transactional_id(Op.WRITE), topic(Op.READ)),
    ),
    Row(
        ApiKey.TXN_OFFSET_COMMIT,
        3,
        _offsets_in_transaction,
        topic(Op.READ),
        ON_ONE,
        TOPIC_REFUSED,
        beside=(transactional_id(Op.WRITE), group(Op.READ)),
    ),
    Row(
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        _fixed(transactional_ids=[ID]),
        transactional_id(Op.DESCRIBE),
        "transaction_states.0.error_code",
        ID_REFUSED,
    ),
    Row(ApiKey.LIST_TRANSACTIONS, 0, _fixed(), transactional_id(Op.DESCRIBE), "transaction_states.#", 0),
)

ADMIN_ROWS = (
    Row(ApiKey.CREATE_TOPICS, 7, _created("new"), cluster(Op.CREATE), "topics.0.error_code", TOPIC_REFUSED),
    Row(ApiKey.CREATE_TOPICS, 7, _created("new"), topic(Op.CREATE, "new"), "topics.0.error_code", TOPIC_REFUSED),
    Row(
        ApiKey.CREATE_TOPICS,
        7,
        _created("new"),
        topic(Op.DESCRIBE_CONFIGS, "new"),
        "topics.0.topic_config_error_code",
        TOPIC_REFUSED,
        beside=(topic(Op.CREATE, "new"),),
    ),
    Row(
        ApiKey.DELETE_TOPICS,
        6,
        _fixed(topics=[{"name": OTHER}], timeout_ms=5000),
        cluster(Op.DELETE),
        "responses.0.error_code",
        TOPIC_REFUSED,
    ),
    Row(
        ApiKey.DELETE_TOPICS,
        5,
        _fixed(topic_names=[OTHER], timeout_ms=5000),
        topic(Op.DESCRIBE, OTHER),
        "responses.0.error_code",
        TOPIC_REFUSED,
    ),
    Row(
        ApiKey.DELETE_TOPICS,
        6,
        lambda world: {"topics": [{"name": None, "topic_id": world.topic_id}], "timeout_ms": 5000},
        topic(Op.DESCRIBE),
        "responses.0.name",
        None,
    ),
    Row(
        ApiKey.CREATE_PARTITIONS,
        3,
        _fixed(topics=[{"name": TOPIC, "count": 2, "assignments": None}], timeout_ms=5000, validate_only=True),
        topic(Op.ALTER),
        "results.0.error_code",
        TOPIC_REFUSED,
    ),
    Row(
        ApiKey.DESCRIBE_ACLS,
        3,
        _fixed(
            resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1, resource_name_filter=None
        ),
        cluster(Op.DESCRIBE),
        "error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.CREATE_ACLS,
        3,
        # Refused for its name once it is judged.
        _fixed(
            creations=[
                {
                    "resource_type": 4,
                    "resource_name": "x",
                    "principal": "User:x",
                    "host": "*",
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
        ),
        cluster(Op.ALTER),
        "results.0.error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.DELETE_ACLS,
        3,
        _fixed(
            filters=[
                {
                    "resource_type_filter": 2,
                    "resource_name_filter": "nothing has it",
                    "pattern_type_filter": 3,
                    "operation": 1,
                    "permission_type": 1,
                }
            ]
        ),
        cluster(Op.ALTER),
        "filter_results.0.error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        _described(2, TOPIC),
        topic(Op.DESCRIBE_CONFIGS),
        "results.0.error_code",
        TOPIC_REFUSED,
    ),
    Row(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        _described(4, "1"),
        cluster(Op.DESCRIBE_CONFIGS),
        "results.0.error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        _described(8, "1"),
        cluster(Op.DESCRIBE_CONFIGS),
        "results.0.error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        _described(32, GROUP),
        group(Op.DESCRIBE_CONFIGS),
        "results.0.error_code",
        GROUP_REFUSED,
    ),
    Row(
        ApiKey.ALTER_CONFIGS,
        2,
        _altered(2, TOPIC, CONFIG),
        topic(Op.ALTER_CONFIGS),
        "responses.0.error_code",
        TOPIC_REFUSED,
    ),
    Row(
        ApiKey.ALTER_CONFIGS,
        2,
        _altered(4, ""),
        cluster(Op.ALTER_CONFIGS),
        "responses.0.error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        _altered(2, TOPIC, {**CONFIG, "config_operation": 0}),
        topic(Op.ALTER_CONFIGS),
        "responses.0.error_code",
        TOPIC_REFUSED,
    ),
    Row(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        _altered(32, GROUP, {"name": "consumer.session.timeout.ms", "value": "50000", "config_operation": 0}),
        group(Op.ALTER_CONFIGS),
        "responses.0.error_code",
        GROUP_REFUSED,
    ),
    Row(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        _altered(8, "1"),
        cluster(Op.ALTER_CONFIGS),
        "responses.0.error_code",
        CLUSTER_REFUSED,
    ),
    # A controller's own loggers take another right.
    Row(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        _altered(8, "1"),
        NODE_ASKS,
        "responses.0.error_code",
        CLUSTER_REFUSED,
        listener=CONTROLLER,
    ),
    Row(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        2,
        _fixed(dirs=[{"path": "/nowhere", "topics": [{"name": OTHER, "partitions": [0]}]}]),
        cluster(Op.ALTER),
        "results.0.partitions.0.error_code",
        CLUSTER_REFUSED,
    ),
    Row(ApiKey.DESCRIBE_LOG_DIRS, 4, _fixed(topics=None), cluster(Op.DESCRIBE), "error_code", CLUSTER_REFUSED),
    Row(
        ApiKey.ELECT_LEADERS,
        2,
        _fixed(topic_partitions=[{"topic": TOPIC, "partitions": [0]}], timeout_ms=5000),
        cluster(Op.ALTER),
        "error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        0,
        _fixed(topics=[], timeout_ms=5000),
        cluster(Op.ALTER),
        "error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        _fixed(topics=None, timeout_ms=5000),
        cluster(Op.DESCRIBE),
        "error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.DESCRIBE_QUORUM,
        1,
        _fixed(topics=_quorum_topic()),
        cluster(Op.DESCRIBE),
        "error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.UPDATE_FEATURES,
        1,
        _fixed(feature_updates=[], timeout_ms=5000, validate_only=True),
        cluster(Op.ALTER),
        "error_code",
        CLUSTER_REFUSED,
    ),
    Row(ApiKey.UNREGISTER_BROKER, 0, _fixed(broker_id=99), cluster(Op.ALTER), "error_code", CLUSTER_REFUSED),
    Row(
        ApiKey.ADD_RAFT_VOTER,
        0,
        _fixed(cluster_id=WRONG_CLUSTER, voter_id=99, timeout_ms=1000),
        cluster(Op.ALTER),
        "error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.REMOVE_RAFT_VOTER,
        0,
        _fixed(cluster_id=WRONG_CLUSTER, voter_id=99),
        cluster(Op.ALTER),
        "error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.DESCRIBE_CLUSTER,
        1,
        _fixed(include_cluster_authorized_operations=True),
        cluster(Op.DESCRIBE),
        "cluster_authorized_operations",
        0,
    ),
    Row(ApiKey.LIST_CONFIG_RESOURCES, 0, _fixed(), cluster(Op.DESCRIBE_CONFIGS), "error_code", CLUSTER_REFUSED),
    Row(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        1,
        _fixed(components=[], strict=False),
        cluster(Op.DESCRIBE_CONFIGS),
        "error_code",
        CLUSTER_REFUSED,
    ),
    Row(
        ApiKey.ALTER_CLIENT_QUOTAS,
        1,
        _fixed(entries=[{"entity": [{"entity_type": "user", "entity_name": OTHER}], "ops": []}], validate_only=True),
        cluster(Op.ALTER_CONFIGS),
        "entries.0.error_code",
        CLUSTER_REFUSED,
    ),
    # Of a user that is named: who asks for all of them without the right gets no answer at all from Kafka 4.3.1.
    Row(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        _fixed(users=[{"name": OTHER}]),
        cluster(Op.DESCRIBE),
        "error_code",
        CLUSTER_REFUSED,
    ),
    # Of a user who has none: there is nothing to delete once it is judged.
    Row(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        _fixed(deletions=[{"name": OTHER, "mechanism": 1}], upsertions=[]),
        cluster(Op.ALTER),
        "results.0.error_code",
        CLUSTER_REFUSED,
    ),
)

CONTROLLER_ROWS = tuple(
    row._replace(listener=CONTROLLER)
    for row in (
        Row(
            ApiKey.FETCH,
            12,
            _fixed(cluster_id=WRONG_CLUSTER, replica_id=99, topics=[]),
            NODE_ASKS,
            "error_code",
            CLUSTER_REFUSED,
        ),
        Row(ApiKey.CREATE_TOPICS, 7, _created("new"), topic(Op.CREATE, "new"), "topics.0.error_code", TOPIC_REFUSED),
        Row(
            ApiKey.DELETE_TOPICS,
            6,
            _fixed(topics=[{"name": OTHER}], timeout_ms=5000),
            topic(Op.DESCRIBE, OTHER),
            "responses.0.error_code",
            TOPIC_REFUSED,
        ),
        Row(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            _altered(2, TOPIC, {**CONFIG, "config_operation": 0}),
            topic(Op.ALTER_CONFIGS),
            "responses.0.error_code",
            TOPIC_REFUSED,
        ),
        Row(
            ApiKey.DESCRIBE_ACLS,
            3,
            _fixed(
                resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1, resource_name_filter=None
            ),
            cluster(Op.DESCRIBE),
            "error_code",
            CLUSTER_REFUSED,
        ),
        Row(
            ApiKey.DESCRIBE_CLUSTER,
            1,
            _fixed(endpoint_type=2),
            cluster(Op.ALTER),
            "error_code",
            CLUSTER_REFUSED,
        ),
        Row(
            ApiKey.DESCRIBE_QUORUM,
            1,
            _fixed(topics=_quorum_topic()),
            cluster(Op.DESCRIBE),
            "error_code",
            CLUSTER_REFUSED,
        ),
        Row(ApiKey.VOTE, 1, _fixed(cluster_id=WRONG_CLUSTER), NODE_ASKS, "error_code", CLUSTER_REFUSED),
        Row(ApiKey.BEGIN_QUORUM_EPOCH, 1, _fixed(cluster_id=WRONG_CLUSTER), NODE_ASKS, "error_code", CLUSTER_REFUSED),
        Row(ApiKey.END_QUORUM_EPOCH, 1, _fixed(cluster_id=WRONG_CLUSTER), NODE_ASKS, "error_code", CLUSTER_REFUSED),
        Row(ApiKey.FETCH_SNAPSHOT, 0, _fixed(cluster_id=WRONG_CLUSTER), NODE_ASKS, "error_code", CLUSTER_REFUSED),
        Row(
            ApiKey.UPDATE_RAFT_VOTER,
            0,
            _fixed(cluster_id=WRONG_CLUSTER, voter_id=99),
            NODE_ASKS,
            "error_code",
            CLUSTER_REFUSED,
        ),
        Row(ApiKey.ALTER_PARTITION, 3, _fixed(broker_id=99, topics=[]), NODE_ASKS, "error_code", CLUSTER_REFUSED),
        Row(
            ApiKey.BROKER_REGISTRATION,
            1,
            _fixed(broker_id=99, cluster_id=WRONG_CLUSTER),
            NODE_ASKS,
            "error_code",
            CLUSTER_REFUSED,
        ),
        Row(ApiKey.BROKER_HEARTBEAT, 0, _fixed(broker_id=99), NODE_ASKS, "error_code", CLUSTER_REFUSED),
        Row(ApiKey.ALLOCATE_PRODUCER_IDS, 0, _fixed(broker_id=99), NODE_ASKS, "error_code", CLUSTER_REFUSED),
        Row(
            ApiKey.ASSIGN_REPLICAS_TO_DIRS,
            0,
            _fixed(broker_id=99, directories=[]),
            NODE_ASKS,
            "error_code",
            CLUSTER_REFUSED,
        ),
    )
)

TABLE = (*DATA_ROWS, *COORDINATED_ROWS, *ADMIN_ROWS, *CONTROLLER_ROWS)


# --- what has to be there ------------------------------------------------------------------------------------------------------

PREPARATIONS: tuple[tuple[ApiKey, int, Mapping[str, Any], str], ...] = (
    (ApiKey.CREATE_TOPICS, 7, _created(TOPIC, validate_only=False)(World()), "topics.0.error_code"),
    (ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [GROUP]}, "coordinators.0.error_code"),
    (ApiKey.FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": [ID]}, "coordinators.0.error_code"),
    (
        ApiKey.OFFSET_COMMIT,
        9,
        {"group_id": GROUP, "topics": [{"name": TOPIC, "partitions": [OFFSET]}]},
        ON_ONE,
    ),
    (ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": ID, "transaction_timeout_ms": 60_000}, "error_code"),
)


def prepare(ask: Ask, world: World) -> None:
    """Make the topic, the group and the transactional id that rows name, as `admin`, and note what they are known by."""
    for key, version, given, path in PREPARATIONS:
        request = build(api(key).request, given)
        answer = ask(ADMIN, BROKER, request, version)
        for _ in range(ATTEMPTS_MAX):
            if told(answer, path) not in NOT_YET:
                break
            world.pause()
            answer = ask(ADMIN, BROKER, request, version)
        assert told(answer, path) == 0, answer
        if key == ApiKey.CREATE_TOPICS:
            world.topic_id = told(answer, "topics.0.topic_id")  # type: ignore[assignment]
        if key == ApiKey.INIT_PRODUCER_ID:
            world.producer_id = told(answer, "producer_id")  # type: ignore[assignment]

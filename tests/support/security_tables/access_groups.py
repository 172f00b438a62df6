"""Groups and transactions: what their APIs check."""

from __future__ import annotations

from typing import Any

from tests.support.security_tables.access_cases import (
    BOTH,
    GROUP,
    HIDDEN,
    TOPIC,
    TRANSACTION,
    Case,
    Values,
    cluster,
    group,
    topic,
    transaction,
)
from tidelog.model.acl import AclOperation as Op


def group_cases() -> list[Case]:
    def committed(**more: Any) -> list[Values]:
        return [
            {
                **more,
                "name": each,
                "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": None}],
            }
            for each in BOTH
        ]

    topics = [{"name": each, "partition_indexes": [0]} for each in BOTH]
    commit = {"group_id": GROUP, "generation_id_or_member_epoch": -1, "member_id": "", "topics": committed()}
    join = {
        "group_id": "joined",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": "nobody",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    sync = {
        "group_id": GROUP,
        "generation_id": 1,
        "member_id": "nobody",
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [],
    }
    beat = {
        "group_id": "new-group",
        "member_id": "m" * 22,
        "member_epoch": 0,
        "rebalance_timeout_ms": 10_000,
        "topic_partitions": [],
    }
    removed = [{"name": each, "partitions": [{"partition_index": 0}]} for each in BOTH]
    return [
        Case("offset commit", 8, 8, commit, (*group(Op.READ), *topic(Op.READ))),
        Case("offset commit without a topic", 8, 8, commit, group(Op.READ)),
        Case(
            "offset fetch",
            9,
            8,
            {"groups": [{"group_id": each, "topics": topics} for each in (GROUP, HIDDEN)], "require_stable": False},
            (*group(Op.DESCRIBE), *topic(Op.DESCRIBE)),
        ),
        Case(
            "offset fetch of all",
            9,
            8,
            {"groups": [{"group_id": each, "topics": None} for each in (GROUP, HIDDEN)], "require_stable": False},
            (*group(Op.DESCRIBE), *topic(Op.DESCRIBE)),
        ),
        *(
            Case(
                f"offset fetch v{version}",
                9,
                version,
                {"group_id": GROUP, "topics": topics},
                (*group(Op.DESCRIBE), *topic(Op.DESCRIBE)),
            )
            for version in (1, 3, 5, 7)
        ),
        Case("find coordinator", 10, 4, {"key_type": 0, "coordinator_keys": [GROUP, HIDDEN]}, group(Op.DESCRIBE)),
        Case("find coordinator v3", 10, 3, {"key_type": 0, "key": GROUP}, group(Op.DESCRIBE)),
        Case(
            "find coordinator of transactions",
            10,
            4,
            {"key_type": 1, "coordinator_keys": [TRANSACTION, HIDDEN]},
            transaction(Op.DESCRIBE),
        ),
        Case(
            "find coordinator of transactions v3", 10, 3, {"key_type": 1, "key": TRANSACTION}, transaction(Op.DESCRIBE)
        ),
        Case("join group", 11, 7, join, group(Op.READ, name="joined")),
        Case("heartbeat", 12, 4, {"group_id": GROUP, "generation_id": 1, "member_id": "nobody"}, group(Op.READ)),
        Case("leave group", 13, 5, {"group_id": GROUP, "members": [{"member_id": "nobody"}]}, group(Op.READ)),
        Case("sync group", 14, 5, sync, group(Op.READ)),
        Case(
            "sync group without a protocol",
            14,
            5,
            {**sync, "protocol_type": None, "protocol_name": None},
            group(Op.READ),
        ),
        Case(
            "describe groups",
            15,
            5,
            {"groups": [GROUP, HIDDEN], "include_authorized_operations": True},
            group(Op.DESCRIBE),
        ),
        Case("list groups", 16, 4, {"states_filter": []}, group(Op.DESCRIBE)),
        Case("list groups by the cluster", 16, 4, {"states_filter": ["Empty"]}, cluster(Op.DESCRIBE)),
        Case("delete groups", 42, 2, {"groups_names": ["gone", HIDDEN]}, group(Op.DELETE, name="gone")),
        Case("offset delete", 47, 0, {"group_id": GROUP, "topics": removed}, (*group(Op.DELETE), *topic(Op.READ))),
        Case(
            "consumer group heartbeat",
            68,
            1,
            {**beat, "subscribed_topic_names": [TOPIC]},
            (*group(Op.READ, name="new-group"), *topic(Op.DESCRIBE)),
        ),
        Case(
            "consumer group heartbeat with a secret",
            68,
            1,
            {**beat, "group_id": "other-group", "subscribed_topic_names": [*BOTH]},
            (*group(Op.READ, name="other-group"), *topic(Op.DESCRIBE)),
        ),
        Case(
            "consumer group describe",
            69,
            0,
            {"group_ids": [GROUP, HIDDEN], "include_authorized_operations": True},
            group(Op.DESCRIBE),
        ),
    ]


def transaction_cases() -> list[Case]:
    producer = {"producer_id": 7, "producer_epoch": 0}
    topics = [{"name": each, "partitions": [0]} for each in BOTH]
    old = {
        "v3_and_below_transactional_id": TRANSACTION,
        "v3_and_below_producer_id": 7,
        "v3_and_below_producer_epoch": 0,
    }
    internal = [{"name": each, "partitions": [0]} for each in (TOPIC, "__consumer_offsets")]
    commit = [
        {"name": each, "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": None}]}
        for each in BOTH
    ]
    marker = {
        **producer,
        "transaction_result": True,
        "coordinator_epoch": 0,
        "topics": [{"name": TOPIC, "partition_indexes": [0]}],
    }
    init = {"transaction_timeout_ms": 10_000, "producer_id": -1, "producer_epoch": -1}
    return [
        Case("init producer id", 22, 4, {**init, "transactional_id": TRANSACTION}, transaction(Op.WRITE)),
        Case("init producer id, idempotent", 22, 4, {**init, "transactional_id": None}, cluster(Op.IDEMPOTENT_WRITE)),
        Case("init producer id by a topic", 22, 4, {**init, "transactional_id": None}, topic(Op.WRITE)),
        Case(
            "add partitions v3",
            24,
            3,
            {**old, "v3_and_below_topics": topics},
            (*transaction(Op.WRITE), *topic(Op.WRITE)),
        ),
        Case(
            "add internal partitions v3",
            24,
            3,
            {**old, "v3_and_below_topics": internal},
            (*transaction(Op.WRITE), *topic(Op.WRITE), *topic(Op.WRITE, name="__consumer_offsets")),
        ),
        Case(
            "add partitions v4",
            24,
            4,
            {"transactions": [{"transactional_id": TRANSACTION, **producer, "topics": topics}]},
            cluster(Op.CLUSTER_ACTION),
        ),
        Case(
            "add offsets",
            25,
            3,
            {"transactional_id": TRANSACTION, **producer, "group_id": GROUP},
            (*transaction(Op.WRITE), *group(Op.READ)),
        ),
        Case(
            "add offsets without the group",
            25,
            3,
            {"transactional_id": TRANSACTION, **producer, "group_id": GROUP},
            transaction(Op.WRITE),
        ),
        Case(
            "end transaction",
            26,
            3,
            {"transactional_id": TRANSACTION, **producer, "committed": True},
            transaction(Op.WRITE),
        ),
        Case("write markers", 27, 1, {"markers": [marker]}, cluster(Op.ALTER)),
        Case("write markers as a broker", 27, 1, {"markers": [marker]}, cluster(Op.CLUSTER_ACTION)),
        Case(
            "commit offsets",
            28,
            3,
            {"transactional_id": TRANSACTION, "group_id": GROUP, **producer, "topics": commit},
            (*transaction(Op.WRITE), *group(Op.READ), *topic(Op.READ)),
        ),
        Case(
            "commit offsets without the group",
            28,
            3,
            {"transactional_id": TRANSACTION, "group_id": GROUP, **producer, "topics": commit},
            (*transaction(Op.WRITE), *topic(Op.READ)),
        ),
        Case("describe transactions", 65, 0, {"transactional_ids": [TRANSACTION, HIDDEN]}, transaction(Op.DESCRIBE)),
        Case("list transactions", 66, 0, {"state_filters": [], "producer_id_filters": []}, transaction(Op.DESCRIBE)),
    ]

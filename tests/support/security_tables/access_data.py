"""Records: what Produce, Fetch and those that look for offsets check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.security_tables.access_cases import (
    ABSENT,
    BOTH,
    SECRET,
    TOPIC,
    TRANSACTION,
    UNKNOWN_ID,
    Case,
    Values,
    batch,
    cluster,
    topic,
    transaction,
)
from tidelog.model.acl import AclOperation as Op


def data_cases(ids: Mapping[str, bytes]) -> list[Case]:
    """Records. `ids` are those of the topics."""

    def produced(is_transactional: bool = False, **names: Any) -> list[Values]:
        data = [{"index": 0, "records": batch(is_transactional=is_transactional)}]
        return [{**names, "name": each, "partition_data": data} for each in BOTH]

    fetched = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
    by_id = [{"topic_id": each, "partitions": fetched} for each in (ids[TOPIC], ids[SECRET], UNKNOWN_ID)]
    fetching = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 10_000, "forgotten_topics_data": []}
    produce_ids = [
        {"topic_id": each, "partition_data": [{"index": 0, "records": batch()}]}
        for each in (ids[TOPIC], ids[SECRET], UNKNOWN_ID)
    ]
    produce = {"acks": -1, "timeout_ms": 10_000, "transactional_id": None}
    epochs = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]
    return [
        Case("produce", 0, 9, {**produce, "topic_data": produced()}, topic(Op.WRITE)),
        Case("produce by id", 0, 13, {**produce, "topic_data": produce_ids}, topic(Op.WRITE)),
        Case("produce transactional without id", 0, 9, {**produce, "topic_data": produced(True)}, topic(Op.WRITE)),
        Case(
            "produce transactional",
            0,
            9,
            {**produce, "transactional_id": TRANSACTION, "topic_data": produced(True)},
            (*topic(Op.WRITE), *transaction(Op.WRITE)),
        ),
        Case(
            "fetch",
            1,
            12,
            {**fetching, "topics": [{"topic": each, "partitions": fetched} for each in BOTH]},
            topic(Op.READ),
        ),
        Case("fetch by id", 1, 16, {**fetching, "topics": by_id}, topic(Op.READ)),
        Case(
            "fetch of a replica",
            1,
            16,
            {**fetching, "replica_state": {"replica_id": 9, "replica_epoch": -1}, "topics": by_id[:2]},
            cluster(Op.CLUSTER_ACTION),
        ),
        Case(
            "list offsets",
            2,
            7,
            {
                "replica_id": -1,
                "isolation_level": 0,
                "topics": [
                    {"name": each, "partitions": [{"partition_index": 0, "timestamp": -1}]} for each in (*BOTH, ABSENT)
                ],
            },
            topic(Op.DESCRIBE),
        ),
        Case(
            "delete records",
            21,
            2,
            {
                "timeout_ms": 10_000,
                "topics": [
                    {"name": each, "partitions": [{"partition_index": 0, "offset": 0}]} for each in (*BOTH, ABSENT)
                ],
            },
            topic(Op.DELETE),
        ),
        Case(
            "offset for leader epoch",
            23,
            4,
            {"replica_id": -1, "topics": [{"topic": each, "partitions": epochs} for each in BOTH]},
            topic(Op.DESCRIBE),
        ),
        Case(
            "offset for leader epoch of a replica",
            23,
            4,
            {"replica_id": 9, "topics": [{"topic": each, "partitions": epochs} for each in BOTH]},
            cluster(Op.CLUSTER_ACTION),
        ),
        Case(
            "describe producers",
            61,
            0,
            {"topics": [{"name": each, "partition_indexes": [0]} for each in (*BOTH, ABSENT)]},
            topic(Op.READ),
        ),
    ]

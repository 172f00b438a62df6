"""Topics and the cluster: what those check that tell of them, make and remove them."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.security_tables.access_cases import (
    ABSENT,
    BOTH,
    DOOMED,
    SECRET,
    TOPIC,
    UNKNOWN_ID,
    Case,
    Values,
    cluster,
    topic,
)
from tidelog.model.acl import AclOperation as Op


def metadata_cases(ids: Mapping[str, bytes]) -> list[Case]:
    """Topics and the cluster."""

    def named(*names: str) -> list[Values]:
        return [{"name": each} for each in names]

    asked = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
    by_id = [{"topic_id": each, "name": None} for each in (ids[TOPIC], ids[SECRET], UNKNOWN_ID)]
    created = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    create = {
        "timeout_ms": 10_000,
        "validate_only": True,
        "topics": [{**created, "name": each} for each in ("new", "newer")],
    }
    of_cluster = {"include_cluster_authorized_operations": True, **asked, "topics": named(TOPIC)}
    deleted_ids = [{"name": None, "topic_id": each} for each in (ids[SECRET], UNKNOWN_ID)]
    more = {
        "timeout_ms": 10_000,
        "validate_only": True,
        "topics": [{"name": each, "count": 5, "assignments": None} for each in BOTH],
    }
    return [
        Case("metadata", 3, 12, {**asked, "topics": named(*BOTH, ABSENT)}, topic(Op.DESCRIBE)),
        Case("metadata of all", 3, 12, {**asked, "topics": None}, topic(Op.DESCRIBE)),
        Case("metadata by id", 3, 12, {**asked, "topics": by_id}, topic(Op.DESCRIBE)),
        Case("metadata with the cluster's operations", 3, 8, of_cluster, (*topic(Op.READ), *cluster(Op.DESCRIBE))),
        Case(
            "metadata of an absent one",
            3,
            12,
            {**asked, "topics": named(ABSENT)},
            topic(Op.DESCRIBE, name=ABSENT),
        ),
        Case(
            "metadata that would create",
            3,
            12,
            {
                "allow_auto_topic_creation": True,
                "include_topic_authorized_operations": False,
                "topics": named("to-be-made"),
            },
            topic(Op.DESCRIBE, name="to-be-made"),
        ),
        Case("create topics", 19, 7, create, topic(Op.CREATE, name="new")),
        Case("create topics, and be told", 19, 7, create, topic(Op.CREATE, Op.DESCRIBE_CONFIGS, name="new")),
        Case("create topics by the cluster", 19, 7, create, cluster(Op.CREATE)),
        Case(
            "delete topics",
            20,
            6,
            {"timeout_ms": 10_000, "topics": named(DOOMED, SECRET, ABSENT)},
            topic(Op.DELETE, name=DOOMED),
        ),
        Case(
            "delete topics, described",
            20,
            6,
            {"timeout_ms": 10_000, "topics": named(DOOMED, ABSENT)},
            (*topic(Op.DESCRIBE, name=DOOMED), *topic(Op.DESCRIBE, name=ABSENT)),
        ),
        Case(
            "delete topics by id", 20, 6, {"timeout_ms": 10_000, "topics": deleted_ids}, topic(Op.DESCRIBE, name=SECRET)
        ),
        Case(
            "delete topics v5",
            20,
            5,
            {"timeout_ms": 10_000, "topic_names": [DOOMED, ABSENT]},
            topic(Op.DELETE, name=DOOMED),
        ),
        Case("create partitions", 37, 3, more, topic(Op.ALTER)),
        Case("describe topic partitions", 75, 0, {"topics": named(*BOTH, ABSENT)}, topic(Op.DESCRIBE)),
        Case("describe topic partitions of all", 75, 0, {"topics": []}, topic(Op.DESCRIBE)),
        Case("describe cluster", 60, 1, {"include_cluster_authorized_operations": True}, cluster(Op.DESCRIBE)),
        Case(
            "elect leaders",
            43,
            2,
            {"election_type": 0, "timeout_ms": 10_000, "topic_partitions": [{"topic": TOPIC, "partitions": [0]}]},
            cluster(Op.ALTER),
        ),
        Case(
            "reassign",
            45,
            0,
            {
                "timeout_ms": 10_000,
                "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": None}]}],
            },
            cluster(Op.ALTER),
        ),
        Case("list reassignments", 46, 0, {"timeout_ms": 10_000, "topics": None}, cluster(Op.DESCRIBE)),
        Case(
            "describe quorum",
            55,
            1,
            {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
            cluster(Op.DESCRIBE),
        ),
        Case(
            "update features",
            57,
            1,
            {
                "timeout_ms": 10_000,
                "validate_only": True,
                "feature_updates": [{"feature": "none", "max_version_level": 1, "upgrade_type": 1}],
            },
            cluster(Op.ALTER),
        ),
        Case("unregister a broker", 64, 0, {"broker_id": 99}, cluster(Op.ALTER)),
        Case(
            "add a voter",
            80,
            0,
            {"cluster_id": None, "timeout_ms": 1000, "voter_id": 1, "voter_directory_id": UNKNOWN_ID, "listeners": []},
            cluster(Op.ALTER),
        ),
        Case(
            "remove a voter",
            81,
            0,
            {"cluster_id": None, "voter_id": 9, "voter_directory_id": UNKNOWN_ID},
            cluster(Op.ALTER),
        ),
    ]

"""ACLs, configurations, quotas, users and tokens: what their APIs check."""

from __future__ import annotations

from tests.support.security_tables.access_cases import (
    GROUP,
    SECRET,
    TOPIC,
    Case,
    cluster,
    group,
    on,
    topic,
)
from tidelog.model.acl import AclOperation as Op, ResourceType as Kind


def administration_cases() -> list[Case]:
    anything = {
        "resource_type_filter": 1,
        "resource_name_filter": "zed",
        "pattern_type_filter": 3,
        "operation": 1,
        "permission_type": 1,
    }
    acl = {
        "resource_type": 2,
        "resource_name": "zed",
        "resource_pattern_type": 3,
        "principal": "User:zed",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    configs = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": ["none"]}
        for kind, name in ((2, TOPIC), (2, SECRET), (4, "1"), (32, GROUP))
    ]
    altered = [
        {"resource_type": kind, "resource_name": name, "configs": []}
        for kind, name in ((2, TOPIC), (2, SECRET), (4, "1"))
    ]
    logger = [{"resource_type": 8, "resource_name": "1", "configs": []}]
    quota = {
        "entity": [{"entity_type": "user", "entity_name": "zed"}],
        "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
    }
    return [
        Case("describe ACLs", 29, 3, anything, cluster(Op.DESCRIBE)),
        Case("create ACLs", 30, 3, {"creations": [acl]}, cluster(Op.ALTER)),
        Case("delete ACLs", 31, 3, {"filters": [anything]}, cluster(Op.ALTER)),
        Case("describe configs", 32, 4, {"resources": configs}, topic(Op.DESCRIBE_CONFIGS)),
        Case("describe configs of the cluster", 32, 4, {"resources": configs}, cluster(Op.DESCRIBE_CONFIGS)),
        Case("describe configs of a group", 32, 4, {"resources": configs}, group(Op.DESCRIBE_CONFIGS)),
        Case("alter configs", 33, 2, {"validate_only": True, "resources": altered}, topic(Op.ALTER_CONFIGS)),
        Case(
            "alter configs of the cluster",
            33,
            2,
            {"validate_only": True, "resources": altered},
            cluster(Op.ALTER_CONFIGS),
        ),
        Case(
            "incremental alter configs", 44, 1, {"validate_only": True, "resources": altered}, topic(Op.ALTER_CONFIGS)
        ),
        Case(
            "incremental alter configs of the cluster",
            44,
            1,
            {"validate_only": True, "resources": altered},
            cluster(Op.ALTER_CONFIGS),
        ),
        Case(
            "incremental alter configs of a logger",
            44,
            1,
            {"validate_only": True, "resources": logger},
            cluster(Op.ALTER_CONFIGS),
        ),
        Case(
            "alter replica log dirs",
            34,
            2,
            {"dirs": [{"path": "/nowhere", "topics": [{"name": TOPIC, "partitions": [0]}]}]},
            cluster(Op.ALTER),
        ),
        Case("describe log dirs", 35, 4, {"topics": [{"topic": TOPIC, "partitions": [0]}]}, cluster(Op.DESCRIBE)),
        Case("describe client quotas", 48, 1, {"components": [], "strict": False}, cluster(Op.DESCRIBE_CONFIGS)),
        Case("alter client quotas", 49, 1, {"entries": [quota], "validate_only": True}, cluster(Op.ALTER_CONFIGS)),
        Case("describe SCRAM", 50, 0, {"users": [{"name": "alice"}]}, cluster(Op.DESCRIBE)),
        Case(
            "alter SCRAM", 51, 0, {"deletions": [{"name": "zed", "mechanism": 1}], "upsertions": []}, cluster(Op.ALTER)
        ),
        Case("list config resources", 74, 1, {"resource_types": []}, cluster(Op.DESCRIBE_CONFIGS)),
        Case(
            "create a token",
            38,
            3,
            {"owner_principal_type": "", "owner_principal_name": "", "renewers": [], "max_lifetime_ms": -1},
            (),
        ),
        Case(
            "create a token for another",
            38,
            3,
            {"owner_principal_type": "User", "owner_principal_name": "zed", "renewers": [], "max_lifetime_ms": -1},
            on(Kind.USER, "User:zed", Op.CREATE_TOKENS),
        ),
        Case("renew a token", 39, 2, {"hmac": b"none", "renew_period_ms": 1000}, ()),
        Case("expire a token", 40, 2, {"hmac": b"none", "expiry_time_period_ms": 1000}, ()),
        Case(
            "describe tokens",
            41,
            3,
            {"owners": [{"principal_type": "User", "principal_name": "admin"}]},
            on(Kind.USER, "User:admin", Op.DESCRIBE_TOKENS),
        ),
    ]

"""The APIs of Kafka's protocol: what each key stands for.

A family of messages is imported when one of its APIs is first looked at, so that a program pays for what it speaks.
"""

from __future__ import annotations

import importlib
from enum import IntEnum
from functools import cache
from typing import NamedTuple, cast

from tidelog.wire.errors import UnknownApiError
from tidelog.wire.schema import Request, Response
from tidelog.wire.versions import VersionRange


class ApiKey(IntEnum):
    """The number by which a request names its API."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


# librdkafka takes a broker that does not announce Produce v0 for one without Produce (KAFKA-18659).
PRODUCE_ANNOUNCED_VERSION_MIN = 0


class Api(NamedTuple):
    """One API: its messages and the facts that a server or client needs before it reads one."""

    key: ApiKey
    request: type[Request]
    response: type[Response]

    @property
    def name(self) -> str:
        """Kafka's name, as in `ListOffsets`."""
        return self.request.__name__.removesuffix("Request")

    @property
    def versions(self) -> VersionRange:
        """The versions that can be encoded and decoded."""
        return self.request.versions

    @property
    def stable_versions(self) -> VersionRange:
        """The same, without a newest version that Kafka still reserves the right to change."""
        lowest, highest = self.request.versions
        return VersionRange(lowest, highest - 1) if self.request.latest_version_unstable else self.request.versions

    @property
    def announced_versions(self) -> VersionRange:
        """What ApiVersions says. A request in a version outside `versions` is refused all the same."""
        stable = self.stable_versions
        return stable._replace(lowest=PRODUCE_ANNOUNCED_VERSION_MIN) if self.key is ApiKey.PRODUCE else stable

    @property
    def listener_kinds(self) -> tuple[str, ...]:
        """Which kinds of listener answer it: `broker`, `controller` or both."""
        return self.request.listener_kinds

    def is_flexible(self, version: int) -> bool:
        return version in self.request.flexible

    def request_header_version(self, version: int) -> int:
        return 2 if version in self.request.flexible else 1

    def response_header_version(self, version: int) -> int:
        # A client that is told its version is unknown must be able to read the answer, whatever its header would be.
        if self.key is ApiKey.API_VERSIONS:
            return 0
        return 1 if version in self.request.flexible else 0


@cache
def api(key: int) -> Api:
    """The API of a key. Raises `UnknownApiError` where there is none."""
    try:
        api_key = ApiKey(key)
    except ValueError:
        raise UnknownApiError(key) from None
    family = importlib.import_module(f"tidelog.wire.messages.{_FAMILIES[api_key]}")
    name = "".join(word.capitalize() for word in api_key.name.split("_"))
    request = cast("type[Request]", getattr(family, f"{name}Request"))
    return Api(api_key, request, cast("type[Response]", getattr(family, f"{name}Response")))


def all_apis() -> list[Api]:
    """Every API, by key. Imports all families."""
    return [api(key) for key in ApiKey]


# The module of `tidelog.wire.messages` that declares each API.
_FAMILIES = {
    ApiKey.PRODUCE: "produce",
    ApiKey.FETCH: "fetch",
    ApiKey.LIST_OFFSETS: "list_offsets",
    ApiKey.METADATA: "metadata",
    ApiKey.OFFSET_COMMIT: "group_offsets",
    ApiKey.OFFSET_FETCH: "group_offsets",
    ApiKey.FIND_COORDINATOR: "find_coordinator",
    ApiKey.JOIN_GROUP: "groups_classic",
    ApiKey.HEARTBEAT: "groups_classic",
    ApiKey.LEAVE_GROUP: "groups_classic",
    ApiKey.SYNC_GROUP: "groups_classic",
    ApiKey.DESCRIBE_GROUPS: "group_admin",
    ApiKey.LIST_GROUPS: "group_admin",
    ApiKey.SASL_HANDSHAKE: "sasl",
    ApiKey.API_VERSIONS: "api_versions",
    ApiKey.CREATE_TOPICS: "topics",
    ApiKey.DELETE_TOPICS: "topics",
    ApiKey.DELETE_RECORDS: "delete_records",
    ApiKey.INIT_PRODUCER_ID: "producers",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "offset_for_leader_epoch",
    ApiKey.ADD_PARTITIONS_TO_TXN: "transactions",
    ApiKey.ADD_OFFSETS_TO_TXN: "transactions",
    ApiKey.END_TXN: "transactions",
    ApiKey.WRITE_TXN_MARKERS: "transactions",
    ApiKey.TXN_OFFSET_COMMIT: "transactions",
    ApiKey.DESCRIBE_ACLS: "acls",
    ApiKey.CREATE_ACLS: "acls",
    ApiKey.DELETE_ACLS: "acls",
    ApiKey.DESCRIBE_CONFIGS: "configs",
    ApiKey.ALTER_CONFIGS: "configs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "log_dirs",
    ApiKey.DESCRIBE_LOG_DIRS: "log_dirs",
    ApiKey.SASL_AUTHENTICATE: "sasl",
    ApiKey.CREATE_PARTITIONS: "topics",
    ApiKey.CREATE_DELEGATION_TOKEN: "delegation_tokens",
    ApiKey.RENEW_DELEGATION_TOKEN: "delegation_tokens",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "delegation_tokens",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "delegation_tokens",
    ApiKey.DELETE_GROUPS: "group_admin",
    ApiKey.ELECT_LEADERS: "reassignments",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "configs",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "reassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "reassignments",
    ApiKey.OFFSET_DELETE: "group_offsets",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "client_quotas",
    ApiKey.ALTER_CLIENT_QUOTAS: "client_quotas",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "scram_credentials",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "scram_credentials",
    ApiKey.VOTE: "quorum",
    ApiKey.BEGIN_QUORUM_EPOCH: "quorum",
    ApiKey.END_QUORUM_EPOCH: "quorum",
    ApiKey.DESCRIBE_QUORUM: "quorum",
    ApiKey.ALTER_PARTITION: "alter_partition",
    ApiKey.UPDATE_FEATURES: "features",
    ApiKey.ENVELOPE: "envelope",
    ApiKey.FETCH_SNAPSHOT: "fetch_snapshot",
    ApiKey.DESCRIBE_CLUSTER: "cluster",
    ApiKey.DESCRIBE_PRODUCERS: "producers",
    ApiKey.BROKER_REGISTRATION: "broker_lifecycle",
    ApiKey.BROKER_HEARTBEAT: "broker_lifecycle",
    ApiKey.UNREGISTER_BROKER: "broker_lifecycle",
    ApiKey.DESCRIBE_TRANSACTIONS: "transaction_admin",
    ApiKey.LIST_TRANSACTIONS: "transaction_admin",
    ApiKey.ALLOCATE_PRODUCER_IDS: "producers",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer_groups",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "consumer_groups",
    ApiKey.CONTROLLER_REGISTRATION: "broker_lifecycle",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "telemetry",
    ApiKey.PUSH_TELEMETRY: "telemetry",
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: "log_dirs",
    ApiKey.LIST_CONFIG_RESOURCES: "configs",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "topics",
    ApiKey.SHARE_GROUP_HEARTBEAT: "share_groups",
    ApiKey.SHARE_GROUP_DESCRIBE: "share_groups",
    ApiKey.SHARE_FETCH: "share_fetch",
    ApiKey.SHARE_ACKNOWLEDGE: "share_fetch",
    ApiKey.ADD_RAFT_VOTER: "raft_voters",
    ApiKey.REMOVE_RAFT_VOTER: "raft_voters",
    ApiKey.UPDATE_RAFT_VOTER: "raft_voters",
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: "share_group_state",
    ApiKey.READ_SHARE_GROUP_STATE: "share_group_state",
    ApiKey.WRITE_SHARE_GROUP_STATE: "share_group_state",
    ApiKey.DELETE_SHARE_GROUP_STATE: "share_group_state",
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: "share_group_state",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "streams_groups",
    ApiKey.STREAMS_GROUP_DESCRIBE: "streams_groups",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "share_group_offsets",
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: "share_group_offsets",
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: "share_group_offsets",
}

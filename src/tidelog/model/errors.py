"""Kafka's error codes: the table by which every answer says what went wrong.

`retriable` is what Kafka's own clients go by: the same request may succeed later, unchanged. The message is for people.
Those that a node's answers carry by themselves are in Kafka's words, since tools show them and tests compare them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self, cast


class ErrorCode(IntEnum):
    """One row of the table: the code on the wire, whether trying again can help, and what it means."""

    retriable: bool
    message: str

    def __new__(cls, code: int, retriable: bool, message: str) -> Self:
        row = int.__new__(cls, code)
        row._value_ = code
        row.retriable = retriable
        row.message = message
        return row

    @classmethod
    def of(cls, code: int) -> ErrorCode:
        """The row of a code from the wire. A code that a newer server may send counts as UNKNOWN_SERVER_ERROR, as in Kafka."""
        row = cls._value2member_map_.get(code, cls.UNKNOWN_SERVER_ERROR)
        return cast("ErrorCode", row)

    UNKNOWN_SERVER_ERROR = -1, False, "The server failed in a way that it did not foresee."
    NONE = 0, False, "No error."
    OFFSET_OUT_OF_RANGE = 1, False, "The log does not hold this offset."
    CORRUPT_MESSAGE = 2, True, "The records are damaged: wrong checksum, wrong size, or no key where one is needed."
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "This server does not host this topic-partition."
    INVALID_FETCH_SIZE = 4, False, "The fetch size is not valid."
    LEADER_NOT_AVAILABLE = 5, True, "The partition has no leader at the moment."
    NOT_LEADER_OR_FOLLOWER = 6, True, "This broker does not lead the partition, or holds no replica of it."
    REQUEST_TIMED_OUT = 7, True, "The request took longer than its time-out."
    BROKER_NOT_AVAILABLE = 8, False, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, True, "The replica is not available."
    MESSAGE_TOO_LARGE = 10, False, "A record batch is larger than the topic accepts."
    STALE_CONTROLLER_EPOCH = 11, False, "The controller has moved to another node."
    OFFSET_METADATA_TOO_LARGE = 12, False, "The text beside a committed offset is too long."
    NETWORK_EXCEPTION = 13, True, "The connection broke before an answer came."
    COORDINATOR_LOAD_IN_PROGRESS = 14, True, "The coordinator is still loading its state."
    COORDINATOR_NOT_AVAILABLE = 15, True, "The coordinator is not available."
    NOT_COORDINATOR = 16, True, "This broker is not the coordinator."
    INVALID_TOPIC_EXCEPTION = 17, False, "The topic's name is not valid, or the operation is not allowed on it."
    RECORD_LIST_TOO_LARGE = 18, False, "The records do not fit into one log segment."
    NOT_ENOUGH_REPLICAS = 19, True, "Fewer replicas are in sync than min.insync.replicas asks for; nothing was written."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        True,
        "The records were written, but to fewer in-sync replicas than required.",
    )
    INVALID_REQUIRED_ACKS = 21, False, "acks can be 0, 1 or -1."
    ILLEGAL_GENERATION = 22, False, "The group has moved on to another generation."
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        False,
        "The member's protocols have nothing in common with the group's, or are missing.",
    )
    INVALID_GROUP_ID = 24, False, "The group id is not valid."
    UNKNOWN_MEMBER_ID = 25, False, "The group has no such member."
    INVALID_SESSION_TIMEOUT = 26, False, "The session time-out is outside of the range that the broker allows."
    REBALANCE_IN_PROGRESS = 27, False, "The group is rebalancing; the member has to join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "The size of the committed offset data is not valid."
    TOPIC_AUTHORIZATION_FAILED = 29, False, "Topic authorization failed."
    GROUP_AUTHORIZATION_FAILED = 30, False, "Group authorization failed."
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "Cluster authorization failed."
    INVALID_TIMESTAMP = 32, False, "A record's timestamp is outside of the range that the topic accepts."
    UNSUPPORTED_SASL_MECHANISM = 33, False, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, False, "The request does not fit the state of the SASL exchange."
    UNSUPPORTED_VERSION = 35, False, "The version of API is not supported."
    TOPIC_ALREADY_EXISTS = 36, False, "A topic of this name exists already."
    INVALID_PARTITIONS = 37, False, "The number of partitions is not valid."
    INVALID_REPLICATION_FACTOR = 38, False, "The replication factor is below 1 or above the number of usable brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, False, "The replica assignment is not valid."
    INVALID_CONFIG = 40, False, "The configuration is not valid."
    NOT_CONTROLLER = 41, True, "This is not the correct controller for this cluster."
    INVALID_REQUEST = (
        42,
        False,
        (
            "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
            "incompatible broker. See the broker logs for more details."
        ),
    )
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, False, "The message format of the log does not allow this."
    POLICY_VIOLATION = 44, False, "The request breaks a policy of this cluster."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, False, "The producer's sequence number is not the one that comes next."
    DUPLICATE_SEQUENCE_NUMBER = 46, False, "The producer's sequence number was seen before."
    INVALID_PRODUCER_EPOCH = 47, False, "The producer's epoch is older than the newest one seen."
    INVALID_TXN_STATE = 48, False, "The transaction's state does not allow this."
    INVALID_PRODUCER_ID_MAPPING = 49, False, "The producer id is not the one assigned to this transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, False, "The transaction time-out is above transaction.max.timeout.ms."
    CONCURRENT_TRANSACTIONS = 51, True, "Another operation on the same transaction is still under way."
    TRANSACTION_COORDINATOR_FENCED = (
        52,
        False,
        "The transaction marker comes from a coordinator that has been replaced.",
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, False, "Transactional Id authorization failed."
    SECURITY_DISABLED = 54, False, "Security is switched off here."
    OPERATION_NOT_ATTEMPTED = 55, False, "Not attempted, because another part of the same request failed."
    KAFKA_STORAGE_ERROR = 56, True, "The disk under this log failed."
    LOG_DIR_NOT_FOUND = 57, False, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, False, "SASL authentication failed."
    UNKNOWN_PRODUCER_ID = (
        59,
        False,
        "The broker remembers nothing of this producer id; its records may have been removed.",
    )
    REASSIGNMENT_IN_PROGRESS = 60, False, "The partition is being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = (
        61,
        False,
        "Delegation tokens are switched off here: no node has a delegation.token.secret.key.",
    )
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "There is no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, False, "The caller neither owns nor may renew the delegation token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        False,
        "Delegation tokens cannot be managed over this kind of connection.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, False, "Delegation Token authorization failed."
    DELEGATION_TOKEN_EXPIRED = 66, False, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, False, "This type of principal is not supported."
    NON_EMPTY_GROUP = 68, False, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, False, "There is no such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, True, "There is no such fetch session."
    INVALID_FETCH_SESSION_EPOCH = 71, True, "The fetch session's epoch is not the one that comes next."
    LISTENER_NOT_FOUND = 72, True, "The leader has no listener of the name that this request came in on."
    TOPIC_DELETION_DISABLED = 73, False, "Topic deletion is disabled."
    FENCED_LEADER_EPOCH = 74, True, "The request's leader epoch is older than the broker's."
    UNKNOWN_LEADER_EPOCH = 75, True, "The request's leader epoch is newer than the broker's."
    UNSUPPORTED_COMPRESSION_TYPE = 76, False, "The client cannot read the compression of this partition."
    STALE_BROKER_EPOCH = 77, False, "The broker has registered again since."
    OFFSET_NOT_AVAILABLE = 78, True, "The new leader does not know the high watermark yet."
    MEMBER_ID_REQUIRED = 79, False, "The member has to join with the member id that it is given."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "The preferred leader was not available."
    GROUP_MAX_SIZE_REACHED = 81, False, "The group has as many members as it may have."
    FENCED_INSTANCE_ID = 82, False, "Another member has taken over this group.instance.id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "Eligible topic partition leaders are not available."
    ELECTION_NOT_NEEDED = 84, True, "Leader election not needed for topic partition."
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "No partition reassignment is in progress."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, False, "The group is subscribed to the topic, so its offsets cannot be deleted."
    INVALID_RECORD = 87, False, "A record does not pass the broker's checks."
    UNSTABLE_OFFSET_COMMIT = 88, True, "A transaction that commits offsets is still open."
    THROTTLING_QUOTA_EXCEEDED = 89, True, "A quota has been exceeded."
    PRODUCER_FENCED = 90, False, "A newer producer with the same transactional id has taken over."
    RESOURCE_NOT_FOUND = 91, False, "The request names a resource that does not exist."
    DUPLICATE_RESOURCE = 92, False, "The request names the same resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, False, "The credential does not meet the rules."
    INCONSISTENT_VOTER_SET = 94, False, "Sender or receiver is not among the voters that the other one expects."
    INVALID_UPDATE_VERSION = 95, False, "The feature cannot be set to this version."
    FEATURE_UPDATE_FAILED = 96, False, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, False, "The principal of a forwarded request could not be read."
    SNAPSHOT_NOT_FOUND = 98, False, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, False, "The position lies outside of the snapshot."
    UNKNOWN_TOPIC_ID = 100, True, "This server does not host this topic ID."
    DUPLICATE_BROKER_REGISTRATION = 101, False, "This broker id is in use."
    BROKER_ID_NOT_REGISTERED = 102, False, "The given broker ID was not registered."
    INCONSISTENT_TOPIC_ID = 103, True, "The log on disk belongs to another topic id."
    INCONSISTENT_CLUSTER_ID = 104, False, "The request is meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, True, "The fetch session mixes topic names and topic ids."
    INELIGIBLE_REPLICA = 107, False, "The proposed in-sync set has a replica that may not be in it."
    NEW_LEADER_ELECTED = 108, False, "The partition was updated, and another leader was elected with it."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, "The offset is in tiered storage only."
    FENCED_MEMBER_EPOCH = (
        110,
        False,
        "The member's epoch is no longer valid; it has to give up its partitions and join again.",
    )
    UNRELEASED_INSTANCE_ID = 111, False, "Another member still holds this instance id."
    UNSUPPORTED_ASSIGNOR = 112, False, "The group does not support this assignor."
    STALE_MEMBER_EPOCH = 113, False, "The member's epoch is old; its next heartbeat brings the new one."
    MISMATCHED_ENDPOINT_TYPE = 114, False, "The request went to the wrong kind of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "This kind of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, False, "There is no controller with this id."
    UNKNOWN_SUBSCRIPTION_ID = 117, False, "The telemetry subscription is unknown or old."
    TELEMETRY_TOO_LARGE = 118, False, "The pushed telemetry is larger than the broker accepts."
    INVALID_REGISTRATION = 119, False, "The controller does not accept the broker's registration."
    TRANSACTION_ABORTABLE = 120, False, "The transaction cannot commit; abort it and go on."
    INVALID_RECORD_STATE = 121, False, "The record is in no state to be acknowledged like this."
    SHARE_SESSION_NOT_FOUND = 122, True, "There is no such share session."
    INVALID_SHARE_SESSION_EPOCH = 123, True, "The share session's epoch is not the one that comes next."
    FENCED_STATE_EPOCH = 124, False, "The state epoch of the share group is not the coordinator's."
    INVALID_VOTER_KEY = 125, False, "The voter key is not that of the receiver."
    DUPLICATE_VOTER = 126, False, "The voter is in the set already."
    VOTER_NOT_FOUND = 127, False, "The voter is not in the set."
    INVALID_REGULAR_EXPRESSION = 128, False, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = 129, False, "The client's metadata is too old; it has to start from its bootstrap servers."
    STREAMS_INVALID_TOPOLOGY = 130, False, "The topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "The topology's epoch is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, False, "The topology's epoch is old."
    SHARE_SESSION_LIMIT_REACHED = 133, True, "No more share sessions can be opened."

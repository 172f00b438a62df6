"""The configuration keys of a broker's transaction coordinator, and of what a broker asks of others before it appends.

Names, defaults and ranges are those of Apache Kafka 4.3. Only keys that some code acts on are declared.
"""

from __future__ import annotations

from tidelog.model.config import ConfigKey, ConfigKeys, ConfigType, UpdateMode, bool_key, int_key

TRANSACTION_STATE_LOG_NUM_PARTITIONS = int_key(
    "transaction.state.log.num.partitions",
    50,
    at_least=1,
    doc="How many partitions __transaction_state gets. They cannot be changed once it is there.",
)
TRANSACTION_STATE_LOG_REPLICATION_FACTOR = ConfigKey(
    "transaction.state.log.replication.factor",
    ConfigType.SHORT,
    3,
    "How many replicas __transaction_state gets. It is not created before there are as many brokers.",
    at_least=1,
)
TRANSACTION_STATE_LOG_MIN_ISR = int_key(
    "transaction.state.log.min.isr",
    2,
    at_least=1,
    doc="How many replicas of __transaction_state must have a record before it counts: its min.insync.replicas.",
)
TRANSACTION_STATE_LOG_SEGMENT_BYTES = int_key(
    "transaction.state.log.segment.bytes",
    104_857_600,
    at_least=1,
    doc="The size of the segments of __transaction_state, which are compacted.",
)
TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE = int_key(
    "transaction.state.log.load.buffer.size",
    5_242_880,
    at_least=1,
    doc="How many bytes of __transaction_state are read at a time by a broker that becomes a coordinator.",
)
TRANSACTION_MAX_TIMEOUT_MS = int_key(
    "transaction.max.timeout.ms",
    900_000,
    at_least=1,
    doc="The longest time-out that a producer may ask for, unless its transactions are of two phases.",
)
TRANSACTION_ABORT_TIMED_OUT_INTERVAL_MS = int_key(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    10_000,
    at_least=1,
    doc="How often the coordinator looks for transactions that have been open for too long, which it aborts.",
)
TRANSACTION_REMOVE_EXPIRED_INTERVAL_MS = int_key(
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    3_600_000,
    at_least=1,
    doc="How often the coordinator looks for transactional ids that have expired.",
)
TRANSACTIONAL_ID_EXPIRATION_MS = int_key(
    "transactional.id.expiration.ms",
    604_800_000,
    at_least=1,
    doc="How long a transactional id that nobody uses is remembered.",
)
TRANSACTION_TWO_PHASE_COMMIT_ENABLE = bool_key(
    "transaction.two.phase.commit.enable",
    default=False,
    doc="Whether producers may have transactions that never time out, whose outcome somebody else decides (KIP-939).",
)
TRANSACTION_PARTITION_VERIFICATION_ENABLE = bool_key(
    "transaction.partition.verification.enable",
    default=True,
    update_mode=UpdateMode.CLUSTER_WIDE,
    doc="Whether a partition takes transactional records only after their coordinator says that it is part of the transaction.",
)
REQUEST_TIMEOUT_MS = int_key(
    "request.timeout.ms",
    30_000,
    doc="How long a record of __transaction_state may take to be committed before whoever waits for it is told to come again.",
)
ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS = int_key(
    "add.partitions.to.txn.retry.backoff.ms",
    20,
    at_least=1,
    doc="How long a broker waits before it asks again for a partition whose transaction is still being ended.",
)
ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS = int_key(
    "add.partitions.to.txn.retry.backoff.max.ms",
    100,
    at_least=0,
    doc="For how long it asks again at all, before the producer has to.",
)

TRANSACTION_KEYS = ConfigKeys(
    [
        TRANSACTION_STATE_LOG_NUM_PARTITIONS,
        TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
        TRANSACTION_STATE_LOG_MIN_ISR,
        TRANSACTION_STATE_LOG_SEGMENT_BYTES,
        TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE,
        TRANSACTION_MAX_TIMEOUT_MS,
        TRANSACTION_ABORT_TIMED_OUT_INTERVAL_MS,
        TRANSACTION_REMOVE_EXPIRED_INTERVAL_MS,
        TRANSACTIONAL_ID_EXPIRATION_MS,
        TRANSACTION_TWO_PHASE_COMMIT_ENABLE,
        TRANSACTION_PARTITION_VERIFICATION_ENABLE,
        REQUEST_TIMEOUT_MS,
        ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS,
        ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS,
    ]
)

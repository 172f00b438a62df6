"""Records of `__transaction_state`: where each transactional id stands.

Value v1 is flexible, for KIP-890's tagged fields.
"""

from tidelog.wire.schema import (
    Array,
    CoordinatorKey,
    CoordinatorValue,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Struct,
    tagged,
)


class TransactionLogKey(CoordinatorKey, api_key=0, versions="0"):
    transactional_id: String


class PartitionsSchema(Struct):
    topic: String
    partition_ids: Array[Int32]


class TransactionLogValue(CoordinatorValue, api_key=0, versions="0-1", flexible="1+"):
    producer_id: Int64
    previous_producer_id: Int64 = tagged(0, 1, default=-1)
    next_producer_id: Int64 = tagged(1, 1, default=-1)
    producer_epoch: Int16
    next_producer_epoch: Int16 = tagged(3, 1, default=-1)
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: Array[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = tagged(2, 1, default=0)

"""DescribeTransactions (65), ListTransactions (66): transactions for administrators (KIP-664).

ListTransactions: v1 by age (KIP-994) · v2 by regular expression (KIP-1152)
"""

from tidelog.wire.schema import Array, Int16, Int32, Int64, Request, Response, String, Struct, since


class DescribeTransactionsRequest(Request, api_key=65, versions="0", flexible="0+", listeners="broker"):
    transactional_ids: Array[String]


class TopicData(Struct):
    topic: String
    partitions: Array[Int32]


class TransactionState(Struct):
    error_code: Int16
    transactional_id: String
    transaction_state: String
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: Array[TopicData]


class DescribeTransactionsResponse(Response, api_key=65, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    transaction_states: Array[TransactionState]


class ListTransactionsRequest(Request, api_key=66, versions="0-2", flexible="0+", listeners="broker"):
    state_filters: Array[String]
    producer_id_filters: Array[Int64]
    duration_filter: Int64 = since(1, default=-1)
    transactional_id_pattern: String | None = since(2, default=None)


class ListTransactionsTransactionState(Struct):
    transactional_id: String
    producer_id: Int64
    transaction_state: String


class ListTransactionsResponse(Response, api_key=66, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    unknown_state_filters: Array[String]
    transaction_states: Array[ListTransactionsTransactionState]

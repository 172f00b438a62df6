"""To a type checker the typed messages are the declared ones. Written by tools/typed_messages.py; not to be edited."""

from tidelog.wire.messages.transactions import (
    AddPartitionsToTxnTopic as AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction as AddPartitionsToTxnTransaction,
    AddPartitionsToTxnRequest as AddPartitionsToTxnRequest,
    AddPartitionsToTxnPartitionResult as AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnTopicResult as AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnResult as AddPartitionsToTxnResult,
    AddPartitionsToTxnResponse as AddPartitionsToTxnResponse,
    EndTxnRequest as EndTxnRequest,
    EndTxnResponse as EndTxnResponse,
    TxnOffsetCommitRequestPartition as TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic as TxnOffsetCommitRequestTopic,
    TxnOffsetCommitRequest as TxnOffsetCommitRequest,
    TxnOffsetCommitResponsePartition as TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic as TxnOffsetCommitResponseTopic,
    TxnOffsetCommitResponse as TxnOffsetCommitResponse,
)

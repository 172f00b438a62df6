# The types of `transactions`, for compiled modules. Written by tools/typed_messages.py; not to be edited.

cimport cython

from tidelog.wire.typed.message cimport TypedMessage


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class AddPartitionsToTxnTopic:
    cdef public object name
    cdef public list partitions

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class AddPartitionsToTxnTransaction:
    cdef public object transactional_id
    cdef public long long producer_id
    cdef public long long producer_epoch
    cdef public bint verify_only
    cdef public list topics

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_AddPartitionsToTxnTopic=AddPartitionsToTxnTopic)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_AddPartitionsToTxnTopic=AddPartitionsToTxnTopic)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_AddPartitionsToTxnTopic=AddPartitionsToTxnTopic)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
cdef class AddPartitionsToTxnRequest(TypedMessage):
    cdef public list transactions
    cdef public object v3_and_below_transactional_id
    cdef public long long v3_and_below_producer_id
    cdef public long long v3_and_below_producer_epoch
    cdef public list v3_and_below_topics

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_AddPartitionsToTxnTransaction=AddPartitionsToTxnTransaction, item_AddPartitionsToTxnTopic=AddPartitionsToTxnTopic)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_AddPartitionsToTxnTransaction=AddPartitionsToTxnTransaction, item_AddPartitionsToTxnTopic=AddPartitionsToTxnTopic)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_AddPartitionsToTxnTransaction=AddPartitionsToTxnTransaction, item_AddPartitionsToTxnTopic=AddPartitionsToTxnTopic)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class AddPartitionsToTxnPartitionResult:
    cdef public long long partition_index
    cdef public long long partition_error_code

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class AddPartitionsToTxnTopicResult:
    cdef public object name
    cdef public list results_by_partition

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_AddPartitionsToTxnPartitionResult=AddPartitionsToTxnPartitionResult)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_AddPartitionsToTxnPartitionResult=AddPartitionsToTxnPartitionResult)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_AddPartitionsToTxnPartitionResult=AddPartitionsToTxnPartitionResult)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class AddPartitionsToTxnResult:
    cdef public object transactional_id
    cdef public list topic_results

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_AddPartitionsToTxnTopicResult=AddPartitionsToTxnTopicResult)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_AddPartitionsToTxnTopicResult=AddPartitionsToTxnTopicResult)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_AddPartitionsToTxnTopicResult=AddPartitionsToTxnTopicResult)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
cdef class AddPartitionsToTxnResponse(TypedMessage):
    cdef public long long throttle_time_ms
    cdef public long long error_code
    cdef public list results_by_transaction
    cdef public list results_by_topic_v3_and_below

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_AddPartitionsToTxnResult=AddPartitionsToTxnResult, item_AddPartitionsToTxnTopicResult=AddPartitionsToTxnTopicResult)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_AddPartitionsToTxnResult=AddPartitionsToTxnResult, item_AddPartitionsToTxnTopicResult=AddPartitionsToTxnTopicResult)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_AddPartitionsToTxnResult=AddPartitionsToTxnResult, item_AddPartitionsToTxnTopicResult=AddPartitionsToTxnTopicResult)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list, item_AddPartitionsToTxnResult=AddPartitionsToTxnResult, item_AddPartitionsToTxnTopicResult=AddPartitionsToTxnTopicResult)
    cdef Py_ssize_t count_errors(self, object errors) except -1


@cython.no_gc
cdef class EndTxnRequest(TypedMessage):
    cdef public object transactional_id
    cdef public long long producer_id
    cdef public long long producer_epoch
    cdef public bint committed

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2


@cython.no_gc
cdef class EndTxnResponse(TypedMessage):
    cdef public long long throttle_time_ms
    cdef public long long error_code
    cdef public long long producer_id
    cdef public long long producer_epoch

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t count_errors(self, object errors) except -1


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class TxnOffsetCommitRequestPartition:
    cdef public long long partition_index
    cdef public long long committed_offset
    cdef public long long committed_leader_epoch
    cdef public object committed_metadata

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class TxnOffsetCommitRequestTopic:
    cdef public object name
    cdef public list partitions

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_TxnOffsetCommitRequestPartition=TxnOffsetCommitRequestPartition)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_TxnOffsetCommitRequestPartition=TxnOffsetCommitRequestPartition)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_TxnOffsetCommitRequestPartition=TxnOffsetCommitRequestPartition)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
cdef class TxnOffsetCommitRequest(TypedMessage):
    cdef public object transactional_id
    cdef public object group_id
    cdef public long long producer_id
    cdef public long long producer_epoch
    cdef public long long generation_id
    cdef public object member_id
    cdef public object group_instance_id
    cdef public list topics

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_TxnOffsetCommitRequestTopic=TxnOffsetCommitRequestTopic)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_TxnOffsetCommitRequestTopic=TxnOffsetCommitRequestTopic)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_TxnOffsetCommitRequestTopic=TxnOffsetCommitRequestTopic)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class TxnOffsetCommitResponsePartition:
    cdef public long long partition_index
    cdef public long long error_code

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t count_errors(self, object errors) except -1


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class TxnOffsetCommitResponseTopic:
    cdef public object name
    cdef public list partitions

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_TxnOffsetCommitResponsePartition=TxnOffsetCommitResponsePartition)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_TxnOffsetCommitResponsePartition=TxnOffsetCommitResponsePartition)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_TxnOffsetCommitResponsePartition=TxnOffsetCommitResponsePartition)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list, item_TxnOffsetCommitResponsePartition=TxnOffsetCommitResponsePartition)
    cdef Py_ssize_t count_errors(self, object errors) except -1


@cython.no_gc
cdef class TxnOffsetCommitResponse(TypedMessage):
    cdef public long long throttle_time_ms
    cdef public list topics

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_TxnOffsetCommitResponseTopic=TxnOffsetCommitResponseTopic)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_TxnOffsetCommitResponseTopic=TxnOffsetCommitResponseTopic)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_TxnOffsetCommitResponseTopic=TxnOffsetCommitResponseTopic)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list, item_TxnOffsetCommitResponseTopic=TxnOffsetCommitResponseTopic)
    cdef Py_ssize_t count_errors(self, object errors) except -1

# The types of `produce`, for compiled modules. Written by tools/typed_messages.py; not to be edited.

cimport cython

from tidelog.wire.typed.message cimport TypedMessage


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class PartitionProduceData:
    cdef public long long index
    cdef object _records
    cdef object _records_in
    cdef Py_ssize_t _records_at
    cdef Py_ssize_t _records_end
    cdef object get_records(self)

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class TopicProduceData:
    cdef public object name
    cdef public object topic_id
    cdef public list partition_data

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_PartitionProduceData=PartitionProduceData)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_PartitionProduceData=PartitionProduceData)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_PartitionProduceData=PartitionProduceData)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2


@cython.no_gc
cdef class ProduceRequest(TypedMessage):
    cdef public object transactional_id
    cdef public long long acks
    cdef public long long timeout_ms
    cdef public list topic_data

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_TopicProduceData=TopicProduceData)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_TopicProduceData=TopicProduceData)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_TopicProduceData=TopicProduceData)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class BatchIndexAndErrorMessage:
    cdef public long long batch_index
    cdef public object batch_index_error_message

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class LeaderIdAndEpoch:
    cdef public long long leader_id
    cdef public long long leader_epoch

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2
    cdef bint is_default(self)


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class PartitionProduceResponse:
    cdef public long long index
    cdef public long long error_code
    cdef public long long base_offset
    cdef public long long log_append_time_ms
    cdef public long long log_start_offset
    cdef public list record_errors
    cdef public object error_message
    cdef LeaderIdAndEpoch _current_leader

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_BatchIndexAndErrorMessage=BatchIndexAndErrorMessage, item_LeaderIdAndEpoch=LeaderIdAndEpoch)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, m=cython.longlong, count=cython.longlong, tag=cython.longlong, last=cython.longlong, stop=cython.Py_ssize_t, flexible=bint, items=list, item_BatchIndexAndErrorMessage=BatchIndexAndErrorMessage, item_LeaderIdAndEpoch=LeaderIdAndEpoch)
    cdef Py_ssize_t read_tags(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_BatchIndexAndErrorMessage=BatchIndexAndErrorMessage, item_LeaderIdAndEpoch=LeaderIdAndEpoch)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_BatchIndexAndErrorMessage=BatchIndexAndErrorMessage, item_LeaderIdAndEpoch=LeaderIdAndEpoch)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list, item_BatchIndexAndErrorMessage=BatchIndexAndErrorMessage, item_LeaderIdAndEpoch=LeaderIdAndEpoch)
    cdef Py_ssize_t count_errors(self, object errors) except -1


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class TopicProduceResponse:
    cdef public object name
    cdef public object topic_id
    cdef public list partition_responses

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_PartitionProduceResponse=PartitionProduceResponse)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_PartitionProduceResponse=PartitionProduceResponse)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_PartitionProduceResponse=PartitionProduceResponse)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list, item_PartitionProduceResponse=PartitionProduceResponse)
    cdef Py_ssize_t count_errors(self, object errors) except -1


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class NodeEndpoint:
    cdef public long long node_id
    cdef public object host
    cdef public long long port
    cdef public object rack

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
cdef class ProduceResponse(TypedMessage):
    cdef public list responses
    cdef public long long throttle_time_ms
    cdef public list node_endpoints

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_TopicProduceResponse=TopicProduceResponse, item_NodeEndpoint=NodeEndpoint)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, m=cython.longlong, count=cython.longlong, tag=cython.longlong, last=cython.longlong, stop=cython.Py_ssize_t, flexible=bint, items=list, item_TopicProduceResponse=TopicProduceResponse, item_NodeEndpoint=NodeEndpoint)
    cdef Py_ssize_t read_tags(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_TopicProduceResponse=TopicProduceResponse, item_NodeEndpoint=NodeEndpoint)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_TopicProduceResponse=TopicProduceResponse, item_NodeEndpoint=NodeEndpoint)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list, item_TopicProduceResponse=TopicProduceResponse, item_NodeEndpoint=NodeEndpoint)
    cdef Py_ssize_t count_errors(self, object errors) except -1

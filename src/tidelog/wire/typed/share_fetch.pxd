# The types of `share_fetch`, for compiled modules. Written by tools/typed_messages.py; not to be edited.

cimport cython

from tidelog.wire.typed.message cimport TypedMessage


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class AcknowledgementBatch:
    cdef public long long first_offset
    cdef public long long last_offset
    cdef public list acknowledge_types

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class FetchPartition:
    cdef public long long partition_index
    cdef public list acknowledgement_batches

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_AcknowledgementBatch=AcknowledgementBatch)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_AcknowledgementBatch=AcknowledgementBatch)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_AcknowledgementBatch=AcknowledgementBatch)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class FetchTopic:
    cdef public object topic_id
    cdef public list partitions

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_FetchPartition=FetchPartition)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_FetchPartition=FetchPartition)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_FetchPartition=FetchPartition)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class ForgottenTopic:
    cdef public object topic_id
    cdef public list partitions

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
cdef class ShareFetchRequest(TypedMessage):
    cdef public object group_id
    cdef public object member_id
    cdef public long long share_session_epoch
    cdef public long long max_wait_ms
    cdef public long long min_bytes
    cdef public long long max_bytes
    cdef public long long max_records
    cdef public long long batch_size
    cdef public long long share_acquire_mode
    cdef public bint is_renew_ack
    cdef public list topics
    cdef public list forgotten_topics_data

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_FetchTopic=FetchTopic, item_ForgottenTopic=ForgottenTopic)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_FetchTopic=FetchTopic, item_ForgottenTopic=ForgottenTopic)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_FetchTopic=FetchTopic, item_ForgottenTopic=ForgottenTopic)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2


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
cdef class AcquiredRecords:
    cdef public long long first_offset
    cdef public long long last_offset
    cdef public long long delivery_count

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class PartitionData:
    cdef public long long partition_index
    cdef public long long error_code
    cdef public object error_message
    cdef public long long acknowledge_error_code
    cdef public object acknowledge_error_message
    cdef LeaderIdAndEpoch _current_leader
    cdef object _records
    cdef object _records_in
    cdef Py_ssize_t _records_at
    cdef Py_ssize_t _records_end
    cdef public list acquired_records
    cdef object get_records(self)

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_LeaderIdAndEpoch=LeaderIdAndEpoch, item_AcquiredRecords=AcquiredRecords)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_LeaderIdAndEpoch=LeaderIdAndEpoch, item_AcquiredRecords=AcquiredRecords)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_LeaderIdAndEpoch=LeaderIdAndEpoch, item_AcquiredRecords=AcquiredRecords)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list, item_LeaderIdAndEpoch=LeaderIdAndEpoch, item_AcquiredRecords=AcquiredRecords)
    cdef Py_ssize_t count_errors(self, object errors) except -1


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class ShareFetchableTopicResponse:
    cdef public object topic_id
    cdef public list partitions

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_PartitionData=PartitionData)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_PartitionData=PartitionData)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_PartitionData=PartitionData)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list, item_PartitionData=PartitionData)
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
cdef class ShareFetchResponse(TypedMessage):
    cdef public long long throttle_time_ms
    cdef public long long error_code
    cdef public object error_message
    cdef public long long acquisition_lock_timeout_ms
    cdef public list responses
    cdef public list node_endpoints

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_ShareFetchableTopicResponse=ShareFetchableTopicResponse, item_NodeEndpoint=NodeEndpoint)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_ShareFetchableTopicResponse=ShareFetchableTopicResponse, item_NodeEndpoint=NodeEndpoint)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_ShareFetchableTopicResponse=ShareFetchableTopicResponse, item_NodeEndpoint=NodeEndpoint)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list, item_ShareFetchableTopicResponse=ShareFetchableTopicResponse, item_NodeEndpoint=NodeEndpoint)
    cdef Py_ssize_t count_errors(self, object errors) except -1


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class AcknowledgePartition:
    cdef public long long partition_index
    cdef public list acknowledgement_batches

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_AcknowledgementBatch=AcknowledgementBatch)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_AcknowledgementBatch=AcknowledgementBatch)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_AcknowledgementBatch=AcknowledgementBatch)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class AcknowledgeTopic:
    cdef public object topic_id
    cdef public list partitions

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_AcknowledgePartition=AcknowledgePartition)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_AcknowledgePartition=AcknowledgePartition)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_AcknowledgePartition=AcknowledgePartition)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
cdef class ShareAcknowledgeRequest(TypedMessage):
    cdef public object group_id
    cdef public object member_id
    cdef public long long share_session_epoch
    cdef public bint is_renew_ack
    cdef public list topics

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_AcknowledgeTopic=AcknowledgeTopic)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_AcknowledgeTopic=AcknowledgeTopic)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_AcknowledgeTopic=AcknowledgeTopic)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class ShareAcknowledgePartitionData:
    cdef public long long partition_index
    cdef public long long error_code
    cdef public object error_message
    cdef LeaderIdAndEpoch _current_leader

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_LeaderIdAndEpoch=LeaderIdAndEpoch)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_LeaderIdAndEpoch=LeaderIdAndEpoch)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_LeaderIdAndEpoch=LeaderIdAndEpoch)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list, item_LeaderIdAndEpoch=LeaderIdAndEpoch)
    cdef Py_ssize_t count_errors(self, object errors) except -1


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class ShareAcknowledgeTopicResponse:
    cdef public object topic_id
    cdef public list partitions

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_ShareAcknowledgePartitionData=ShareAcknowledgePartitionData)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_ShareAcknowledgePartitionData=ShareAcknowledgePartitionData)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_ShareAcknowledgePartitionData=ShareAcknowledgePartitionData)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list, item_ShareAcknowledgePartitionData=ShareAcknowledgePartitionData)
    cdef Py_ssize_t count_errors(self, object errors) except -1


@cython.no_gc
cdef class ShareAcknowledgeResponse(TypedMessage):
    cdef public long long throttle_time_ms
    cdef public long long error_code
    cdef public object error_message
    cdef public long long acquisition_lock_timeout_ms
    cdef public list responses
    cdef public list node_endpoints

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_ShareAcknowledgeTopicResponse=ShareAcknowledgeTopicResponse, item_NodeEndpoint=NodeEndpoint)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_ShareAcknowledgeTopicResponse=ShareAcknowledgeTopicResponse, item_NodeEndpoint=NodeEndpoint)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_ShareAcknowledgeTopicResponse=ShareAcknowledgeTopicResponse, item_NodeEndpoint=NodeEndpoint)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list, item_ShareAcknowledgeTopicResponse=ShareAcknowledgeTopicResponse, item_NodeEndpoint=NodeEndpoint)
    cdef Py_ssize_t count_errors(self, object errors) except -1

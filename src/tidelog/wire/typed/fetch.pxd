# The types of `fetch`, for compiled modules. Written by tools/typed_messages.py; not to be edited.

cimport cython

from tidelog.wire.typed.message cimport TypedMessage


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class ReplicaState:
    cdef public long long replica_id
    cdef public long long replica_epoch

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
cdef class FetchPartition:
    cdef public long long partition
    cdef public long long current_leader_epoch
    cdef public long long fetch_offset
    cdef public long long last_fetched_epoch
    cdef public long long log_start_offset
    cdef public long long partition_max_bytes
    cdef public object replica_directory_id
    cdef public long long high_watermark

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, m=cython.longlong, count=cython.longlong, tag=cython.longlong, last=cython.longlong, stop=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t read_tags(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class FetchTopic:
    cdef public object topic
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
    cdef public object topic
    cdef public object topic_id
    cdef public list partitions

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
cdef class FetchRequest(TypedMessage):
    cdef public object cluster_id
    cdef public long long replica_id
    cdef ReplicaState _replica_state
    cdef public long long max_wait_ms
    cdef public long long min_bytes
    cdef public long long max_bytes
    cdef public long long isolation_level
    cdef public long long session_id
    cdef public long long session_epoch
    cdef public list topics
    cdef public list forgotten_topics_data
    cdef public object rack_id

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_ReplicaState=ReplicaState, item_FetchTopic=FetchTopic, item_ForgottenTopic=ForgottenTopic)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, m=cython.longlong, count=cython.longlong, tag=cython.longlong, last=cython.longlong, stop=cython.Py_ssize_t, flexible=bint, items=list, item_ReplicaState=ReplicaState, item_FetchTopic=FetchTopic, item_ForgottenTopic=ForgottenTopic)
    cdef Py_ssize_t read_tags(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_ReplicaState=ReplicaState, item_FetchTopic=FetchTopic, item_ForgottenTopic=ForgottenTopic)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_ReplicaState=ReplicaState, item_FetchTopic=FetchTopic, item_ForgottenTopic=ForgottenTopic)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class EpochEndOffset:
    cdef public long long epoch
    cdef public long long end_offset

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
cdef class SnapshotId:
    cdef public long long end_offset
    cdef public long long epoch

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
cdef class AbortedTransaction:
    cdef public long long producer_id
    cdef public long long first_offset

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
    cdef public long long high_watermark
    cdef public long long last_stable_offset
    cdef public long long log_start_offset
    cdef EpochEndOffset _diverging_epoch
    cdef LeaderIdAndEpoch _current_leader
    cdef SnapshotId _snapshot_id
    cdef public list aborted_transactions
    cdef public long long preferred_read_replica
    cdef object _records
    cdef object _records_in
    cdef Py_ssize_t _records_at
    cdef Py_ssize_t _records_end
    cdef object get_records(self)

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_EpochEndOffset=EpochEndOffset, item_LeaderIdAndEpoch=LeaderIdAndEpoch, item_SnapshotId=SnapshotId, item_AbortedTransaction=AbortedTransaction)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, m=cython.longlong, count=cython.longlong, tag=cython.longlong, last=cython.longlong, stop=cython.Py_ssize_t, flexible=bint, items=list, item_EpochEndOffset=EpochEndOffset, item_LeaderIdAndEpoch=LeaderIdAndEpoch, item_SnapshotId=SnapshotId, item_AbortedTransaction=AbortedTransaction)
    cdef Py_ssize_t read_tags(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_EpochEndOffset=EpochEndOffset, item_LeaderIdAndEpoch=LeaderIdAndEpoch, item_SnapshotId=SnapshotId, item_AbortedTransaction=AbortedTransaction)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_EpochEndOffset=EpochEndOffset, item_LeaderIdAndEpoch=LeaderIdAndEpoch, item_SnapshotId=SnapshotId, item_AbortedTransaction=AbortedTransaction)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list, item_EpochEndOffset=EpochEndOffset, item_LeaderIdAndEpoch=LeaderIdAndEpoch, item_SnapshotId=SnapshotId, item_AbortedTransaction=AbortedTransaction)
    cdef Py_ssize_t count_errors(self, object errors) except -1


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class FetchableTopicResponse:
    cdef public object topic
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
cdef class FetchResponse(TypedMessage):
    cdef public long long throttle_time_ms
    cdef public long long error_code
    cdef public long long session_id
    cdef public list responses
    cdef public list node_endpoints

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_FetchableTopicResponse=FetchableTopicResponse, item_NodeEndpoint=NodeEndpoint)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, m=cython.longlong, count=cython.longlong, tag=cython.longlong, last=cython.longlong, stop=cython.Py_ssize_t, flexible=bint, items=list, item_FetchableTopicResponse=FetchableTopicResponse, item_NodeEndpoint=NodeEndpoint)
    cdef Py_ssize_t read_tags(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_FetchableTopicResponse=FetchableTopicResponse, item_NodeEndpoint=NodeEndpoint)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_FetchableTopicResponse=FetchableTopicResponse, item_NodeEndpoint=NodeEndpoint)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list, item_FetchableTopicResponse=FetchableTopicResponse, item_NodeEndpoint=NodeEndpoint)
    cdef Py_ssize_t count_errors(self, object errors) except -1

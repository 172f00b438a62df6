# The types of `group_offsets`, for compiled modules. Written by tools/typed_messages.py; not to be edited.

cimport cython

from tidelog.wire.typed.message cimport TypedMessage


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class OffsetCommitRequestPartition:
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
cdef class OffsetCommitRequestTopic:
    cdef public object name
    cdef public object topic_id
    cdef public list partitions

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_OffsetCommitRequestPartition=OffsetCommitRequestPartition)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_OffsetCommitRequestPartition=OffsetCommitRequestPartition)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_OffsetCommitRequestPartition=OffsetCommitRequestPartition)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
cdef class OffsetCommitRequest(TypedMessage):
    cdef public object group_id
    cdef public long long generation_id_or_member_epoch
    cdef public object member_id
    cdef public object group_instance_id
    cdef public long long retention_time_ms
    cdef public list topics

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_OffsetCommitRequestTopic=OffsetCommitRequestTopic)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_OffsetCommitRequestTopic=OffsetCommitRequestTopic)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_OffsetCommitRequestTopic=OffsetCommitRequestTopic)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class OffsetCommitResponsePartition:
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
cdef class OffsetCommitResponseTopic:
    cdef public object name
    cdef public object topic_id
    cdef public list partitions

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_OffsetCommitResponsePartition=OffsetCommitResponsePartition)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_OffsetCommitResponsePartition=OffsetCommitResponsePartition)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_OffsetCommitResponsePartition=OffsetCommitResponsePartition)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list, item_OffsetCommitResponsePartition=OffsetCommitResponsePartition)
    cdef Py_ssize_t count_errors(self, object errors) except -1


@cython.no_gc
cdef class OffsetCommitResponse(TypedMessage):
    cdef public long long throttle_time_ms
    cdef public list topics

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_OffsetCommitResponseTopic=OffsetCommitResponseTopic)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_OffsetCommitResponseTopic=OffsetCommitResponseTopic)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_OffsetCommitResponseTopic=OffsetCommitResponseTopic)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list, item_OffsetCommitResponseTopic=OffsetCommitResponseTopic)
    cdef Py_ssize_t count_errors(self, object errors) except -1

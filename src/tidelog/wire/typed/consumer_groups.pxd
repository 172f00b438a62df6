# The types of `consumer_groups`, for compiled modules. Written by tools/typed_messages.py; not to be edited.

cimport cython

from tidelog.wire.typed.message cimport TypedMessage


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class TopicPartitions:
    cdef public object topic_id
    cdef public list partitions

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
cdef class ConsumerGroupHeartbeatRequest(TypedMessage):
    cdef public object group_id
    cdef public object member_id
    cdef public long long member_epoch
    cdef public object instance_id
    cdef public object rack_id
    cdef public long long rebalance_timeout_ms
    cdef public list subscribed_topic_names
    cdef public object subscribed_topic_regex
    cdef public object server_assignor
    cdef public list topic_partitions

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_TopicPartitions=TopicPartitions)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_TopicPartitions=TopicPartitions)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_TopicPartitions=TopicPartitions)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2


@cython.no_gc
@cython.final
@cython.freelist(64)
cdef class Assignment:
    cdef public list topic_partitions

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_TopicPartitions=TopicPartitions)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_TopicPartitions=TopicPartitions)
    cdef Py_ssize_t size(self, long version) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_TopicPartitions=TopicPartitions)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version) except -2


@cython.no_gc
cdef class ConsumerGroupHeartbeatResponse(TypedMessage):
    cdef public long long throttle_time_ms
    cdef public long long error_code
    cdef public object error_message
    cdef public object member_id
    cdef public long long member_epoch
    cdef public long long heartbeat_interval_ms
    cdef public Assignment assignment

    @cython.locals(n=cython.longlong, m=cython.longlong, flexible=bint, items=list, item_Assignment=Assignment)
    cdef Py_ssize_t read(self, const unsigned char *data, Py_ssize_t at, Py_ssize_t end, long version, object frame) except -2

    @cython.locals(n=cython.longlong, total=cython.Py_ssize_t, inner=cython.Py_ssize_t, flexible=bint, items=list, item_Assignment=Assignment)
    cdef Py_ssize_t size(self, long version, Py_ssize_t copied_max) except -2

    @cython.locals(n=cython.longlong, inner=cython.Py_ssize_t, flexible=bint, items=list, item_Assignment=Assignment)
    cdef Py_ssize_t write(self, unsigned char *out, Py_ssize_t at, long version, Py_ssize_t copied_max, list cuts) except -2

    @cython.locals(none=cython.Py_ssize_t, flexible=bint, items=list, item_Assignment=Assignment)
    cdef Py_ssize_t count_errors(self, object errors) except -1

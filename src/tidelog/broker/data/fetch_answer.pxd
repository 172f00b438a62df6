# The types of `fetch_answer`, for its compiled twin.

cimport cython

from tidelog.broker.data.delayed_fetch cimport DelayedFetch
from tidelog.broker.data.fetch_entry cimport FetchEntry
from tidelog.broker.data.fetch_sessions cimport FetchSession
from tidelog.broker.quotas.meter cimport Meter
from tidelog.broker.metrics.topic_counts cimport TopicCounts
from tidelog.replication.partition cimport Partition
from tidelog.wire.typed.fetch cimport FetchableTopicResponse, FetchResponse, PartitionData

cdef long long _SENDFILE_BYTES_MIN
cdef long _TOPIC_ID_VERSION
cdef long long _SIZE_BYTES


@cython.final
cdef class FetchAnswer:
    cdef DelayedFetch _fetch
    cdef long _version
    cdef bint _is_incremental
    cdef object _hints
    cdef list _topics
    cdef FetchableTopicResponse _last
    cdef object _last_topic
    cdef long long _copied_bytes

    @cython.locals(fetch=DelayedFetch, session=FetchSession, response=FetchResponse, throttle_ms=cython.longlong)
    cpdef object build(self)
    @cython.locals(fetch=DelayedFetch, entry=FetchEntry)
    cdef object _add_all(self)
    @cython.locals(
        fetch=DelayedFetch, entry=FetchEntry, entries=list, size_bytes=cython.longlong, throttle_ms=cython.longlong)
    cdef Py_ssize_t _add_metered(self, Meter meter) except -1
    @cython.locals(response=FetchResponse, size_bytes=cython.longlong, topic=FetchableTopicResponse, data=PartitionData)
    cdef Py_ssize_t _size_bytes(self) except -2
    @cython.locals(session=FetchSession)
    cdef FetchResponse _throttled(self, long long throttle_ms)
    cdef list _endpoints(self)
    @cython.locals(fetch=DelayedFetch, entry=FetchEntry, counts=TopicCounts, partition=Partition)
    cdef object _count(self)
    @cython.locals(partition=Partition)
    cdef object _count_sent(self, FetchEntry entry, object follower)
    @cython.locals(data=PartitionData, session=FetchSession)
    cdef object _add_read(self, FetchEntry entry, object fetched)
    @cython.locals(count=cython.longlong)
    cdef object _records_of(self, object region)
    @cython.locals(data=PartitionData)
    cdef object _add_error(self, FetchEntry entry, object error, bint is_read)
    cdef object _add_leader_hint(self, FetchEntry entry, PartitionData data)
    @cython.locals(last=FetchableTopicResponse)
    cdef object _add(self, FetchEntry entry, PartitionData data)


cpdef object topic_of(object topic, object node)
cdef object _diverged(FetchEntry entry, object diverged)
cdef list _aborted(object transactions)

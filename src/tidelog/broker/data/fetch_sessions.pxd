# The types of `fetch_sessions`, for its compiled twin.

cimport cython

from tidelog.broker.data.fetch_entry cimport FetchEntry
from tidelog.broker.data.session_watch cimport LinkBudget, SessionWatch
from tidelog.wire.typed.fetch cimport FetchPartition, FetchRequest, FetchTopic, ForgottenTopic


@cython.final
cdef class FetchSession:
    cdef public long long session_id
    cdef public dict entries
    cdef long long _next_rank
    cdef public SessionWatch watch
    cdef public bint is_privileged
    cdef public bint uses_topic_ids
    cdef public long long created_ms
    cdef public long long last_used_ms
    cdef public long long epoch
    cdef public long long cached_size
    cdef public bint is_old

    @cython.locals(topic=FetchTopic, asked=FetchPartition, entry=FetchEntry, watch=SessionWatch, forgotten=ForgottenTopic, entries=dict)
    cpdef object update(self, FetchRequest request)
    cpdef object move_to_end(self, FetchEntry entry)


@cython.final
cdef class FetchSessions:
    cdef public long long max_bytes
    cdef long long _slots
    cdef object _clock
    cdef object _random
    cdef dict _sessions
    cdef object _by_last_use
    cdef readonly list _evictable_by_all
    cdef readonly list _evictable_by_privileged
    cdef public long long evictions
    cdef readonly LinkBudget links

    @cython.locals(session=FetchSession, epoch=cython.longlong)
    cpdef object session_of(self, FetchRequest request, bint uses_topic_ids)
    cpdef object begin(self, list entries, bint is_privileged, bint uses_topic_ids)
    @cython.locals(had=cython.longlong, size=cython.longlong, was_old=bint)
    cdef object _touch(self, FetchSession session, long long now_ms)


@cython.locals(topic=FetchTopic, asked=FetchPartition, entries=dict)
cpdef list entries_of(FetchRequest request, bint uses_topic_ids)
cpdef long long next_epoch(long long epoch)

# The types of `delayed_fetch`, for its compiled twin.

cimport cython

from tidelog.broker.data.fetch_entry cimport FetchEntry
from tidelog.broker.data.fetch_sessions cimport FetchSession
from tidelog.broker.quotas.meter cimport Meter
from tidelog.broker.data.session_watch cimport SessionWatch
from tidelog.replication.partition cimport Partition
from tidelog.wire.typed.fetch cimport FetchPartition

cdef long long _WAIT_MS_MAX
cdef long long _NO_LEADER_EPOCH


@cython.final
cdef class DelayedFetch:
    cdef public object node
    cdef public Meter meter
    cdef public long version
    cdef public object client_id
    cdef public long long correlation_id
    cdef public object listener_name
    cdef public object isolation
    cdef public long long min_bytes
    cdef public long long max_bytes
    cdef public long long max_wait_ms
    cdef public bint leader_only
    cdef public object follower
    cdef public long long follower_epoch
    cdef public FetchSession session
    cdef public SessionWatch watch
    cdef public long long expected_epoch
    cdef public bint wants_session
    cdef public list entries
    cdef public list refused
    cdef public list elsewhere
    cdef public object caller
    cdef public long long revision
    cdef public object resolve_again
    cdef readonly bint is_waiting
    cdef object _pending
    cdef object _timer
    cdef long long _total

    cpdef object reads(self, FetchEntry entry, Partition partition, object error)
    @cython.locals(watch=SessionWatch, entry=FetchEntry, stale=list, is_settled=bint)
    cpdef object start(self)
    @cython.locals(entry=FetchEntry, session=FetchSession)
    cdef bint _waits_for_any(self) except -1
    @cython.locals(entry=FetchEntry)
    cdef list _missed(self)
    @cython.locals(entry=FetchEntry)
    cpdef object partition_changed(self, Partition partition)
    @cython.locals(others=cython.longlong, is_settled=bint)
    cpdef object entry_changed(self, FetchEntry entry)
    cpdef object expired(self)
    cpdef object give_up(self)
    @cython.locals(watch=SessionWatch, entry=FetchEntry, has_other_rules=bint, is_given_up=bint)
    cdef object _complete(self, bint read_again)
    @cython.locals(may_skip=bint, is_settled=bint, entry=FetchEntry, asked=FetchPartition, partition=Partition)
    cdef bint _read_all(self, bint note_progress) except -1
    @cython.locals(asked=FetchPartition, size_bytes=cython.longlong, partition=Partition)
    cdef bint _read(self, FetchEntry entry, long long bytes_max, bint is_first, bint note_progress) except -1
    cpdef object trace(self, FetchEntry entry, object result)
    cdef object _answer(self)

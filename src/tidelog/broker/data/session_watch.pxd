# The types of `session_watch`, for its compiled twin.

cimport cython

from tidelog.broker.data.fetch_entry cimport FetchEntry
from tidelog.replication.follower_progress cimport FetchClock
from tidelog.replication.partition cimport Partition


@cython.final
cdef class LinkBudget:
    cdef public long long count
    cdef public long long most


@cython.final
cdef class SessionWatch:
    cdef LinkBudget _budget
    cdef list _noted
    cdef dict _by_partition
    cdef object _waiting
    cdef readonly bint is_waiting
    cdef bint _is_closed
    cdef bint _is_reading
    cdef bint _has_stale
    cdef object _isolation
    cdef bint _leader_only
    cdef object _follower
    cdef long long _follower_epoch
    cdef tuple _seen_by
    cdef FetchClock _clock

    cpdef object note(self, FetchEntry entry)
    cpdef object forget(self, FetchEntry entry)
    @cython.locals(entry=FetchEntry)
    cpdef bint sees_as(
        self, object isolation, bint leader_only, object follower, long long follower_epoch, tuple seen_by
    ) except -1
    @cython.locals(entry=FetchEntry)
    cpdef list noted_entries(self)
    @cython.locals(entry=FetchEntry)
    cpdef object begin_reading(self, list entries)
    @cython.locals(entry=FetchEntry)
    cpdef object fetched_at(self, long long now_ms, list entries)
    @cython.locals(entry=FetchEntry)
    cpdef list end_reading(self)
    @cython.locals(entry=FetchEntry)
    cpdef object wait(self, object fetch)
    @cython.locals(entry=FetchEntry)
    cpdef object note_all(self, object partitions)
    cpdef object wait_is_over(self)
    cpdef object supersede(self)
    @cython.locals(entry=FetchEntry, noted=list, budget=LinkBudget)
    cpdef object settle(self, list entries)
    @cython.locals(entry=FetchEntry)
    cpdef object nothing_told(self, list entries)
    @cython.locals(partition=Partition)
    cdef bint _is_quiet(self, FetchEntry entry) except -1
    @cython.locals(entry=FetchEntry)
    cpdef object close(self)
    @cython.locals(budget=LinkBudget, partition=Partition)
    cdef object _link(self, FetchEntry entry, bint is_bounded)
    @cython.locals(partition=Partition)
    cpdef object unlink(self, FetchEntry entry)
    cdef object _rouse(self, FetchEntry entry)
    @cython.locals(entry=FetchEntry)
    cpdef object partition_changed(self, Partition partition)


@cython.locals(entry=FetchEntry)
cpdef object _rank_of(object entry)
